#include "planner/assemble.h"
#include <string.h>

// Whether two strategies run a function alike: runs of it may have found the same one.
static bool same_strategy(const bd_strategy *a, const bd_strategy *b) {
  size_t ops = (size_t)a->op_count, values = (size_t)a->value_count;
  return strcmp(a->function, b->function) == 0 &&
         memcmp(a->split, b->split, ops * sizeof *a->split) == 0 &&
         memcmp(a->form, b->form, values * sizeof *a->form) == 0 &&
         memcmp(a->saved, b->saved, values * sizeof *a->saved) == 0 &&
         !a->gradient == !b->gradient && !a->kept == !b->kept && !a->parts == !b->parts &&
         !a->bf16 == !b->bf16 && (!a->bf16 || memcmp(a->bf16, b->bf16, ops) == 0) &&
         !a->balanced == !b->balanced &&
         (!a->balanced || memcmp(a->balanced, b->balanced, ops * sizeof *a->balanced) == 0) &&
         (!a->parts || memcmp(a->parts, b->parts, ops * sizeof *a->parts) == 0) &&
         (!a->kept || memcmp(a->kept, b->kept, values) == 0) &&
         (!a->gradient || memcmp(a->gradient, b->gradient, values * sizeof *a->gradient) == 0);
}

// The plan's index of a candidate's strategy, added on first use.
static int use_strategy(bd_ctx *ctx, bd_plan *plan, const bd_strategy *strategy, int *slot) {
  if (*slot >= 0) return *slot;
  int same = 0;
  for (int i = 0; i < plan->strategy_count; i++) {
    if (same_strategy(&plan->strategies[i], strategy)) return *slot = i;
    same += strcmp(plan->strategies[i].function, strategy->function) == 0;
  }
  bd_strategy *out = &plan->strategies[plan->strategy_count];
  *out = *strategy;
  out->name = bd_intern_f(ctx, "%s.%d", strategy->function, same);
  return *slot = plan->strategy_count++;
}

static unsigned every_axis(const bd_mesh *mesh) {
  return (1u << mesh->axes) - 1;
}

bd_status bd_plan_assemble(bd_ctx *ctx, const bd_plan_request *request, const bd_cluster *cluster,
                           const bd_pipeline_problem *problem, const bd_setting *setting,
                           const bd_pipeline *pipeline, bd_plan *out) {
  int candidates = bd_pipeline_candidates(problem), layer = 0;
  *out = (bd_plan){
      .model = request->model,
      .target = request->target,
      .optimizer = request->optimizer,
      .precision = request->precision,
      .masters = request->masters,
      .gradients = request->gradients,
      .global_batch = request->global_batch,
      .micro_batch = setting->micro_batch,
      .sequence = request->sequence,
      .schedule = problem->schedule,
      .mesh = setting->mesh,
      .stages = setting->stages,
      .chunks = 1,
      .threads_per_rank = cluster->threads_per_device,
      .one_head = request->one_head,
      .zero_axes = problem->zero ? every_axis(&setting->mesh) : 0,
      .bound_seconds = 0,
  };
  out->strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, candidates);
  out->ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, candidates * setting->stages);
  int *slot = BD_NEW_ARRAY(ctx->arena, int, candidates);
  memset(slot, -1, sizeof *slot * (size_t)candidates);
  for (int s = 0; s < setting->stages; s++)
    for (int r = 0; r < problem->run_count; r++)
      for (int part = 0; part < 2; part++)
        for (int k = 0; k < problem->runs[r].candidate_count; k++) {
          const bd_layer_candidate *candidate = &problem->runs[r].candidates[k];
          int layers = pipeline->count[bd_pipeline_index(problem, s, r, k)];
          bool enters = candidate->form == pipeline->entry[s * problem->run_count + r];
          if (!layers || enters != (part == 0)) continue;
          int index = use_strategy(ctx, out, &candidate->strategy,
                                   &slot[bd_pipeline_index(problem, 0, r, k)]);
          out->ranges[out->range_count++] =
              (bd_layer_range){layer, layers, index, s, 0, BD_NOWHERE};
          layer += layers;
        }
  return BD_OK;
}

bd_strategy bd_strategy_copy(bd_ctx *ctx, const bd_strategy *from) {
  bd_strategy s = *from;
  s.split = bd_arena_copy(ctx->arena, s.split, s.op_count, sizeof *s.split);
  s.form = bd_arena_copy(ctx->arena, s.form, s.value_count, sizeof *s.form);
  if (s.gradient)
    s.gradient = bd_arena_copy(ctx->arena, s.gradient, s.value_count, sizeof *s.gradient);
  if (s.kept) s.kept = bd_arena_copy(ctx->arena, s.kept, s.value_count, sizeof *s.kept);
  if (s.parts) s.parts = bd_arena_copy(ctx->arena, s.parts, s.op_count, sizeof *s.parts);
  if (s.bf16) s.bf16 = bd_arena_copy(ctx->arena, s.bf16, s.op_count, sizeof *s.bf16);
  if (s.balanced)
    s.balanced = bd_arena_copy(ctx->arena, s.balanced, s.op_count, sizeof *s.balanced);
  s.saved = bd_arena_copy(ctx->arena, s.saved, s.value_count, sizeof *s.saved);
  return s;
}

bd_stage_prediction *bd_stage_predictions_copy(bd_ctx *ctx, int stages,
                                               const bd_stage_prediction *from) {
  bd_stage_prediction *out = bd_arena_copy(ctx->arena, from, stages, sizeof *out);
  for (int s = 0; s < stages; s++)
    out[s].messages = bd_arena_copy(ctx->arena, from[s].messages, from[s].message_count,
                                    sizeof *from[s].messages);
  return out;
}

bd_plan bd_plan_copy(bd_ctx *ctx, const bd_plan *plan) {
  bd_plan out = *plan;
  out.strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, plan->strategy_count);
  for (int i = 0; i < out.strategy_count; i++)
    out.strategies[i] = bd_strategy_copy(ctx, &plan->strategies[i]);
  out.ranges = bd_arena_copy(ctx->arena, plan->ranges, plan->range_count, sizeof *plan->ranges);
  out.predicted = bd_stage_predictions_copy(ctx, plan->stages, plan->predicted);
  return out;
}
