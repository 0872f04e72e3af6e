// Products of rows in groups, each with a matrix of its own: one product of cuBLASLt for each group
// that has rows, of these alone.
//
// They are no part of segments: their sizes are another step's seldom, and graphs of them would be
// kept for nothing. Small ones run several at once, large ones before them one after another.
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/grouping.h"

static const void *from(const void *data, int32_t dtype, int64_t elements) {
  return (const char *)data + elements * bd_rt_element_bytes(dtype);
}

static void *to(void *data, int32_t dtype, int64_t elements) {
  return (char *)data + elements * bd_rt_element_bytes(dtype);
}

// `count` rows of `width` elements, `row` apart.
static void clear(bd_rt *rt, void *data, int32_t dtype, int64_t count, int64_t width, int64_t row) {
  const size_t size = (size_t)bd_rt_element_bytes(dtype);
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  if (count <= 0 || width <= 0) return;
  if (row == width || count == 1)
    BD_CUDA(cudaMemsetAsync(data, 0, (size_t)(count * width) * size, stream));
  else
    BD_CUDA(cudaMemset2DAsync(data, (size_t)row * size, 0, (size_t)width * size, (size_t)count,
                              stream));
}

// Rows of a sample.
typedef struct span {
  int64_t first, count;
} span;

static span span_of(const bd_rt_grouped *s, const int32_t *bounds, int64_t sample, int64_t group) {
  const int32_t *const own = bounds + sample * s->groups;
  const int64_t first = group ? own[group - 1] : 0;
  return (span){first, own[group] - first};
}

// What all addresses are multiples of that are whole strides from one; at most MOST_ALIGNMENT.
enum { MOST_ALIGNMENT = 256 };
static int32_t multiple(const void *first, int32_t dtype, int64_t stride, int64_t other) {
  const uint64_t strides = (uint64_t)(stride | other) * (uint64_t)bd_rt_element_bytes(dtype);
  const uint64_t bits = (uint64_t)(uintptr_t)first | strides | MOST_ALIGNMENT;
  return (int32_t)(bits & -bits);
}

static int32_t multiple_of_x(const bd_rt_grouped *s, const void *x) {
  return multiple(x, s->dtype, s->x_row, s->batch > 1 ? s->x_batch : 0);
}

static int32_t multiple_of_y(const bd_rt_grouped *s, const void *y, int32_t dtype) {
  return multiple(y, dtype, s->y_row, s->batch > 1 ? s->y_batch : 0);
}

// Rows of a sample in a group times the group's matrix.
static bd_cuda_sized product_of_rows(const bd_rt *rt, const bd_rt_grouped *s, const void *x,
                                     const void *w, void *y, int64_t sample, int64_t group,
                                     span rows) {
  bd_cuda_sized z = {.extent = BD_CUDA_ROWS};
  z.shape = (bd_rt_gemm){.n = s->n,
                         .k = s->k,
                         .batch = 1,
                         .a_m = s->x_row,
                         .a_k = 1,
                         .b_k = s->w_k,
                         .b_n = s->w_n,
                         .out_m = s->y_row,
                         .dtype = s->dtype,
                         .out_dtype = s->out_dtype};
  z.a = from(x, s->dtype, sample * s->x_batch + rows.first * s->x_row);
  z.b = from(w, s->dtype, group * s->w_group);
  z.a_align = multiple_of_x(s, x);
  z.b_align = multiple(w, s->dtype, s->w_group, 0);
  z.out_align = multiple_of_y(s, y, s->out_dtype);
  z.out = to(y, s->out_dtype, sample * s->y_batch + rows.first * s->y_row);
  bd_cuda_sized_set(rt, &z, rows.count);
  return z;
}

static void clear_rest(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, void *y) {
  for (int64_t b = 0; b < s->batch; b++) {
    const int64_t last = s->k > 0 && s->groups > 0 ? bounds[(b + 1) * s->groups - 1] : 0;
    clear(rt, to(y, s->out_dtype, b * s->y_batch + last * s->y_row), s->out_dtype, s->rows - last,
          s->n, s->y_row);
  }
}

// What a rehearsal makes of a product of all rows: sizes up to that are expected, and where
// products are noted the one of even groups is noted, the largest of its class, where there are so
// many rows.
static void rehearse(bd_rt *rt, const bd_rt_grouped *s, bd_cuda_sized *z) {
  const int64_t even = (s->rows + s->groups - 1) / s->groups;
  bd_cuda_expect_sized(rt, z);
  bd_cuda_sized_set(rt, z, bd_rt_least(bd_cuda_size_class(even), s->rows));
  if (rt->device->tuning) bd_cuda_sized_note(rt, z, s->batch * s->groups);
}

// Starts all products that are large, and counts those that are small; or starts these.
static int64_t start_rows(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, const void *x,
                          const void *w, void *y, int streams) {
  int64_t small = 0;
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t g = 0; g < s->groups; g++) {
      const span rows = span_of(s, bounds, b, g);
      if (rows.count == 0) continue;
      const bd_cuda_sized z = product_of_rows(rt, s, x, w, y, b, g, rows);
      const int number = z.sharers && streams ? (int)(small % streams) : 0;
      if (!z.sharers == !streams)
        bd_cuda_sized_start(rt, &z, bd_cuda_fan_stream(rt, number), number);
      small += z.sharers > 0;
    }
  return small;
}

