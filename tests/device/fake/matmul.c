#include "tests/device/fake/matmul.h"

#include "tests/device/fake/half.h"

#include <stdlib.h>
#include <string.h>

enum {
  SPOILED_BYTES = 4096,
  SCALE_ALIGNMENT = 16, // the library runs nothing with scales elsewhere
};

static int is_f8(const bd_fake_layout *l) {
  return l->type == CUDA_R_8F_E4M3 || l->type == CUDA_R_8F_E5M2;
}

size_t bd_fake_unit(const bd_fake_layout *l) {
  return is_f8(l) ? 1 : l->type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

int64_t bd_fake_place(const bd_fake_layout *l, int64_t batch, int64_t row, int64_t col) {
  return batch * l->stride +
         (l->order == CUBLASLT_ORDER_ROW ? row * l->ld + col : col * l->ld + row);
}

size_t bd_fake_extent(const bd_fake_layout *l) {
  return bd_fake_unit(l) * (size_t)(bd_fake_place(l, l->batch - 1, l->rows - 1, l->cols - 1) + 1);
}

static bd_fake_half half_of(const bd_fake_layout *l) {
  return l->type == CUDA_R_16BF ? bd_fake_bf16 : bd_fake_f16;
}

float bd_fake_get(const bd_fake_layout *l, const void *at, int64_t index) {
  if (l->type == CUDA_R_8F_E4M3) return bd_fake_of_e4m3(((const uint8_t *)at)[index]);
  if (l->type == CUDA_R_8F_E5M2) return bd_fake_of_e5m2(((const uint8_t *)at)[index]);
  return l->type == CUDA_R_32F ? ((const float *)at)[index]
                               : bd_fake_of_half(half_of(l), ((const uint16_t *)at)[index]);
}

void bd_fake_put(const bd_fake_layout *l, void *at, int64_t index, float value) {
  if (l->type == CUDA_R_32F)
    ((float *)at)[index] = value;
  else
    ((uint16_t *)at)[index] = bd_fake_to_half(half_of(l), value);
}

static void check_layout(const char *call, char name, const bd_fake_layout *l, int32_t batch) {
  const int64_t fast = l->order == CUBLASLT_ORDER_ROW ? l->cols : l->rows;
  if (l->order != CUBLASLT_ORDER_ROW && l->order != CUBLASLT_ORDER_COL)
    bd_fake_fault(call, "%c: order %d", name, l->order);
  if (l->type != CUDA_R_32F && l->type != CUDA_R_16BF && l->type != CUDA_R_16F && !is_f8(l))
    bd_fake_fault(call, "%c: type %d", name, l->type);
  if (l->rows < 1 || l->cols < 1 || l->ld < fast)
    bd_fake_fault(call, "%c: %lld x %lld with stride %lld", name, (long long)l->rows,
                  (long long)l->cols, (long long)l->ld);
  if (l->batch != batch || l->batch < 1 || l->stride < 0)
    bd_fake_fault(call, "%c: %d products, D has %d", name, l->batch, batch);
}

// What the library asks of products in 8 bits on sm_90: sums along the columns of both factors,
// extents and strides, those between products as well, in 16 bytes, not two E5M2, a scale of each
// factor, results in f32 or bf16.
static void check_f8(const char *call, const bd_fake_matmul *m) {
  const bd_fake_layout *const all[] = {&m->a, &m->b, &m->d};
  if (!is_f8(&m->a) || !is_f8(&m->b) ||
      (m->a.type == CUDA_R_8F_E5M2 && m->b.type == CUDA_R_8F_E5M2) ||
      (m->d.type != CUDA_R_32F && m->d.type != CUDA_R_16BF))
    bd_fake_fault(call, "types %d times %d to %d", m->a.type, m->b.type, m->d.type);
  if (m->desc.transpose_a != CUBLAS_OP_T || m->desc.transpose_b != CUBLAS_OP_N)
    bd_fake_fault(call, "factors in 8 bits lie otherwise than TN");
  for (int i = 0; i < 3; i++)
    if (all[i]->rows % 16 || all[i]->cols % 16 || all[i]->ld * (int64_t)bd_fake_unit(all[i]) % 16)
      bd_fake_fault(call, "%c: %lld x %lld with stride %lld in 8 bits", "ABD"[i],
                    (long long)all[i] -> rows, (long long)all[i] -> cols, (long long)all[i] -> ld);
  for (int i = 0; i < 3; i++)
    if (all[i]->batch > 1 && all[i]->stride * (int64_t)bd_fake_unit(all[i]) % 16)
      bd_fake_fault(call, "%c: products in 8 bits are %lld apart", "ABD"[i],
                    (long long)all[i] -> stride);
  if (!m->desc.scale_a || !m->desc.scale_b) bd_fake_fault(call, "a factor has no scale");
}

void bd_fake_matmul_check(const char *call, const bd_fake_matmul *m) {
  const int ta = m->desc.transpose_a == CUBLAS_OP_T, tb = m->desc.transpose_b == CUBLAS_OP_T;
  if ((!ta && m->desc.transpose_a != CUBLAS_OP_N) || (!tb && m->desc.transpose_b != CUBLAS_OP_N))
    bd_fake_fault(call, "transposes %d and %d", m->desc.transpose_a, m->desc.transpose_b);
  check_layout(call, 'A', &m->a, m->d.batch);
  check_layout(call, 'B', &m->b, m->d.batch);
  check_layout(call, 'C', &m->c, m->d.batch);
  check_layout(call, 'D', &m->d, m->d.batch);
  const int64_t rows = ta ? m->a.cols : m->a.rows, inner = ta ? m->a.rows : m->a.cols;
  const int64_t cols = tb ? m->b.rows : m->b.cols, other = tb ? m->b.cols : m->b.rows;
  if (inner != other || rows != m->d.rows || cols != m->d.cols || m->c.rows != m->d.rows ||
      m->c.cols != m->d.cols)
    bd_fake_fault(call, "%lld x %lld times %lld x %lld is not %lld x %lld", (long long)rows,
                  (long long)inner, (long long)other, (long long)cols, (long long)m->d.rows,
                  (long long)m->d.cols);
  const int f8 = is_f8(&m->a) || is_f8(&m->b);
  if (f8) check_f8(call, m);
  if (m->c.type != m->d.type ||
      (!f8 && (m->a.type != m->b.type || (m->d.type != CUDA_R_32F && m->d.type != m->a.type))))
    bd_fake_fault(call, "types %d times %d, %d to %d", m->a.type, m->b.type, m->c.type, m->d.type);
  if (m->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && m->a.type != CUDA_R_32F)
    bd_fake_fault(call, "type %d is not multiplied in TF32", m->a.type);
  if (m->d.batch > 1 && !m->d.stride) bd_fake_fault(call, "all products go to one place");
  bd_fake_epilogue_check(call, m);
}

// Exact, because strided views of one tensor interleave.
int bd_fake_meets_result(const bd_fake_matmul *m, const bd_fake_layout *l, const void *at) {
  const size_t bytes = bd_fake_extent(&m->d);
  if (!bd_fake_overlap(at, bd_fake_extent(l), m->d_at, bytes)) return 0;
  char *const written = calloc(bytes, 1), *const base = m->d_at;
  int meets = 0;
  if (!written) abort();
  for (int64_t b = 0; b < m->d.batch; b++)
    for (int64_t row = 0; row < m->d.rows; row++)
      for (int64_t col = 0; col < m->d.cols; col++)
        memset(written + (size_t)bd_fake_place(&m->d, b, row, col) * bd_fake_unit(&m->d), 1,
               bd_fake_unit(&m->d));
  for (int64_t b = 0; b < l->batch; b++)
    for (int64_t row = 0; row < l->rows; row++)
      for (int64_t col = 0; col < l->cols; col++) {
        const char *const element =
            (const char *)at + (size_t)bd_fake_place(l, b, row, col) * bd_fake_unit(l);
        meets |= element >= base && element < base + bytes && written[element - base];
      }
  free(written);
  return meets;
}

void bd_fake_matmul_check_memory(const char *call, const bd_fake_matmul *m) {
  bd_fake_check(call, "A", m->a_at, bd_fake_extent(&m->a), bd_fake_unit(&m->a));
  bd_fake_check(call, "B", m->b_at, bd_fake_extent(&m->b), bd_fake_unit(&m->b));
  bd_fake_check(call, "C", m->c_at, bd_fake_extent(&m->c), bd_fake_unit(&m->c));
  bd_fake_check(call, "D", m->d_at, bd_fake_extent(&m->d), bd_fake_unit(&m->d));
  if (is_f8(&m->a)) {
    bd_fake_check(call, "the scale of A", m->desc.scale_a, sizeof(float), SCALE_ALIGNMENT);
    bd_fake_check(call, "the scale of B", m->desc.scale_b, sizeof(float), SCALE_ALIGNMENT);
  }
  if (m->workspace_bytes)
    bd_fake_check(call, "the workspace", m->workspace, m->workspace_bytes, 16);
  if (bd_fake_meets_result(m, &m->a, m->a_at) || bd_fake_meets_result(m, &m->b, m->b_at))
    bd_fake_fault(call, "D overlaps an operand");
  if (m->c_at != m->d_at ? bd_fake_meets_result(m, &m->c, m->c_at)
                         : memcmp(&m->c, &m->d, sizeof m->c) != 0)
    bd_fake_fault(call, "C overlaps D and is not the same");
  bd_fake_epilogue_check_memory(call, m);
}

// The algorithm writes its workspace as it likes.
static void spoil_workspace(const bd_fake_matmul *m) {
  char *const bytes = m->workspace;
  const size_t count = m->workspace_bytes < SPOILED_BYTES ? m->workspace_bytes : SPOILED_BYTES;
  if (!count) return;
  memset(bytes, 0xFF, count);
  memset(bytes + m->workspace_bytes - count, 0xFF, count);
}

// To the 10 digits of TF32, to nearest, ties to even.
static float tf32(float value) {
  if (!isfinite(value) || value == 0) return value;
  const int unit = bd_fake_exponent(fabs((double)value)) - 10;
  const double units = bd_fake_whole(fabs((double)value) * bd_fake_power(-unit));
  return copysignf((float)(units * bd_fake_power(unit)), value);
}

static float *unpack(const bd_fake_matmul *m, const bd_fake_layout *l, const void *at,
                     int64_t batch, int transpose) {
  const int rounds = m->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  float *const out = malloc((size_t)(l->rows * l->cols) * sizeof *out);
  if (!out) abort();
  const int64_t step = bd_fake_place(l, 0, 0, 1);
  for (int64_t row = 0; row < l->rows; row++) {
    const int64_t start = bd_fake_place(l, batch, row, 0);
    for (int64_t col = 0; col < l->cols; col++) {
      const float value = bd_fake_get(l, at, start + col * step);
      out[transpose ? col * l->rows + row : row * l->cols + col] = rounds ? tf32(value) : value;
    }
  }
  return out;
}

static void add_products(const float *a, const float *b, int64_t inner, int64_t cols,
                         float *restrict sums) {
  memset(sums, 0, (size_t)cols * sizeof *sums);
  for (int64_t k = 0; k < inner; k++)
    for (int64_t col = 0; col < cols; col++)
      sums[col] += a[k] * b[k * cols + col];
}

// A row of the product in `sums`; each part of its sums behind them first.
static void add_row(const float *a, const float *b, int64_t inner, int64_t cols, int parts,
                    float *sums) {
  float *const part = sums + cols;
  add_products(a, b, inner / parts, cols, sums);
  for (int i = 1; i < parts; i++) {
    const int64_t first = inner * i / parts, end = inner * (i + 1) / parts;
    add_products(a + first, b + first * cols, end - first, cols, part);
    for (int64_t col = 0; col < cols; col++)
      sums[col] += part[col];
  }
}

static void run_batch(const bd_fake_matmul *m, int64_t batch, int parts, float *sums) {
  const int ta = m->desc.transpose_a == CUBLAS_OP_T, tb = m->desc.transpose_b == CUBLAS_OP_T;
  const int64_t inner = ta ? m->a.rows : m->a.cols;
  const float scale = is_f8(&m->a) ? *m->desc.scale_a * *m->desc.scale_b : 1;
  float *const a = unpack(m, &m->a, m->a_at, batch, ta), *const b =
                                                             unpack(m, &m->b, m->b_at, batch, tb);
  for (int64_t row = 0; row < m->d.rows; row++) {
    add_row(a + row * inner, b, inner, m->d.cols, parts, sums);
    for (int64_t col = 0; col < m->d.cols; col++) {
      float value = m->alpha * scale * sums[col];
      if (m->beta != 0)
        value += m->beta * bd_fake_get(&m->c, m->c_at, bd_fake_place(&m->c, batch, row, col));
      value = bd_fake_epilogue_apply(m, row, col, value);
      bd_fake_put(&m->d, m->d_at, bd_fake_place(&m->d, batch, row, col), value);
    }
  }
  bd_fake_epilogue_sum(m, inner, a, b);
  free(a);
  free(b);
}

// Products that have begun and not ended.
enum { MOST_AT_ONCE = 64 };
static const bd_fake_matmul *running[MOST_AT_ONCE];

// BD_FAKE_LINGERS: products of other streams may begin before this one ends, and must have other
// workspaces. Returns whether it has just begun.
static int lingers(bd_fake_matmul *m) {
  int place = 0;
  if (m->lingers) {
    while (running[place] != m)
      place++;
    running[place] = NULL;
    return 0;
  }
  if (!bd_fake_setting("BD_FAKE_LINGERS", 0)) return 0;
  for (int i = 0; i < MOST_AT_ONCE; i++)
    if (running[i] && bd_fake_overlap(running[i]->workspace, running[i]->workspace_bytes,
                                      m->workspace, m->workspace_bytes))
      bd_fake_fault("cublasLtMatmul", "the workspace is that of a product that runs");
  while (running[place])
    if (++place == MOST_AT_ONCE) bd_fake_fault("cublasLtMatmul", "too many run at once");
  running[place] = m;
  m->lingers = 1;
  return 1;
}

int bd_fake_matmul_run(void *matmul) {
  const bd_fake_matmul *const m = matmul;
  if (lingers(matmul)) return 0;
  float *const sums = malloc(2 * (size_t)m->d.cols * sizeof *sums);
  const int parts = bd_fake_begin_product(&m->algorithm);
  if (!sums) abort();
  spoil_workspace(m);
  for (int64_t batch = 0; batch < m->d.batch; batch++)
    run_batch(m, batch, parts, sums);
  free(sums);
  return 1;
}
