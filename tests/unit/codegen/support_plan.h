// Plans made by hand, for tests of what codegen makes of them.
#ifndef BD_TESTS_CODEGEN_SUPPORT_PLAN_H
#define BD_TESTS_CODEGEN_SUPPORT_PLAN_H
#include "ir/plan.h"

typedef enum plan_kind {
  PLAN_REPLICATED, // every rank does everything
  PLAN_BATCH,      // the batch split over all mesh axes
  PLAN_RANDOM,     // any valid loops, forms and residuals
} plan_kind;

typedef struct plan_recipe {
  plan_kind kind;
  uint64_t seed; // of PLAN_RANDOM
  bd_mesh mesh;
  int stages;
  bd_schedule schedule;
  int64_t global_batch, micro_batch, sequence;
  unsigned zero_axes;
  bool recompute; // save nothing
} plan_recipe;

// A valid plan for the train module, without predictions. Layers are dealt evenly to stages.
BD_NODISCARD bd_status make_plan(bd_ctx *ctx, const bd_module *train, const plan_recipe *recipe,
                                 bd_plan *out_plan);
#endif
