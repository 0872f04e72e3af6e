// Products of rows in groups, each with a matrix of its own: one product of cuBLASLt for each group
// that has rows, of these alone.
//
// They are no part of segments: their sizes are another step's seldom, and graphs of them would be
// kept for nothing. Small ones run several at once, large ones before them one after another.
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/grouping.h"

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

typedef struct span {
  int64_t first, count;
} span;

static span span_of(const int32_t *bounds, int64_t group) {
  const int64_t first = group ? bounds[group - 1] : 0;
  return (span){first, bounds[group] - first};
}

// What all addresses are multiples of that are whole strides of bytes from one; at most
// MOST_ALIGNMENT.
enum { MOST_ALIGNMENT = 256 };
static int32_t multiple(const void *first, int64_t stride) {
  const uint64_t bits = (uint64_t)(uintptr_t)first | (uint64_t)stride | MOST_ALIGNMENT;
  return (int32_t)(bits & -bits);
}

// Groups begin at whole grains of rows.
static int32_t multiple_of_rows(const bd_rt_grouped *s, const void *first, int64_t row,
                                int64_t bytes) {
  return multiple(first, s->grain * row * bytes);
}

static int32_t multiple_of_matrices(const bd_rt_grouped *s, const void *w, int64_t bytes) {
  return multiple(w, s->w_group * bytes);
}

// The rows of a group times the group's matrix.
static bd_cuda_sized product_of_rows(const bd_rt *rt, const bd_cuda_grouped *g, void *y,
                                     int64_t group, span rows) {
  const bd_rt_grouped *const s = &g->shape;
  bd_cuda_sized z = {.extent = BD_CUDA_ROWS, .least = s->grain, .most = s->rows};
  z.shape = (bd_rt_gemm){.n = s->n,
                         .k = s->k,
                         .batch = 1,
                         .a_m = s->x_row,
                         .a_k = g->x_column,
                         .b_k = s->w_k,
                         .b_n = s->w_n,
                         .out_m = s->y_row,
                         .dtype = s->dtype,
                         .out_dtype = s->out_dtype,
                         .f8 = {s->f8[0], s->f8[1]}};
  z.a = g->x + rows.first * s->x_row * g->bytes;
  z.b = g->other + group * s->w_group * g->bytes;
  z.a_scale = g->scales[0], z.b_scale = g->scales[1];
  z.a_align = multiple_of_rows(s, g->x, s->x_row, g->bytes);
  z.b_align = multiple_of_matrices(s, g->other, g->bytes);
  z.out_align = multiple_of_rows(s, y, s->y_row, bd_rt_element_bytes(s->out_dtype));
  z.out = to(y, s->out_dtype, rows.first * s->y_row);
  bd_cuda_sized_set(rt, &z, rows.count);
  return z;
}

static void clear_rest(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, void *y) {
  const int64_t last = s->k > 0 && s->groups > 0 ? bounds[s->groups - 1] : 0;
  clear(rt, to(y, s->out_dtype, last * s->y_row), s->out_dtype, s->rows - last, s->n, s->y_row);
}

// What a rehearsal makes of a product of all rows: sizes up to that are expected, and where
// products are noted the one of even groups is noted, the largest of its class, where there are so
// many rows.
static void rehearse(bd_rt *rt, const bd_rt_grouped *s, bd_cuda_sized *z) {
  const int64_t even = (s->rows + s->groups - 1) / s->groups;
  bd_cuda_expect_sized(rt, z);
  bd_cuda_sized_set(rt, z, bd_rt_least(bd_cuda_size_class(even), s->rows));
  if (rt->device->tuning) bd_cuda_sized_note(rt, z, s->groups);
}

// Starts all products that are large, and counts those that are small; or starts these.
static int64_t start_rows(bd_rt *rt, const bd_cuda_grouped *factors, const int32_t *bounds, void *y,
                          int streams) {
  const bd_rt_grouped *const s = &factors->shape;
  int64_t small = 0;
  for (int64_t g = 0; g < s->groups; g++) {
    const span rows = span_of(bounds, g);
    if (rows.count == 0) continue;
    const bd_cuda_sized z = product_of_rows(rt, factors, y, g, rows);
    const int number = z.sharers && streams ? (int)(small % streams) : 0;
    if (!z.sharers == !streams) bd_cuda_sized_start(rt, &z, bd_cuda_fan_stream(rt, number), number);
    small += z.sharers > 0;
  }
  return small;
}

