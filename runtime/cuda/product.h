// Matrix products as cublasLt describes them. It counts columns first: a row-major product is the
// product of the transposes in reverse order. What it is asked for is made once for each key.
#ifndef BD_RT_CUDA_PRODUCT_H
#define BD_RT_CUDA_PRODUCT_H
#include "runtime/cuda/rt.h"

// One operand as cublasLt stores it: `rows` consecutive elements per column.
typedef struct bd_cuda_operand {
  int64_t rows, columns, leading, batch_stride;
  int32_t dtype, transposed; // dtype: BD_RT_F32, ..., or BD_CUDA_F8 + a format
} bd_cuda_operand;
enum { BD_CUDA_F8 = 256 };
// Sums over parts of k are put together in a fixed order, not in place.
enum { BD_CUDA_SCHEMES = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE };

// All that an algorithm is chosen by; compared as bytes.
typedef struct bd_cuda_product_key {
  bd_cuda_operand left, right, out;
  int64_t batch;
  int32_t epilogue, has_bias;
  // Bytes that addresses are multiples of; 0 of what there is not.
  int32_t left_align, right_align, out_align, bias_align, other_align;
  int32_t sharers; // products at once that the library segment is shared out to; 0: it has all
} bd_cuda_product_key;

struct bd_cuda_product {
  bd_cuda_product_key key;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t left, right, out;
  int exists; // the library has an algorithm
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

// `epilogue` has kind BD_RT_EPILOGUE_NONE where there is none. With `f8` the factors have been
// rounded by bd_cuda_round_f8, and the shape has their strides: 1 along k.
bd_cuda_product_key bd_cuda_product_key_of(const bd_rt_gemm *shape, const bd_rt_epilogue *epilogue,
                                           int f8, const void *a, const void *b, const void *out);
// One of the products of a batch without epilogue, wherever it stands in it.
bd_cuda_product_key bd_cuda_product_key_alone(const bd_cuda_product_key *batch);
// Lives until bd_cuda_release_products. Ends the job where it has no algorithm, but for what may be
// done otherwise: a product with an epilogue, and a batch of products in 8 bits.
bd_cuda_product *bd_cuda_product_of(bd_rt *rt, const bd_cuda_product_key *key,
                                    const bd_rt_epilogue *epilogue);
// Ends the job unless a call for this product succeeded.
void bd_cuda_product_check(const bd_rt *rt, const bd_cuda_product *product, cublasStatus_t status,
                           const char *call);
// Ends the job for want of an algorithm.
void bd_cuda_product_refuse(const bd_rt *rt, const bd_cuda_product *product)
    __attribute__((noreturn));
// The library's first algorithms for a product, at most `most`, that fit the workspace and give the
// same bits every time. Returns how many there are.
int bd_cuda_product_ask(bd_rt *rt, const bd_cuda_product *product, int most,
                        cublasLtMatmulHeuristicResult_t *results);
// Of the library segment, for one algorithm: with sharers, of each part.
int64_t bd_cuda_product_workspace(const bd_rt_device *device, const bd_cuda_product_key *key);
// Device addresses of what results are multiplied by: 1 / the scale of each factor in 8 bits.
void bd_cuda_product_set_scales(const bd_cuda_product *product, const float *left,
                                const float *right);
// Device addresses of a call's bias and other tensor, or where sums go.
void bd_cuda_product_set_epilogue(const bd_cuda_product *product, const bd_rt_epilogue *epilogue,
                                  const float *sums);
// Where sums beside a product lie, at the end of the library segment, before they are added.
float *bd_cuda_product_sums(const bd_rt_device *device, const bd_cuda_product_key *key);
int64_t bd_cuda_product_sum_count(const bd_cuda_product_key *key);
#endif
