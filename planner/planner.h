// The planner: a train module and a cluster become a plan with its proven gap.
#ifndef BD_PLANNER_PLANNER_H
#define BD_PLANNER_PLANNER_H
#include "ir/partition.h"

typedef struct bd_plan_request {
  const char *model, *target, *optimizer;
  bd_dtype precision;
  int64_t global_batch, sequence;
  int64_t cap_bytes;    // arena bytes a rank may use; 0: the cluster's
  double limit_seconds; // of search
  // Pins; 0 or NULL leave the choice open.
  int stages;
  int64_t micro_batch;
  bd_mesh mesh;  // axes 0: open
  int schedule;  // -1: open
  int zero;      // -1: open
  int recompute; // -1: open; 0: save all; 1: recompute all that can be
} bd_plan_request;

// Errors: BD_INFEASIBLE with the nearest plan and the bytes it lacks.
BD_NODISCARD bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train,
                                      const bd_cluster *cluster, const bd_plan_request *request,
                                      bd_plan *out_plan);

// Recomputes a plan's predictions (times, memory per stage) from the program it describes.
BD_NODISCARD bd_status bd_plan_predict(bd_ctx *ctx, const bd_module *train,
                                       const bd_cluster *cluster, bd_plan *plan);
#endif
