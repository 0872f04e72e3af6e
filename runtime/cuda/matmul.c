// Matrix products by cublasLt. It counts columns first: a row-major product is the product of the
// transposes in reverse order. The algorithm is chosen once for each shape and kept.
#include "runtime/cuda/rt.h"
#include "runtime/float8.h"

#include <stdlib.h>
#include <string.h>

// Operands in 8 bits have the dtype F8 + their format.
enum { FIRST_SLOTS = 256, MOST_ALIGNMENT = 256, F8 = 256 };

// One operand as cublasLt stores it: `rows` consecutive elements per column.
typedef struct operand {
  int64_t rows, columns, leading, batch_stride;
  int32_t dtype, transposed;
} operand;

typedef struct key {
  operand left, right, out;
  int64_t batch;
  int32_t accumulate, left_align, right_align, out_align; // bytes that addresses are multiples of
} key;

struct bd_cuda_product {
  key key;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t left, right, out;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

// A matrix of `rows` x `columns` whose rows (the products' n or m) are to be consecutive; `row` and
// `column` are the strides.
static operand store(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t batch,
                     int32_t dtype) {
  operand o = {rows, columns, column, batch, dtype, 0};
  if (columns == 1 && o.leading < rows) o.leading = rows;
  if ((row == 1 || rows == 1) && o.leading >= rows) return o;
  if (column != 1 && columns != 1)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "matrix product with strides %lld, %lld", (long long)row,
               (long long)column);
  o = (operand){columns, rows, row, batch, dtype, 1};
  if (rows == 1 && o.leading < columns) o.leading = columns;
  return o;
}

static int32_t alignment(const void *address, const operand *o, int64_t batch) {
  const uint64_t size = bd_rt_element_bytes(o->dtype);
  uint64_t bits = (uint64_t)(uintptr_t)address | MOST_ALIGNMENT;
  if (batch > 1) bits |= (uint64_t)o->batch_stride * size;
  return (int32_t)(bits & -bits);
}

static key key_of(const bd_rt_gemm *s, const void *a, const void *b, const void *out) {
  key k;
  memset(&k, 0, sizeof k); // compared as bytes
  k.left = store(s->n, s->k, s->b_n, s->b_k, s->b_batch, s->dtype);
  k.right = store(s->k, s->m, s->a_k, s->a_m, s->a_batch, s->dtype);
  k.out = store(s->n, s->m, 1, s->out_m, s->out_batch, s->out_dtype);
  k.batch = s->batch;
  k.accumulate = s->accumulate;
  k.left_align = alignment(b, &k.left, s->batch);
  k.right_align = alignment(a, &k.right, s->batch);
  k.out_align = alignment(out, &k.out, s->batch);
  return k;
}

static cudaDataType_t type_of(int32_t dtype) {
  switch (dtype) {
  case BD_RT_F32:
    return CUDA_R_32F;
  case BD_RT_BF16:
    return CUDA_R_16BF;
  case BD_RT_F16:
    return CUDA_R_16F;
  case F8 + BD_RT_E4M3:
    return CUDA_R_8F_E4M3;
  case F8 + BD_RT_E5M2:
    return CUDA_R_8F_E5M2;
  default:
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a matrix product of elements of dtype %d", dtype);
  }
}

static cublasLtMatrixLayout_t layout_of(const operand *o, int64_t batch) {
  cublasLtMatrixLayout_t layout;
  const int32_t count = (int32_t)batch;
  BD_CUDA_BLAS(cublasLtMatrixLayoutCreate(&layout, type_of(o->dtype), (uint64_t)o->rows,
                                          (uint64_t)o->columns, o->leading));
  BD_CUDA_BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
  BD_CUDA_BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &o->batch_stride, sizeof o->batch_stride));
  return layout;
}

// TF32 rounds the operands of a product of f32 to 10 binary digits; sums stay f32.
static cublasLtMatmulDesc_t operation_of(const bd_rt *rt, const key *k) {
  cublasLtMatmulDesc_t operation;
  const int32_t left = k->left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t right = k->right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int tf32 = rt->options.tf32 && k->left.dtype == BD_RT_F32;
  BD_CUDA_BLAS(cublasLtMatmulDescCreate(
      &operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  BD_CUDA_BLAS(
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left));
  BD_CUDA_BLAS(
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right));
  return operation;
}

