// One step of the search: a setting is bounded by its layers, or within its memory, or its pipeline
// is solved. Attempts
// share nothing, so that several run at once.
#ifndef BD_PLANNER_ATTEMPT_H
#define BD_PLANNER_ATTEMPT_H
#include "planner/bound.h"

typedef enum bd_attempt_kind {
  BD_ATTEMPT_LAYERS, // bounds it for every tied form, as bd_bound_layers
  BD_ATTEMPT_ROOM,   // bounds it with its tied form, as bd_bound_room
  BD_ATTEMPT_SOLVE,
} bd_attempt_kind;

typedef struct bd_attempt {
  const bd_scene *scene;
  bd_setting setting;
  double cutoff; // seconds of a plan that fits; INFINITY: none is known
  bd_attempt_kind kind;
  double price; // of a byte, where layers have been bounded
  bool lean;    // of solving: how lean a plan of it gets is wanted, not how fast
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