void bd_rt_grouped_rows(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *w,
                        const int32_t *ends, void *y) {
  if (s->batch <= 0 || s->rows <= 0 || s->n <= 0) return;
  bd_cuda_fresh_touch(rt, y);
  if (rt->device->rehearsing) {
    if (s->groups <= 0 || s->k <= 0) return;
    bd_cuda_sized z = product_of_rows(rt, s, x, w, y, 0, 0, (span){0, s->rows});
    rehearse(rt, s, &z);
    return;
  }
  const int32_t *const bounds = bd_cuda_bounds(rt, s, ends);
  clear_rest(rt, s, bounds, y);
  if (s->k <= 0) return;
  const int64_t small = start_rows(rt, s, bounds, x, w, y, 0);
  if (small == 0) return;
  start_rows(rt, s, bounds, x, w, y, bd_cuda_fan_out(rt, small));
  bd_cuda_fan_in(rt);
}

// Rows of x, transposed, times those of y; or the other way round where w lies along k.
static bd_cuda_sized product_of_terms(const bd_rt *rt, const bd_rt_grouped *s, const void *x,
                                      const void *y, void *w, int64_t sample, int64_t group,
                                      span rows) {
  const int turned = s->w_n != 1;
  const void *const at_x = from(x, s->dtype, sample * s->x_batch + rows.first * s->x_row);
  const void *const at_y = from(y, s->dtype, sample * s->y_batch + rows.first * s->y_row);
  bd_cuda_sized z = {.extent = BD_CUDA_TERMS};
  z.shape = (bd_rt_gemm){.m = turned ? s->n : s->k,
                         .n = turned ? s->k : s->n,
                         .batch = 1,
                         .a_m = 1,
                         .a_k = turned ? s->y_row : s->x_row,
                         .b_k = turned ? s->x_row : s->y_row,
                         .b_n = 1,
                         .out_m = turned ? s->w_n : s->w_k,
                         .accumulate = s->accumulate,
                         .dtype = s->dtype,
                         .out_dtype = s->out_dtype};
  z.a = turned ? at_y : at_x;
  z.b = turned ? at_x : at_y;
  z.out = to(w, s->out_dtype, group * s->w_group);
  z.a_align = turned ? multiple_of_y(s, y, s->dtype) : multiple_of_x(s, x);
  z.b_align = turned ? multiple_of_x(s, x) : multiple_of_y(s, y, s->dtype);
  z.out_align = multiple(w, s->out_dtype, s->w_group, 0);
  bd_cuda_sized_set(rt, &z, rows.count);
  return z;
}

static int has_rows(const bd_rt_grouped *s, const int32_t *bounds, int64_t group) {
  for (int64_t b = 0; b < s->batch; b++)
    if (span_of(s, bounds, b, group).count > 0) return 1;
  return 0;
}

// Clears the groups without rows, unless their sums are added to something; how many have some.
static int64_t clear_empty(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, void *w) {
  const int turned = s->w_n != 1;
  int64_t others = 0;
  for (int64_t g = 0; g < s->groups; g++) {
    const int any = has_rows(s, bounds, g);
    others += any;
    if (any || s->accumulate) continue;
    clear(rt, to(w, s->out_dtype, g * s->w_group), s->out_dtype, turned ? s->n : s->k,
          turned ? s->k : s->n, turned ? s->w_n : s->w_k);
  }
  return others;
}

// A group's samples are added in their order, in one stream.
static void start_group(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, const void *x,
                        const void *y, void *w, int64_t group, int number) {
  int accumulate = s->accumulate;
  for (int64_t b = 0; b < s->batch; b++) {
    const span rows = span_of(s, bounds, b, group);
    if (rows.count == 0) continue;
    bd_cuda_sized z = product_of_terms(rt, s, x, y, w, b, group, rows);
    z.shape.accumulate = accumulate;
    bd_cuda_sized_start(rt, &z, bd_cuda_fan_stream(rt, number), number);
    accumulate = 1;
  }
}

// As for bd_rt_matmul: the first that a step adds to an accumulator overwrites it.
static int adds(bd_rt *rt, const bd_rt_grouped *s, const void *w) {
  const int lies_along_n = s->w_n == 1 && s->w_k == s->n;
  const int lies_along_k = s->w_k == 1 && s->w_n == s->k;
  const int packed = (lies_along_n || lies_along_k) && s->w_group == s->k * s->n;
  if (s->accumulate) return bd_cuda_fresh_adds(rt, w, packed ? s->groups * s->k * s->n : 0);
  bd_cuda_fresh_touch(rt, w);
  return 0;
}

void bd_rt_grouped_weights(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *y,
                           const int32_t *ends, void *w) {
  bd_rt_grouped s = *shape;
  if (s.groups <= 0 || s.n <= 0 || s.k <= 0) return;
  s.accumulate = adds(rt, &s, w);
  if (rt->device->rehearsing) {
    if (s.rows <= 0 || s.batch <= 0) return;
    bd_cuda_sized z = product_of_terms(rt, &s, x, y, w, 0, 0, (span){0, s.rows});
    rehearse(rt, &s, &z);
    return;
  }
  const int32_t *const bounds = bd_cuda_bounds(rt, &s, ends);
  const int64_t items = clear_empty(rt, &s, bounds, w);
  if (items == 0) return;
  const int small = product_of_terms(rt, &s, x, y, w, 0, 0, (span){0, s.rows}).sharers > 0;
  const int streams = small ? bd_cuda_fan_out(rt, items) : 1;
  int64_t turn = 0;
  for (int64_t g = 0; g < s.groups; g++)
    if (has_rows(&s, bounds, g)) start_group(rt, &s, bounds, x, y, w, g, (int)(turn++ % streams));
  if (small) bd_cuda_fan_in(rt);
}
