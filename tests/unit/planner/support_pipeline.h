// Small random pipelines, what an assignment of their layers costs, and the best of all
// assignments.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_PIPELINE_H
#define TESTS_UNIT_PLANNER_SUPPORT_PIPELINE_H
#include "planner/pipeline/pipeline.h"

enum { MOST_STAGES = 3, MOST_RUNS = 3, MOST_CANDIDATES = 3, MOST_SHARED = 2 };

// Begins the random numbers of a trial of a test.
void begin_trial(uint64_t seed, int trial);

// A problem without a cap, in `ctx->arena`.
bd_pipeline_problem random_pipeline(bd_ctx *ctx);

// Of the assignment of `count` layers (by bd_pipeline_index) that enters each stage's part of a run
// with form `entry`, layer by layer: the bytes of the fullest stage, and the seconds of a step.
double peak_bytes(const bd_pipeline_problem *p, const int *count, const int *entry);
double step_seconds(const bd_pipeline_problem *p, const int *count, const int *entry);

// Every run has its calls, and no run begins before the one ahead of it ends.
void check_order(const bd_pipeline_problem *p, const int *count);

// What was found keeps the order and the cap, and takes the seconds that it tells; `best` is the
// scale of their rounding.
void check_found(const bd_pipeline_problem *p, const bd_pipeline *found, double best);

// Over every assignment that keeps the order of layers, and every order of forms: the seconds of
// the fastest that keeps the cap, and the peak of the leanest; infinite where there is none.
typedef struct pipeline_best {
  double fastest_seconds, leanest_bytes;
} pipeline_best;
pipeline_best enumerate_pipelines(const bd_pipeline_problem *p);
#endif
