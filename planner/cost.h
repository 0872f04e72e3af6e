// Seconds of ops, collectives and functions on a mesh of a cluster.
#ifndef BD_PLANNER_COST_H
#define BD_PLANNER_COST_H
#include "ir/cluster.h"
#include "ir/fuse.h"
#include "ir/index.h"
#include "ir/reshard.h"

typedef struct bd_cost_model {
  const bd_cluster *cluster;
  bd_mesh mesh; // of a stage; stages are laid out one after another over the cluster's devices
  int64_t micro_batch;
} bd_cost_model;

// The link of a ring along `axis`: that within a node when all its ranks share one. A ring over
// nodes with several ranks in each enters and leaves a node through the links of all of them.
bd_link bd_cost_link(const bd_cost_model *model, int axis);
// The link between ranks of neighbouring stages.
const bd_link *bd_cost_stage_link(const bd_cost_model *model);

// Ring collectives over `ranks`, each rank holding `bytes` of the whole result: all-reduce
// 2 (n-1)/n bytes, all-gather, reduce-scatter and all-to-all (n-1)/n bytes, one latency per ring
// step (Thakur, Rabenseifner and Gropp 2005, sections 4.1 to 4.5).
double bd_cost_all_reduce(bd_link link, int ranks, double bytes);
double bd_cost_exchange(bd_link link, int ranks, double bytes);

// One logical op under a split: the slower of arithmetic and memory traffic, and its launch.
double bd_cost_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                  const bd_index_map *map, const int8_t split[BD_MAX_AXES]);

// One step of an spmd function under its fusion: a collective, or the slower of arithmetic and
// memory traffic.
BD_NODISCARD bd_status bd_cost_step(bd_ctx *ctx, const bd_cost_model *model,
                                    const bd_function *function, const bd_fusion *fusion, int step,
                                    double *out_seconds);

// One execution of an spmd function on one rank, step by step.
BD_NODISCARD bd_status bd_cost_function(bd_ctx *ctx, const bd_cost_model *model,
                                        const bd_module *module, const bd_function *function,
                                        double *out_seconds);

// The collectives that bring a value of this type from one sharding to another.
double bd_cost_reshard(const bd_cost_model *model, const bd_type *type, const bd_sharding *from,
                       const bd_sharding *to);

// One collective op of an spmd function.
double bd_cost_collective(const bd_cost_model *model, const bd_function *function, const bd_op *op);
#endif
