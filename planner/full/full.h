// Plans beyond what codegen emits (--space full): stages of unequal meshes on several kinds of
// devices, interleaved and zero-bubble schedules. The model's layers become a layer graph
// (planner/graph), a candidate of planner/layer/layer.h on some mesh becomes an option.
#ifndef BD_PLANNER_FULL_FULL_H
#define BD_PLANNER_FULL_FULL_H
#include "planner/planner.h"

// The better of bd_plan_search's plan and the best found beyond its space. Its bound holds for
// both. Errors: as bd_plan_search, when neither space has a plan, and as bd_plan_check_full.
BD_NODISCARD bd_status bd_plan_search_full(bd_ctx *ctx, const bd_module *train,
                                           const bd_cluster *cluster,
                                           const bd_plan_request *request, bd_plan *out_plan);

// The search itself, as bd_plan_look is of bd_plan_search: that nothing fits is no error.
BD_NODISCARD bd_status bd_plan_look_full(bd_ctx *ctx, const bd_module *train,
                                         const bd_cluster *cluster, const bd_plan_request *request,
                                         bd_search_outcome *out_outcome);

// Whether only the full space has plans of the schedule that is wanted.
bool bd_plan_needs_full(const bd_plan_request *request);

// Whether the full space knows what is pinned: meshes of one and two axes.
bool bd_plan_full_knows(const bd_plan_request *request);

// Errors: BD_INVALID for pins that the full space does not know.
BD_NODISCARD bd_status bd_plan_check_full(bd_ctx *ctx, const bd_plan_request *request);

// As bd_plan_predict, for plans of unequal stages or several chunks or a schedule that is not
// emitted. Each part of a stage is read off the program in which all other stages have its mesh;
// between stages of different meshes an activation passes whole, to every rank. Tapes of chunks are
// as large as the largest.
BD_NODISCARD bd_status bd_plan_predict_full(bd_ctx *ctx, const bd_module *train,
                                            const bd_cluster *cluster, bd_plan *plan);

// As bd_plan_break_down (planner/told/breakdown.h), for the same plans; links are those of the last
// kind of stage.
BD_NODISCARD bd_status bd_plan_break_down_full(bd_ctx *ctx, const bd_module *train,
                                               const bd_cluster *cluster, bd_plan *plan);
#endif
