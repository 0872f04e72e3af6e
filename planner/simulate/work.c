#include "planner/simulate/work.h"

static bd_sim_action *append(bd_ctx *ctx, bd_sim_work *work) {
  // Capacities are powers of two, and are full exactly when the count is one.
  if ((work->count & (work->count - 1)) == 0)
    work->actions = bd_arena_grow(ctx->arena, work->actions, (size_t)work->count,
                                  work->count ? 2 * (size_t)work->count : 1, sizeof *work->actions);
  return &work->actions[work->count++];
}

void bd_sim_add_compute(bd_ctx *ctx, bd_sim_work *work, double seconds, double collective_seconds) {
  if (seconds + collective_seconds <= 0) return;
  bool joins = work->count && work->actions[work->count - 1].kind == BD_SIM_COMPUTE;
  bd_sim_action *action = joins ? &work->actions[work->count - 1] : append(ctx, work);
  if (!joins) *action = (bd_sim_action){.kind = BD_SIM_COMPUTE};
  action->seconds += seconds + collective_seconds;
  action->collective_seconds += collective_seconds;
}

void bd_sim_add_send(bd_ctx *ctx, bd_sim_work *work, int message, double copy_seconds) {
  *append(ctx, work) =
      (bd_sim_action){.kind = BD_SIM_SEND, .message = message, .seconds = copy_seconds};
}

void bd_sim_add_receive(bd_ctx *ctx, bd_sim_work *work, int message) {
  *append(ctx, work) = (bd_sim_action){.kind = BD_SIM_RECEIVE, .message = message};
}

bd_sim_message bd_sim_message_between(const bd_cost_model *cost, int from, int to, double bytes) {
  bd_transfer message = bd_cost_transfer(cost, from, to, bytes);
  return (bd_sim_message){.from = from,
                          .to = to,
                          .between_nodes = message.between_nodes,
                          .bytes = bytes,
                          .latency_seconds = message.latency_seconds,
                          .move_seconds = message.move_seconds};
}
