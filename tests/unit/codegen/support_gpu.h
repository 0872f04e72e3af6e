// All cases of support_kernels.h as one set of GPU kernels, written to a temporary folder.
#ifndef SUPPORT_GPU_H
#define SUPPORT_GPU_H
#include "tests/unit/codegen/support_kernels.h"

enum { GPU_MAX_RUNS = 768 };

typedef struct gpu_set {
  bd_ctx *ctx;
  int count, kernels; // runs; kernels of all of them
  kernel_run runs[GPU_MAX_RUNS];
  bd_kernel_set *set;
  const char *folder, *stem; // `stem`.ll, `stem`.ptx
} gpu_set;

void gpu_set_open(gpu_set *set);
void gpu_set_close(gpu_set *set);
#endif
