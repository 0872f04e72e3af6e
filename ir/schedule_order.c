// The passes of a stage one by one.
#include "ir/schedule.h"
#include <assert.h>

#define MAX_PASSES ((int64_t)1 << 26)

typedef struct order {
  int stages, chunks, micro_batches;
  bd_stage_pass *passes;
  int count;
} order;

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Forwards that run before the first backward. One more is in flight when it does.
static int64_t warmup_of(bd_schedule schedule, int stage, int stages, int chunks,
                         int64_t micro_batches) {
  int64_t ahead = stages - stage - 1;
  if (schedule == BD_SCHEDULE_GPIPE) ahead = micro_batches;
  if (chunks > 1) ahead = 2 * ahead + (int64_t)(chunks - 1) * stages;
  return smaller(ahead, micro_batches * chunks);
}

// Micro-batches go through the chunks in groups of as many as there are stages: a group passes one
// chunk, then the next one.
static void add(order *o, bd_stage_pass_kind kind, int index) {
  int group = o->chunks > 1 ? o->stages : 1;
  int in_group = index % (group * o->chunks);
  int chunk = in_group / group;
  if (kind != BD_PASS_FORWARD) chunk = o->chunks - 1 - chunk;
  int micro_batch = index / (group * o->chunks) * group + in_group % group;
  o->passes[o->count++] = (bd_stage_pass){kind, chunk, micro_batch};
}

// The weights' gradients of stage r follow B by r micro-batches: as much as the stage holds fewer
// tapes than the first one.
static void add_backward(order *o, bd_schedule schedule, int stage, int index) {
  add(o, BD_PASS_BACKWARD, index);
  if (schedule == BD_SCHEDULE_ZERO_BUBBLE && index >= stage) add(o, BD_PASS_WEIGHT, index - stage);
}

bd_status bd_schedule_order(bd_ctx *ctx, bd_schedule schedule, int stage, int stages, int chunks,
                            int micro_batches, const bd_stage_pass **out_passes, int *out_count) {
  assert(stage >= 0 && stage < stages &&
         bd_schedule_allows(schedule, stages, chunks, micro_batches));
  bool split = schedule == BD_SCHEDULE_ZERO_BUBBLE;
  int64_t forwards = (int64_t)micro_batches * chunks, passes = (split ? 3 : 2) * forwards;
  if (passes > MAX_PASSES)
    return bd_fail(ctx, BD_EXHAUSTED, BD_NOWHERE,
                   "%lld passes in a step of one stage are more than %lld", (long long)passes,
                   (long long)MAX_PASSES);
  order o = {stages, chunks, micro_batches, BD_NEW_ARRAY(ctx->arena, bd_stage_pass, (size_t)passes),
             0};
  int total = (int)forwards;
  int warmup = (int)warmup_of(schedule, stage, stages, chunks, micro_batches);
  for (int i = 0; i < warmup; ++i)
    add(&o, BD_PASS_FORWARD, i);
  for (int i = 0; i < total; ++i) {
    if (warmup + i < total) add(&o, BD_PASS_FORWARD, warmup + i);
    add_backward(&o, schedule, stage, i);
  }
  for (int i = total > stage ? total - stage : 0; split && i < total; ++i)
    add(&o, BD_PASS_WEIGHT, i);
  *out_passes = o.passes;
  *out_count = o.count;
  return BD_OK;
}

bd_schedule_hold bd_schedule_held(bd_schedule schedule, int stage, int stages, int chunks,
                                  int micro_batches) {
  assert(stage >= 0 && stage < stages && chunks >= 1 && micro_batches >= 1);
  int64_t forwards = (int64_t)micro_batches * chunks;
  if (schedule == BD_SCHEDULE_ZERO_BUBBLE)
    return (bd_schedule_hold){(int)smaller(stages, forwards), (int)smaller(stage + 1, forwards)};
  int64_t warmup = warmup_of(schedule, stage, stages, chunks, micro_batches);
  return (bd_schedule_hold){(int)smaller(warmup + 1, forwards), 0};
}
