// cublasLt's descriptors, and its heuristic: the first algorithm takes all the workspace that it
// may.
#include "tests/device/fake/matmul.h"

#include <stdlib.h>
#include <string.h>

enum { HANDLE_MAGIC = 0x424C4154, DEFAULT_ALIGNMENT = 256 };

struct cublasLtContext {
  int magic;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  bd_fake_check_started(__func__);
  struct cublasLtContext *const context = calloc(1, sizeof *context);
  if (!context) abort();
  bd_fake_count.handles++;
  context->magic = HANDLE_MAGIC;
  *handle = context;
  return CUBLAS_STATUS_SUCCESS;
}

static void check_handle(const char *call, cublasLtHandle_t handle) {
  if (!handle || handle->magic != HANDLE_MAGIC)
    bd_fake_fault(call, "%p is no handle", (void *)handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  check_handle(__func__, handle);
  bd_fake_count.handles--;
  handle->magic = 0; // the memory stays, so that its use is found
  return CUBLAS_STATUS_SUCCESS;
}

// A copy of an attribute's value of exactly its size.
static void take(const char *call, int attribute, const void *from, size_t bytes, void *to,
                 size_t size) {
  if (bytes != size)
    bd_fake_fault(call, "attribute %d has %zu bytes, not %zu", attribute, size, bytes);
  memcpy(to, from, size);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  bd_fake_layout *const made = calloc(1, sizeof(cublasLtMatrixLayoutOpaque_t));
  if (!made) abort();
  bd_fake_count.handles++;
  *made = (bd_fake_layout){.magic = BD_FAKE_LAYOUT,
                           .type = type,
                           .order = CUBLASLT_ORDER_COL,
                           .batch = 1,
                           .rows = (int64_t)rows,
                           .cols = (int64_t)cols,
                           .ld = ld};
  *layout = (cublasLtMatrixLayout_t)(void *)made;
  return CUBLAS_STATUS_SUCCESS;
}

static bd_fake_layout *layout_of(const char *call, cublasLtMatrixLayout_t layout) {
  bd_fake_layout *const l = (bd_fake_layout *)(void *)layout;
  if (!l || l->magic != BD_FAKE_LAYOUT) bd_fake_fault(call, "%p is no layout", (void *)layout);
  return l;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
  bd_fake_layout *const l = layout_of(__func__, layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_ROWS)
    take(__func__, (int)attribute, value, bytes, &l->rows, sizeof l->rows);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_COLS)
    take(__func__, (int)attribute, value, bytes, &l->cols, sizeof l->cols);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_ORDER)
    take(__func__, (int)attribute, value, bytes, &l->order, sizeof l->order);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    take(__func__, (int)attribute, value, bytes, &l->batch, sizeof l->batch);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    take(__func__, (int)attribute, value, bytes, &l->stride, sizeof l->stride);
  else
    bd_fake_fault(__func__, "attribute %d", (int)attribute);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  layout_of(__func__, layout)->magic = 0;
  bd_fake_count.handles--;
  free(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
      scale != CUDA_R_32F)
    bd_fake_fault(__func__, "compute type %d, scale type %d", (int)compute, (int)scale);
  bd_fake_desc *const made = calloc(1, sizeof(cublasLtMatmulDescOpaque_t));
  if (!made) abort();
  bd_fake_count.handles++;
  *made = (bd_fake_desc){.magic = BD_FAKE_DESC,
                         .transpose_a = CUBLAS_OP_N,
                         .transpose_b = CUBLAS_OP_N,
                         .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                         .compute = (int32_t)compute};
  *desc = (cublasLtMatmulDesc_t)(void *)made;
  return CUBLAS_STATUS_SUCCESS;
}

static bd_fake_desc *desc_of(const char *call, cublasLtMatmulDesc_t desc) {
  bd_fake_desc *const d = (bd_fake_desc *)(void *)desc;
  if (!d || d->magic != BD_FAKE_DESC) bd_fake_fault(call, "%p is no description", (void *)desc);
  return d;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  bd_fake_desc *const d = desc_of(__func__, desc);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    take(__func__, (int)attribute, value, bytes, &d->transpose_a, sizeof d->transpose_a);
  else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    take(__func__, (int)attribute, value, bytes, &d->transpose_b, sizeof d->transpose_b);
  else if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)
    take(__func__, (int)attribute, value, bytes, &d->scale_a, sizeof d->scale_a);
  else if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)
    take(__func__, (int)attribute, value, bytes, &d->scale_b, sizeof d->scale_b);
  else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    take(__func__, (int)attribute, value, bytes, &d->epilogue, sizeof d->epilogue);
  else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    take(__func__, (int)attribute, value, bytes, &d->bias, sizeof d->bias);
  else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
    take(__func__, (int)attribute, value, bytes, &d->aux, sizeof d->aux);
  else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
    take(__func__, (int)attribute, value, bytes, &d->aux_ld, sizeof d->aux_ld);
  else
    bd_fake_fault(__func__, "attribute %d", (int)attribute);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  desc_of(__func__, desc)->magic = 0;
  bd_fake_count.handles--;
  free(desc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  bd_fake_preference *const made = calloc(1, sizeof(cublasLtMatmulPreferenceOpaque_t));
  if (!made) abort();
  bd_fake_count.handles++;
  *made = (bd_fake_preference){.magic = BD_FAKE_PREFERENCE,
                               .reductions = CUBLASLT_REDUCTION_SCHEME_MASK};
  for (int i = 0; i < 4; i++)
    made->alignment[i] = DEFAULT_ALIGNMENT;
  *preference = (cublasLtMatmulPreference_t)(void *)made;
  return CUBLAS_STATUS_SUCCESS;
}

