// One matrix product as cublasLt describes it: D = epilogue(alpha op(A) op(B) + beta C).
#ifndef BD_TESTS_DEVICE_MATMUL_H
#define BD_TESTS_DEVICE_MATMUL_H
#include "tests/device/fake/device.h"

#include <cublasLt.h>

enum { BD_FAKE_LAYOUT = 0x4C41594F, BD_FAKE_DESC = 0x44455343, BD_FAKE_PREFERENCE = 0x50524546 };

// In the place of cublasLt's opaque structures.
typedef struct bd_fake_layout {
  int32_t magic, type, order, batch;
  int64_t rows, cols, ld, stride;
} bd_fake_layout;

typedef struct bd_fake_desc {
  int32_t magic, transpose_a, transpose_b, compute;
  uint32_t epilogue, unused;
  int64_t aux_ld;                 // of `aux`, elements
  const float *scale_a, *scale_b; // of factors in 8 bits
  void *bias, *aux;               // vector added or made; what GELU is taken of
} bd_fake_desc;

typedef struct bd_fake_preference {
  int32_t magic;
  uint32_t alignment[4], reductions;
  uint64_t workspace_bytes;
} bd_fake_preference;

typedef struct bd_fake_algorithm {
  uint64_t key, kind; // of the product it was chosen for; of products of other extents, too
  uint64_t workspace_bytes;
  uint32_t alignment[4], bias_alignment, aux_alignment;
  uint32_t variant, unused; // see algorithm.c
} bd_fake_algorithm;

_Static_assert(sizeof(bd_fake_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout");
_Static_assert(sizeof(bd_fake_desc) <= sizeof(cublasLtMatmulDescOpaque_t), "description");
_Static_assert(sizeof(bd_fake_preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t),
               "preference");
_Static_assert(sizeof(bd_fake_algorithm) <= sizeof(cublasLtMatmulAlgo_t), "algorithm");

typedef struct bd_fake_matmul {
  bd_fake_desc desc;
  bd_fake_layout a, b, c, d;
  const void *a_at, *b_at, *c_at;
  void *d_at, *workspace;
  uint64_t workspace_bytes;
  bd_fake_algorithm algorithm;
  float alpha, beta;
  int lingers;
} bd_fake_matmul;

// Extents, types and strides agree; ends the process otherwise.
void bd_fake_matmul_check(const char *call, const bd_fake_matmul *m);
// The operands lie in memory, and the result apart from what is read.
void bd_fake_matmul_check_memory(const char *call, const bd_fake_matmul *m);
int bd_fake_matmul_run(void *matmul); // a body of work

// Elements of a matrix: where they lie, their bytes, and all bytes from the first to the last.
int64_t bd_fake_place(const bd_fake_layout *l, int64_t batch, int64_t row, int64_t col);
size_t bd_fake_unit(const bd_fake_layout *l);
size_t bd_fake_extent(const bd_fake_layout *l);
float bd_fake_get(const bd_fake_layout *l, const void *at, int64_t index);
void bd_fake_put(const bd_fake_layout *l, void *at, int64_t index, float value);
// Whether an element of D is also one of `l`.
int bd_fake_meets_result(const bd_fake_matmul *m, const bd_fake_layout *l, const void *at);

// epilogue.c: the same of what the epilogue reads and writes besides.
void bd_fake_epilogue_check(const char *call, const bd_fake_matmul *m);
void bd_fake_epilogue_check_memory(const char *call, const bd_fake_matmul *m);
// What becomes of `x`, an element of the product, which may leave something in memory.
float bd_fake_epilogue_apply(const bd_fake_matmul *m, int64_t row, int64_t col, float x);
// Sums over k of op(A), rows by k, or of op(B), k by columns.
void bd_fake_epilogue_sum(const bd_fake_matmul *m, int64_t inner, const float *a, const float *b);

// algorithm.c: writes at most `most` algorithms, `first` and then what differs from it, that keep
// to the schemes of summing; how many these are. One that is not supported is among them.
int bd_fake_offer(const bd_fake_algorithm *first, uint32_t schemes, int most,
                  cublasLtMatmulHeuristicResult_t *results);
// A product is asked for with it: its code is wanted.
void bd_fake_want_algorithm(const char *call, const bd_fake_algorithm *algorithm);
// Whether a product may be computed with it.
cublasStatus_t bd_fake_algorithm_state(const bd_fake_algorithm *algorithm);
// Takes note of a product that is computed. Returns how many parts its sums are put together from.
int bd_fake_begin_product(const bd_fake_algorithm *algorithm);
#endif
