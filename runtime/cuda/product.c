#include "runtime/cuda/product.h"
#include "runtime/cuda/tune.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256, MOST_ALIGNMENT = 256 };

// A matrix of `rows` x `columns` whose rows (the products' n or m) are to be consecutive; `row` and
// `column` are the strides.
static bd_cuda_operand store(int64_t rows, int64_t columns, int64_t row, int64_t column,
                             int64_t batch, int32_t dtype) {
  bd_cuda_operand o = {rows, columns, column, batch, dtype, 0};
  if (columns == 1 && o.leading < rows) o.leading = rows;
  if ((row == 1 || rows == 1) && o.leading >= rows) return o;
  if (column != 1 && columns != 1)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "matrix product with strides %lld, %lld", (long long)row,
               (long long)column);
  o = (bd_cuda_operand){columns, rows, row, batch, dtype, 1};
  if (rows == 1 && o.leading < columns) o.leading = columns;
  return o;
}

static int32_t lowest_bit(uint64_t bits) {
  bits |= MOST_ALIGNMENT;
  return (int32_t)(bits & -bits);
}

static int32_t alignment(const void *address, const bd_cuda_operand *o, int64_t batch) {
  const uint64_t size = bd_rt_element_bytes(o->dtype);
  uint64_t bits = (uint64_t)(uintptr_t)address;
  if (batch > 1) bits |= (uint64_t)o->batch_stride * size;
  return lowest_bit(bits);
}

static int32_t alignment_of(const void *address) {
  return address ? lowest_bit((uint64_t)(uintptr_t)address) : 0;
}

bd_cuda_product_key bd_cuda_product_key_of(const bd_rt_gemm *s, const bd_rt_epilogue *e, int f8,
                                           const void *a, const void *b, const void *out) {
  bd_cuda_product_key k;
  memset(&k, 0, sizeof k);
  k.left = store(s->n, s->k, s->b_n, s->b_k, s->b_batch, s->dtype);
  k.right = store(s->k, s->m, s->a_k, s->a_m, s->a_batch, s->dtype);
  k.out = store(s->n, s->m, 1, s->out_m, s->out_batch, s->out_dtype);
  k.batch = s->batch;
  k.epilogue = e->kind;
  k.has_bias = e->bias != NULL;
  k.left_align = alignment(b, &k.left, s->batch);
  k.right_align = alignment(a, &k.right, s->batch);
  k.out_align = alignment(out, &k.out, s->batch);
  k.bias_align = alignment_of(e->bias);
  k.other_align = alignment_of(e->other);
  if (!f8) return k;
  k.left.dtype = BD_CUDA_F8 + s->f8[1];
  k.right.dtype = BD_CUDA_F8 + s->f8[0];
  return k;
}

bd_cuda_product_key bd_cuda_product_key_alone(const bd_cuda_product_key *batch) {
  bd_cuda_product_key k = *batch;
  k.batch = 1;
  k.left.batch_stride = k.right.batch_stride = k.out.batch_stride = 0;
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
  case BD_CUDA_F8 + BD_RT_E4M3:
    return CUDA_R_8F_E4M3;
  case BD_CUDA_F8 + BD_RT_E5M2:
    return CUDA_R_8F_E5M2;
  default:
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a matrix product of elements of dtype %d", dtype);
  }
}

static cublasLtMatrixLayout_t layout_of(const bd_cuda_operand *o, int64_t batch) {
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

static void describe(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                     const void *value, size_t bytes) {
  BD_CUDA_BLAS(cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes));
}

