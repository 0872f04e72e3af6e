// The fake cublasLt against a plain product, over layouts; and what it must refuse.
#include "tests/device/children.h"
#include "tests/device/fake/half.h"

#include <cublasLt.h>

enum { WORKSPACE = 1 << 16, ALIGNMENT = 2 };

typedef struct shape {
  int m, n, k, batch;
  int transpose_a, transpose_b, row_order, pad, broadcast_b, tf32;
  int apart;                          // elements between products, beside their matrices
  cudaDataType type, other, out_type; // of A, of B where it is another, and of D; CUDA_R_32F is 0
  float alpha, beta;
} shape;

static const shape shapes[] = {
    {.m = 5, .n = 7, .k = 3, .batch = 1, .alpha = 1},
    {.m = 5, .n = 7, .k = 3, .batch = 1, .transpose_a = 1, .pad = 2, .alpha = 2},
    {.m = 4, .n = 6, .k = 9, .batch = 3, .transpose_b = 1, .pad = 1, .alpha = 1, .beta = 1},
    {.m = 4, .n = 6, .k = 9, .batch = 2, .transpose_a = 1, .transpose_b = 1, .alpha = 1},
    {.m = 8, .n = 3, .k = 5, .batch = 2, .row_order = 1, .pad = 3, .alpha = 0.5f, .beta = 2},
    {.m = 8, .n = 3, .k = 5, .batch = 2, .row_order = 1, .transpose_a = 1, .alpha = 1},
    {.m = 6, .n = 6, .k = 6, .batch = 4, .row_order = 1, .broadcast_b = 1, .alpha = 1},
    {.m = 6, .n = 6, .k = 64, .batch = 2, .type = CUDA_R_16BF, .alpha = 1, .beta = 1},
    {.m = 6,
     .n = 5,
     .k = 64,
     .batch = 2,
     .type = CUDA_R_16BF,
     .out_type = CUDA_R_16BF,
     .transpose_b = 1,
     .alpha = 1},
    {.m = 6, .n = 6, .k = 64, .batch = 2, .type = CUDA_R_16F, .alpha = 1, .beta = 1},
    {.m = 6,
     .n = 5,
     .k = 64,
     .batch = 2,
     .type = CUDA_R_16F,
     .out_type = CUDA_R_16F,
     .transpose_b = 1,
     .alpha = 1},
    {.m = 6, .n = 5, .k = 64, .batch = 2, .transpose_a = 1, .tf32 = 1, .alpha = 1},
    {.m = 32,
     .n = 16,
     .k = 48,
     .batch = 1,
     .transpose_a = 1,
     .pad = 16,
     .type = CUDA_R_8F_E4M3,
     .other = CUDA_R_8F_E5M2,
     .alpha = 1,
     .beta = 1},
    {.m = 32,
     .n = 16,
     .k = 48,
     .batch = 3,
     .transpose_a = 1,
     .apart = 32,
     .type = CUDA_R_8F_E5M2,
     .other = CUDA_R_8F_E4M3,
     .alpha = 1,
     .beta = 1},
    {.m = 16,
     .n = 32,
     .k = 32,
     .batch = 1,
     .transpose_a = 1,
     .type = CUDA_R_8F_E4M3,
     .out_type = CUDA_R_16BF,
     .alpha = 1},
};

typedef struct operand {
  int rows, cols, ld, order;
  cudaDataType type;
  int64_t stride;
  size_t bytes;
  void *host, *device;
  cublasLtMatrixLayout_t layout;
} operand;

static bd_fake_half half_of(cudaDataType type) {
  return type == CUDA_R_16BF ? bd_fake_bf16 : bd_fake_f16;
}

static int is_f8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static float get(const operand *o, int batch, int row, int col) {
  const int64_t at = batch * o->stride + (o->order ? row * o->ld + col : col * o->ld + row);
  if (o->type == CUDA_R_8F_E4M3) return bd_fake_of_e4m3(((uint8_t *)o->host)[at]);
  if (o->type == CUDA_R_8F_E5M2) return bd_fake_of_e5m2(((uint8_t *)o->host)[at]);
  return o->type ? bd_fake_of_half(half_of(o->type), ((uint16_t *)o->host)[at])
                 : ((float *)o->host)[at];
}

