// Matrix products over OpenBLAS. Its own threads stay off: the rank's pool cuts a product into
// blocks and each thread multiplies one, which keeps packing buffers small and one set of threads
// in the process. Halves become floats tile by tile; sums stay in f32 until a tile's last product.
#include "runtime/cpu/halves.h"
#include "runtime/cpu/tile.h"
#include "runtime/float8.h"

#include <cblas.h>
#include <string.h>

enum {
  // Most of one call: bounds OpenBLAS's packing buffer, which is fastest while it fits a cache, and
  // leaves threads enough blocks of a large product to finish together.
  MOST_COLUMNS = 1024,
  MOST_ROWS = 2048,
  GRAIN = 32, // blocks are multiples of it, as OpenBLAS's kernels are
  // Least multiply-adds of a block: OpenBLAS takes other kernels, with other rounding, below 2^20.
  LEAST_WORK = 1 << 22,
};

static CBLAS_TRANSPOSE storage(int64_t row, int64_t column, int64_t rows, int64_t columns,
                               int64_t *out_leading) {
  if (column == 1 || columns == 1) {
    *out_leading = rows == 1 && row < columns ? columns : row;
    if (*out_leading >= columns) return CblasNoTrans;
  }
  if (row != 1 && rows != 1)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "matrix product with strides %lld, %lld", (long long)row,
               (long long)column);
  *out_leading = columns == 1 && column < rows ? rows : column;
  return CblasTrans;
}

void bd_rt_gemm_block(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_m,
                      int64_t a_k, const float *b, int64_t b_k, int64_t b_n, float beta, float *c,
                      int64_t c_m) {
  int64_t lda, ldb;
  const CBLAS_TRANSPOSE ta = storage(a_m, a_k, m, k, &lda), tb = storage(b_k, b_n, k, n, &ldb);
  const int64_t ldc = m == 1 && c_m < n ? n : c_m;
  for (int64_t column = 0; column < n; column += MOST_COLUMNS) {
    const int64_t columns = n - column < MOST_COLUMNS ? n - column : MOST_COLUMNS;
    cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)columns, (int)k, alpha, a, (int)lda,
                b + column * b_n, (int)ldb, beta, c + column, (int)ldc);
  }
}

typedef struct product {
  const bd_rt *rt;
  const bd_rt_gemm *shape;
  const char *a, *b;
  char *out;
  int64_t row_blocks, column_blocks;
  float scale[2]; // in 8 bits: of a and b; else 0
} product;

// Rows and columns of the whole product; of one batch entry.
typedef struct block {
  int64_t batch, row, rows, column, columns;
} block;

static const char *a_at(const product *p, const block *at, int64_t k) {
  const bd_rt_gemm *const s = p->shape;
  return p->a +
         (at->batch * s->a_batch + at->row * s->a_m + k * s->a_k) * bd_rt_element_bytes(s->dtype);
}

static const char *b_at(const product *p, const block *at, int64_t k) {
  const bd_rt_gemm *const s = p->shape;
  return p->b + (at->batch * s->b_batch + k * s->b_k + at->column * s->b_n) *
                    bd_rt_element_bytes(s->dtype);
}

static char *out_at(const product *p, const block *at) {
  const bd_rt_gemm *const s = p->shape;
  return p->out + (at->batch * s->out_batch + at->row * s->out_m + at->column) *
                      bd_rt_element_bytes(s->out_dtype);
}

static void multiply_floats(const product *p, const block *at) {
  const bd_rt_gemm *const s = p->shape;
  bd_rt_gemm_block(at->rows, at->columns, s->k, 1, (const float *)(const void *)a_at(p, at, 0),
                   s->a_m, s->a_k, (const float *)(const void *)b_at(p, at, 0), s->b_k, s->b_n,
                   s->accumulate ? 1 : 0, (float *)(void *)out_at(p, at), s->out_m);
}

bd_rt_matrix bd_rt_load_tile(int dtype, int copy, const void *from, int64_t rows, int64_t columns,
                             int64_t row_stride, int64_t column_stride, float *tile) {
  const float *const floats = from;
  const uint16_t *const halves = from;
  if (dtype == BD_RT_F32 && !copy) return (bd_rt_matrix){floats, row_stride, column_stride};
  const int by_row = column_stride == 1 || columns == 1;
  const int64_t lines = by_row ? rows : columns, length = by_row ? columns : rows;
  const int64_t stride = by_row ? row_stride : column_stride;
  for (int64_t line = 0; line < lines; line++) {
    float *const to = tile + line * length;
    if (dtype == BD_RT_F32)
      memcpy(to, floats + line * stride, (size_t)length * sizeof *to);
    else
      bd_rt_widen_run(dtype, halves + line * stride, to, length);
  }
  return (bd_rt_matrix){tile, by_row ? length : 1, by_row ? 1 : length};
}