static void set_preference(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                           size_t bytes) {
  BD_CUDA_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
}

// The library's first choice among algorithms that fit the workspace and give the same bits every
// time: sums over parts of k are put together in a fixed order, not in place.
static void choose(bd_rt *rt, bd_cuda_product *p) {
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  const uint64_t most = (uint64_t)rt->device->library_bytes;
  const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const uint32_t align[] = {(uint32_t)p->key.left_align, (uint32_t)p->key.right_align,
                            (uint32_t)p->key.out_align};
  BD_CUDA_BLAS(cublasLtMatmulPreferenceCreate(&preference));
  set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[2], sizeof *align);
  BD_CUDA_BLAS(cublasLtMatmulAlgoGetHeuristic(rt->device->blas, p->operation, p->left, p->right,
                                              p->out, p->out, preference, 1, &result, &found));
  BD_CUDA_BLAS(cublasLtMatmulPreferenceDestroy(preference));
  if (found == 0)
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuBLASLt has no algorithm for a product of %lld x %lld x %lld",
               (long long)p->key.right.columns, (long long)p->key.left.rows,
               (long long)p->key.left.columns);
  p->algorithm = result.algo;
  p->workspace_bytes = result.workspaceSize;
}

// What results are multiplied by, on the device: 1 / the scale of each operand in 8 bits.
static void set_scales(const bd_cuda_product *p, const float *left, const float *right) {
  BD_CUDA_BLAS(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                              &left, sizeof left));
  BD_CUDA_BLAS(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                              &right, sizeof right));
}

static bd_cuda_product *create(bd_rt *rt, const key *k) {
  bd_cuda_product *const p = calloc(1, sizeof *p);
  if (!p) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  p->key = *k;
  p->operation = operation_of(rt, k);
  p->left = layout_of(&k->left, k->batch);
  p->right = layout_of(&k->right, k->batch);
  p->out = layout_of(&k->out, k->batch);
  const float *const scale = (const float *)(const void *)rt->device->room; // any: none is read
  if (k->left.dtype >= F8) set_scales(p, scale, scale);
  choose(rt, p);
  return p;
}

// The slot of a key, or the empty one where it belongs.
static bd_cuda_product **find(bd_cuda_product **slots, int count, const key *k) {
  uint64_t at = bd_launcher_hash(BD_LAUNCHER_HASH, k, sizeof *k) % (uint64_t)count;
  while (slots[at] && memcmp(&slots[at]->key, k, sizeof *k))
    at = (at + 1) % (uint64_t)count;
  return &slots[at];
}

static void grow(bd_rt_device *device) {
  const int slots = device->product_slots ? 2 * device->product_slots : FIRST_SLOTS;
  bd_cuda_product **const table = calloc((size_t)slots, sizeof *table);
  if (!table) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  for (int i = 0; i < device->product_slots; i++)
    if (device->products[i]) *find(table, slots, &device->products[i]->key) = device->products[i];
  free(device->products);
  device->products = table;
  device->product_slots = slots;
}

static const bd_cuda_product *product_of(bd_rt *rt, const key *k) {
  bd_rt_device *const device = rt->device;
  if (2 * (device->product_count + 1) > device->product_slots) grow(device);
  bd_cuda_product **const slot = find(device->products, device->product_slots, k);
  if (!*slot) {
    *slot = create(rt, k);
    device->product_count++;
  }
  return *slot;
}

void bd_cuda_release_products(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  for (int i = 0; i < device->product_slots; i++) {
    bd_cuda_product *const p = device->products[i];
    if (!p) continue;
    BD_CUDA_BLAS(cublasLtMatrixLayoutDestroy(p->left));
    BD_CUDA_BLAS(cublasLtMatrixLayoutDestroy(p->right));
    BD_CUDA_BLAS(cublasLtMatrixLayoutDestroy(p->out));
    BD_CUDA_BLAS(cublasLtMatmulDescDestroy(p->operation));
    free(p);
  }
  free(device->products);
  device->products = NULL;
  device->product_slots = device->product_count = 0;
}

// An empty sum.
static void clear(bd_rt *rt, const bd_rt_gemm *s, char *out) {
  const int64_t size = bd_rt_element_bytes(s->out_dtype);
  for (int64_t i = 0; i < s->batch; i++)
    BD_CUDA(cudaMemset2DAsync(out + i * s->out_batch * size, (size_t)(s->out_m * size), 0,
                              (size_t)(s->n * size), (size_t)s->m, bd_cuda_now(rt)->stream));
}

