// What would help when nothing fits, beyond what the planner can look for itself.
#ifndef BD_CLI_ADVICE_H
#define BD_CLI_ADVICE_H
#include "frontend/frontend.h"
#include "planner/planner.h"

// Loads the model again with half and with a quarter of its tokens and looks for a plan that fits;
// a note tells the longer sequence that has one. Models without a sequence have no such note.
void bd_advise_sequence(bd_ctx *ctx, const char *model, const bd_model_options *options,
                        const bd_cluster *cluster, const bd_plan_request *request);
#endif
