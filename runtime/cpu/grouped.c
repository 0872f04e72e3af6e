// Products of rows in groups, a matrix for each group. Work is cut by the sizes of the buffers
// alone, so that no result depends on how many threads there are: in tiles, each summed in f32 by
// one thread and, in halves, rounded once.
#include "runtime/cpu/halves.h"
#include "runtime/cpu/tile.h"
#include "runtime/float8.h"

#include <string.h>

typedef struct job {
  const bd_rt *rt;
  const bd_rt_grouped *shape;
  const char *a, *b; // the factors: x and w, or x and y
  const int32_t *ends;
  char *out;
  int64_t row_tiles, column_tiles; // of all rows, at most; or of a group's matrix
  float scale[2];                  // in 8 bits: of a and b; else 0
} job;

// A tile of a result: its extents, where it lies, and its sums.
typedef struct target {
  int64_t rows, columns, stride; // elements from row to row of the result
  char *out;
  float *sums;
  int64_t sums_stride;
} target;

typedef struct range {
  int64_t first, count;
} range;

// The rows of a group behind those of the one before it; of `groups`: those behind the last end.
// Each end counts as at least the one before and at most the rows that there are, in whole grains.
static range rows_behind(const job *j, int64_t group, range before) {
  const bd_rt_grouped *const s = j->shape;
  const int64_t first = before.first + before.count;
  const int64_t wanted = group < s->groups ? j->ends[group] : s->rows;
  const int64_t grains = (bd_rt_least(wanted, s->rows) + s->grain - 1) / s->grain;
  return (range){first, grains * s->grain > first ? grains * s->grain - first : 0};
}

static range rows_of(const job *j, int64_t group) {
  range rows = {0, 0};
  for (int64_t g = 0; g <= group; g++)
    rows = rows_behind(j, g, rows);
  return rows;
}

static int64_t tiles(int64_t extent, int64_t tile) {
  return (extent + tile - 1) / tile;
}

// The sums of halves lie in the thread's scratch, behind a tile of each factor.
static void begin(const job *j, target *t, int accumulate, float *scratch) {
  t->sums = (float *)(void *)t->out;
  t->sums_stride = t->stride;
  if (!bd_rt_is_half(j->shape->out_dtype)) return;
  t->sums = scratch + BD_RT_TILE_ROWS * BD_RT_TILE_DEPTH + BD_RT_TILE_DEPTH * BD_RT_TILE_COLUMNS;
  t->sums_stride = BD_RT_TILE_COLUMNS;
  if (!accumulate) return;
  for (int64_t i = 0; i < t->rows; i++)
    bd_rt_widen_run(j->shape->out_dtype, (uint16_t *)(void *)t->out + i * t->stride,
                    t->sums + i * t->sums_stride, t->columns);
}

static void clear_sums(const target *t) {
  for (int64_t i = 0; i < t->rows; i++)
    memset(t->sums + i * t->sums_stride, 0, (size_t)t->columns * sizeof *t->sums);
}

static void finish(const job *j, const target *t) {
  if (!bd_rt_is_half(j->shape->out_dtype)) return;
  for (int64_t i = 0; i < t->rows; i++)
    bd_rt_narrow_run(j->shape->out_dtype, t->sums + i * t->sums_stride,
                     (uint16_t *)(void *)t->out + i * t->stride, t->columns);
}

// Where a factor's tile begins, and its strides in elements.
typedef struct factor {
  const char *data;
  int64_t row, column;
} factor;

// sums (+)= a b over `terms`; *any: there are sums already.
static void add_terms(const job *j, const target *t, factor a, factor b, int64_t terms, int *any,
                      float *scratch) {
  const int dtype = j->shape->dtype;
  const int64_t bytes = bd_rt_element_bytes(dtype);
  float *const b_tile = scratch + BD_RT_TILE_ROWS * BD_RT_TILE_DEPTH;
  for (int64_t k = 0; k < terms; k += BD_RT_TILE_DEPTH, *any = 1) {
    const int64_t depth = bd_rt_least(BD_RT_TILE_DEPTH, terms - k);
    const bd_rt_matrix x = bd_rt_load_tile(dtype, 0, a.data + k * a.column * bytes, t->rows, depth,
                                           a.row, a.column, scratch);
    const bd_rt_matrix y = bd_rt_load_tile(dtype, 1, b.data + k * b.row * bytes, depth, t->columns,
                                           b.row, b.column, b_tile);
    if (j->scale[0] > 0) {
      bd_rt_round_tile(j->shape->f8[0], j->scale[0], scratch, t->rows * depth);
      bd_rt_round_tile(j->shape->f8[1], j->scale[1], b_tile, depth * t->columns);
    }
    bd_rt_gemm_block(t->rows, t->columns, depth, 1, x.data, x.row, x.column, y.data, y.row,
                     y.column, *any ? 1 : 0, t->sums, t->sums_stride);
  }
}

// The rows of a tile of this number, and their group. None has all of them: groups end within
// tiles, each at most once.
static range find_tile(const job *j, int64_t number, int64_t *out_group) {
  const bd_rt_grouped *const s = j->shape;
  range rows = {0, 0};
  for (int64_t g = 0; g <= s->groups; g++) {
    rows = rows_behind(j, g, rows);
    const int64_t count = tiles(rows.count, BD_RT_TILE_ROWS), row = number * BD_RT_TILE_ROWS;
    *out_group = g;
    if (number < count)
      return (range){rows.first + row, bd_rt_least(BD_RT_TILE_ROWS, rows.count - row)};
    number -= count;
  }
  return (range){0, 0};
}

