// Epilogues of the fake cublasLt against plain arithmetic; and what it must refuse.
#include "tests/device/children.h"
#include "tests/device/fake/half.h"

#include <cublasLt.h>

enum { ROWS = 16, COLS = 5, INNER = 24, WORKSPACE = 1 << 12, ROOM = 1 << 13 };

typedef struct problem {
  uint32_t epilogue;
  cudaDataType type, out_type; // of A and B, and of D and what goes with it; CUDA_R_32F is 0
  int64_t aux_ld;
  float beta;
  int32_t batch; // 0: one
} problem;

// Device memory and the numbers in it.
typedef struct tensor {
  char *device;
  float host[ROWS * INNER];
} tensor;

typedef struct product {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a_layout, b_layout, d_layout;
  tensor a, b, d, vector, aux;
  cublasLtMatmulHeuristicResult_t choice;
  char *workspace;
} product;

static size_t size_of(cudaDataType type) {
  return type ? sizeof(uint16_t) : sizeof(float);
}

static bd_fake_half half_of(cudaDataType type) {
  return type == CUDA_R_16BF ? bd_fake_bf16 : bd_fake_f16;
}

static void put(char *bytes, cudaDataType type, int at, float value) {
  if (type)
    ((uint16_t *)(void *)bytes)[at] = bd_fake_to_half(half_of(type), value);
  else
    ((float *)(void *)bytes)[at] = value;
}

static float get(const char *bytes, cudaDataType type, int at) {
  return type ? bd_fake_of_half(half_of(type), ((const uint16_t *)(const void *)bytes)[at])
              : ((const float *)(const void *)bytes)[at];
}

static tensor make(cudaDataType type, int count, float seed) {
  tensor t;
  char bytes[ROWS * INNER * sizeof(float)];
  for (int i = 0; i < count; i++) {
    put(bytes, type, i, sinf((float)i * 0.7f + seed));
    t.host[i] = get(bytes, type, i);
  }
  if (cudaMalloc((void **)&t.device, ROOM)) abort();
  cudaMemcpy(t.device, bytes, (size_t)count * size_of(type), cudaMemcpyHostToDevice);
  return t;
}

static void fetch(tensor *t, cudaDataType type, int count) {
  char bytes[ROWS * INNER * sizeof(float)];
  cudaMemcpy(bytes, t->device, (size_t)count * size_of(type), cudaMemcpyDeviceToHost);
  for (int i = 0; i < count; i++)
    t->host[i] = get(bytes, type, i);
}

static cublasLtMatrixLayout_t layout_of(const problem *s, cudaDataType type, int rows, int cols) {
  cublasLtMatrixLayout_t layout;
  const int64_t stride = rows * cols;
  cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)rows, (uint64_t)cols, rows);
  if (!s->batch) return layout;
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &s->batch,
                                   sizeof s->batch);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                   sizeof stride);
  return layout;
}

static void set(product *p, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t bytes) {
  cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes);
}

static void set_vector(product *p, const char *at) {
  set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at);
}

static void set_aux(product *p, const char *at) {
  set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at, sizeof at);
}

static product describe(const problem *s) {
  product p;
  cublasLtCreate(&p.handle);
  cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &s->epilogue, sizeof s->epilogue);
  set(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &s->aux_ld, sizeof s->aux_ld);
  p.a_layout = layout_of(s, s->type, ROWS, INNER);
  p.b_layout = layout_of(s, s->type, INNER, COLS);
  p.d_layout = layout_of(s, s->out_type, ROWS, COLS);
  p.a = make(s->type, ROWS * INNER, 1);
  p.b = make(s->type, INNER * COLS, 2);
  p.d = make(s->out_type, ROWS * COLS, 3);
  p.vector = make(s->out_type, ROWS, 4);
  p.aux = make(s->out_type, (int)s->aux_ld * COLS, 5);
  if (cudaMalloc((void **)&p.workspace, WORKSPACE)) abort();
  set_vector(&p, p.vector.device);
  set_aux(&p, p.aux.device);
  return p;
}

static void choose(product *p) {
  cublasLtMatmulPreference_t preference;
  const uint64_t workspace = WORKSPACE;
  int found;
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof workspace);
  cublasLtMatmulAlgoGetHeuristic(p->handle, p->desc, p->a_layout, p->b_layout, p->d_layout,
                                 p->d_layout, preference, 1, &p->choice, &found);
  check_true("an algorithm is found", found == 1);
}

