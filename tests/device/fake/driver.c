// Modules and launches of generated kernels.
#include "tests/device/fake/device.h"
#include "tests/device/fake/module.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { FATBIN_MAGIC = (int)0xBA55ED50, MOST_PARAMETER_BYTES = 32764 };

struct CUmod_st {
  int live;
};

struct CUfunc_st {
  bd_fake_kernel kernel;
};

typedef struct launch {
  const bd_fake_kernel *kernel;
  emulate_grid grid;
  max_align_t values[]; // of the parameters, each from a multiple of 16 bytes on
} launch;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  int magic;
  bd_fake_check_started(__func__);
  memcpy(&magic, image, sizeof magic);
  if (magic != FATBIN_MAGIC) bd_fake_fault(__func__, "the image begins with %#x", (unsigned)magic);
  *module = calloc(1, sizeof **module);
  if (!*module) abort();
  (*module)->live = 1;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (!module || !module->live) bd_fake_fault(__func__, "%p is no module", (void *)module);
  bd_fake_drain(__func__);
  module->live = 0; // the memory stays, so that its use is found
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  if (!module || !module->live) bd_fake_fault(__func__, "%p is no module", (void *)module);
  for (int i = 0; i < bd_fake_kernel_count; i++)
    if (strcmp(bd_fake_kernels[i].name, name) == 0) {
      *function = (CUfunction)(uintptr_t)&bd_fake_kernels[i];
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_SUCCESS           ? "no error"
          : error == CUDA_ERROR_NOT_FOUND ? "named symbol not found"
                                          : "an error of the driver";
  return CUDA_SUCCESS;
}

static int run(void *args) {
  launch *const l = *(launch **)args;
  char *at = (char *)l->values;
  void *addresses[BD_FAKE_PARAMETERS] = {NULL};
  for (int i = 0; i < l->kernel->parameters; i++) {
    addresses[i] = at;
    at += bd_fake_round_up(l->kernel->bytes[i], 16);
  }
  emulate_launch(l->kernel->function, l->grid, addresses);
  free(l);
  return 1;
}

static const bd_fake_kernel *kernel_of(const char *call, CUfunction function) {
  const bd_fake_kernel *const kernel = &function->kernel;
  if (kernel < bd_fake_kernels || kernel >= bd_fake_kernels + bd_fake_kernel_count)
    bd_fake_fault(call, "%p is no function", (void *)function);
  return kernel;
}

// The first parameter is an array of pointers to buffers.
static void check_buffers(const bd_fake_kernel *kernel, void *const *buffers) {
  for (int i = 0; i < kernel->bytes[0] / (int)sizeof *buffers; i++)
    bd_fake_check(kernel->name, "a buffer", buffers[i], 1, 4);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
  const bd_fake_kernel *const kernel = kernel_of(__func__, function);
  int64_t bytes = 0;
  if (grid_x < 1 || grid_x > INT32_MAX || grid_y != 1 || grid_z != 1)
    bd_fake_fault(kernel->name, "a grid of %u x %u x %u", grid_x, grid_y, grid_z);
  if ((int)block_x != kernel->threads || block_y != 1 || block_z != 1)
    bd_fake_fault(kernel->name, "blocks of %u x %u x %u threads, not %d", block_x, block_y, block_z,
                  kernel->threads);
  if (shared_bytes || extra) bd_fake_fault(kernel->name, "dynamic shared memory, or extras");
  for (int i = 0; i < kernel->parameters; i++)
    bytes += bd_fake_round_up(kernel->bytes[i], 16);
  if (bytes > MOST_PARAMETER_BYTES)
    bd_fake_fault(kernel->name, "%lld bytes of parameters", (long long)bytes);
  launch *const l = malloc(sizeof *l + (size_t)bytes);
  if (!l) abort();
  *l = (launch){.kernel = kernel,
                .grid = {.blocks = (int)grid_x,
                         .threads = kernel->threads,
                         .descending = bd_fake_setting("BD_FAKE_SEED", 1) % 2 == 0}};
  char *at = (char *)l->values;
  for (int i = 0; i < kernel->parameters; i++) {
    memcpy(at, parameters[i], (size_t)kernel->bytes[i]);
    at += bd_fake_round_up(kernel->bytes[i], 16);
  }
  check_buffers(kernel, (void *const *)(void *)l->values);
  bd_fake_count.kernels++;
  bd_fake_enqueue(kernel->name, stream, run, &l, sizeof l);
  return CUDA_SUCCESS;
}
