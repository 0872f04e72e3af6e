// What cublasLt does with a product before it writes it, and beside it.
#include "tests/device/fake/matmul.h"

#include <math.h>

enum { GELU_GRAIN = 8, AUX_ALIGNMENT = 16 };

static int is_half(int32_t type) {
  return type == CUDA_R_16BF || type == CUDA_R_16F;
}

static int adds_bias(const bd_fake_desc *d) {
  return d->epilogue == CUBLASLT_EPILOGUE_BIAS || d->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static int writes_aux(const bd_fake_desc *d) {
  return d->epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
         d->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static int has_aux(const bd_fake_desc *d) {
  return writes_aux(d) || d->epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static int sums(const bd_fake_desc *d) {
  return d->epilogue == CUBLASLT_EPILOGUE_BGRADA || d->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

// A column of D's type: added to each column of D, or what sums of rows of A or columns of B make.
static bd_fake_layout vector_of(const bd_fake_matmul *m) {
  bd_fake_layout v = m->d;
  if (m->desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) v.rows = m->d.cols;
  v.cols = 1;
  v.ld = v.rows;
  return v;
}

static bd_fake_layout aux_of(const bd_fake_matmul *m) {
  bd_fake_layout aux = m->d;
  aux.ld = m->desc.aux_ld;
  return aux;
}

// Documented: no rows in row-major order, one type for D, bias and auxiliary, whose columns begin
// in grains of 8. Fused GELU is expected of halves alone, sums of products that are written as f32,
// and neither of batches nor of factors in 8 bits.
void bd_fake_epilogue_check(const char *call, const bd_fake_matmul *m) {
  const bd_fake_desc *const d = &m->desc;
  if (d->epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
  if (d->epilogue != CUBLASLT_EPILOGUE_BIAS && !has_aux(d) && !sums(d))
    bd_fake_fault(call, "epilogue %u", d->epilogue);
  if (m->d.order != CUBLASLT_ORDER_COL) bd_fake_fault(call, "an epilogue of rows");
  if (m->d.batch != 1) bd_fake_fault(call, "an epilogue of %d products", m->d.batch);
  if ((adds_bias(d) || sums(d)) && !d->bias) bd_fake_fault(call, "the epilogue has no vector");
  if (has_aux(d) && !d->aux) bd_fake_fault(call, "the epilogue has no auxiliary matrix");
  if (has_aux(d) && (d->aux_ld < m->d.rows || d->aux_ld % GELU_GRAIN))
    bd_fake_fault(call, "the auxiliary of %lld rows has stride %lld", (long long)m->d.rows,
                  (long long)d->aux_ld);
  if (has_aux(d) &&
      ((uintptr_t)d->aux % AUX_ALIGNMENT || !is_half(m->a.type) || !is_half(m->d.type)))
    bd_fake_fault(call, "GELU of types %d to %d, with an auxiliary at %p", m->a.type, m->d.type,
                  d->aux);
  if (sums(d) &&
      (m->d.type != CUDA_R_32F || m->a.type == CUDA_R_8F_E4M3 || m->a.type == CUDA_R_8F_E5M2))
    bd_fake_fault(call, "sums of types %d to %d", m->a.type, m->d.type);
}

void bd_fake_epilogue_check_memory(const char *call, const bd_fake_matmul *m) {
  const bd_fake_layout vector = vector_of(m), aux = aux_of(m);
  if (adds_bias(&m->desc) || sums(&m->desc)) {
    bd_fake_check(call, "the vector", m->desc.bias, bd_fake_extent(&vector), bd_fake_unit(&vector));
    if (bd_fake_meets_result(m, &vector, m->desc.bias))
      bd_fake_fault(call, "D overlaps the vector");
  }
  if (sums(&m->desc) &&
      bd_fake_overlap(m->desc.bias, bd_fake_extent(&vector), m->workspace, m->workspace_bytes))
    bd_fake_fault(call, "the workspace overlaps the vector");
  if (!has_aux(&m->desc)) return;
  bd_fake_check(call, "the auxiliary", m->desc.aux, bd_fake_extent(&aux), bd_fake_unit(&aux));
  // A library that does GELU in a kernel of its own has written the product by then.
  if (bd_fake_meets_result(m, &aux, m->desc.aux)) bd_fake_fault(call, "D overlaps the auxiliary");
  if (writes_aux(&m->desc) &&
      (bd_fake_overlap(m->desc.aux, bd_fake_extent(&aux), m->a_at, bd_fake_extent(&m->a)) ||
       bd_fake_overlap(m->desc.aux, bd_fake_extent(&aux), m->b_at, bd_fake_extent(&m->b))))
    bd_fake_fault(call, "the auxiliary overlaps an operand");
}

static float inner_of(float x) {
  return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}

static float slope_of(float x) {
  const float t = inner_of(x);
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

float bd_fake_epilogue_apply(const bd_fake_matmul *m, int64_t row, int64_t col, float x) {
  const bd_fake_desc *const d = &m->desc;
  if (adds_bias(d)) x += bd_fake_get(&m->d, d->bias, row);
  if (!has_aux(d)) return x;
  const bd_fake_layout aux = aux_of(m);
  const int64_t at = bd_fake_place(&aux, 0, row, col);
  if (!writes_aux(d)) return x * slope_of(bd_fake_get(&aux, d->aux, at));
  bd_fake_put(&aux, d->aux, at, x);
  return 0.5f * x * (1 + inner_of(x));
}

void bd_fake_epilogue_sum(const bd_fake_matmul *m, int64_t inner, const float *a, const float *b) {
  const int rows = m->desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const bd_fake_layout vector = vector_of(m);
  for (int64_t i = 0; sums(&m->desc) && i < vector.rows; i++) {
    float sum = 0;
    for (int64_t k = 0; k < inner; k++)
      sum += rows ? a[i * inner + k] : b[k * m->d.cols + i];
    bd_fake_put(&vector, m->desc.bias, i, sum);
  }
}