static void multiply(const product *p, float beta) {
  const float alpha = 1;
  cublasLtMatmul(p->handle, p->desc, &alpha, p->a.device, p->a_layout, p->b.device, p->b_layout,
                 &beta, p->d.device, p->d_layout, p->d.device, p->d_layout, &p->choice.algo,
                 p->workspace, WORKSPACE, NULL);
}

static product prepare(const problem *s) {
  product p = describe(s);
  choose(&p);
  return p;
}

static double gelu(double x) {
  return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

static double slope(double x) {
  return (gelu(x + 1e-4) - gelu(x - 1e-4)) / 2e-4;
}

static double tolerance_of(cudaDataType type) {
  return type == CUDA_R_16BF ? 5e-3 : type == CUDA_R_16F ? 6e-4 : 1e-5;
}

static double sum_at(const product *p, const problem *s, int row, int col) {
  double sum = (double)s->beta * (double)p->d.host[col * ROWS + row];
  for (int k = 0; k < INNER; k++)
    sum += (double)p->a.host[k * ROWS + row] * (double)p->b.host[col * INNER + k];
  return sum;
}

static void check_result_of(const problem *s, const product *before, const product *after) {
  for (int col = 0; col < COLS; col++)
    for (int row = 0; row < ROWS; row++) {
      const float got = after->d.host[col * ROWS + row];
      const int at = (int)s->aux_ld * col + row;
      double want = sum_at(before, s, row, col);
      if (s->epilogue & CUBLASLT_EPILOGUE_BIAS) want += (double)before->vector.host[row];
      if (s->epilogue & CUBLASLT_EPILOGUE_GELU) {
        check_near_double("what GELU is taken of", &after->aux.host[at], &want, 1,
                          tolerance_of(s->out_type));
        want = gelu(want);
      }
      if (s->epilogue == CUBLASLT_EPILOGUE_DGELU) want *= slope((double)before->aux.host[at]);
      check_near_double("an epilogue", &got, &want, 1, tolerance_of(s->out_type));
    }
}

static void check_sums_of(const problem *s, const product *before, const product *after) {
  const int of_a = s->epilogue == CUBLASLT_EPILOGUE_BGRADA;
  for (int i = 0; i < (of_a ? ROWS : COLS); i++) {
    double want = 0;
    for (int k = 0; k < INNER; k++)
      want += (double)(of_a ? before->a.host[k * ROWS + i] : before->b.host[i * INNER + k]);
    check_near_double("a sum over k", &after->vector.host[i], &want, 1, 1e-5);
  }
}

static const problem problems[] = {
    {CUBLASLT_EPILOGUE_BIAS, CUDA_R_16BF, CUDA_R_16BF, 0, 0, 0},
    {CUBLASLT_EPILOGUE_BIAS, CUDA_R_16F, CUDA_R_16F, 0, 1, 0},
    {CUBLASLT_EPILOGUE_BIAS, CUDA_R_16BF, CUDA_R_32F, 0, 0, 0},
    {CUBLASLT_EPILOGUE_BIAS, CUDA_R_32F, CUDA_R_32F, 0, 0, 0},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUDA_R_16BF, CUDA_R_16BF, ROWS, 0, 0},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUDA_R_16F, CUDA_R_16F, ROWS + 8, 0, 0},
    {CUBLASLT_EPILOGUE_GELU_AUX, CUDA_R_16BF, CUDA_R_16BF, ROWS, 0, 0},
    {CUBLASLT_EPILOGUE_DGELU, CUDA_R_16BF, CUDA_R_16BF, ROWS, 0, 0},
    {CUBLASLT_EPILOGUE_DGELU, CUDA_R_16F, CUDA_R_16F, ROWS + 8, 0, 0},
    {CUBLASLT_EPILOGUE_BGRADA, CUDA_R_16BF, CUDA_R_32F, 0, 1, 0},
    {CUBLASLT_EPILOGUE_BGRADB, CUDA_R_16F, CUDA_R_32F, 0, 1, 0},
    {CUBLASLT_EPILOGUE_BGRADB, CUDA_R_32F, CUDA_R_32F, 0, 0, 0},
};
static const problem gelu_problem = {
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUDA_R_16BF, CUDA_R_16BF, ROWS, 0, 0};
static const problem bias_problem = {CUBLASLT_EPILOGUE_BIAS, CUDA_R_32F, CUDA_R_32F, 0, 0, 0};

