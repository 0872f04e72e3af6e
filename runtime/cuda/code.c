// The runtime's kernels: their libraries, one of each .cu file, and how they are started.
#include "runtime/cuda/launch.h"
#include "runtime/cuda/rt.h"

#include <stdlib.h>

#define BD_CODE(file) extern const char bd_cuda_code_##file[];
#define BD_KERNEL(name, ...)
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL

// A library, or a kernel of the library before it.
static const struct {
  const char *code, *kernel;
} rows[] = {
#define BD_CODE(file) {.code = bd_cuda_code_##file},
#define BD_KERNEL(name, ...) {.kernel = "bd_k_" #name},
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL
};
enum { ROWS = sizeof rows / sizeof *rows, LIBRARIES = ROWS - BD_CUDA_KERNELS };

struct bd_cuda_code {
  cudaLibrary_t libraries[LIBRARIES];
  cudaKernel_t kernels[BD_CUDA_KERNELS];
};

// To ask for its attributes loads a kernel (CUDA C++ Programming Guide, "Lazy Loading").
void bd_cuda_get_kernel(cudaLibrary_t library, const char *name, cudaKernel_t *out_kernel) {
  struct cudaFuncAttributes attributes;
  BD_CUDA(cudaLibraryGetKernel(out_kernel, library, name));
  BD_CUDA(cudaFuncGetAttributes(&attributes, (const void *)*out_kernel));
}

bd_cuda_code *bd_cuda_open_code(void) {
  bd_cuda_code *const code = bd_rt_allocate(1, sizeof *code);
  cudaLibrary_t *library = code->libraries;
  cudaKernel_t *kernel = code->kernels;
  for (int i = 0; i < ROWS; i++)
    if (rows[i].code)
      BD_CUDA(cudaLibraryLoadData(library++, rows[i].code, NULL, NULL, 0, NULL, NULL, 0));
    else
      bd_cuda_get_kernel(library[-1], rows[i].kernel, kernel++);
  return code;
}

void bd_cuda_close_code(bd_cuda_code *code) {
  for (int i = 0; code && i < LIBRARIES; i++)
    BD_CUDA(cudaLibraryUnload(code->libraries[i]));
  free(code);
}

void bd_cuda_start(const bd_cuda_queue *queue, bd_cuda_kernel kernel, bd_cuda_grid grid,
                   void **args) {
  const dim3 blocks = {(unsigned)grid.blocks, 1, 1}, threads = {(unsigned)grid.threads, 1, 1};
  const void *const function = (const void *)queue->code->kernels[kernel];
  bd_cuda_check(cudaLaunchKernel(function, blocks, threads, args, 0, queue->stream),
                "a kernel's start");
}
