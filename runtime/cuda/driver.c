// What the driver has of memory, by functions of its own that the runtime of CUDA hands out.
#include "runtime/cuda/rt.h"

#include <cuda.h>
#include <string.h>

enum { FUNCTIONS_OF = 12000 }; // the version of CUDA that their types below are of

static int find(const char *name, void *out_function) {
  void *at = NULL;
  enum cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion(name, &at, FUNCTIONS_OF, cudaEnableDefault, &found)) {
    (void)cudaGetLastError(); // it only tells
    return 0;
  }
  if (found != cudaDriverEntryPointSuccess || !at) return 0;
  memcpy(out_function, &at, sizeof at);
  return 1;
}

static void look_at_arena(const bd_rt *rt, bd_rt_memory *out) {
  const CUmemAllocationProp kind = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rt->device->index}};
  const CUdeviceptr arena = (CUdeviceptr)(uintptr_t)rt->arena;
  CUresult (*range)(CUdeviceptr * start, size_t * bytes, CUdeviceptr at);
  CUresult (*unit_of)(size_t * unit, const CUmemAllocationProp *kind,
                      CUmemAllocationGranularity_flags flags);
  CUdeviceptr start = 0;
  size_t bytes = 0, unit = 0;
  if (!find("cuMemGetAddressRange", &range) || !find("cuMemGetAllocationGranularity", &unit_of) ||
      range(&start, &bytes, arena) || unit_of(&unit, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
    return;
  // An arena inside of something larger shows by this size, too.
  out->arena_bytes = (int64_t)bytes;
  out->unit_bytes = (int64_t)unit;
}

int bd_rt_look_at_memory(const bd_rt *rt, bd_rt_memory *out) {
  size_t available = 0, total = 0;
  BD_CUDA(cudaMemGetInfo(&available, &total));
  *out = (bd_rt_memory){.free_bytes = (int64_t)available, .arena_bytes = -1, .unit_bytes = -1};
  look_at_arena(rt, out);
  return 1;
}
