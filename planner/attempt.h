// One step of the search: a setting is bounded, by ops apart, by sketches of its layers, by these,
// or within its memory, or its pipeline is tried or solved; for several tied forms at once, as most
// layers are the same for all of them. Attempts share nothing, so that several run at once.
#ifndef BD_PLANNER_ATTEMPT_H
#define BD_PLANNER_ATTEMPT_H
#include "ir/base/clock.h"
#include "planner/bound/bound.h"

typedef enum bd_attempt_kind {
  BD_ATTEMPT_APART,  // bounds it for all tied forms at once, as bd_bound_apart
  BD_ATTEMPT_SKETCH, // the same, as bd_bound_sketch
  BD_ATTEMPT_LAYERS, // bounds it for every tied form, as bd_bound_layers
  BD_ATTEMPT_ROOM,   // bounds it with each of `tied`, as bd_bound_room
  BD_ATTEMPT_TRY,    // looks for a plan of it that is near the best, in a part of the time
  BD_ATTEMPT_SOLVE,
} bd_attempt_kind;

typedef struct bd_attempt {
  const bd_scene *scene;
  bd_setting setting; // its tied form stands for those that are attempted
  double cutoff;      // seconds of a plan that fits; INFINITY: none is known
  bd_attempt_kind kind;
  bd_deadline deadline; // trying and solving end there with what they have
  bool roomed;          // of bounding layers: room as well where they do not tell
  bool lean;            // of solving: how lean a plan of it gets is wanted, not how fast
  // The setting with its tied forms, as they have been bounded; solved in this order.
  int tied_count;
  const bd_bounded *tied;
  double price;  // of the one at hand
  bool hopeless; // no plan of it fits: how lean one gets is all that there is to find
  bool far_over; // of lean ones: the first candidates of it leave no hope
  // Of bounding; settings that no plan has are left out:
  int bounded_count; // of BD_ATTEMPT_APART and BD_ATTEMPT_SKETCH, one for all
  bd_bounded *bounded;
  // Of trying and solving:
  int solved; // of `tied`; what cannot beat the plan at hand is not
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
