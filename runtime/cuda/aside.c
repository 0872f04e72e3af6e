// Streams for what ranks exchange while the first one computes.
#include "runtime/cuda/rt.h"
#include "runtime/profile.h"

void bd_cuda_take_lane(bd_rt_device *device, int lane) {
  device->lane = lane;
  device->stream = device->queue.stream = device->lanes[lane].stream;
}

int bd_rt_runs_aside(const bd_rt *rt) {
  return rt->ranks > 1 && rt->device->keeps_order;
}

// The lane waits for all that has been asked.
static void fork_to(bd_rt *rt, int lane) {
  bd_rt_device *const device = rt->device;
  BD_CUDA(cudaEventRecord(device->forked, bd_cuda_now(rt)->stream));
  BD_CUDA(cudaStreamWaitEvent(device->lanes[lane].stream, device->forked, 0));
}

// What is asked of one communicator starts together. Of several in one group NCCL does not say
// which starts first, and the ranks of each may be others.
void bd_rt_aside(bd_rt *rt, int slot) {
  bd_rt_device *const device = rt->device;
  if (!device->rehearsing) {
    fork_to(rt, BD_CUDA_ASIDE);
    bd_rt_profile_aside(rt, device->lanes[BD_CUDA_ASIDE].stream);
    bd_cuda_accept(rt, ncclGroupStart(), "ncclGroupStart");
    device->in_group = 1;
  }
  device->aside_slot = slot;
  bd_cuda_take_lane(device, BD_CUDA_ASIDE);
}

// What the lane has been asked has the slot.
static void begin_slot(bd_rt_device *device, int slot, int lane) {
  BD_CUDA(cudaEventRecord(device->prefetched[slot], device->lanes[lane].stream));
  device->prefetching[slot] = 1;
}

void bd_rt_back(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  const bd_cuda_lane *const lane = &device->lanes[BD_CUDA_ASIDE];
  bd_cuda_take_lane(device, BD_CUDA_MAIN);
  if (device->rehearsing) return;
  device->in_group = 0;
  const ncclResult_t result = ncclGroupEnd();
  bd_cuda_accept(rt, result, "ncclGroupEnd");
  for (int mask = 1; mask < BD_RT_GROUPS; mask++)
    if (lane->comm[mask]) bd_cuda_finish(rt, lane->comm[mask], ncclInProgress, "ncclGroupEnd");
  bd_rt_profile_queued_end(rt, lane->stream);
  if (device->aside_slot != BD_RT_NO_SLOT) {
    begin_slot(device, device->aside_slot, BD_CUDA_ASIDE);
    return;
  }
  BD_CUDA(cudaEventRecord(device->joined, lane->stream));
  device->aside = 1;
}

void bd_rt_join(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  if (!device->aside) return;
  BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, device->joined, 0));
  device->aside = 0;
}

void bd_rt_prefetch(bd_rt *rt, int slot, int axis, int dtype, int64_t outer, int64_t extent,
                    int64_t inner, const void *in, void *out) {
  const int aside = bd_rt_runs_aside(rt);
  if (aside) bd_rt_aside(rt, slot);
  bd_rt_all_gather(rt, axis, dtype, outer, extent, inner, in, out);
  if (aside) bd_rt_back(rt);
}

void bd_rt_beside(bd_rt *rt, int slot) {
  bd_rt_device *const device = rt->device;
  if (!bd_rt_runs_aside(rt) || device->launcher.no_beside) return;
  if (!device->rehearsing) {
    fork_to(rt, BD_CUDA_BESIDE);
    bd_rt_profile_collective(rt, device->lanes[BD_CUDA_BESIDE].stream);
  }
  device->beside_slot = slot;
  bd_cuda_take_lane(device, BD_CUDA_BESIDE);
}

void bd_rt_beside_end(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  if (device->lane != BD_CUDA_BESIDE) return;
  bd_cuda_take_lane(device, BD_CUDA_MAIN);
  if (device->rehearsing) return;
  bd_rt_profile_queued_end(rt, device->lanes[BD_CUDA_BESIDE].stream);
  begin_slot(device, device->beside_slot, BD_CUDA_BESIDE);
}

void bd_cuda_await_beside(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, device->prefetched[device->beside_slot], 0));
  device->beside_masks = 0;
}

void bd_rt_await(bd_rt *rt, int slot) {
  bd_rt_device *const device = rt->device;
  if (!device->prefetching[slot]) return;
  BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, device->prefetched[slot], 0));
  device->prefetching[slot] = 0;
  if (slot == device->beside_slot) device->beside_masks = 0;
}
