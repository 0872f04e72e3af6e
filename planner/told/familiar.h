// Choices that people know, evaluated beside a plan: pure data parallel, tensor parallel over all,
// pipeline only, everything recomputed, nothing recomputed.
#ifndef BD_PLANNER_TOLD_FAMILIAR_H
#define BD_PLANNER_TOLD_FAMILIAR_H
#include "ir/plan_details.h"
#include "planner/planner.h"

// Fills the familiar choices of `plan->details`, which is there: each is solved with its pins,
// roughly (bd_plan_request.rough), over all micro-batches. `request` is what the plan was searched
// for. Where one that it allows is faster, the plan becomes that one, with its details yet to be
// told:
// `*out_faster`.
BD_NODISCARD bd_status bd_plan_compare_familiar(bd_ctx *ctx, const bd_module *train,
                                                const bd_cluster *cluster,
                                                const bd_plan_request *request, bd_plan *plan,
                                                bool *out_faster);
#endif
