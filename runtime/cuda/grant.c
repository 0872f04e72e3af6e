// How NCCL may use the arena. Since version 2.27 memory can be a symmetric window of a
// communicator: it comes from ncclMemAlloc, all ranks register as many bytes of it, and what a
// collective gives and takes lies as far from the start on every rank, or in place. Since 2.28 copy
// engines gather what lies in windows when the communicator asks for that. Both hold for ranks
// whose GPUs reach each other's memory; what NCCL cannot do it does in another way.
#include "runtime/cuda/rt.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
#define WINDOWS 1
// The program also starts where the library is older than the header that it was built with.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#endif

enum {
  WINDOW_NCCL = 22703,
  COPY_ENGINE_NCCL = 22803,
  // From the first to before the second, two ranks on a switch that multicasts may wait for ever at
  // their first gather by copy engines (NCCL's issue 2241).
  PAIRS_WAIT_NCCL = 22900,
  PAIRS_GO_NCCL = 23102,
};

int bd_cuda_has_window(const bd_rt *rt, int mask) {
#ifdef WINDOWS
  return rt->device->nccl_version >= WINDOW_NCCL && rt->device->masks_here >> mask & 1;
#else
  (void)rt, (void)mask;
  return 0;
#endif
}

void bd_cuda_prefer_copy_engines(const bd_rt *rt, int ranks, ncclConfig_t *config) {
#ifdef NCCL_CTA_POLICY_ZERO
  const int version = rt->device->nccl_version;
  const int may_wait = ranks == 2 && version >= PAIRS_WAIT_NCCL && version < PAIRS_GO_NCCL;
  if (version >= COPY_ENGINE_NCCL && !may_wait) config->CTAPolicy = NCCL_CTA_POLICY_ZERO;
#else
  (void)rt, (void)ranks, (void)config;
#endif
}

bd_cuda_grant bd_cuda_grant_arena(bd_rt *rt, ncclComm_t comm, int window) {
  const size_t bytes = (size_t)rt->stage->arena_bytes;
  bd_cuda_grant grant = {NULL, NULL};
#ifdef WINDOWS
  ncclWindow_t made = NULL;
  if (window)
    BD_NCCL(rt, comm,
            ncclCommWindowRegister(comm, rt->arena, bytes, &made, NCCL_WIN_COLL_SYMMETRIC));
  grant.window = made;
#else
  (void)window;
#endif
  // NCCL has no windows where GPUs do not reach each other's memory.
  if (!grant.window) BD_NCCL(rt, comm, ncclCommRegister(comm, rt->arena, bytes, &grant.buffer));
  return grant;
}

void bd_cuda_revoke_arena(bd_rt *rt, ncclComm_t comm, bd_cuda_grant grant) {
#ifdef WINDOWS
  if (grant.window) BD_NCCL(rt, comm, ncclCommWindowDeregister(comm, (ncclWindow_t)grant.window));
#endif
  if (grant.buffer) BD_NCCL(rt, comm, ncclCommDeregister(comm, grant.buffer));
}
