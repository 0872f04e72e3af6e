#include "ir/passes/stages.h"

void bd_stages_begin(bd_ctx *ctx, bd_stages *stages) {
  *stages = (bd_stages){.ctx = ctx, .results = ctx->arena};
  stages->kept[0] = bd_ctx_open_arena(ctx, &stages->held[0]);
  stages->kept[1] = bd_ctx_open_arena(ctx, &stages->held[1]);
  ctx->arena = stages->scratch = bd_ctx_open_arena(ctx, &stages->held[2]);
}

bd_module *bd_stages_keep(bd_stages *stages, const bd_module *made) {
  bd_ctx *ctx = stages->ctx;
  ctx->arena = stages->kept[stages->turn];
  bd_module *module = bd_module_clone(ctx, made);
  stages->turn = !stages->turn;
  bd_arena_reset(stages->kept[stages->turn]);
  bd_arena_reset(stages->scratch);
  ctx->arena = stages->scratch;
  return module;
}

bd_module *bd_stages_end(bd_stages *stages, const bd_module *last) {
  bd_ctx *ctx = stages->ctx;
  ctx->arena = stages->results;
  bd_module *module = last ? bd_module_clone(ctx, last) : NULL;
  for (int i = 2; i >= 0; --i)
    bd_ctx_close_arena(ctx, &stages->held[i]);
  return module;
}