static operand make(const shape *s, int rows, int cols, cudaDataType type, int broadcast) {
  operand o = {.rows = rows, .cols = cols, .order = s->row_order, .type = type};
  o.ld = (o.order ? cols : rows) + s->pad;
  const int64_t each = (int64_t)o.ld * (o.order ? rows : cols) + s->apart;
  o.stride = broadcast ? 0 : each;
  const int64_t count = each * s->batch;
  o.bytes = (size_t)count * (is_f8(type) ? 1 : type ? 2 : 4);
  o.host = malloc(o.bytes);
  for (int64_t i = 0; i < count; i++) {
    const float value = sinf((float)i * 0.7f + (float)rows);
    if (is_f8(type))
      ((uint8_t *)o.host)[i] = (uint8_t)(i * 37 % 0x78 | i % 2 << 7);
    else if (type)
      ((uint16_t *)o.host)[i] = bd_fake_to_half(half_of(type), value);
    else
      ((float *)o.host)[i] = value;
  }
  if (cudaMalloc(&o.device, o.bytes)) abort();
  cudaMemcpy(o.device, o.host, o.bytes, cudaMemcpyHostToDevice);
  const cublasLtOrder_t order = o.order ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  cublasLtMatrixLayoutCreate(&o.layout, type, (uint64_t)rows, (uint64_t)cols, o.ld);
  cublasLtMatrixLayoutSetAttribute(o.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  cublasLtMatrixLayoutSetAttribute(o.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &s->batch,
                                   sizeof s->batch);
  cublasLtMatrixLayoutSetAttribute(o.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &o.stride,
                                   sizeof o.stride);
  return o;
}

typedef struct product {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  operand a, b, d;
  cublasLtMatmulHeuristicResult_t choice;
  void *workspace;
} product;

static const float scales[] = {0.5f, 0x1p-10f};

// The factors' on the device, as the library wants them.
static void add_scales(cublasLtMatmulDesc_t desc) {
  enum { APART = 4 }; // multiples of 16 bytes
  float *at, *other;
  if (cudaMalloc((void **)&at, 2 * APART * sizeof *at)) abort();
  other = at + APART;
  cudaMemcpy(at, &scales[0], sizeof *at, cudaMemcpyHostToDevice);
  cudaMemcpy(other, &scales[1], sizeof *at, cudaMemcpyHostToDevice);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &at, sizeof at);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &other, sizeof other);
}

static product prepare(const shape *s) {
  product p;
  const cublasOperation_t transpose = CUBLAS_OP_T;
  cublasLtCreate(&p.handle);
  cublasLtMatmulDescCreate(&p.desc, s->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                           CUDA_R_32F);
  if (s->transpose_a)
    cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                   sizeof transpose);
  if (s->transpose_b)
    cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, &transpose,
                                   sizeof transpose);
  if (is_f8(s->type)) add_scales(p.desc);
  p.a = make(s, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->type, 0);
  p.b = make(s, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n,
             s->other ? s->other : s->type, s->broadcast_b);
  p.d = make(s, s->m, s->n, s->out_type, 0);
  cublasLtMatmulPreference_t preference;
  const uint64_t workspace = WORKSPACE;
  const uint32_t alignment = ALIGNMENT;
  int found;
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof workspace);
  for (int i = 0; i < 4; i++)
    cublasLtMatmulPreferenceSetAttribute(
        preference,
        (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
        &alignment, sizeof alignment);
  cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.a.layout, p.b.layout, p.d.layout, p.d.layout,
                                 preference, 1, &p.choice, &found);
  check_true("an algorithm is found", found == 1 && p.choice.state == CUBLAS_STATUS_SUCCESS);
  check_true("its workspace is in bounds", p.choice.workspaceSize <= WORKSPACE);
  if (cudaMalloc(&p.workspace, WORKSPACE)) abort();
  return p;
}

static void multiply_in(const product *p, float alpha, float beta, void *d, size_t workspace,
                        cudaStream_t stream) {
  cublasLtMatmul(p->handle, p->desc, &alpha, p->a.device, p->a.layout, p->b.device, p->b.layout,
                 &beta, d, p->d.layout, d, p->d.layout, &p->choice.algo, p->workspace, workspace,
                 stream);
}

static void multiply(const product *p, float alpha, float beta, void *d, size_t workspace) {
  multiply_in(p, alpha, beta, d, workspace, NULL);
}

// Of the first `columns` of B and D from here on.
static void narrow(const product *p, uint64_t columns) {
  cublasLtMatrixLayoutSetAttribute(p->b.layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns,
                                   sizeof columns);
  cublasLtMatrixLayoutSetAttribute(p->d.layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns,
                                   sizeof columns);
}

// Whether the algorithm is taken for the product as it is now.
static int confirms(const product *p) {
  cublasLtMatmulHeuristicResult_t result;
  return cublasLtMatmulAlgoCheck(p->handle, p->desc, p->a.layout, p->b.layout, p->d.layout,
                                 p->d.layout, &p->choice.algo, &result) == CUBLAS_STATUS_SUCCESS;
}

static double expected(const shape *s, const product *p, int batch, int row, int col) {
  double sum = 0;
  for (int k = 0; k < s->k; k++)
    sum += (double)(s->transpose_a ? get(&p->a, batch, k, row) : get(&p->a, batch, row, k)) *
           (double)(s->transpose_b ? get(&p->b, batch, col, k) : get(&p->b, batch, k, col));
  if (is_f8(s->type)) sum *= (double)scales[0] * (double)scales[1];
  return s->alpha * sum + s->beta * get(&p->d, batch, row, col);
}

// One rounding of the result; of the operands of each product in TF32.
static double tolerance_of(const shape *s) {
  if (s->tf32) return 1e-3;
  return s->out_type == CUDA_R_16BF ? 5e-3 : s->out_type == CUDA_R_16F ? 6e-4 : 1e-6;
}

