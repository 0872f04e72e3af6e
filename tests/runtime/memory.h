// Memory that the ranks' back end works on: the host's, or a device's where CHECK_DEVICE is
// defined.
#ifndef BD_TESTS_RUNTIME_MEMORY_H
#define BD_TESTS_RUNTIME_MEMORY_H
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

static bd_rt *check_rank; // whose memory it is

#ifdef CHECK_DEVICE
#include <cuda_runtime_api.h>
enum { CHECK_REHEARSALS = 1 }; // steps that are walked without effect before the first
// To or from memory of the device, after all that was asked of it.
static inline void check_copy(void *to, const void *from, size_t bytes) {
  bd_rt_settle(check_rank);
  if (cudaMemcpy(to, from, bytes, cudaMemcpyDefault)) abort();
}

static inline void *check_allocate(size_t bytes) {
  void *memory = NULL;
  if (cudaMalloc(&memory, bytes ? bytes : 1)) abort();
  return memory;
}

// After all that was asked of the device: work may not have been started yet.
static inline void check_free(void *memory) {
  bd_rt_settle(check_rank);
  if (cudaFree(memory)) abort();
}
#else
enum { CHECK_REHEARSALS = 0 };
static inline void check_copy(void *to, const void *from, size_t bytes) {
  bd_rt_settle(check_rank);
  memcpy(to, from, bytes);
}

static inline void *check_allocate(size_t bytes) {
  void *const memory = malloc(bytes ? bytes : 1);
  if (!memory) abort();
  return memory;
}

static inline void check_free(void *memory) {
  free(memory);
}
#endif

// A copy of `data` for the back end.
static inline void *check_hold(const void *data, size_t bytes) {
  void *const held = check_allocate(bytes);
  check_copy(held, data, bytes);
  return held;
}

// Brings the content back to `data` and frees what was held.
static inline void check_fetch(void *held, void *data, size_t bytes) {
  check_copy(data, held, bytes);
  check_free(held);
}
#endif