static void multiply(bd_rt *rt, const bd_rt_gemm *s, const bd_cuda_product *p, const void *a,
                     const void *b, void *out) {
  bd_rt_device *const device = rt->device;
  const float alpha = 1, beta = s->accumulate ? 1 : 0;
  BD_CUDA_BLAS(cublasLtMatmul(device->blas, p->operation, &alpha, b, p->left, a, p->right, &beta,
                              out, p->out, out, p->out, &p->algorithm, device->library,
                              p->workspace_bytes, bd_cuda_now(rt)->stream));
}

// Both operands lie with the terms of a sum one after another, as the library wants them.
static key f8_key_of(const bd_rt_gemm *s, const void *a, const void *b, const void *out) {
  const bd_rt_gemm rounded = {.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .batch = 1,
                              .a_m = s->k,
                              .a_k = 1,
                              .b_k = 1,
                              .b_n = s->k,
                              .out_m = s->out_m,
                              .accumulate = s->accumulate,
                              .dtype = BD_RT_BF16,
                              .out_dtype = s->out_dtype};
  key k = key_of(&rounded, a, b, out);
  k.left.dtype = F8 + s->f8[1];
  k.right.dtype = F8 + s->f8[0];
  return k;
}

static void multiply_f8(bd_rt *rt, const bd_rt_gemm *s, const void *a, const void *b, void *out) {
  bd_rt_device *const device = rt->device;
  char *const rounded_a = (char *)s->f8_room + BD_RT_ALIGNMENT;
  char *const rounded_b =
      rounded_a + (s->m * s->k + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
  float *const scales = s->f8_room;
  uint32_t *const room = (uint32_t *)(void *)device->room;
  bd_cuda_round_f8(bd_cuda_now(rt), &(bd_cuda_factor){a, s->m, s->k, s->a_m, s->a_k, s->f8[0]},
                   room, scales, rounded_a);
  bd_cuda_round_f8(bd_cuda_now(rt), &(bd_cuda_factor){b, s->n, s->k, s->b_n, s->b_k, s->f8[1]},
                   room, scales + 2, rounded_b);
  const key k = f8_key_of(s, rounded_a, rounded_b, out);
  const bd_cuda_product *const p = product_of(rt, &k);
  set_scales(p, scales + 3, scales + 1);
  multiply(rt, s, p, rounded_a, rounded_b, out);
}

typedef struct call {
  bd_rt_gemm shape;
  const void *a, *b;
  void *out;
} call;

static void run(bd_rt *rt, const void *args) {
  const call *const c = args;
  const bd_rt_gemm *const s = &c->shape;
  if (s->k <= 0) {
    if (!s->accumulate) clear(rt, s, c->out);
    return;
  }
  if (bd_rt_is_f8(s)) {
    multiply_f8(rt, s, c->a, c->b, c->out);
    return;
  }
  const key k = key_of(s, c->a, c->b, c->out);
  multiply(rt, s, product_of(rt, &k), c->a, c->b, c->out);
}

// Member by member: what lies between members is no part of the call.
static void copy_shape(bd_rt_gemm *to, const bd_rt_gemm *s) {
  to->m = s->m, to->n = s->n, to->k = s->k, to->batch = s->batch;
  to->a_m = s->a_m, to->a_k = s->a_k, to->a_batch = s->a_batch;
  to->b_k = s->b_k, to->b_n = s->b_n, to->b_batch = s->b_batch;
  to->out_m = s->out_m, to->out_batch = s->out_batch;
  to->accumulate = s->accumulate, to->dtype = s->dtype, to->out_dtype = s->out_dtype;
  to->f8[0] = s->f8[0], to->f8[1] = s->f8[1], to->f8_room = s->f8_room;
}

void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *s, const void *a, const void *b, void *out) {
  if (rt->device->rehearsing || s->m <= 0 || s->n <= 0 || s->batch <= 0) return;
  call c;
  memset(&c, 0, sizeof c);
  copy_shape(&c.shape, s);
  c.a = a, c.b = b, c.out = out;
  bd_cuda_do(rt, run, &c, sizeof c);
}
