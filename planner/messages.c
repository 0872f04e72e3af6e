#include "planner/messages.h"

// A send and its receive share a tag.
static int receive_of(const bd_function *main, int send) {
  int i = send + 1;
  while (main->ops[i].kind != BD_OP_RECV ||
         bd_op_int(&main->ops[i], "tag", -1) != bd_op_int(&main->ops[send], "tag", -2))
    i++;
  return i;
}

static bool is_transfer(const bd_op *op) {
  return op->kind == BD_OP_SEND || op->kind == BD_OP_RECV;
}

// What stage `stage` does between two ops of main: how many transfers, and seconds of work.
static void add_between(const bd_function *main, const double *op_seconds, int stage, int first,
                        int end, int *out_transfers, double *out_seconds) {
  for (int i = first; i < end; i++) {
    if (main->ops[i].stage != stage) continue;
    if (is_transfer(&main->ops[i]))
      ++*out_transfers;
    else
      *out_seconds += op_seconds[i];
  }
}

void bd_messages_tell(bd_ctx *ctx, const bd_cost_model *cost, const bd_module *spmd,
                      const bd_layout *layout, const double *op_seconds, bd_stage_prediction *out) {
  const bd_function *main = spmd->main;
  bd_message_prediction *messages = BD_NEW_ARRAY(ctx->arena, bd_message_prediction, main->op_count);
  out->messages = messages;
  out->message_count = 0;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->stage != layout->stage || op->kind != BD_OP_SEND) continue;
    bd_message_prediction *m = &messages[out->message_count++];
    int to = (int)bd_op_int(op, "to", -1);
    double bytes = bd_cost_value_bytes(cost, &main->values[op->in[0]]);
    bd_transfer transfer = bd_cost_transfer(cost, layout->stage, to, bytes);
    *m = (bd_message_prediction){.to = to,
                                 .backward = i >= layout->forward_ops,
                                 .between_nodes = transfer.between_nodes,
                                 .bytes = bytes,
                                 .copy_seconds = bd_cost_copy(cost, bytes),
                                 .latency_seconds = transfer.latency_seconds,
                                 .move_seconds = transfer.move_seconds};
    bool backward = m->backward;
    add_between(main, op_seconds, to, backward ? layout->forward_ops : 0, receive_of(main, i),
                &m->received_turn, &m->received_after_seconds);
    add_between(main, op_seconds, layout->stage, i + 1,
                backward ? main->op_count : layout->forward_ops, &m->sent_turn,
                &m->sent_before_seconds);
  }
}