void bd_rt_grouped_rows(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *w,
                        const int32_t *ends, void *y) {
  if (s->rows <= 0 || s->n <= 0) return;
  const bd_cuda_grouped factors = bd_cuda_grouped_rows(s, x, w);
  bd_cuda_fresh_touch(rt, y);
  if (rt->device->rehearsing) {
    if (s->groups <= 0 || s->k <= 0) return;
    bd_cuda_sized z = product_of_rows(rt, &factors, y, 0, (span){0, s->rows});
    rehearse(rt, s, &z);
    return;
  }
  const int32_t *const bounds = bd_cuda_bounds(rt, s, ends);
  clear_rest(rt, s, bounds, y);
  if (s->groups <= 0 || s->k <= 0) return;
  bd_cuda_round_rows(rt, s, x, w);
  const int64_t small = start_rows(rt, &factors, bounds, y, 0);
  if (small == 0) return;
  start_rows(rt, &factors, bounds, y, bd_cuda_fan_out(rt, small));
  bd_cuda_fan_in(rt);
}

// Rows of x, transposed, times those of y; or the other way round where w lies along k.
static bd_cuda_sized product_of_terms(const bd_rt *rt, const bd_cuda_grouped *g, void *w,
                                      int64_t group, span rows) {
  const bd_rt_grouped *const s = &g->shape;
  const int turned = s->w_n != 1;
  const char *const x = g->x + rows.first * s->x_row * g->bytes;
  const char *const y = g->other + rows.first * s->y_row * g->bytes;
  const int32_t x_align = multiple_of_rows(s, g->x, s->x_row, g->bytes);
  const int32_t y_align = multiple_of_rows(s, g->other, s->y_row, g->bytes);
  bd_cuda_sized z = {.extent = BD_CUDA_TERMS, .least = s->grain, .most = s->rows};
  z.shape = (bd_rt_gemm){.m = turned ? s->n : s->k,
                         .n = turned ? s->k : s->n,
                         .batch = 1,
                         .a_m = turned ? g->y_column : g->x_column,
                         .a_k = turned ? s->y_row : s->x_row,
                         .b_k = turned ? s->x_row : s->y_row,
                         .b_n = turned ? g->x_column : g->y_column,
                         .out_m = turned ? s->w_n : s->w_k,
                         .accumulate = s->accumulate,
                         .dtype = s->dtype,
                         .out_dtype = s->out_dtype,
                         .f8 = {s->f8[turned], s->f8[!turned]}};
  z.a = turned ? y : x;
  z.b = turned ? x : y;
  z.a_scale = g->scales[turned], z.b_scale = g->scales[!turned];
  z.out = to(w, s->out_dtype, group * s->w_group);
  z.a_align = turned ? y_align : x_align;
  z.b_align = turned ? x_align : y_align;
  z.out_align = multiple_of_matrices(s, w, bd_rt_element_bytes(s->out_dtype));
  bd_cuda_sized_set(rt, &z, rows.count);
  return z;
}

// Clears the groups without rows, unless their sums are added to something; how many have some.
static int64_t clear_empty(bd_rt *rt, const bd_rt_grouped *s, const int32_t *bounds, void *w) {
  const int turned = s->w_n != 1;
  int64_t others = 0;
  for (int64_t g = 0; g < s->groups; g++) {
    const int any = span_of(bounds, g).count > 0;
    others += any;
    if (any || s->accumulate) continue;
    clear(rt, to(w, s->out_dtype, g * s->w_group), s->out_dtype, turned ? s->n : s->k,
          turned ? s->k : s->n, turned ? s->w_n : s->w_k);
  }
  return others;
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
  const bd_cuda_grouped factors = bd_cuda_grouped_terms(&s, x, y);
  bd_cuda_sized all = product_of_terms(rt, &factors, w, 0, (span){0, s.rows});
  if (rt->device->rehearsing) {
    if (s.rows > 0) rehearse(rt, &s, &all);
    return;
  }
  const int32_t *const bounds = bd_cuda_bounds(rt, &s, ends);
  const int64_t items = clear_empty(rt, &s, bounds, w);
  if (items == 0) return;
  bd_cuda_round_terms(rt, &s, x, y);
  const int streams = all.sharers ? bd_cuda_fan_out(rt, items) : 1;
  int64_t turn = 0;
  for (int64_t g = 0; g < s.groups; g++) {
    const span rows = span_of(bounds, g);
    const int number = (int)(turn % streams);
    if (rows.count == 0) continue;
    const bd_cuda_sized z = product_of_terms(rt, &factors, w, g, rows);
    bd_cuda_sized_start(rt, &z, bd_cuda_fan_stream(rt, number), number);
    turn++;
  }
  if (all.sharers) bd_cuda_fan_in(rt);
}
