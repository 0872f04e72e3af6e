// `--plan`: a plan that is given instead of searched for.
#ifndef BD_CLI_GIVEN_PLAN_H
#define BD_CLI_GIVEN_PLAN_H
#include "cli/command.h"
#include "planner/planner.h"

// For a plan that is read, checked and predicted: holds it against the other options of the
// command, and clears what only a search tells. `path` is its file. Errors: BD_INVALID when an
// option asks for another plan, BD_INFEASIBLE when a rank needs more than the
// cluster or --memory-cap has.
BD_NODISCARD bd_status bd_given_plan_accept(bd_ctx *ctx, const char *path,
                                            const bd_arguments *arguments,
                                            const bd_cluster *cluster,
                                            const bd_plan_request *request, bd_plan *plan);
// Gives such a plan, described like one that was found, what a search told of it, if its file, of
// `bytes` at `data`, would come out as it is: then neither plan nor predictions are others.
BD_NODISCARD bd_status bd_given_plan_keep_record(bd_ctx *ctx, const char *path, const char *data,
                                                 size_t bytes, const bd_module *train,
                                                 bd_plan *plan);
#endif
