// Pipelines: how many layers of each function run on each stage with each strategy.
#ifndef BD_PLANNER_PIPELINE_H
#define BD_PLANNER_PIPELINE_H
#include "planner/layer.h"
#include "planner/solver.h"

// A run of consecutive calls of one function, and the ways to run each.
typedef struct bd_pipeline_run {
  int first, calls; // layers
  int candidate_count;
  const bd_layer_candidate *candidates;
} bd_pipeline_run;

typedef struct bd_pipeline_problem {
  int stages, micro_batches;
  bd_schedule schedule;
  int zero; // 0 or 1
  int run_count;
  const bd_pipeline_run *runs;
  double send_seconds; // of one boundary value to the next stage
  int64_t cap_bytes;
} bd_pipeline_problem;

typedef struct bd_pipeline {
  bool feasible, optimal;
  int *count; // [stage][run][candidate], flat: see bd_pipeline_index
  double seconds, bound;
  int64_t bytes; // of the fullest stage
} bd_pipeline;

int bd_pipeline_candidates(const bd_pipeline_problem *problem); // over all runs
int bd_pipeline_index(const bd_pipeline_problem *problem, int stage, int run, int candidate);

// Minimizes the sum over stages + (micro-batches - 1) slowest stage + the longest synchronization,
// every stage within the cap with its schedule's tapes in flight. Solutions of `cutoff` seconds or
// more are not looked for.
BD_NODISCARD bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                         double limit_seconds, double cutoff,
                                         bd_pipeline *out_pipeline);

// The assignment whose fullest stage holds the fewest bytes, whatever the cap and the time.
BD_NODISCARD bd_status bd_pipeline_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                           double limit_seconds, bd_pipeline *out_pipeline);

// Seconds of a given assignment; INFINITY when a stage is empty or over the cap.
double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count);
#endif
