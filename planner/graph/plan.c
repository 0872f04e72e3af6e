#include "planner/graph/plan.h"
#include <string.h>

bd_layers_plan bd_layers_plan_new(bd_ctx *ctx, const bd_layers_setting *setting) {
  int layers = setting->problem->layer_count;
  return (bd_layers_plan){.schedule = setting->schedule,
                          .micro_batches = setting->micro_batches,
                          .stages = setting->stages,
                          .chunks = setting->chunks,
                          .mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages),
                          .part = BD_NEW_ARRAY(ctx->arena, int, layers),
                          .option = BD_NEW_ARRAY(ctx->arena, int, layers)};
}

bd_layers_plan bd_layers_plan_clone(bd_ctx *ctx, const bd_layers_plan *from, int layers) {
  bd_layers_plan out = *from;
  out.mode = bd_arena_copy(ctx->arena, from->mode, from->stages, sizeof *out.mode);
  out.part = bd_arena_copy(ctx->arena, from->part, layers, sizeof *out.part);
  out.option = bd_arena_copy(ctx->arena, from->option, layers, sizeof *out.option);
  return out;
}

void bd_layers_plan_copy(const bd_layers_plan *from, int layers, bd_layers_plan *to) {
  memcpy(to->part, from->part, (size_t)layers * sizeof *to->part);
  memcpy(to->option, from->option, (size_t)layers * sizeof *to->option);
  memcpy(to->mode, from->mode, (size_t)from->stages * sizeof *to->mode);
}
