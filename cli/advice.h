// What would help when nothing fits, beyond what the planner can look for itself.
#ifndef BD_CLI_ADVICE_H
#define BD_CLI_ADVICE_H
#include "frontend/frontend.h"
#include "planner/planner.h"

// Loads the model again with weights of fewer bits, for an optimizer that keeps less, and with half
// and a quarter of its tokens, where the request is not so already, and looks for a plan that fits,
// each by itself; a note tells the options that have one. Ends with the request's time limit.
void bd_advise(bd_ctx *ctx, const char *model, const bd_model_options *options,
               const bd_cluster *cluster, const bd_plan_request *request);
#endif