static void epilogues(int rank) {
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const problem *const s = &problems[i];
    const product p = prepare(s);
    product after = p;
    multiply(&p, s->beta);
    fetch(&after.d, s->out_type, ROWS * COLS);
    fetch(&after.vector, s->out_type, ROWS);
    fetch(&after.aux, s->out_type, (int)s->aux_ld * COLS);
    check_result_of(s, &p, &after);
    if (s->epilogue == CUBLASLT_EPILOGUE_BGRADA || s->epilogue == CUBLASLT_EPILOGUE_BGRADB)
      check_sums_of(s, &p, &after);
  }
}

static void coarse_rows(int rank) {
  problem s = gelu_problem;
  s.aux_ld = ROWS + 4;
  (void)prepare(&s);
}

static void narrow_rows(int rank) {
  problem s = gelu_problem;
  s.aux_ld = ROWS - 8;
  (void)prepare(&s);
}

static void unaligned_aux(int rank) {
  product p = describe(&gelu_problem);
  set_aux(&p, p.aux.device + 8);
  choose(&p);
}

static void gelu_in_f32(int rank) {
  problem s = gelu_problem;
  s.type = s.out_type = CUDA_R_32F;
  (void)prepare(&s);
}

static void aux_in_place(int rank) {
  product p = describe(&gelu_problem);
  set_aux(&p, p.d.device);
  choose(&p);
  multiply(&p, 0);
}

static void aux_on_operand(int rank) {
  product p = describe(&gelu_problem);
  set_aux(&p, p.a.device);
  choose(&p);
  multiply(&p, 0);
}

static void no_vector(int rank) {
  product p = describe(&bias_problem);
  set_vector(&p, NULL);
  choose(&p);
}

static void no_aux(int rank) {
  product p = describe(&gelu_problem);
  set_aux(&p, NULL);
  choose(&p);
}

static void vector_past_the_end(int rank) {
  product p = describe(&bias_problem);
  set_vector(&p, p.vector.device + ROOM - ROWS * sizeof(float) + 4);
  choose(&p);
  multiply(&p, 0);
}

static void vector_less_aligned(int rank) {
  product p = prepare(&bias_problem);
  set_vector(&p, p.vector.device + 4);
  multiply(&p, 0);
}

static void vector_in_workspace(int rank) {
  problem s = bias_problem;
  s.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  product p = describe(&s);
  set_vector(&p, p.workspace);
  choose(&p);
  multiply(&p, 0);
}

static void sums_in_halves(int rank) {
  problem s = bias_problem;
  s.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  s.type = s.out_type = CUDA_R_16BF;
  (void)prepare(&s);
}

static void of_a_batch(int rank) {
  problem s = bias_problem;
  s.batch = 2;
  (void)prepare(&s);
}

static void unknown(int rank) {
  problem s = bias_problem;
  s.epilogue = CUBLASLT_EPILOGUE_RELU;
  (void)prepare(&s);
}

static void others_algorithm(int rank) {
  const product p = prepare(&bias_problem);
  problem s = bias_problem;
  s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  product q = prepare(&s);
  q.choice = p.choice;
  multiply(&q, 0);
}

int main(void) {
  children_pass("epilogues", 1, 1, epilogues);
  children_fault("the auxiliary of 16 rows has stride 20", 1, coarse_rows);
  children_fault("the auxiliary of 16 rows has stride 8", 1, narrow_rows);
  children_fault("GELU of types 14 to 14, with an auxiliary at", 1, unaligned_aux);
  children_fault("GELU of types 0 to 0, with an auxiliary at", 1, gelu_in_f32);
  children_fault("D overlaps the auxiliary", 1, aux_in_place);
  children_fault("the auxiliary overlaps an operand", 1, aux_on_operand);
  children_fault("the epilogue has no vector", 1, no_vector);
  children_fault("the epilogue has no auxiliary matrix", 1, no_aux);
  children_fault("the vector: bytes 8132 to 8196 of an allocation of 8192", 1, vector_past_the_end);
  children_fault("is less aligned than it was", 1, vector_less_aligned);
  children_fault("the workspace overlaps the vector", 1, vector_in_workspace);
  children_fault("sums of types 14 to 14", 1, sums_in_halves);
  children_fault("an epilogue of 2 products", 1, of_a_batch);
  children_fault("epilogue 2", 1, unknown);
  children_fault("the algorithm is another product's", 1, others_algorithm);
  return check_result(0);
}
