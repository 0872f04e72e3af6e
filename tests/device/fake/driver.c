// Functions of the driver that programs ask the runtime for.
#include "tests/device/fake/device.h"

#include <cuda.h>
#include <string.h>

enum { PAGE = 2 << 20, FUNCTIONS_OF = 12000 };

// BD_FAKE_ARENA_ERROR: the driver has allocated by so many bytes more than it was asked for.
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr at) {
  int shared;
  const void *const found = bd_fake_range((const void *)(uintptr_t)at, bytes, &shared);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  *start = (CUdeviceptr)(uintptr_t)found;
  *bytes = (size_t)((long long)*bytes + bd_fake_setting("BD_FAKE_ARENA_ERROR", 0));
  if (shared) *bytes = (size_t)bd_fake_round_up((int64_t)*bytes, PAGE);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *unit, const CUmemAllocationProp *kind,
                                               CUmemAllocationGranularity_flags flags) {
  if (kind->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      kind->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      flags != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    bd_fake_fault(__func__, "of another kind of memory");
  *unit = PAGE;
  return CUDA_SUCCESS;
}

// BD_FAKE_DRIVER_FUNCTIONS=0: there are none.
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
  static const struct {
    const char *name;
    void (*function)(void);
  } known[] = {
      {"cuMemGetAddressRange", (void (*)(void))cuMemGetAddressRange},
      {"cuMemGetAllocationGranularity", (void (*)(void))cuMemGetAllocationGranularity},
  };
  bd_fake_check_started(__func__);
  if (version != FUNCTIONS_OF || flags != cudaEnableDefault)
    bd_fake_fault(__func__, "version %u, flags %llu", version, flags);
  *found = cudaDriverEntryPointSymbolNotFound;
  *function = NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, name) || !bd_fake_setting("BD_FAKE_DRIVER_FUNCTIONS", 1)) continue;
    memcpy(function, &known[i].function, sizeof *function);
    *found = cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}
