// Which ranks share a GPU, which a machine, whether all have one NCCL, and what their drivers can.
#include "runtime/cuda/rt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// From these versions on NCCL keeps the order in which communicators of one device were asked, so
// that ranks that run several at once cannot wait for each other in a circle: each begins when the
// one before has begun. Under older drivers it would begin when the one before is over, and stages
// that send to each other would wait for ever.
enum { ORDERING_NCCL = 22600, ORDERING_DRIVER = 12030 };

typedef struct identity { // of a rank's machine and GPU
  uint64_t machine, gpu;
  int64_t nccl, driver; // versions
} identity;

static identity identity_of(const bd_rt *rt) {
  char text[256] = "", bus[64] = "";
  gethostname(text, sizeof text - 1);
  identity id = {.machine = bd_launcher_hash(BD_LAUNCHER_HASH, text, strlen(text)),
                 .nccl = rt->device->nccl_version};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
  if (got > 0) id.machine = bd_launcher_hash(id.machine, text, (size_t)got);
  if (fd >= 0) close(fd);
  int driver = 0;
  BD_CUDA(cudaDriverGetVersion(&driver));
  id.driver = driver;
  BD_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, rt->device->index));
  id.gpu = bd_launcher_hash(id.machine, bus, strlen(bus));
  return id;
}

typedef struct pair {
  int32_t exists, first, second; // ranks
} pair;

typedef struct neighbourhood { // of one rank
  int32_t ranks_here;
  uint32_t masks_here; // see bd_rt_device
  pair sharing;        // the first two that share a GPU
  pair unlike;         // the first that has another NCCL than rank 0
  int64_t nccl[2];
  int64_t driver; // the oldest of all ranks
} neighbourhood;

// A group is as its first rank has it.
static void compare_groups(const bd_rt *rt, const identity *ids, neighbourhood *out) {
  const int masks = 1 << rt->program->axes;
  for (int r = 0; r < rt->ranks; r++)
    out[r].masks_here = (UINT32_C(1) << masks) - 1;
  for (int mask = 0; mask < masks; mask++) {
    for (int r = 0; r < rt->ranks; r++) {
      const int first = bd_cuda_first_of_group(rt, r, mask);
      if (ids[r].machine != ids[first].machine) out[first].masks_here &= ~(UINT32_C(1) << mask);
    }
    for (int r = 0; r < rt->ranks; r++) {
      const int first = bd_cuda_first_of_group(rt, r, mask);
      out[r].masks_here &= out[first].masks_here | ~(UINT32_C(1) << mask);
    }
  }
}

static void compare(const bd_rt *rt, const identity *ids, neighbourhood *out) {
  neighbourhood all = {.driver = ids[0].driver};
  compare_groups(rt, ids, out);
  for (int r = 0; r < rt->ranks; r++) {
    out[r] = (neighbourhood){.masks_here = out[r].masks_here};
    for (int other = 0; other < rt->ranks; other++) {
      out[r].ranks_here += ids[other].machine == ids[r].machine;
      if (other < r && ids[other].gpu == ids[r].gpu && !all.sharing.exists)
        all.sharing = (pair){1, other, r};
    }
    if (ids[r].driver < all.driver) all.driver = ids[r].driver;
    if (ids[r].nccl == ids[0].nccl || all.unlike.exists) continue;
    all.unlike = (pair){1, 0, r};
    all.nccl[0] = ids[0].nccl;
    all.nccl[1] = ids[r].nccl;
  }
  for (int r = 0; r < rt->ranks; r++) {
    all.ranks_here = out[r].ranks_here;
    all.masks_here = out[r].masks_here;
    out[r] = all;
  }
}

// NCCL takes ranks on one GPU for an error unless they seem to be on different machines, and then
// connects them by sockets.
static void let_nccl_share(bd_rt *rt) {
  char id[32];
  snprintf(id, sizeof id, "braid-%d", rt->rank);
  setenv("NCCL_HOSTID", id, 1);
  setenv("NCCL_NET", "Socket", 0);
  setenv("NCCL_MNNVL_ENABLE", "0", 0);
  setenv("NCCL_RAS_ENABLE", "0", 0);
  setenv("NCCL_MAX_CTAS", "2", 0);
  rt->device->masks_here = 0;
  if (rt->device->ranks_here == rt->ranks) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

// Ranks with different versions of NCCL cannot talk to each other.
static int refuse_unlike(const bd_rt *rt, const neighbourhood *mine) {
  const int64_t *const v = mine->nccl;
  if (rt->rank == 0)
    bd_rt_say("rank 0 has NCCL %d.%d.%d, rank %d has %d.%d.%d: install the same on every machine",
              (int)(v[0] / 10000), (int)(v[0] / 100 % 100), (int)(v[0] % 100), mine->unlike.second,
              (int)(v[1] / 10000), (int)(v[1] / 100 % 100), (int)(v[1] % 100));
  return BD_RT_EXIT_MACHINE;
}

int bd_cuda_compare(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  const identity own = identity_of(rt);
  const size_t ranks = rt->rank == 0 ? (size_t)rt->ranks : 1;
  identity *const ids = bd_rt_allocate(ranks, sizeof *ids);
  neighbourhood *const all = bd_rt_allocate(ranks, sizeof *all), mine;
  if (bd_meeting_gather(device->meeting, &own, sizeof own, ids)) bd_cuda_leave_early(rt);
  if (rt->rank == 0) compare(rt, ids, all);
  if (bd_meeting_scatter(device->meeting, all, sizeof mine, &mine)) bd_cuda_leave_early(rt);
  free(ids);
  free(all);
  device->ranks_here = mine.ranks_here;
  device->masks_here = mine.masks_here;
  device->keeps_order = device->nccl_version >= ORDERING_NCCL && mine.driver >= ORDERING_DRIVER;
  if (mine.unlike.exists) return refuse_unlike(rt, &mine);
  if (!mine.sharing.exists) return 0;
  if (device->launcher.may_share_gpu) {
    let_nccl_share(rt);
    return 0;
  }
  if (rt->rank == 0)
    bd_rt_say("ranks %d and %d would use the same GPU: start at most one rank per GPU, or set "
              "BRAID_SHARE_GPU=1 to try the program out",
              mine.sharing.first, mine.sharing.second);
  return BD_RT_EXIT_MACHINE;
}
