// Layer strategies: for one function on one mesh, the Pareto front between time and bytes.
#ifndef BD_PLANNER_LAYER_H
#define BD_PLANNER_LAYER_H
#include "ir/partition.h"
#include "planner/cost.h"

// What neighbours must agree on. A function's activations enter and leave in `activation`
// (dimensions a value lacks are dropped); weights that several calls share are stored in `tied`.
typedef struct bd_boundary {
  bd_sharding activation, tied;
} bd_boundary;

typedef struct bd_layer_request {
  const bd_module *train;
  bd_cost_model cost;
  const bd_function *function; // forward
  const bool *tied;            // per parameter: a weight that other calls use as well
  bd_boundary boundary;
  int micro_batches, in_flight; // of a step; tapes held at once, for weighing bytes
  const char *optimizer;
  int recompute;                // as bd_plan_request
  double limit_seconds;
} bd_layer_request;

typedef struct bd_layer_candidate {
  bd_strategy strategy;
  // Read off the spmd functions of the strategy.
  double forward_seconds, backward_seconds, sync_seconds; // sync: gradients, once a step
  int64_t tape_bytes, boundary_bytes;                     // per micro-batch in flight
  int64_t weight_bytes, gradient_bytes;
  int64_t optimizer_bytes[2]; // without and with ZeRO-1 over the axes that replicate each weight
  int64_t workspace_bytes;
  double proven_seconds; // a lower bound on forward + backward + sync/micro-batches of any strategy
} bd_layer_candidate;

// A lower bound on forward + backward + synchronization/micro-batches of any strategy; INFINITY
// when the boundary cannot be met.
BD_NODISCARD bd_status bd_layer_bound(bd_ctx *ctx, const bd_layer_request *request,
                                      double *out_seconds);

// Solves the layer problem without a memory budget and under falling ones; keeps what no other
// candidate dominates. Zero candidates: the boundary cannot be met.
BD_NODISCARD bd_status bd_layer_candidates(bd_ctx *ctx, const bd_layer_request *request,
                                           bd_layer_candidate **out_candidates, int *out_count);
#endif
