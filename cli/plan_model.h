// The model of a plan: the one that it names, or that --model gives, where its name for it does not
// tell where it is.
#ifndef BD_CLI_PLAN_MODEL_H
#define BD_CLI_PLAN_MODEL_H
#include "ir/plan.h"

// The training function of a model's graph, in the plan's precisions and for its target.
BD_NODISCARD bd_status bd_plan_train(bd_ctx *ctx, const bd_plan *plan, bd_module *graph,
                                     bd_module **out_train);

// Whether `train`, of the model `given`, is what the plan was made for, which calls it `named` and
// stands in the file `path` with the text `data`: its functions and values are those of the plan,
// and a step takes the flops that the plan tells. Errors: BD_INVALID, naming both models.
BD_NODISCARD bd_status bd_given_model_accept(bd_ctx *ctx, const char *path, const char *data,
                                             size_t bytes, const char *named, const char *given,
                                             const bd_module *train);
#endif
