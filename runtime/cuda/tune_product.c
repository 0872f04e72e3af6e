// What tuning knows of a product: its name, and the algorithms that it may have.
#include "runtime/cuda/tune.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CANDIDATES = 16 };

int bd_cuda_product_accepts(bd_rt *rt, const bd_cuda_product *p,
                            const cublasLtMatmulAlgo_t *algorithm, bd_cuda_algorithm *out) {
  cublasLtMatmulHeuristicResult_t result;
  uint32_t scheme = 0;
  size_t written = 0;
  memset(&result, 0, sizeof result);
  if (cublasLtMatmulAlgoCheck(rt->device->blas, p->operation, p->left, p->right, p->out, p->out,
                              algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > (size_t)bd_cuda_product_workspace(rt->device, &p->key) ||
      cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                           &scheme, sizeof scheme,
                                           &written) != CUBLAS_STATUS_SUCCESS ||
      (scheme & ~(uint32_t)BD_CUDA_SCHEMES))
    return 0;
  *out = (bd_cuda_algorithm){*algorithm, result.workspaceSize};
  return 1;
}

int bd_cuda_product_candidates(bd_rt *rt, const bd_cuda_product *p, int most,
                               bd_cuda_algorithm *out) {
  cublasLtMatmulHeuristicResult_t results[MOST_CANDIDATES];
  const int found =
      bd_cuda_product_ask(rt, p, most < MOST_CANDIDATES ? most : MOST_CANDIDATES, results);
  int count = 0;
  for (int i = 0; i < found; i++)
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      count += bd_cuda_product_accepts(rt, p, &results[i].algo, &out[count]);
  return count;
}

void bd_cuda_product_use(bd_cuda_product *product, const bd_cuda_algorithm *algorithm) {
  product->algorithm = algorithm->algorithm;
  product->workspace_bytes = algorithm->workspace_bytes;
}

static const char *type_of(int32_t dtype) {
  switch (dtype) {
  case BD_RT_F32:
    return "f32";
  case BD_RT_BF16:
    return "bf16";
  case BD_RT_F16:
    return "f16";
  case BD_CUDA_F8 + BD_RT_E4M3:
    return "e4m3";
  case BD_CUDA_F8 + BD_RT_E5M2:
    return "e5m2";
  default:
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a matrix product of elements of dtype %d", dtype);
  }
}

static void print_operand(char *out, size_t bytes, const bd_cuda_operand *o, int32_t align) {
  snprintf(out, bytes, "%s %lldx%lld%s by %lld, %lld apart, at %d", type_of(o->dtype),
           (long long)o->rows, (long long)o->columns, o->transposed ? "t" : "",
           (long long)o->leading, (long long)o->batch_stride, align);
}

static void print_epilogue(char *out, size_t bytes, const bd_cuda_product_key *k) {
  static const char *const kinds[] = {
      [BD_RT_EPILOGUE_BIAS] = "bias",           [BD_RT_EPILOGUE_GELU] = "gelu",
      [BD_RT_EPILOGUE_GELU_GRAD] = "gelu_grad", [BD_RT_EPILOGUE_ADD] = "add",
      [BD_RT_EPILOGUE_SUM_A] = "sum_a",         [BD_RT_EPILOGUE_SUM_B] = "sum_b"};
  out[0] = 0;
  if (k->epilogue == BD_RT_EPILOGUE_NONE) return;
  snprintf(out, bytes, ", %s with %s at %d and %d", kinds[k->epilogue],
           k->has_bias ? "bias" : "none", k->bias_align, k->other_align);
}

void bd_cuda_product_name(const bd_rt *rt, const bd_cuda_product *p,
                          char out_name[BD_TUNE_PRODUCT_BYTES]) {
  const bd_cuda_product_key *const k = &p->key;
  char left[128], right[128], out[128], epilogue[64];
  print_operand(left, sizeof left, &k->left, k->left_align);
  print_operand(right, sizeof right, &k->right, k->right_align);
  print_operand(out, sizeof out, &k->out, k->out_align);
  print_epilogue(epilogue, sizeof epilogue, k);
  const int length =
      snprintf(out_name, BD_TUNE_PRODUCT_BYTES, "%lld of %s * %s -> %s%s%s, workspace %lld",
               (long long)k->batch, left, right, out, epilogue, rt->options.tf32 ? ", tf32" : "",
               (long long)bd_cuda_product_workspace(rt->device, k));
  if (length >= BD_TUNE_PRODUCT_BYTES)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a product's name has %d bytes", length);
}
