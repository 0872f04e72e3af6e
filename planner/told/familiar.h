// Choices that people know, evaluated beside a plan: pure data parallel, tensor parallel over all,
// pipeline only, everything recomputed, nothing recomputed.
#ifndef BD_PLANNER_TOLD_FAMILIAR_H
#define BD_PLANNER_TOLD_FAMILIAR_H
#include "ir/plan_details.h"
#include "planner/planner.h"

typedef struct bd_familiar_list {
  int count;
  bd_familiar *items;
} bd_familiar_list;

// Each choice is solved with its pins, roughly (bd_plan_request.rough), over all micro-batches.
// `request` is what the plan was searched for. Where a choice that it allows is faster, the plan
// becomes that one, under the bound and with the alternatives of the search.
BD_NODISCARD bd_status bd_plan_compare_familiar(bd_ctx *ctx, const bd_module *train,
                                                const bd_cluster *cluster,
                                                const bd_plan_request *request, bd_plan *plan,
                                                bd_familiar_list *out_list);
#endif
