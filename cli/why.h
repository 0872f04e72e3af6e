// `braid explain PLAN --why PINS`: what a forced choice would cost.
#ifndef BD_CLI_WHY_H
#define BD_CLI_WHY_H
#include "cli/command.h"
#include "cli/explain.h"

// Searches again for the plan's model, cluster and cap with pins (planner/constraints/read.h), and
// tells the outcome beside the plan. That nothing fits is an answer. Errors: wrong usage,
// BD_INVALID when the model or the cluster is not found.
BD_NODISCARD bd_status bd_why(bd_ctx *ctx, const bd_arguments *arguments, const bd_told_plan *told,
                              bd_text *text);
#endif
