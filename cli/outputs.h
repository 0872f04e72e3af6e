// The files that a command writes, which are none that it reads.
#ifndef BD_CLI_OUTPUTS_H
#define BD_CLI_OUTPUTS_H
#include "cli/command.h"
#include "ir/plan.h"

// Whether a file that the arguments say is written is one that they say is read, or lies in a
// folder that is read and is of its plan, program or model, or is of any other compiled program.
// Errors: wrong usage, naming both.
BD_NODISCARD bd_status bd_outputs_check(bd_ctx *ctx, const bd_arguments *arguments);
// The same of one more input, a file or a folder, known by `what`.
BD_NODISCARD bd_status bd_outputs_check_input(bd_ctx *ctx, const bd_arguments *arguments,
                                              const char *what, const char *input);
// And of the model and the cluster that a plan names.
BD_NODISCARD bd_status bd_outputs_check_plan(bd_ctx *ctx, const bd_arguments *arguments,
                                             const bd_plan *plan);
#endif
