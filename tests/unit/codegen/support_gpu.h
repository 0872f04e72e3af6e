// All cases of support_kernels.h as one set of GPU kernels, and a temporary folder for them.
#ifndef SUPPORT_GPU_H
#define SUPPORT_GPU_H
#include "tests/emulator/emulator.h"
#include "tests/unit/codegen/support_kernels.h"

enum { GPU_MAX_RUNS = 1536 };

typedef struct gpu_set {
  bd_ctx *ctx;
  int count, kernels; // runs; kernels of all of them
  kernel_run runs[GPU_MAX_RUNS];
  bd_kernel_set *set;
  const char *folder, *stem; // `stem`.ll, `stem`.ptx
} gpu_set;

void gpu_set_open(gpu_set *set);
void gpu_set_write(gpu_set *set); // takes far longer
void gpu_set_close(gpu_set *set);

// A kernel set written to `stem`.ll, lowered for the emulator and loaded; dlclose it.
void *gpu_load(bd_ctx *ctx, const char *stem);
// Runs a kernel of the set on a grid; `grid.threads` is the kernel's own. NULL: it draws nothing.
void gpu_launch(bd_ctx *ctx, const bd_kernel_set *set, void *library, const bd_kernel *kernel,
                emulate_grid grid, char *const *buffers, const int64_t *range,
                const bd_rt_random *random);
#endif
