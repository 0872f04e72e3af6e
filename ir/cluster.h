// Clusters: devices, memory, links. JSON files (docs/cluster.md), presets, and this machine.
#ifndef BD_IR_CLUSTER_H
#define BD_IR_CLUSTER_H
#include "ir/base/text.h"
#include "ir/type.h"

typedef struct bd_link {
  double latency_seconds;  // of one message
  double bytes_per_second; // per device, one direction
} bd_link;

typedef struct bd_cluster {
  const char *name;
  int nodes, devices_per_node;
  int64_t memory_bytes;         // of one device
  int64_t reserved_bytes;       // of it, outside the arena: driver context, libraries
  double flops_f32, flops_bf16; // achievable rate of large matrix products, per second
  double memory_bytes_per_second;
  double kernel_seconds; // cost of starting one kernel or library call
  bd_link intra, inter;  // between devices of one node; between nodes
  bool gpu;
  int threads_per_device; // CPU ranks: BLAS threads
} bd_cluster;

// `PRESET:NODESxDEVICES`, or the path of a JSON file. Errors: BD_INVALID with a did-you-mean.
BD_NODISCARD bd_status bd_cluster_load(bd_ctx *ctx, const char *spec, bd_cluster *out_cluster);
BD_NODISCARD bd_status bd_cluster_check(bd_ctx *ctx, const bd_cluster *cluster, bd_loc loc);
void bd_cluster_print(const bd_cluster *cluster, bd_text *text); // JSON

typedef struct bd_cluster_preset {
  const char *name, *summary;
  bd_cluster cluster; // of one node with one device
} bd_cluster_preset;
const bd_cluster_preset *bd_cluster_presets(int *out_count);
static inline int bd_cluster_devices(const bd_cluster *c) {
  return c->nodes * c->devices_per_node;
}
#endif
