// Plans for some groups of a mixed cluster, the others idle.
#ifndef BD_PLANNER_FULL_ALONE_H
#define BD_PLANNER_FULL_ALONE_H
#include "ir/base/clock.h"
#include "planner/full/space.h"

// Groups that follow one another: one of them alone, or several of which all are faster than those
// left out.
typedef struct bd_full_choice {
  bool several;
  double rate; // of large products, of all devices together
  int first, count;
  bd_cluster cluster; // of these devices alone
} bd_full_choice;

// Those of a cluster that leave some group out, the highest rate first; a uniform one has none.
// They live in ctx->arena.
int bd_full_choices(bd_ctx *ctx, const bd_cluster *cluster, bd_dtype precision,
                    bd_full_choice **out_choices);

// Whether arithmetic tells that a choice has no plan of less than so many seconds. Nothing is
// looked at layer by layer.
BD_NODISCARD bd_status bd_full_choice_is_slow(bd_ctx *ctx, const bd_module *train,
                                              const bd_full_choice *choice,
                                              const bd_plan_request *request, double seconds,
                                              bool *out_slow);

// What looking at the choices one by one came to.
typedef struct bd_full_alone {
  bool cut;             // some were not looked at to the end
  double bound_seconds; // no plan of the spaces that were looked at takes less; INFINITY: of none
  int count;            // of plans, the fastest of each choice that has one
  bd_plan *plans;       // on the whole cluster, predicted there
} bd_full_alone;

// Searches the space that the request wants of every group alone, as on a cluster that has no
// other, and the default space of several. Choices that have no plan of less than `seconds`, or
// than one of those found before, are left out; with `request->any`, all after the first that has
// one. Each may take half of the time that is left. `train` has the target; the answer lives in
// ctx->arena.
BD_NODISCARD bd_status bd_full_look_alone(bd_ctx *ctx, const bd_module *train,
                                          const bd_cluster *cluster, const bd_plan_request *request,
                                          bd_deadline deadline, double seconds,
                                          bd_full_alone *out_alone);
#endif
