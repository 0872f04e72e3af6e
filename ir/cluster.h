// Clusters: devices, memory, links. JSON files (docs/cluster.md), presets, and this machine.
#ifndef BD_IR_CLUSTER_H
#define BD_IR_CLUSTER_H
#include "ir/base/text.h"
#include "ir/op.h"
#include "ir/type.h"

// A short message starts after `latency_seconds` and moves at half the rate, a long one starts
// later and moves at the rate: the protocols of collective libraries. `half_rate_bytes` is the size
// at which a long one takes as long to start as to move (Hockney's n 1/2); 0: all start alike and
// move at the rate.
typedef struct bd_link {
  double latency_seconds;
  double bytes_per_second; // per device, one direction
  double half_rate_bytes;
} bd_link;

// What a device reaches of its rates on kinds of work. A field of 0: the work runs at the full
// rate.
typedef struct bd_work_rates {
  // A product of m x k by k x n takes as long as (m + edge) x (n + edge) results of k + depth
  // terms at the full rate: edges and starts of tiles. The results fill the device in waves of
  // `wave` results, of which the last is on average half empty.
  double product_edge, product_depth, product_wave;
  // Attention in one kernel: the part of the rate of products that long sequences of wide heads
  // reach, forward and backward, and the tokens and the head width at which half of that is left.
  double attention_forward, attention_backward, attention_tokens, attention_width;
  // On GPUs, where generated kernels do it: the part of the rate of f32 products that such
  // sequences reach, forward and backward together, of 16 bits on tensor cores and else by
  // multiply-adds in f32. 0: what an H200 reaches.
  double attention_generated, attention_generated_f32;
  // Attention is not one kernel but products, softmax and dropout, whose scores go through memory.
  bool attention_materialized;
  // Seconds of one element through exp, log, tanh, erf and what is made of them.
  double transcendental_seconds;
  // Bytes that the end of a step reads and writes (norms, the update, clearing gradients), per
  // second; 0: the memory's rate.
  double update_bytes_per_second;
  // Part of the rate of products that is left while a collective runs beside; 0: none does, and
  // plans do no product in parts.
  double product_beside;
  // On GPUs: the least part of the sum of a gradient over ranks that is not hidden behind backward,
  // and of the gather of an updated weight that is not hidden behind forward; 1: nothing is. 0:
  // BD_GRADIENTS_EXPOSED.
  double gradients_exposed;
  // Of one device that stands for several (bd_cost_unite): how many, which share out an op's
  // kernels behind the first. 0: one.
  int starters;
  // Of ops that were measured: one point of their loops. Other ops than products and attention.
  double point_seconds[BD_OP_KIND_COUNT];
} bd_work_rates;

#define BD_ATTENTION_GENERATED 2.0
#define BD_ATTENTION_GENERATED_F32 0.7
#define BD_GRADIENTS_EXPOSED 0.125
static inline double bd_part_or(double part, double otherwise) {
  return part > 0 ? part : otherwise;
}

// Rates of the largest matrix products by the type of their operands, per second.
typedef struct bd_flops {
  double f32, bf16, f16;
  double f8; // 0: the device does not multiply in 8 bits
} bd_flops;
static inline double bd_flops_of(const bd_flops *flops, bd_dtype dtype) {
  switch (dtype) {
  case BD_BF16:
    return flops->bf16;
  case BD_F16:
    return flops->f16;
  case BD_F8:
    return flops->f8;
  default:
    return flops->f32;
  }
}

typedef struct bd_device_kind {
  const char *name;
  int64_t memory_bytes;
  int64_t reserved_bytes; // of it, outside the arena: driver context, libraries
  bd_flops flops;
  double memory_bytes_per_second;
  double kernel_seconds; // cost of starting one kernel or library call
  unsigned lacks;        // a bit per bd_dtype that it cannot compute with
  bd_work_rates work;
  bool gpu;
  int threads_per_device; // CPU ranks: BLAS threads
} bd_device_kind;

// What a node has besides its devices and their plain links.
typedef struct bd_node_parts {
  int island_devices; // > 0: the devices stand in islands of as many; divides the node
  bd_link island;     // between devices of one island
  // All-reduce inside the switch of the node (or island), more than 4 devices taking part: the
  // time of one message of all bytes. A rate of 0: the switch does not add.
  bd_link switch_sum;
  int64_t host_memory_bytes;    // of the node; 0: not known
  double host_bytes_per_second; // between a device and its host, one direction; 0: not known
} bd_node_parts;

