// The pins of a request one by one: how a person wrote them, and the request without one.
#ifndef BD_PLANNER_TOLD_BLAME_H
#define BD_PLANNER_TOLD_BLAME_H
#include "planner/planner.h"

#define BD_MAX_PINS 64 // told apart; more are not looked at

typedef enum bd_pin_kind {
  BD_PIN_STAGES,
  BD_PIN_MESH,
  BD_PIN_MICRO_BATCH,
  BD_PIN_SCHEDULE,
  BD_PIN_ZERO,
  BD_PIN_RECOMPUTE,
  BD_PIN_DEGREE,   // index: a bd_cut
  BD_PIN_FORBID,   // index: of the constraints' forbids
  BD_PIN_LAYERS,   // index: of their layers
  BD_PIN_STRATEGY, // index: of their strategies
} bd_pin_kind;

typedef struct bd_pin {
  bd_pin_kind kind;
  int index;
  const char *words; // "2 stages", "tp=8", "'layers' of partial.json:4:5"
} bd_pin;

// Fills at most BD_MAX_PINS; returns how many.
int bd_pins_of(bd_ctx *ctx, const bd_plan_request *request, bd_pin out_pins[BD_MAX_PINS]);

// Pinned degrees as a person writes them: "dp=2,tp=4".
const char *bd_pin_degrees(bd_ctx *ctx, const bd_constraints *constraints);

// The request without one pin; `*out_constraints` is what it then refers to.
void bd_pin_drop(bd_ctx *ctx, const bd_plan_request *request, const bd_pin *pin,
                 bd_plan_request *out_request, bd_constraints *out_constraints);

// Why no plan keeps the pins, where arithmetic tells: "tp=3: it does not divide 4 devices"; else
// NULL.
const char *bd_pins_impossible(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                               const bd_plan_request *request);
#endif