static void products(int rank) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const shape *const s = &shapes[i];
    const product p = prepare(s);
    operand result = p.d;
    multiply(&p, s->alpha, s->beta, p.d.device, WORKSPACE);
    result.host = malloc(p.d.bytes);
    cudaMemcpy(result.host, p.d.device, p.d.bytes, cudaMemcpyDeviceToHost);
    for (int b = 0; b < s->batch; b++)
      for (int row = 0; row < s->m; row++)
        for (int col = 0; col < s->n; col++) {
          const float got = get(&result, b, row, col);
          const double want = expected(s, &p, b, row, col);
          check_near_double("a product", &got, &want, 1, tolerance_of(s));
        }
  }
}

// What was found for more columns does for fewer, where it has been checked.
static void fewer_columns(int rank) {
  const shape *const s = &shapes[0];
  const product p = prepare(s);
  operand result = p.d;
  narrow(&p, 4);
  check_true("the algorithm is confirmed", confirms(&p));
  multiply(&p, 1, 0, p.d.device, WORKSPACE);
  result.host = malloc(p.d.bytes);
  cudaMemcpy(result.host, p.d.device, p.d.bytes, cudaMemcpyDeviceToHost);
  for (int row = 0; row < s->m; row++)
    for (int col = 0; col < s->n; col++) {
      const float got = get(&result, 0, row, col);
      const double want = col < 4 ? expected(s, &p, 0, row, col) : get(&p.d, 0, row, col);
      check_near_double("a product of fewer columns", &got, &want, 1, 1e-6);
    }
}

static void unchecked(int rank) {
  const product p = prepare(&shapes[0]);
  narrow(&p, 4);
  multiply(&p, 1, 0, p.d.device, WORKSPACE);
}

static void refusals(int rank) {
  const product p = prepare(&shapes[0]);
  int confirmed = 0;
  children_set("BD_FAKE_REFUSES", 1);
  check_true("an algorithm's own product is not refused", confirms(&p));
  for (uint64_t columns = 1; columns < 7; columns++) {
    narrow(&p, columns);
    confirmed += confirms(&p);
  }
  check_true("some other extents are refused", confirmed > 0 && confirmed < 6);
}

static void one_workspace(int rank) {
  const product p = prepare(&shapes[0]);
  product q = prepare(&shapes[0]);
  cudaStream_t streams[2];
  q.workspace = p.workspace;
  children_set("BD_FAKE_LINGERS", 1);
  for (int i = 0; i < 2; i++)
    if (cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking)) abort();
  multiply_in(&p, 1, 0, p.d.device, WORKSPACE, streams[0]);
  multiply_in(&q, 1, 0, q.d.device, WORKSPACE, streams[1]);
  for (int i = 0; i < 2; i++)
    cudaStreamSynchronize(streams[i]);
}

static void small_workspace(int rank) {
  const product p = prepare(&shapes[0]);
  multiply(&p, 1, 0, p.d.device, WORKSPACE - 1);
}

static void transposed_f8(int rank) {
  shape s = shapes[sizeof shapes / sizeof *shapes - 1];
  s.transpose_b = 1;
  (void)prepare(&s);
}

static void no_grain(int rank) {
  shape s = shapes[sizeof shapes / sizeof *shapes - 1];
  s.k = 24;
  (void)prepare(&s);
}

static void apart_f8(int rank) {
  shape s = shapes[sizeof shapes / sizeof *shapes - 1];
  s.batch = 2;
  s.apart = 8; // elements: 8 bytes of A and B
  (void)prepare(&s);
}

static void into_operand(int rank) {
  const product p = prepare(&shapes[6]);
  multiply(&p, 1, 0, p.a.device, WORKSPACE);
}

static void past_the_end(int rank) {
  const product p = prepare(&shapes[0]);
  multiply(&p, 1, 0, (float *)p.d.device + 1, WORKSPACE);
}

static void others_algorithm(int rank) {
  const product p = prepare(&shapes[0]);
  product q = prepare(&shapes[1]);
  q.choice = p.choice;
  multiply(&q, 1, 0, q.d.device, WORKSPACE);
}

static void unaligned(int rank) {
  const product p = prepare(&shapes[7]);
  multiply(&p, 1, 0, (char *)p.d.device + 1, WORKSPACE);
}

int main(void) {
  children_pass("products", 1, 1, products);
  children_pass("fewer columns", 1, 1, fewer_columns);
  children_pass("refusals", 1, 1, refusals);
  children_fault("the workspace is that of a product that runs", 1, one_workspace);
  children_fault("needs 65536 bytes of workspace, 65535 are given", 1, small_workspace);
  children_fault("factors in 8 bits lie otherwise than TN", 1, transposed_f8);
  children_fault("A: 24 x 16 with stride 24 in 8 bits", 1, no_grain);
  children_fault("A: products in 8 bits are 520 apart", 1, apart_f8);
  children_fault("D overlaps an operand", 1, into_operand);
  children_fault("C: bytes 4 to 144 of an allocation of 140", 1, past_the_end);
  children_fault("the algorithm is another product's", 1, others_algorithm);
  children_fault("the algorithm is another product's", 1, unchecked);
  children_fault("is not aligned to the 2 bytes that were promised", 1, unaligned);
  return check_result(0);
}