void bd_rt_round_tile(int format, float scale, float *tile, int64_t count) {
  const float inverse = bd_rt_f8_inverse(scale);
  for (int64_t i = 0; i < count; i++)
    tile[i] = bd_rt_from_f8(format, bd_rt_to_f8(format, tile[i] * scale)) * inverse;
}

float bd_rt_factor_scale(int format, const bd_rt_factor *f) {
  const uint16_t *const data = f->data;
  uint32_t most = 0;
  for (int64_t b = 0; b < f->count; b++)
    for (int64_t i = 0; i < f->rows; i++)
      for (int64_t j = 0; j < f->columns; j++) {
        const int64_t at = b * f->between + i * f->row_stride + j * f->column_stride;
        const uint32_t size = data[at] & 0x7FFF;
        if (size > most) most = size;
      }
  return bd_rt_f8_scale(format, most << 16);
}

static void set_scales(product *p) {
  const bd_rt_gemm *const s = p->shape;
  const bd_rt_factor a = {p->a, s->batch, s->a_batch, s->m, s->k, s->a_m, s->a_k};
  const bd_rt_factor b = {p->b, s->batch, s->b_batch, s->k, s->n, s->b_k, s->b_n};
  p->scale[0] = bd_rt_factor_scale(s->f8[0], &a);
  p->scale[1] = bd_rt_factor_scale(s->f8[1], &b);
}

static void widen_sums(const bd_rt_gemm *s, const block *at, const char *out, float *sums) {
  const uint16_t *const halves = (const uint16_t *)(const void *)out;
  for (int64_t i = 0; i < at->rows; i++)
    if (s->accumulate)
      bd_rt_widen_run(s->out_dtype, halves + i * s->out_m, sums + i * BD_RT_TILE_COLUMNS,
                      at->columns);
    else
      memset(sums + i * BD_RT_TILE_COLUMNS, 0, (size_t)at->columns * sizeof *sums);
}

static void round_sums(const bd_rt_gemm *s, const block *at, const float *sums, char *out) {
  uint16_t *const halves = (uint16_t *)(void *)out;
  for (int64_t i = 0; i < at->rows; i++)
    bd_rt_narrow_run(s->out_dtype, sums + i * BD_RT_TILE_COLUMNS, halves + i * s->out_m,
                     at->columns);
}

static void multiply_tile(const product *p, const block *at, float *scratch) {
  const bd_rt_gemm *const s = p->shape;
  float *const a_tile = scratch, *const b_tile = a_tile + BD_RT_TILE_ROWS * BD_RT_TILE_DEPTH;
  float *const tile = b_tile + BD_RT_TILE_DEPTH * BD_RT_TILE_COLUMNS;
  const int rounds = bd_rt_is_half(s->out_dtype);
  float *const sums = rounds ? tile : (float *)(void *)out_at(p, at);
  if (rounds) widen_sums(s, at, out_at(p, at), sums);
  for (int64_t k = 0; k < s->k; k += BD_RT_TILE_DEPTH) {
    const int64_t depth = bd_rt_least(BD_RT_TILE_DEPTH, s->k - k);
    const bd_rt_matrix a =
        bd_rt_load_tile(s->dtype, 0, a_at(p, at, k), at->rows, depth, s->a_m, s->a_k, a_tile);
    const bd_rt_matrix b =
        bd_rt_load_tile(s->dtype, 1, b_at(p, at, k), depth, at->columns, s->b_k, s->b_n, b_tile);
    if (p->scale[0] > 0) {
      bd_rt_round_tile(s->f8[0], p->scale[0], a_tile, at->rows * depth);
      bd_rt_round_tile(s->f8[1], p->scale[1], b_tile, depth * at->columns);
    }
    bd_rt_gemm_block(at->rows, at->columns, depth, 1, a.data, a.row, a.column, b.data, b.row,
                     b.column, k > 0 || s->accumulate || rounds ? 1 : 0, sums,
                     rounds ? BD_RT_TILE_COLUMNS : s->out_m);
  }
  if (rounds) round_sums(s, at, sums, out_at(p, at));
}

