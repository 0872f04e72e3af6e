#include "tests/runtime/memory.h"

#include <stdlib.h>
#include <string.h>

bd_rt *check_rank;

#ifdef CHECK_DEVICE
#include <cuda_runtime_api.h>

const int check_rehearsals = 1;

void check_copy(void *to, const void *from, size_t bytes) {
  bd_rt_settle(check_rank);
  if (cudaMemcpy(to, from, bytes, cudaMemcpyDefault)) abort();
}

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (cudaMalloc(&memory, bytes ? bytes : 1)) abort();
  return memory;
}

void check_free(void *memory) {
  bd_rt_settle(check_rank);
  if (cudaFree(memory)) abort();
}
#else
const int check_rehearsals = 0;

void check_copy(void *to, const void *from, size_t bytes) {
  bd_rt_settle(check_rank);
  memcpy(to, from, bytes);
}

static void *allocate(size_t bytes) {
  void *const memory = malloc(bytes ? bytes : 1);
  if (!memory) abort();
  return memory;
}

void check_free(void *memory) {
  free(memory);
}
#endif

void *check_hold(const void *data, size_t bytes) {
  void *const held = allocate(bytes);
  check_copy(held, data, bytes);
  return held;
}

void check_fetch(void *held, void *data, size_t bytes) {
  check_copy(data, held, bytes);
  check_free(held);
}
