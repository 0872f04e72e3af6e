// One step of the search: a setting is bounded by its layers, or its pipeline is solved. Attempts
// share nothing, so that several run at once.
#ifndef BD_PLANNER_ATTEMPT_H
#define BD_PLANNER_ATTEMPT_H
#include "planner/bound.h"

// A setting with its tied form, bounded by its layers.
typedef struct bd_bounded {
  bd_setting setting;
  double seconds; // no plan of it is faster
  double bytes;   // of its fullest stage, at least
  double price;   // of a byte, as bd_bound_layers says
} bd_bounded;

typedef struct bd_attempt {
  const bd_scene *scene;
  bd_setting setting;
  double cutoff; // seconds of a plan that fits; INFINITY: none is known
  bool solve;    // else it is bounded, for every tied form
  double price;  // of a byte, for solving
  // Of bounding; settings that no plan has are left out:
  int bounded_count;
  bd_bounded *bounded;
  // Of solving:
  bool fits, lacks;
  bd_plan fastest;       // when `fits`: of the plans that fit, below the cutoff
  bd_plan leanest;       // when `lacks`: of the plans that do not
  int64_t leanest_bytes; // of its fullest stage
} bd_attempt;

// What an attempt makes lives in ctx->arena.
BD_NODISCARD bd_status bd_attempt_run(bd_ctx *ctx, bd_attempt *attempt);

// Bytes of the fullest stage.
int64_t bd_attempt_plan_bytes(const bd_plan *plan);
#endif
