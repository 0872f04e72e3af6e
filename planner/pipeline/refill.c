#include "planner/pipeline/refill.h"
#include "planner/pipeline/fill.h"
#include <math.h>
#include <string.h>

// Takes the stage over into a copy of the assignment, which replaces it when the step is shorter.
static void offer(bd_ctx *ctx, const bd_stage_fill *f, bd_pipeline *pipeline) {
  const bd_pipeline_problem *p = f->problem;
  int cells = bd_pipeline_candidates(p), runs = p->run_count;
  size_t bytes = sizeof *f->count * (size_t)cells;
  if (isfinite(pipeline->seconds) &&
      memcmp(&pipeline->count[f->stage * cells], f->count, bytes) == 0)
    return;
  int *count = bd_arena_copy(ctx->arena, pipeline->count, p->stages * cells, sizeof *count);
  int *entry = bd_arena_copy(ctx->arena, pipeline->entry, p->stages * runs, sizeof *entry);
  memcpy(&count[f->stage * cells], f->count, bytes);
  for (int r = f->first; r <= f->last; r++)
    entry[f->stage * runs + r] = f->form[r];
  double seconds = bd_pipeline_seconds(p, count, entry);
  if (seconds >= pipeline->seconds) return;
  pipeline->count = count;
  pipeline->entry = entry;
  pipeline->seconds = seconds;
  pipeline->bytes = (int64_t)bd_pipeline_bytes(p, count, entry);
  pipeline->feasible = true;
  pipeline->optimal = false;
}

static int exit_form(const bd_pipeline_problem *p, const bd_pipeline *pipeline, int stage,
                     int run) {
  return bd_pipeline_exit_form(p, pipeline->count, stage, run,
                               pipeline->entry[stage * p->run_count + run]);
}

// What the stage has and what its neighbours leave open.
static void read_stage(const bd_pipeline *pipeline, int stage, bd_stage_fill *f) {
  const bd_pipeline_problem *p = f->problem;
  const int *entry = pipeline->entry;
  f->stage = stage;
  f->first = f->last = -1;
  for (int r = 0; r < p->run_count; r++) {
    f->layers[r] = bd_pipeline_layers(p, pipeline->count, stage, r);
    if (!f->layers[r]) continue;
    if (f->first < 0) f->first = r;
    f->last = r;
  }
  f->entry = stage == 0 ? -1 : entry[stage * p->run_count + f->first];
  f->exit = stage + 1 == p->stages ? -1 : exit_form(p, pipeline, stage, f->last);
  f->room = (double)p->cap_bytes - bd_pipeline_beside_bytes(p, stage) -
            bd_pipeline_shared_bytes(p, f->first, f->last);
  bd_stage_fill_measure(f);
  if (stage > 0) {
    int before = entry[(stage - 1) * p->run_count + f->first] < 0 ? f->first - 1 : f->first;
    f->room -= bd_pipeline_receive_bytes(p, stage, before,
                                         exit_form(p, pipeline, stage - 1, before), f->entry);
  }
  if (stage + 1 < p->stages) {
    int next = entry[(stage + 1) * p->run_count + f->last];
    if (next < 0) next = entry[(stage + 1) * p->run_count + f->last + 1];
    f->room -= bd_pipeline_send_bytes(p, stage, f->last, f->exit, next);
  }
}

// All layers on the one stage, as anything: every choice is made anew.
static void start_one_stage(bd_ctx *ctx, const bd_pipeline_problem *p, bd_pipeline *pipeline) {
  *pipeline = (bd_pipeline){.seconds = INFINITY, .bound = pipeline->bound};
  pipeline->count = BD_NEW_ARRAY(ctx->arena, int, bd_pipeline_candidates(p));
  pipeline->entry = BD_NEW_ARRAY(ctx->arena, int, p->run_count);
  for (int r = 0; r < p->run_count; r++) {
    pipeline->count[bd_pipeline_index(p, 0, r, 0)] = p->runs[r].calls;
    pipeline->entry[r] = p->runs[r].candidates[0].form;
  }
}

// Fills the stage under every ceiling; the price of a byte is that under the best.
static void refill_stage(bd_ctx *ctx, bd_stage_fill *f, bd_pipeline *pipeline) {
  double least = INFINITY;
  f->ceiling = INFINITY;
  while (bd_stage_fill_lower(f)) {
    if (!bd_stage_fill_choose(f)) continue;
    double seconds = bd_stage_fill_seconds(f);
    if (seconds < least) {
      least = seconds;
      pipeline->price[f->stage] = f->price;
      offer(ctx, f, pipeline);
    }
    if (f->price == 0) break; // no lower one is faster
  }
}

void bd_pipeline_refill(bd_ctx *ctx, const bd_pipeline_problem *p, bd_pipeline *pipeline) {
  bd_pipeline_refill_stages(ctx, p, 0, p->stages - 1, pipeline);
}

void bd_pipeline_refill_stages(bd_ctx *ctx, const bd_pipeline_problem *p, int first, int last,
                               bd_pipeline *pipeline) {
  bd_pipeline before = *pipeline;
  if (!pipeline->count && p->stages > 1) return;
  if (!pipeline->count) start_one_stage(ctx, p, pipeline);
  double *price = BD_NEW_ARRAY(ctx->arena, double, p->stages);
  for (int s = 0; s < p->stages && before.price; s++)
    price[s] = before.price[s];
  pipeline->price = price;
  bd_stage_fill f = bd_stage_fill_create(ctx->arena, p);
  for (int s = first; s <= last; s++) {
    read_stage(pipeline, s, &f);
    refill_stage(ctx, &f, pipeline);
  }
  if (isinf(pipeline->seconds)) *pipeline = before;
}
