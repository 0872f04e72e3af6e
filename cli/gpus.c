#include "cli/gpus.h"
#include <dlfcn.h>

// The driver's API, of which braid has no headers where there is no toolkit (CUresult is an enum,
// CUDA_SUCCESS 0).
#define DRIVER "libcuda.so.1"
typedef int init_call(unsigned flags);
typedef int count_call(int *count);

// Those of a driver that is there; -1: it does not say.
static int count_by(void *driver) {
  init_call *init;
  count_call *get_count;
  int count = 0;
  *(void **)&init = dlsym(driver, "cuInit");
  *(void **)&get_count = dlsym(driver, "cuDeviceGetCount");
  if (!init || !get_count || init(0) != 0 || get_count(&count) != 0) return -1;
  return count;
}

bd_status bd_gpus_check(bd_ctx *ctx, int wanted) {
  // It stays: what it has begun need not end before the process does.
  void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
  int count = driver ? count_by(driver) : 0;
  if (count >= wanted) return BD_OK;
  if (!driver)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "programs for GPUs would be started on this machine, which has no NVIDIA driver "
                   "(" DRIVER "); name by --launcher what starts the ranks where GPUs are");
  if (count <= 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "programs for GPUs would be started on this machine, whose NVIDIA driver has "
                   "none to give (nvidia-smi -L lists those of the machine, CUDA_VISIBLE_DEVICES "
                   "hides some); name by --launcher what starts the ranks where GPUs are");
  return bd_fail(
      ctx, BD_EXTERNAL, BD_NOWHERE,
      "%d ranks would be started on this machine, one for each GPU, and of these there "
      "%s %d; name a cluster of as many, or by --launcher what starts the ranks elsewhere",
      wanted, count == 1 ? "is" : "are", count);
}