// A tile of rows of a group, by columns.
static void multiply_rows(void *args, int64_t chunk, int worker) {
  const job *const j = args;
  const bd_rt_grouped *const s = j->shape;
  const int64_t column = chunk % j->column_tiles * BD_RT_TILE_COLUMNS;
  int64_t group;
  const range rows = find_tile(j, chunk / j->column_tiles, &group);
  const int64_t bytes = bd_rt_element_bytes(s->dtype);
  float *const scratch = bd_rt_thread_scratch(j->rt, worker);
  if (rows.count == 0) return;
  target t = {.rows = rows.count,
              .columns = bd_rt_least(BD_RT_TILE_COLUMNS, s->n - column),
              .stride = s->y_row,
              .out = j->out + (rows.first * s->y_row + column) * bd_rt_element_bytes(s->out_dtype)};
  int any = 0;
  begin(j, &t, 0, scratch);
  if (group < s->groups)
    add_terms(j, &t, (factor){j->a + rows.first * s->x_row * bytes, s->x_row, 1},
              (factor){j->b + (group * s->w_group + column * s->w_n) * bytes, s->w_k, s->w_n}, s->k,
              &any, scratch);
  if (!any) clear_sums(&t);
  finish(j, &t);
}

// A tile of a group's matrix, over the group's rows.
static void multiply_weights(void *args, int64_t chunk, int worker) {
  const job *const j = args;
  const bd_rt_grouped *const s = j->shape;
  const int64_t column = chunk % j->column_tiles * BD_RT_TILE_COLUMNS;
  const int64_t row = chunk / j->column_tiles % j->row_tiles * BD_RT_TILE_ROWS;
  const int64_t group = chunk / j->column_tiles / j->row_tiles;
  const int64_t bytes = bd_rt_element_bytes(s->dtype);
  float *const scratch = bd_rt_thread_scratch(j->rt, worker);
  target t = {.rows = bd_rt_least(BD_RT_TILE_ROWS, s->k - row),
              .columns = bd_rt_least(BD_RT_TILE_COLUMNS, s->n - column),
              .stride = s->w_k,
              .out = j->out + (group * s->w_group + row * s->w_k + column) *
                                  bd_rt_element_bytes(s->out_dtype)};
  int any = s->accumulate;
  const range rows = rows_of(j, group);
  begin(j, &t, s->accumulate, scratch);
  add_terms(j, &t, (factor){j->a + (rows.first * s->x_row + row) * bytes, 1, s->x_row},
            (factor){j->b + (rows.first * s->y_row + column) * bytes, s->y_row, 1}, rows.count,
            &any, scratch);
  if (!any) clear_sums(&t);
  finish(j, &t);
}

static void check_types(const bd_rt_grouped *s) {
  const int halves = bd_rt_is_half(s->dtype);
  if ((s->dtype != BD_RT_F32 && !halves) ||
      (s->out_dtype != BD_RT_F32 && !(halves && s->out_dtype == s->dtype)))
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a product in groups of dtypes %d and %d", s->dtype,
               s->out_dtype);
}

static bd_rt_factor rows_factor(const void *data, const bd_rt_grouped *s, int64_t width,
                                int64_t row) {
  return (bd_rt_factor){data, 1, 0, s->rows, width, row, 1};
}

static void set_scales(job *j, const bd_rt_grouped *s, const bd_rt_factor *a,
                       const bd_rt_factor *b) {
  if (!bd_rt_is_f8_grouped(s)) return;
  j->scale[0] = bd_rt_factor_scale(j->shape->f8[0], a);
  j->scale[1] = bd_rt_factor_scale(j->shape->f8[1], b);
}

const int32_t *bd_rt_fetch_ends(bd_rt *rt, int64_t at, const int32_t *ends, int64_t count) {
  (void)rt, (void)at, (void)count;
  return ends;
}

void bd_rt_grouped_rows(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *w,
                        const int32_t *ends, void *y) {
  job j = {rt,
           shape,
           x,
           w,
           ends,
           y,
           tiles(shape->rows, BD_RT_TILE_ROWS) + shape->groups,
           tiles(shape->n, BD_RT_TILE_COLUMNS),
           {0, 0}};
  const bd_rt_factor of_x = rows_factor(x, shape, shape->k, shape->x_row);
  const bd_rt_factor of_w = {w,        shape->groups, shape->w_group, shape->k,
                             shape->n, shape->w_k,    shape->w_n};
  check_types(shape);
  set_scales(&j, shape, &of_x, &of_w);
  bd_rt_pool_run(rt->pool, multiply_rows, &j, j.row_tiles * j.column_tiles);
}

// The same sums with x and y in each other's place, and the matrices turned.
static bd_rt_grouped turn(const bd_rt_grouped *s) {
  bd_rt_grouped out = *s;
  out.n = s->k, out.k = s->n;
  out.x_row = s->y_row, out.y_row = s->x_row;
  out.w_k = s->w_n, out.w_n = s->w_k;
  out.f8[0] = s->f8[1], out.f8[1] = s->f8[0];
  return out;
}

void bd_rt_grouped_weights(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *y,
                           const int32_t *ends, void *w) {
  const int turned = shape->w_n != 1;
  const bd_rt_grouped s = turned ? turn(shape) : *shape;
  job j = {rt,
           &s,
           turned ? y : x,
           turned ? x : y,
           ends,
           w,
           tiles(s.k, BD_RT_TILE_ROWS),
           tiles(s.n, BD_RT_TILE_COLUMNS),
           {0, 0}};
  const bd_rt_factor of_a = rows_factor(j.a, &s, s.k, s.x_row);
  const bd_rt_factor of_b = rows_factor(j.b, &s, s.n, s.y_row);
  check_types(&s);
  set_scales(&j, shape, &of_a, &of_b);
  bd_rt_pool_run(rt->pool, multiply_weights, &j, s.groups * j.row_tiles * j.column_tiles);
}
