// --tune: the algorithms of a program's matrix products are measured once, before the first step,
// and kept in a file. Every rank takes the same one for the same product.
#ifndef BD_RT_CUDA_TUNE_H
#define BD_RT_CUDA_TUNE_H
#include "runtime/cuda/product.h"
#include "runtime/cuda/tune_file.h"

// A rehearsal begins that is to note products; a rank alone notes none without --tune.
void bd_cuda_tune_open(bd_rt *rt);
// While it goes on: `body` with `args` makes this product, at addresses in the arena.
void bd_cuda_tune_note(bd_rt *rt, bd_cuda_product *product, bd_cuda_body body, const void *args,
                       size_t bytes);
// Collective, after the rehearsal and before there are communicators: with --tune the noted
// products get algorithms from the file, or, where there is none, those measured fastest, which are
// written to it. Then all run once. Overwrites the arena. Returns 0 or a status that all ranks
// agree on, after one has spoken.
int bd_cuda_tune(bd_rt *rt);

// tune_product.c. An algorithm and the workspace that it needs:
typedef struct bd_cuda_algorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
} bd_cuda_algorithm;
// What is chosen by, as text: of products with equal names, one's algorithm is also the others'.
void bd_cuda_product_name(const bd_rt *rt, const bd_cuda_product *product,
                          char out_name[BD_TUNE_PRODUCT_BYTES]);
// At most `most` algorithms, the library's first choice first; how many it has. Those that may be
// used are acceptable as below.
int bd_cuda_product_candidates(bd_rt *rt, const bd_cuda_product *product, int most,
                               bd_cuda_algorithm *out);
// Whether the library takes the algorithm for this product on this device, within the workspace,
// and sums in a fixed order; then *out is it.
int bd_cuda_product_accepts(bd_rt *rt, const bd_cuda_product *product,
                            const cublasLtMatmulAlgo_t *algorithm, bd_cuda_algorithm *out);
void bd_cuda_product_use(bd_cuda_product *product, const bd_cuda_algorithm *algorithm);
#endif
