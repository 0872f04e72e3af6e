// --pin, --forbid and --partial: what a person asks of the search.
#ifndef BD_CLI_CONSTRAINTS_H
#define BD_CLI_CONSTRAINTS_H
#include "cli/command.h"
#include "planner/planner.h"

// Adds the three options to a request whose own pins are read. `constraints` is what the request
// refers to from then on. Errors: wrong usage; BD_INVALID for what a file says.
BD_NODISCARD bd_status bd_constraints_options(bd_ctx *ctx, const bd_arguments *arguments,
                                              const bd_module *train, bd_plan_request *request,
                                              bd_constraints *constraints);
#endif
