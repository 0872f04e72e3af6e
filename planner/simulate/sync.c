#include "planner/simulate/sync.h"

bd_status bd_sim_lower_sync(bd_ctx *ctx, const bd_cost_model *cost, const bd_module *spmd,
                            const bd_plan *plan, const bd_layout *layout, bd_sim_stage *stage) {
  bd_step_end end;
  BD_TRY(bd_step_end_of_stage(ctx, cost, spmd, layout, plan->optimizer, plan->zero_axes, &end));
  bd_sim_add_compute(ctx, &stage->reduce, end.reduce, 0);
  bd_sim_add_compute(ctx, &stage->update, end.update, 0);
  return BD_OK;
}

// One weight's chain of stages: ties [first, end).
static void lower_chain(bd_ctx *ctx, const bd_cost_model *cost, const bd_tie *ties, int first,
                        int end, bd_sim_stage *stages, int message) {
  double copy = bd_cost_copy(cost, ties[first].bytes);
  for (int t = first; t < end; t++, message += 2) {
    bd_sim_work *from = &stages[ties[t].from].reduce, *to = &stages[ties[t].to].reduce;
    if (t == first) bd_sim_add_compute(ctx, from, copy, 0);
    bd_sim_add_send(ctx, from, message, 0);
    bd_sim_add_receive(ctx, to, message);
    bd_sim_add_compute(ctx, to, 2.5 * copy, 0); // its own is loaded and added: 5 times the bytes
  }
  for (int t = end - 1; t >= first; t--) {
    message -= 2;
    bd_sim_work *from = &stages[ties[t].to].reduce, *to = &stages[ties[t].from].reduce;
    bd_sim_add_send(ctx, from, message + 1, 0);
    bd_sim_add_receive(ctx, to, message + 1);
  }
  for (int t = first; t <= end; t++)
    bd_sim_add_compute(ctx, &stages[t < end ? ties[t].from : ties[t - 1].to].reduce, copy, 0);
}

void bd_sim_lower_ties(bd_ctx *ctx, const bd_cost_model *cost, int tie_count, const bd_tie *ties,
                       bd_sim_stage *stages, bd_sim_message *messages, int *message_count) {
  for (int first = 0, end; first < tie_count; first = end) {
    end = first + 1;
    while (end < tie_count && ties[end].weight == ties[first].weight)
      end++;
    int message = *message_count;
    for (int t = first; t < end; t++) {
      messages[(*message_count)++] =
          bd_sim_message_between(cost, ties[t].from, ties[t].to, ties[t].bytes);
      messages[(*message_count)++] =
          bd_sim_message_between(cost, ties[t].to, ties[t].from, ties[t].bytes);
    }
    lower_chain(ctx, cost, ties, first, end, stages, message);
  }
}