static bd_fake_preference *preference_of(const char *call, cublasLtMatmulPreference_t preference) {
  bd_fake_preference *const p = (bd_fake_preference *)(void *)preference;
  if (!p || p->magic != BD_FAKE_PREFERENCE)
    bd_fake_fault(call, "%p is no preference", (void *)preference);
  return p;
}

static int alignment_index(cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return 0;
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return 1;
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return 2;
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return 3;
  default:
    return -1;
  }
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  bd_fake_preference *const p = preference_of(__func__, preference);
  const int alignment = alignment_index(attribute);
  if (alignment >= 0)
    take(__func__, (int)attribute, value, bytes, &p->alignment[alignment],
         sizeof p->alignment[alignment]);
  else if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    take(__func__, (int)attribute, value, bytes, &p->workspace_bytes, sizeof p->workspace_bytes);
  else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    take(__func__, (int)attribute, value, bytes, &p->reductions, sizeof p->reductions);
  else
    bd_fake_fault(__func__, "attribute %d", (int)attribute);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  preference_of(__func__, preference)->magic = 0;
  bd_fake_count.handles--;
  free(preference);
  return CUBLAS_STATUS_SUCCESS;
}

// The call without its pointers: what an algorithm is chosen for.
static bd_fake_matmul problem_of(const char *call, cublasLtMatmulDesc_t desc,
                                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  bd_fake_matmul problem = {.desc = *desc_of(call, desc),
                            .a = *layout_of(call, a),
                            .b = *layout_of(call, b),
                            .c = *layout_of(call, c),
                            .d = *layout_of(call, d)};
  bd_fake_matmul_check(call, &problem);
  return problem;
}

static uint64_t key_of(const bd_fake_matmul *problem) {
  bd_fake_desc desc = problem->desc;
  desc.scale_a = desc.scale_b = NULL;
  desc.bias = desc.aux = NULL;
  return bd_fake_sum_of(&desc, sizeof desc) * 3 +
         bd_fake_sum_of(&problem->a, sizeof problem->a) * 5 +
         bd_fake_sum_of(&problem->b, sizeof problem->b) * 7 +
         bd_fake_sum_of(&problem->c, sizeof problem->c) * 11 +
         bd_fake_sum_of(&problem->d, sizeof problem->d) * 13;
}

// The same of all products that differ in their extents alone.
static uint64_t kind_of(const bd_fake_matmul *problem) {
  bd_fake_matmul kind = *problem;
  bd_fake_layout *const layouts[] = {&kind.a, &kind.b, &kind.c, &kind.d};
  for (int i = 0; i < 4; i++)
    layouts[i]->rows = layouts[i]->cols = 0;
  return key_of(&kind);
}

// What products of other extents than an algorithm was chosen for have been checked with it.
enum { MOST_CHECKED = 1 << 14 };
static uint64_t checked[MOST_CHECKED];
static int checked_count;

static uint64_t pair_of(const bd_fake_algorithm *algorithm, const bd_fake_matmul *problem) {
  return algorithm->key * 3 + algorithm->variant * 5 + key_of(problem) * 7;
}

static int was_checked(const bd_fake_algorithm *algorithm, const bd_fake_matmul *problem) {
  const uint64_t pair = pair_of(algorithm, problem);
  for (int i = checked_count - 1; i >= 0; i--)
    if (checked[i] == pair) return 1;
  return 0;
}

// BD_FAKE_REFUSES: half of the extents that an algorithm was not chosen for are none that it takes.
static int takes(const bd_fake_algorithm *algorithm, const bd_fake_matmul *problem) {
  if (algorithm->key == key_of(problem)) return 1;
  if (algorithm->kind != kind_of(problem)) return 0;
  if (bd_fake_setting("BD_FAKE_REFUSES", 0) && key_of(problem) >> 32 & 1) return 0;
  if (was_checked(algorithm, problem)) return 1;
  if (checked_count == MOST_CHECKED) bd_fake_fault(__func__, "too many extents are checked");
  checked[checked_count++] = pair_of(algorithm, problem);
  return 1;
}