// The factors have changed places, and so have their sums. A sum with another tensor is no epilogue
// of the library's: it is C.
static uint32_t epilogue_of(const bd_cuda_product_key *k) {
  switch (k->epilogue) {
  case BD_RT_EPILOGUE_BIAS:
    return CUBLASLT_EPILOGUE_BIAS;
  case BD_RT_EPILOGUE_GELU:
    return k->has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  case BD_RT_EPILOGUE_GELU_GRAD:
    return CUBLASLT_EPILOGUE_DGELU;
  case BD_RT_EPILOGUE_SUM_A:
    return CUBLASLT_EPILOGUE_BGRADB;
  case BD_RT_EPILOGUE_SUM_B:
    return CUBLASLT_EPILOGUE_BGRADA;
  default:
    return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

static int has_other(const bd_cuda_product_key *k) {
  return k->epilogue == BD_RT_EPILOGUE_GELU || k->epilogue == BD_RT_EPILOGUE_GELU_GRAD;
}

// TF32 rounds the operands of a product of f32 to 10 binary digits; sums stay f32.
static cublasLtMatmulDesc_t operation_of(const bd_rt *rt, const bd_cuda_product_key *k) {
  cublasLtMatmulDesc_t operation;
  const int32_t left = k->left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t right = k->right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const uint32_t epilogue = epilogue_of(k);
  const int tf32 = rt->options.tf32 && k->left.dtype == BD_RT_F32;
  BD_CUDA_BLAS(cublasLtMatmulDescCreate(
      &operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  describe(operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
  describe(operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    describe(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (has_other(k))
    describe(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &k->out.leading,
             sizeof k->out.leading);
  return operation;
}

static void set_preference(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                           size_t bytes) {
  BD_CUDA_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
}

int64_t bd_cuda_product_sum_count(const bd_cuda_product_key *k) {
  return k->epilogue == BD_RT_EPILOGUE_SUM_A   ? k->out.columns
         : k->epilogue == BD_RT_EPILOGUE_SUM_B ? k->out.rows
                                               : 0;
}

int64_t bd_cuda_product_workspace(const bd_rt_device *device, const bd_cuda_product_key *k) {
  const int64_t sums = bd_cuda_product_sum_count(k) * (int64_t)sizeof(float);
  if (k->sharers) return device->library_bytes / k->sharers / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
  return device->library_bytes - (sums + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

float *bd_cuda_product_sums(const bd_rt_device *device, const bd_cuda_product_key *k) {
  return (float *)(void *)(device->library + bd_cuda_product_workspace(device, k));
}

void bd_cuda_product_check(const bd_rt *rt, const bd_cuda_product *p, cublasStatus_t status,
                           const char *call) {
  char name[BD_TUNE_PRODUCT_BYTES];
  if (status == CUBLAS_STATUS_SUCCESS) return;
  bd_cuda_product_name(rt, p, name);
  bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuBLASLt failed: %s, in %s of %s",
             cublasLtGetStatusString(status), call, name);
}

static int is_f8(const bd_cuda_product_key *k) {
  return k->left.dtype >= BD_CUDA_F8;
}

void bd_cuda_product_refuse(const bd_rt *rt, const bd_cuda_product *p) {
  const bd_cuda_product_key *const k = &p->key;
  char name[BD_TUNE_PRODUCT_BYTES];
  if (!is_f8(k))
    bd_cuda_product_check(rt, p, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  bd_cuda_product_name(rt, p, name);
  bd_rt_fail(BD_RT_EXIT_MACHINE,
             "cuBLASLt of rank %d has no algorithm for a product in fp8 of %lld rows, %lld columns "
             "and %lld terms: name its op in \"bf16\" of the plan, or compile with --precision "
             "bf16 (cuBLASLt calls it %s)",
             rt->rank, (long long)k->out.columns, (long long)k->out.rows, (long long)k->left.rows,
             name);
}

// Whether it may be done otherwise.
static int can_lack(const bd_cuda_product_key *k) {
  return k->epilogue != BD_RT_EPILOGUE_NONE || (is_f8(k) && k->batch > 1);
}

int bd_cuda_product_ask(bd_rt *rt, const bd_cuda_product *p, int most,
                        cublasLtMatmulHeuristicResult_t *results) {
  cublasLtMatmulPreference_t preference;
  int found = 0;
  const uint64_t bytes = (uint64_t)bd_cuda_product_workspace(rt->device, &p->key);
  const uint32_t schemes = BD_CUDA_SCHEMES;
  const int32_t out = p->key.epilogue == BD_RT_EPILOGUE_ADD && p->key.other_align < p->key.out_align
                          ? p->key.other_align
                          : p->key.out_align;
  const uint32_t align[] = {(uint32_t)p->key.left_align, (uint32_t)p->key.right_align,
                            (uint32_t)out};
  BD_CUDA_BLAS(cublasLtMatmulPreferenceCreate(&preference));
  set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2], sizeof *align);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[2], sizeof *align);
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(rt->device->blas, p->operation, p->left, p->right, p->out,
                                     p->out, preference, most, results, &found);
  // What it will not do besides a product, or in 8 bits, it may also call an invalid value.
  if (status != CUBLAS_STATUS_NOT_SUPPORTED &&
      (status != CUBLAS_STATUS_INVALID_VALUE || (!can_lack(&p->key) && !is_f8(&p->key))))
    bd_cuda_product_check(rt, p, status, "cublasLtMatmulAlgoGetHeuristic");
  BD_CUDA_BLAS(cublasLtMatmulPreferenceDestroy(preference));
  return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

static void choose(bd_rt *rt, bd_cuda_product *p) {
  cublasLtMatmulHeuristicResult_t result;
  p->exists = bd_cuda_product_ask(rt, p, 1, &result) > 0;
  if (!p->exists && !can_lack(&p->key)) bd_cuda_product_refuse(rt, p);
  if (!p->exists) return;
  p->algorithm = result.algo;
  p->workspace_bytes = result.workspaceSize;
}

void bd_cuda_product_set_scales(const bd_cuda_product *p, const float *left, const float *right) {
  describe(p->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &left, sizeof left);
  describe(p->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &right, sizeof right);
}

void bd_cuda_product_set_epilogue(const bd_cuda_product *p, const bd_rt_epilogue *e,
                                  const float *sums) {
  const void *const vector = e->bias ? e->bias : sums;
  if (vector) describe(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
  if (has_other(&p->key))
    describe(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &e->other, sizeof e->other);
}

static bd_cuda_product *create(bd_rt *rt, const bd_cuda_product_key *k, const bd_rt_epilogue *e) {
  bd_cuda_product *const p = bd_rt_allocate(1, sizeof *p);
  p->key = *k;
  p->operation = operation_of(rt, k);
  p->left = layout_of(&k->left, k->batch);
  p->right = layout_of(&k->right, k->batch);
  p->out = layout_of(&k->out, k->batch);
  // Only the alignment of these counts: nothing is read.
  const float *const room = (const float *)(const void *)rt->device->room;
  if (is_f8(k)) bd_cuda_product_set_scales(p, room, room);
  bd_cuda_product_set_epilogue(
      p, e, bd_cuda_product_sum_count(k) > 0 ? bd_cuda_product_sums(rt->device, k) : NULL);
  choose(rt, p);
  return p;
}

// The slot of a key, or the empty one where it belongs.
static bd_cuda_product **find(bd_cuda_product **slots, int count, const bd_cuda_product_key *k) {
  uint64_t at = bd_launcher_hash(BD_LAUNCHER_HASH, k, sizeof *k) % (uint64_t)count;
  while (slots[at] && memcmp(&slots[at]->key, k, sizeof *k))
    at = (at + 1) % (uint64_t)count;
  return &slots[at];
}

static void grow(bd_rt_device *device) {
  const int slots = device->product_slots ? 2 * device->product_slots : FIRST_SLOTS;
  bd_cuda_product **const table = bd_rt_allocate((size_t)slots, sizeof *table);
  for (int i = 0; i < device->product_slots; i++)
    if (device->products[i]) *find(table, slots, &device->products[i]->key) = device->products[i];
  free(device->products);
  device->products = table;
  device->product_slots = slots;
}

bd_cuda_product *bd_cuda_product_of(bd_rt *rt, const bd_cuda_product_key *k,
                                    const bd_rt_epilogue *e) {
  bd_rt_device *const device = rt->device;
  if (2 * (device->product_count + 1) > device->product_slots) grow(device);
  bd_cuda_product **const slot = find(device->products, device->product_slots, k);
  if (!*slot) {
    *slot = create(rt, k, e);
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
