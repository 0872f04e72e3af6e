// The schedule of a published run, pass by pass.
#include "planner/simulate/simulate.h"
#include "tests/bench/megatron.h"

// Part k of the chain is chunk k / pipeline of stage k % pipeline. Message k goes from part k to
// the next, message parts + k back.
static int part_of(const published_run *run, int stage, int chunk) {
  return chunk * run->pipeline + stage;
}

// What arrives before a pass of a part, its work, and what leaves after it; -1: nothing does.
static bd_sim_work work_of(bd_ctx *ctx, int arrives, double seconds, int leaves) {
  bd_sim_work out = {.actions = BD_NEW_ARRAY(ctx->arena, bd_sim_action, 3)};
  if (arrives >= 0)
    out.actions[out.count++] = (bd_sim_action){.kind = BD_SIM_RECEIVE, .message = arrives};
  out.actions[out.count++] = (bd_sim_action){.kind = BD_SIM_COMPUTE, .seconds = seconds};
  if (leaves >= 0)
    out.actions[out.count++] = (bd_sim_action){.kind = BD_SIM_SEND, .message = leaves};
  return out;
}

static bd_sim_message *messages_of(bd_ctx *ctx, const published_run *run, double transfer_seconds) {
  int parts = run->pipeline * run->chunks;
  bd_sim_message *out = BD_NEW_ARRAY(ctx->arena, bd_sim_message, 2 * parts);
  for (int k = 0; k < 2 * parts; k++) {
    int here = k % parts % run->pipeline, next = (k % parts + 1) % run->pipeline;
    out[k] = (bd_sim_message){.from = k < parts ? here : next,
                              .to = k < parts ? next : here,
                              .between_nodes = true,
                              .move_seconds = transfer_seconds};
  }
  return out;
}

static bd_sim_stage stage_of(bd_ctx *ctx, const published_run *run, int stage,
                             const bd_stage_seconds *seconds) {
  int parts = run->pipeline * run->chunks;
  bd_sim_work *forward = BD_NEW_ARRAY(ctx->arena, bd_sim_work, run->chunks);
  bd_sim_work *backward = BD_NEW_ARRAY(ctx->arena, bd_sim_work, run->chunks);
  for (int chunk = 0; chunk < run->chunks; chunk++) {
    int k = part_of(run, stage, chunk), last = k == parts - 1;
    forward[chunk] = work_of(ctx, k - 1, seconds->forward / run->chunks, last ? -1 : k);
    backward[chunk] = work_of(ctx, last ? -1 : parts + k, seconds->backward / run->chunks,
                              k == 0 ? -1 : parts + k - 1);
  }
  bd_sim_stage out = {.ranks = run->data * run->tensor,
                      .reduce = work_of(ctx, -1, seconds->sync, -1)};
  out.pass[BD_PASS_FORWARD] = forward;
  out.pass[BD_PASS_BACKWARD] = backward;
  return out;
}

bd_status published_replay(bd_ctx *ctx, const published_run *run, bd_schedule schedule,
                           const bd_stage_seconds *seconds, double transfer_seconds,
                           double *out_seconds) {
  bd_sim_stage *stage = BD_NEW_ARRAY(ctx->arena, bd_sim_stage, run->pipeline);
  for (int s = 0; s < run->pipeline; s++)
    stage[s] = stage_of(ctx, run, s, &seconds[s]);
  bd_sim_problem problem = {.schedule = schedule,
                            .stages = run->pipeline,
                            .chunks = run->chunks,
                            .micro_batches = run->global_batch / (run->micro_batch * run->data),
                            .message_count = 2 * run->pipeline * run->chunks,
                            .messages = messages_of(ctx, run, transfer_seconds),
                            .stage = stage};
  bd_sim_result result;
  BD_TRY(bd_sim_run(ctx, &problem, NULL, &result));
  *out_seconds = result.step_seconds;
  return BD_OK;
}
