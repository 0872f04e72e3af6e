// A small model on a small cluster, ready to be searched for plans.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_SESSION_H
#define TESTS_UNIT_PLANNER_SUPPORT_SESSION_H
#include "planner/planner.h"

typedef struct session {
  bd_ctx *ctx;
  bd_module *train;
  bd_cluster cluster;
  bd_plan_request request;
} session;

// A preset with samples of 16 tokens, `global_batch` of them a step, nothing pinned. The caller
// destroys `ctx`.
session open_model(const char *model, const char *cluster, int64_t global_batch);
// gpt2-tiny.
session open_session(const char *cluster, int64_t global_batch);

// Of the fullest stage, as predicted.
int64_t plan_bytes(const bd_plan *plan);
#endif
