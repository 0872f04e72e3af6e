// A step pass by pass.
#include "planner/step/messages.h"
#include "planner/step/step.h"
#include <assert.h>
#include <math.h>

// Sums may come in another order.
#define ROUNDING 1e-9

typedef struct ordering {
  bd_schedule schedule;
  int stages, chunks, micro_batches;
  const bd_stage_seconds *stage;
  const bd_stage_pass **passes; // per stage
  int *count, *at;
  double *clock;              // per stage: the end of its last pass so far
  double *forward, *backward; // per part of the pipeline and micro-batch: its end; -1: to come
} ordering;

static double *new_ends(bd_ctx *ctx, int count) {
  double *ends = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int i = 0; i < count; i++)
    ends[i] = -1;
  return ends;
}

// Runs a pass when what it needs is there.
static bool run(ordering *o, int stage, bd_stage_pass pass) {
  const bd_stage_seconds *of = &o->stage[stage];
  double weight = o->schedule == BD_SCHEDULE_ZERO_BUBBLE ? of->weight : 0;
  int part = pass.chunk * o->stages + stage;
  int at = part * o->micro_batches + pass.micro_batch;
  double ready = 0, seconds = weight, *end = NULL;
  if (pass.kind == BD_PASS_FORWARD) {
    if (part > 0) ready = o->forward[at - o->micro_batches];
    end = &o->forward[at];
    seconds = of->forward;
  } else if (pass.kind == BD_PASS_BACKWARD) {
    if (part + 1 < o->stages * o->chunks) ready = o->backward[at + o->micro_batches];
    end = &o->backward[at];
    seconds = of->backward - weight;
  }
  if (ready < 0) return false;
  o->clock[stage] = fmax(o->clock[stage], ready) + seconds / o->chunks;
  if (end) *end = o->clock[stage];
  return true;
}

static double run_all(ordering *o) {
  double end = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < o->stages; s++)
      for (; o->at[s] < o->count[s] && run(o, s, o->passes[s][o->at[s]]); o->at[s]++)
        moved = true;
  }
  for (int s = 0; s < o->stages; s++)
    end = fmax(end, o->clock[s]);
  return end + bd_step_sync_seconds(o->stages, o->stage);
}

static bd_status open(bd_ctx *ctx, ordering *o) {
  bd_arena *arena = ctx->arena;
  int cells = o->stages * o->chunks * o->micro_batches;
  o->passes = bd_arena_array(arena, (size_t)o->stages, sizeof *o->passes);
  o->count = BD_NEW_ARRAY(arena, int, o->stages);
  o->at = BD_NEW_ARRAY(arena, int, o->stages);
  o->clock = BD_NEW_ARRAY(arena, double, o->stages);
  o->forward = new_ends(ctx, cells);
  o->backward = new_ends(ctx, cells);
  for (int s = 0; s < o->stages; s++)
    BD_TRY(bd_schedule_order(ctx, o->schedule, s, o->stages, o->chunks, o->micro_batches,
                             &o->passes[s], &o->count[s]));
  return BD_OK;
}

bd_status bd_step_ordered_seconds(bd_ctx *ctx, bd_schedule schedule, int stages, int chunks,
                                  int micro_batches, const bd_stage_seconds *stage,
                                  double *out_seconds) {
  int64_t passes = (schedule == BD_SCHEDULE_ZERO_BUBBLE ? 3 : 2) * (int64_t)stages * chunks;
  assert(bd_schedule_allows(schedule, stages, chunks, micro_batches));
  if (bd_schedule_emitted(schedule)) {
    *out_seconds = bd_step_emitted_seconds(schedule, stages, micro_batches, stage);
    return BD_OK;
  }
  *out_seconds = bd_step_seconds(schedule, stages, chunks, micro_batches, stage);
  if (stages == 1 || passes > BD_STEP_ORDERED / micro_batches) return BD_OK;
  ordering o = {.schedule = schedule, .stages = stages, .chunks = chunks, .stage = stage};
  o.micro_batches = micro_batches;
  bd_owned held;
  bd_arena *kept = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  bd_status status = open(ctx, &o);
  if (status == BD_OK) *out_seconds = run_all(&o);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

static bd_stage_seconds seconds_of(const bd_plan *plan, int stage) {
  const bd_stage_prediction *p = &plan->predicted[stage];
  return (bd_stage_seconds){p->forward_seconds, p->backward_seconds, p->weight_seconds,
                            p->sync_seconds, p->apply_seconds};
}

bd_status bd_step_plan_seconds(bd_ctx *ctx, const bd_plan *plan, double *out_seconds) {
  bool detours = bd_step_has_detours(plan);
  bd_stage_seconds *stage = BD_NEW_ARRAY(ctx->arena, bd_stage_seconds, plan->stages);
  double passes;
  for (int s = 0; s < plan->stages; s++)
    stage[s] = seconds_of(plan, s);
  if (detours) bd_step_leave_out_detours(plan, stage);
  BD_TRY(bd_step_ordered_seconds(ctx, plan->schedule, plan->stages, bd_plan_chunks(plan),
                                 bd_plan_micro_batches(plan), stage, out_seconds));
  if (!detours && !bd_step_messages_untold(plan)) return BD_OK;
  BD_TRY(bd_step_messages_seconds(ctx, plan, &passes));
  double seconds = passes + bd_step_sync_seconds(plan->stages, stage);
  if (seconds > *out_seconds * (1 + ROUNDING)) *out_seconds = seconds;
  return BD_OK;
}
