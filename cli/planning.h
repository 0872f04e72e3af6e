// The planner's search while a user waits: it tells where it stands, and Ctrl-C ends it with the
// plan in hand.
#ifndef BD_CLI_PLANNING_H
#define BD_CLI_PLANNING_H
#include "cli/command.h"
#include "planner/planner.h"
#include "planner/told/familiar.h"

// The options `--threads` and `--solver`. Errors: wrong usage.
BD_NODISCARD bd_status bd_planning_read(bd_ctx *ctx, const bd_arguments *arguments,
                                        bd_plan_request *request);

// As bd_plan_search, with the command's options `--threads`, `--solver` and `--verbose`. From its
// start to the end of bd_planning_compare the first interrupt ends what is under way with the plan
// in hand, a second one ends braid; where there is no plan, the exit status is that of an
// interrupt. A plan that is not proven for the reason that the search was cut short comes with a
// warning.
BD_NODISCARD bd_status bd_planning_search(bd_ctx *ctx, const bd_arguments *arguments,
                                          const bd_module *train, const bd_cluster *cluster,
                                          bd_plan_request *request, bd_plan *out_plan);

// As bd_plan_compare_familiar. Interrupts are stops again afterwards; one that no search has told
// of by then comes with a warning.
BD_NODISCARD bd_status bd_planning_compare(bd_ctx *ctx, const bd_module *train,
                                           const bd_cluster *cluster,
                                           const bd_plan_request *request, bd_plan *plan,
                                           bd_familiar_list *out_list);

// As bd_plan_tell_groups, or with no plan as bd_plan_tell_fitting_groups; an interrupt ends it with
// what it has.
BD_NODISCARD bd_status bd_planning_tell_groups(bd_ctx *ctx, const bd_module *train,
                                               const bd_cluster *cluster,
                                               const bd_plan_request *request, double limit_seconds,
                                               bd_plan *plan);

// As bd_plan_look, or bd_plan_look_full; the first interrupt ends it with what it has.
BD_NODISCARD bd_status bd_planning_look(bd_ctx *ctx, const bd_module *train,
                                        const bd_cluster *cluster, bd_plan_request *request,
                                        bd_search_outcome *out_outcome);
#endif
