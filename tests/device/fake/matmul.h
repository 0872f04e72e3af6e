// One matrix product as cublasLt describes it: D = alpha op(A) op(B) + beta C.
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
  const float *scale_a, *scale_b; // of factors in 8 bits
} bd_fake_desc;

typedef struct bd_fake_preference {
  int32_t magic;
  uint32_t alignment[4], reductions;
  uint64_t workspace_bytes;
} bd_fake_preference;

typedef struct bd_fake_algorithm {
  uint64_t key; // of the product it was chosen for
  uint64_t workspace_bytes;
  uint32_t alignment[4];
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
  float alpha, beta;
} bd_fake_matmul;

// Extents, types and strides agree; ends the process otherwise.
void bd_fake_matmul_check(const char *call, const bd_fake_matmul *m);
// The operands lie in memory, and the result apart from what is read.
void bd_fake_matmul_check_memory(const char *call, const bd_fake_matmul *m);
int bd_fake_matmul_run(void *matmul); // a body of work
#endif
