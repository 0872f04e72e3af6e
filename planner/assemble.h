// A solved pipeline becomes a plan.
#ifndef BD_PLANNER_ASSEMBLE_H
#define BD_PLANNER_ASSEMBLE_H
#include "planner/pipeline/pipeline.h"
#include "planner/planner.h"

// What one pipeline problem holds fixed.
typedef struct bd_setting {
  int stages;
  bd_mesh mesh;
  int64_t micro_batch;
  bd_sharding tied_form; // of weights that several calls share
} bd_setting;

// Strategies that are used get names ("block.0"); layers of a run that share a stage are ordered by
// form, the entry form first, then by strategy. Predictions are left to bd_plan_predict.
BD_NODISCARD bd_status bd_plan_assemble(bd_ctx *ctx, const bd_plan_request *request,
                                        const bd_cluster *cluster,
                                        const bd_pipeline_problem *problem,
                                        const bd_setting *setting, const bd_pipeline *pipeline,
                                        bd_plan *out_plan);

// A copy in ctx->arena, without notes.
bd_strategy bd_strategy_copy(bd_ctx *ctx, const bd_strategy *strategy);

// A copy in ctx->arena.
bd_stage_prediction *bd_stage_predictions_copy(bd_ctx *ctx, int stages,
                                               const bd_stage_prediction *predictions);

// A copy in ctx->arena, predictions included.
bd_plan bd_plan_copy(bd_ctx *ctx, const bd_plan *plan);
#endif