typedef struct bd_node_group {
  int kind; // of its devices
  int nodes, devices_per_node;
  bd_link intra, inter; // between devices of one node; between nodes of the group
  bd_node_parts node;
} bd_node_group;

// Devices are numbered group after group, node after node. Of a mixed cluster, the fields up to
// `node` describe a uniform one of as many devices, none of which is faster or larger than the
// real one: what is planned for that fits and takes no longer than predicted.
typedef struct bd_cluster {
  const char *name;
  int nodes, devices_per_node;
  int64_t memory_bytes, reserved_bytes; // of one device; these and the next as in bd_device_kind
  bd_flops flops;
  double memory_bytes_per_second;
  double kernel_seconds;
  unsigned lacks;       // what any device lacks
  bd_link intra, inter; // between devices of one node; between nodes
  bool gpu;
  int threads_per_device;
  bd_work_rates work;
  bd_node_parts node;
  // Mixed clusters; uniform ones have none.
  int kind_count, group_count;
  const bd_device_kind *kinds;
  const bd_node_group *groups;
  const bd_link *between; // group_count x group_count, symmetric: between nodes of two groups
} bd_cluster;

static inline int bd_cluster_devices(const bd_cluster *c) {
  return c->nodes * c->devices_per_node;
}
static inline bool bd_cluster_is_mixed(const bd_cluster *c) {
  return c->group_count > 0;
}

// `PRESET:NODESxDEVICES`, several joined by `+`, or the path of a JSON file. Errors: BD_INVALID
// with a did-you-mean.
BD_NODISCARD bd_status bd_cluster_load(bd_ctx *ctx, const char *spec, bd_cluster *out_cluster);
BD_NODISCARD bd_status bd_cluster_check(bd_ctx *ctx, const bd_cluster *cluster, bd_loc loc);
// Whether all devices compute with a precision. Errors: BD_INVALID, saying which do not.
BD_NODISCARD bd_status bd_cluster_check_precision(bd_ctx *ctx, const bd_cluster *cluster,
                                                  bd_dtype precision);
// Whether programs run on all devices: GPUs of compute capability 8.0 and newer, which are those
// that compute with bf16, and CPUs. Errors: BD_UNSUPPORTED, saying which are older.
BD_NODISCARD bd_status bd_cluster_check_programs(bd_ctx *ctx, const bd_cluster *cluster);
void bd_cluster_print(const bd_cluster *cluster, bd_text *text); // JSON

typedef struct bd_cluster_preset {
  const char *name, *summary;
  bd_cluster cluster;    // of one node with one device
  bool node_inter;       // all devices of a node share `inter`
  const char *halves[2]; // NULL, or the presets that have half of the nodes each instead
} bd_cluster_preset;
const bd_cluster_preset *bd_cluster_presets(int *out_count);

// Parts of a cluster, mixed or uniform. The devices named must exist.

bd_device_kind bd_cluster_device_kind(const bd_cluster *cluster, int device);

// Arena bytes that every device of the range has: memory less what is reserved.
int64_t bd_cluster_cap_bytes(const bd_cluster *cluster, int first, int count);

// The devices of a range as a cluster of their own, uniform when they are; its fields are the
// smallest and slowest of the range alone. Lives in ctx->arena.
void bd_cluster_part(bd_ctx *ctx, const bd_cluster *cluster, int first, int count,
                     bd_cluster *out_part);

// The slowest link between device first + i and device second + i, i below `count`: what
// neighbouring stages send over.
bd_link bd_cluster_link_between(const bd_cluster *cluster, int first, int second, int count);

// How `ranks` devices, each `stride` after the one before, lie when the first is a multiple of
// stride x ranks: on each level, `ranks` of what the level below joined, connected by `link`. Their
// product is the number of ranks. From the inside: island, node, group, cluster; levels of one rank
// are left out. Of rings that lie around one another, those of the inner one come first.
enum { BD_MAX_LEVELS = 8 };
typedef struct bd_ring {
  int ranks, levels;
  int node_levels; // of them, inside a node
  struct {
    int ranks;
    bd_link link;
  } level[BD_MAX_LEVELS];
  bd_link switch_sum; // a rate of 0 where no switch adds for all ranks
} bd_ring;
bd_ring bd_cluster_ring(const bd_cluster *cluster, int stride, int ranks);
#endif