// What the address is a multiple of, which is all that is asked of it.
static uint32_t alignment_of(const void *address) {
  const uint64_t bits = (uint64_t)(uintptr_t)address | DEFAULT_ALIGNMENT;
  return (uint32_t)(bits & -bits);
}

// BD_FAKE_NO_F8: of products in 8 bits, how many at once there is no algorithm for, nor for more.
static int lacks_f8(const bd_fake_matmul *problem) {
  const long long least = bd_fake_setting("BD_FAKE_NO_F8", 0);
  return bd_fake_unit(&problem->a) == 1 && least && problem->d.batch >= least;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *out_count) {
  check_handle(__func__, handle);
  const bd_fake_preference *const p = preference_of(__func__, preference);
  const bd_fake_matmul problem = problem_of(__func__, desc, a, b, c, d);
  if (requested < 1) bd_fake_fault(__func__, "%d algorithms are asked for", requested);
  *out_count = 0;
  if (lacks_f8(&problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The library says either of what it has no algorithm for.
  if ((uint32_t)bd_fake_setting("BD_FAKE_NO_EPILOGUE", 0) == problem.desc.epilogue)
    return problem.desc.aux ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_SUPPORTED;
  bd_fake_count.heuristics++;
  bd_fake_algorithm algorithm = {.key = key_of(&problem),
                                 .kind = kind_of(&problem),
                                 .workspace_bytes = p->workspace_bytes,
                                 .bias_alignment = alignment_of(problem.desc.bias),
                                 .aux_alignment = alignment_of(problem.desc.aux)};
  memcpy(algorithm.alignment, p->alignment, sizeof algorithm.alignment);
  *out_count = bd_fake_offer(&algorithm, p->reductions, requested, results);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
  check_handle(__func__, handle);
  const bd_fake_matmul problem = problem_of(__func__, desc, a, b, c, d);
  bd_fake_algorithm algorithm;
  memcpy(&algorithm, algo, sizeof algorithm);
  if (!takes(&algorithm, &problem)) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = algorithm.workspace_bytes;
  result->state = bd_fake_algorithm_state(&algorithm);
  return result->state;
}

static void check_algorithm(const char *call, const bd_fake_matmul *m,
                            const bd_fake_algorithm *algorithm, size_t workspace_bytes) {
  const void *const operands[] = {m->a_at, m->b_at, m->c_at, m->d_at};
  if (algorithm->key != key_of(m) && !was_checked(algorithm, m))
    bd_fake_fault(call, "the algorithm is another product's");
  if (bd_fake_algorithm_state(algorithm))
    bd_fake_fault(call, "algorithm %u is not supported", algorithm->variant);
  if (workspace_bytes < algorithm->workspace_bytes)
    bd_fake_fault(call, "the algorithm needs %llu bytes of workspace, %zu are given",
                  (unsigned long long)algorithm->workspace_bytes, workspace_bytes);
  for (int i = 0; i < 4; i++)
    if (operands[i] && (uintptr_t)operands[i] % algorithm->alignment[i])
      bd_fake_fault(call, "operand %c at %p is not aligned to the %u bytes that were promised",
                    "ABCD"[i], operands[i], algorithm -> alignment[i]);
  if ((uintptr_t)m->desc.bias % algorithm->bias_alignment ||
      (uintptr_t)m->desc.aux % algorithm->aux_alignment)
    bd_fake_fault(call, "the bias at %p or the auxiliary at %p is less aligned than it was",
                  m->desc.bias, m->desc.aux);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a_at, cublasLtMatrixLayout_t a, const void *b_at,
                              cublasLtMatrixLayout_t b, const void *beta, const void *c_at,
                              cublasLtMatrixLayout_t c, void *d_at, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  check_handle(__func__, handle);
  bd_fake_matmul m = problem_of(__func__, desc, a, b, c, d);
  bd_fake_algorithm algorithm;
  if (!algo)
    bd_fake_fault(__func__, "no algorithm is given: its workspace would be anyone's guess");
  memcpy(&algorithm, algo, sizeof algorithm);
  memcpy(&m.alpha, alpha, sizeof m.alpha);
  memcpy(&m.beta, beta, sizeof m.beta);
  m.a_at = a_at;
  m.b_at = b_at;
  m.c_at = c_at;
  m.d_at = d_at;
  m.workspace = workspace;
  m.workspace_bytes = algorithm.workspace_bytes;
  m.algorithm = algorithm;
  check_algorithm(__func__, &m, &algorithm, workspace_bytes);
  bd_fake_want_algorithm(__func__, &algorithm);
  bd_fake_matmul_check_memory(__func__, &m);
  bd_fake_count.matmuls++;
  bd_fake_enqueue(__func__, stream, bd_fake_matmul_run, &m, sizeof m);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
  return (size_t)bd_fake_setting("BD_FAKE_BLAS", CUBLAS_VERSION);
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an error of cublasLt";
}
