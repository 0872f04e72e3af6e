#include "cli/machine.h"
#include "cli/folder.h"
#include "ir/base/file.h"
#include "ir/base/number.h"
#include <sched.h>
#include <string.h>
#include <unistd.h>

// Nominal rates of one core of a server CPU of the x86-64-v3 level; measured figures are in
// docs/benchmarks/.
#define CORE_FLOPS 50e9
#define NODE_MEMORY_BYTES_PER_SECOND 16e9
// Between two ranks that have a core each. A byte that is sent is written to memory and read from
// it again, and ranks that share a core wait for each other's turns.
#define RANK_LINK_BYTES_PER_SECOND 3e9
#define RANK_LINK_LATENCY_SECONDS 10e-6
#define KERNEL_SECONDS 2e-6
#define RESERVED_BYTES ((int64_t)128 << 20)
#define MOST_DEVICES 256

static const char machine[] = "machine:";

int bd_machine_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

bd_status bd_machine_probe(bd_ctx *ctx, int devices, bd_cluster *out) {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot read this machine's memory size");
  int cores = bd_machine_cores();
  double share = (double)cores / devices, memory = NODE_MEMORY_BYTES_PER_SECOND / devices;
  bd_link link = {.latency_seconds = RANK_LINK_LATENCY_SECONDS / (share < 1 ? share : 1),
                  .bytes_per_second = memory / 2 < RANK_LINK_BYTES_PER_SECOND
                                          ? memory / 2
                                          : RANK_LINK_BYTES_PER_SECOND};
  *out = (bd_cluster){
      .name = "this-machine",
      .nodes = 1,
      .devices_per_node = devices,
      .memory_bytes = (int64_t)pages * page_bytes / devices,
      .reserved_bytes = RESERVED_BYTES,
      .flops = {CORE_FLOPS * share, CORE_FLOPS * share, CORE_FLOPS * share, CORE_FLOPS * share},
      .memory_bytes_per_second = memory,
      .kernel_seconds = KERNEL_SECONDS,
      .intra = link,
      .inter = link,
      .threads_per_device = share >= 2 ? (int)share : 1,
  };
  if (out->memory_bytes <= RESERVED_BYTES)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "%d ranks are too many for this machine's memory: fewer than %lld MiB are left "
                   "for each",
                   devices, (long long)(RESERVED_BYTES >> 20));
  return BD_OK;
}

bool bd_machine_is_named(const char *cluster) {
  return strncmp(cluster, machine, strlen(machine)) == 0;
}

const char *bd_machine_beside(bd_ctx *ctx, const char *plan, const char *cluster) {
  const char *folder = bd_folder_of(ctx, plan);
  if (*cluster == '/' || bd_machine_is_named(cluster) || strcmp(folder, ".") == 0) return cluster;
  const char *beside = bd_path_join(ctx, folder, cluster);
  return bd_file_exists(beside) && !bd_is_folder(beside) ? beside : cluster;
}

bd_status bd_machine_load(bd_ctx *ctx, const char *cluster, bd_loc file, bd_cluster *out) {
  int64_t devices;
  if (!bd_machine_is_named(cluster)) return bd_cluster_load(ctx, cluster, out);
  if (!bd_whole_read(cluster + strlen(machine), &devices) || devices < 1 || devices > MOST_DEVICES)
    return bd_fail(ctx, BD_INVALID, file,
                   "'%s' is no cluster: a machine has 1 to %d devices; --cluster gives one",
                   cluster, MOST_DEVICES);
  return bd_machine_probe(ctx, (int)devices, out);
}