static void multiply_tiles(const product *p, const block *at, int worker) {
  float *const scratch = bd_rt_thread_scratch(p->rt, worker);
  for (int64_t row = 0; row < at->rows; row += BD_RT_TILE_ROWS)
    for (int64_t column = 0; column < at->columns; column += BD_RT_TILE_COLUMNS) {
      const block tile = {at->batch, at->row + row, bd_rt_least(BD_RT_TILE_ROWS, at->rows - row),
                          at->column + column,
                          bd_rt_least(BD_RT_TILE_COLUMNS, at->columns - column)};
      multiply_tile(p, &tile, scratch);
    }
}

// Columns of b that lie a multiple of a page apart meet in the same few lines of the first cache
// while OpenBLAS packs them. Few rows do not make up for that: such a b goes through tiles.
static int meets_itself(const bd_rt_gemm *s) {
  return s->b_k == 1 && s->b_n % 1024 == 0 && s->k >= BD_RT_TILE_DEPTH && s->n >= GRAIN &&
         s->m <= 2 * BD_RT_TILE_ROWS;
}

// Block `index` of `count` nearly equal ones; the last may be cut short.
static int64_t cut(int64_t extent, int64_t count, int64_t index) {
  const int64_t grains = (extent + GRAIN - 1) / GRAIN;
  return bd_rt_least(grains * index / count * GRAIN, extent);
}

static void multiply_block(void *args, int64_t chunk, int worker) {
  const product *const p = args;
  const bd_rt_gemm *const s = p->shape;
  const int64_t i = chunk / p->column_blocks % p->row_blocks, j = chunk % p->column_blocks;
  block at = {.batch = chunk / p->column_blocks / p->row_blocks,
              .row = cut(s->m, p->row_blocks, i),
              .column = cut(s->n, p->column_blocks, j)};
  at.rows = cut(s->m, p->row_blocks, i + 1) - at.row;
  at.columns = cut(s->n, p->column_blocks, j + 1) - at.column;
  if (bd_rt_is_half(s->dtype) || meets_itself(s))
    multiply_tiles(p, &at, worker);
  else
    multiply_floats(p, &at);
}

// How many blocks to cut the longer side into: as few as give every thread the same work, none
// larger than `most`, none with less than LEAST_WORK.
static int64_t blocks(const bd_rt_gemm *s, int64_t extent, int64_t most, int threads) {
  int64_t count = s->batch >= 4 * (int64_t)threads ? 1 : threads;
  if (extent > most * count) count *= (extent + most * count - 1) / (most * count);
  const int64_t work = s->m * s->n * s->k / LEAST_WORK;
  const int64_t grains = (extent + GRAIN - 1) / GRAIN;
  count = bd_rt_least(count, bd_rt_least(work, grains));
  return count < 1 ? 1 : count;
}

static void clear_rows(void *args, int64_t row) {
  const product *const p = args;
  const bd_rt_gemm *const s = p->shape;
  const block at = {.batch = row / s->m, .row = row % s->m};
  memset(out_at(p, &at), 0, (size_t)(s->n * bd_rt_element_bytes(s->out_dtype)));
}

void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *shape, const void *a, const void *b, void *out) {
  const int halves = bd_rt_is_half(shape->dtype);
  if ((shape->dtype != BD_RT_F32 && !halves) ||
      (shape->out_dtype != BD_RT_F32 && !(halves && shape->out_dtype == shape->dtype)))
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a matrix product of dtypes %d and %d", shape->dtype,
               shape->out_dtype);
  if (shape->m <= 0 || shape->n <= 0 || shape->batch <= 0) return;
  product p = {.rt = rt, .shape = shape, .a = a, .b = b, .out = out};
  if (shape->k == 0) {
    if (!shape->accumulate) bd_rt_parallel(rt, clear_rows, &p, shape->batch * shape->m);
    return;
  }
  if (bd_rt_is_f8(shape)) set_scales(&p);
  const int by_column = shape->n >= shape->m;
  p.row_blocks = by_column ? 1 : blocks(shape, shape->m, MOST_ROWS, rt->threads);
  p.column_blocks = by_column ? blocks(shape, shape->n, MOST_COLUMNS, rt->threads) : 1;
  bd_rt_pool_run(rt->pool, multiply_block, &p, shape->batch * p.row_blocks * p.column_blocks);
}
