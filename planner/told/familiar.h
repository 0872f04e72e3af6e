// Choices that people know, evaluated beside a plan: pure data parallel, tensor parallel over all,
// pipeline only, everything recomputed, nothing recomputed.
#ifndef BD_PLANNER_TOLD_FAMILIAR_H
#define BD_PLANNER_TOLD_FAMILIAR_H
#include "ir/plan_details.h"
#include "planner/planner.h"

// Choices with what became of them; in ctx->arena.
typedef struct bd_familiar_list {
  int count;
  bd_familiar *items;
} bd_familiar_list;

// Each choice is solved with its pins, roughly (bd_plan_request.rough), over all micro-batches, in
// the space of bd_plan_look, even where the plan is beyond it (planner/full/full.h). `request` is
// what the plan was searched for. Where a choice that it allows is faster, the plan becomes that
// one, under the bound of the search, and what it was is an alternative. Choices that cannot be
// carry their reason. `plan->details` need not be there. Errors: those of bd_plan_look.
BD_NODISCARD bd_status bd_plan_compare_familiar(bd_ctx *ctx, const bd_module *train,
                                                const bd_cluster *cluster,
                                                const bd_plan_request *request, bd_plan *plan,
                                                bd_familiar_list *out_list);
#endif
