// Calls of CUDA that a test makes itself: one that fails ends it.
#ifndef BD_TESTS_DEVICE_MUST_H
#define BD_TESTS_DEVICE_MUST_H
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must(const char *call, cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  exit(1);
}
#define MUST(call) must(#call, call)

// Waits until all that was asked of the stream is done.
static inline void settle(cudaStream_t stream) {
  cudaError_t state;
  while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady)
    ;
  MUST(state);
}
#endif
