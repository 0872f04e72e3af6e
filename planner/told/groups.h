// Groups of a mixed cluster that do better alone than all of it together.
#ifndef BD_PLANNER_TOLD_GROUPS_H
#define BD_PLANNER_TOLD_GROUPS_H
#include "planner/planner.h"

// Of a plan that uses all devices of a mixed cluster, each as if it were the slowest: searches its
// groups alone under the same request, roughly, for at most `limit_seconds` of wall time. Where one
// is faster, the best of them becomes the first of the plan's alternatives and a warning names it.
// Errors: those of bd_plan_look.
BD_NODISCARD bd_status bd_plan_tell_groups(bd_ctx *ctx, const bd_module *train,
                                           const bd_cluster *cluster,
                                           const bd_plan_request *request, double limit_seconds,
                                           bd_plan *plan);

// Where nothing fits on all devices, each as if it were the smallest: a note names groups that have
// some plan alone, the first that is found. As above otherwise.
BD_NODISCARD bd_status bd_plan_tell_fitting_groups(bd_ctx *ctx, const bd_module *train,
                                                   const bd_cluster *cluster,
                                                   const bd_plan_request *request,
                                                   double limit_seconds);
#endif
