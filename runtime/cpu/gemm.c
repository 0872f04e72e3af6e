// Matrix products over OpenBLAS. Its own threads stay off: the rank's pool cuts a product into
// blocks and each thread multiplies one, which keeps packing buffers small and one set of threads
// in the process.
#include "runtime/cpu/rt.h"

#include <cblas.h>
#include <string.h>

// Most columns of one call: bounds OpenBLAS's packing buffer (columns times its depth block, 4
// bytes).
enum { MOST_COLUMNS = 4096, GRAIN = 32 };

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
  const bd_rt_gemm *shape;
  const float *a, *b;
  float *out;
  int64_t row_blocks, column_blocks, rows, columns; // of one block
} product;

static void zero_rows(float *out, int64_t rows, int64_t columns, int64_t stride) {
  for (int64_t i = 0; i < rows; i++)
    memset(out + i * stride, 0, (size_t)columns * sizeof *out);
}

static void multiply_block(void *args, int64_t chunk) {
  const product *const p = args;
  const bd_rt_gemm *const s = p->shape;
  const int64_t row = chunk / p->column_blocks % p->row_blocks * p->rows;
  const int64_t column = chunk % p->column_blocks * p->columns;
  const int64_t batch = chunk / p->column_blocks / p->row_blocks;
  const int64_t m = s->m - row < p->rows ? s->m - row : p->rows;
  const int64_t n = s->n - column < p->columns ? s->n - column : p->columns;
  if (m <= 0 || n <= 0) return;
  float *const out = p->out + batch * s->out_batch + row * s->out_m + column;
  if (s->k == 0) {
    if (!s->accumulate) zero_rows(out, m, n, s->out_m);
    return;
  }
  bd_rt_gemm_block(m, n, s->k, 1, p->a + batch * s->a_batch + row * s->a_m, s->a_m, s->a_k,
                   p->b + batch * s->b_batch + column * s->b_n, s->b_k, s->b_n,
                   s->accumulate ? 1 : 0, out, s->out_m);
}

static int64_t blocks(int64_t extent, int64_t wanted, int64_t *out_size) {
  int64_t size = (extent + wanted - 1) / wanted;
  size = (size + GRAIN - 1) / GRAIN * GRAIN;
  *out_size = size < extent ? size : extent;
  return (extent + *out_size - 1) / *out_size;
}

void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *shape, const void *a, const void *b, void *out) {
  if (shape->dtype != BD_RT_F32 || shape->out_dtype != BD_RT_F32)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a matrix product of dtype %d", shape->dtype);
  if (shape->m <= 0 || shape->n <= 0 || shape->batch <= 0) return;
  product p = {.shape = shape, .a = a, .b = b, .out = out};
  // As few blocks as give every thread the same work: cut the longer side.
  const int64_t wanted = shape->batch >= 4 * rt->threads ? 1 : rt->threads;
  const int by_column = shape->n >= shape->m;
  p.row_blocks = blocks(shape->m, by_column ? 1 : wanted, &p.rows);
  p.column_blocks = blocks(shape->n, by_column ? wanted : 1, &p.columns);
  bd_rt_parallel(rt, multiply_block, &p, shape->batch * p.row_blocks * p.column_blocks);
}
