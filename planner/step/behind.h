// What of the sums of gradients over ranks is hidden behind backward (runtime/overlap.c), and of
// the gathers of updated weights behind the next forward pass (runtime/deferred.h).
#ifndef BD_PLANNER_STEP_BEHIND_H
#define BD_PLANNER_STEP_BEHIND_H
#include "planner/cost/cost.h"

// A sum of `seconds` by itself makes a step longer by so many. `product`: seconds of the product
// that makes the gradient; 0: no product does, nothing is hidden. On GPUs the sum of the last
// micro-batch runs beside as much of backward as a layer has of products for the weight: the
// gradient's own, and that of the operand's gradient, which takes as long. `gradients_exposed` of
// the cluster is never hidden, by itself an eighth: the last of eight buckets has nothing to run
// beside, and products are slower beside the others.
double bd_step_behind(const bd_cost_model *model, double seconds, double product);
// The same of a weight's gather, which runs beside as much of forward as a layer has of products
// for the weight: one, which takes as long as that of its gradient, `product`.
double bd_step_behind_forward(const bd_cost_model *model, double seconds, double product);

// The product of a backward function that makes a gradient, which may be scattered or scaled since;
// -1: none does.
int bd_step_product(const bd_function *backward, bd_id gradient);
// Its seconds, in an spmd function; of none 0.
BD_NODISCARD bd_status bd_step_product_of(bd_ctx *ctx, const bd_cost_model *model,
                                          const bd_function *backward, bd_id gradient,
                                          double *out_seconds);
#endif
