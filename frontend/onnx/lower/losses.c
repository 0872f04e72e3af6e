// Losses. One that trains is the graph's: a sum over targets, divided by their number where its
// gradient enters. Any other is made of its parts.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

bd_status bd_onnx_cross_entropy(bd_onnx_lowering *l, bd_id logits, bd_id targets, bd_id *out) {
  bd_id lse;
  BD_TRY(bd_onnx_emit1(l, BD_OP_LSE, logits, &lse));
  return bd_onnx_emit(l, BD_OP_XENT, 3, (bd_id[]){logits, targets, lse}, 0, NULL, out);
}

// Scores [N, C, ..] with the classes last, and one dimension of the graph.
static bd_status classes_last(bd_onnx_lowering *l, const bd_onnx_step *step, bd_onnx_part *scores) {
  const bd_onnx_fact *in = step->in[0];
  int dim;
  BD_TRY(bd_onnx_operand(l, step, 0, scores));
  BD_TRY(bd_onnx_one_dim(l, step, in->rank, 1, in->dims[1], scores, &dim));
  return bd_onnx_turn(l, dim, false, scores->id, &scores->id);
}

// Targets in the structure of the scores' other dimensions; those not to be counted become
// negative.
static bd_status take_targets(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id scores,
                              bd_id *out) {
  bd_onnx_part targets;
  bd_id ignored, other, same;
  bd_type type = *bd_onnx_type(l, scores);
  BD_TRY(bd_onnx_indices(l, step, 1, &targets));
  BD_TRY(bd_onnx_emit_reshape(l, targets.id, type.rank - 1, type.dims, out));
  BD_TRY(bd_onnx_emit_cast(l, *out, BD_I32, out));
  int64_t ignore = bd_onnx_int(step, "ignore_index", -1);
  if (ignore < 0 || ignore > INT32_MAX) return BD_OK; // as all negative ones are
  BD_TRY(bd_onnx_number_op(l, BD_I32, (double)ignore, &ignored));
  BD_TRY(bd_onnx_number_op(l, BD_I32, -1, &other));
  BD_TRY(bd_onnx_emit2(l, BD_OP_EQ, *out, ignored, &same));
  return bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){same, other, *out}, 0, NULL, out);
}

static bd_status lower_trained(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part scores, out = {0};
  bd_id targets;
  BD_TRY(classes_last(l, step, &scores));
  BD_TRY(take_targets(l, step, scores.id, &targets));
  BD_TRY(bd_onnx_cross_entropy(l, scores.id, targets, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// A value of `count` dimensions over all of them but those of `kept`, which are first.
static bd_status sum_after(bd_onnx_lowering *l, bd_id x, int kept, bd_id *out) {
  char all[BD_MAX_RANK + 1] = {0};
  int rank = bd_onnx_type(l, x)->rank;
  *out = x;
  if (kept == rank) return BD_OK;
  for (int d = 0; d < rank; d++)
    all[d] = (char)('A' + d);
  const char *rule = bd_intern_f(l->ctx, "%s->%.*s", all, kept, all);
  return bd_onnx_emit_rule(l, BD_OP_REDUCE_SUM, 1, &x, rule, out);
}

static bd_status repeat_last(bd_onnx_lowering *l, bd_id x, const bd_type *like, bd_id *out) {
  char has[BD_MAX_RANK + 1] = {0}, all[BD_MAX_RANK + 1] = {0};
  for (int d = 0; d < like->rank; d++) {
    all[d] = (char)('A' + d);
    if (d < like->rank - 1) has[d] = all[d];
  }
  bd_attr attrs[] = {bd_attr_string(l->ctx, "rule", bd_intern_f(l->ctx, "%s->%s", has, all)),
                     bd_attr_ints(l->ctx, "dims", like->rank, like->dims)};
  return bd_onnx_emit(l, BD_OP_BROADCAST, 1, &x, 2, attrs, out);
}

// Logarithms of the probabilities of scores whose last dimension is the classes.
static bd_status log_softmax(bd_onnx_lowering *l, bd_id x, bd_id *out) {
  bd_type type = *bd_onnx_type(l, x);
  char all[BD_MAX_RANK + 1] = {0};
  bd_id greatest, sum;
  for (int d = 0; d < type.rank; d++)
    all[d] = (char)('A' + d);
  const char *rule = bd_intern_f(l->ctx, "%s->%.*s", all, type.rank - 1, all);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_REDUCE_MAX, 1, &x, rule, &greatest));
  BD_TRY(repeat_last(l, greatest, &type, &greatest));
  BD_TRY(bd_onnx_emit2(l, BD_OP_SUB, x, greatest, &x));
  BD_TRY(bd_onnx_emit1(l, BD_OP_EXP, x, &sum));
  BD_TRY(sum_after(l, sum, type.rank - 1, &sum));
  BD_TRY(bd_onnx_emit1(l, BD_OP_LOG, sum, &sum));
  BD_TRY(repeat_last(l, sum, &type, &sum));
  return bd_onnx_emit2(l, BD_OP_SUB, x, sum, out);
}

// The weight of each target: its class's, or 1; 0 for those that are ignored.
static bd_status target_weights(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id targets,
                                bd_dtype dtype, bd_id *out) {
  bd_onnx_part weights;
  bd_id zero, counted;
  bd_attr first = bd_attr_int(l->ctx, "dim", 0);
  if (step->in[2]) {
    int dim;
    BD_TRY(bd_onnx_operand(l, step, 2, &weights));
    BD_TRY(bd_onnx_one_dim(l, step, 1, 0, step->in[2]->dims[0], &weights, &dim));
    return bd_onnx_emit(l, BD_OP_GATHER, 2, (bd_id[]){weights.id, targets}, 1, &first, out);
  }
  BD_TRY(bd_onnx_number_op(l, BD_I32, 0, &zero));
  BD_TRY(bd_onnx_emit2(l, BD_OP_LE, zero, targets, &counted));
  return bd_onnx_emit_cast(l, counted, dtype, out);
}

// What each target loses: minus the logarithm at its class, times its weight.
static bd_status each_loss(bd_onnx_lowering *l, bd_id logs, bd_id targets, bd_id weights,
                           bd_id *out) {
  int rank = bd_onnx_type(l, logs)->rank - 1;
  bd_type type = *bd_onnx_type(l, targets);
  type.dims[type.rank++] = 1;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", rank), bd_attr_int(l->ctx, "batch", rank)};
  BD_TRY(bd_onnx_emit_reshape(l, targets, type.rank, type.dims, &targets));
  BD_TRY(bd_onnx_emit(l, BD_OP_GATHER, 2, (bd_id[]){logs, targets}, 2, attrs, out));
  BD_TRY(bd_onnx_emit_reshape(l, *out, type.rank - 1, type.dims, out));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, *out, weights, out));
  return bd_onnx_emit1(l, BD_OP_NEG, *out, out);
}

static bd_status lower_parts(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const char *reduction = bd_onnx_text(step, "reduction", "mean");
  bool softmax = step->node->op[0] == 'S';
  bd_onnx_part scores, out = {0}, logs;
  bd_id targets, weights, total;
  BD_TRY(classes_last(l, step, &scores));
  logs = scores;
  if (softmax) BD_TRY(log_softmax(l, scores.id, &logs.id));
  BD_TRY(take_targets(l, step, logs.id, &targets));
  BD_TRY(target_weights(l, step, targets, bd_onnx_type(l, logs.id)->dtype, &weights));
  BD_TRY(each_loss(l, logs.id, targets, weights, &out.id));
  if (strcmp(reduction, "none") != 0) BD_TRY(sum_after(l, out.id, 0, &out.id));
  if (strcmp(reduction, "mean") == 0) {
    BD_TRY(sum_after(l, weights, 0, &total));
    BD_TRY(bd_onnx_emit2(l, BD_OP_DIV, out.id, total, &out.id));
  }
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &out));
  bd_onnx_made(l, step, 0, out);
  if (step->out_count < 2) return BD_OK;
  BD_TRY(bd_onnx_turn(l, logs.first[1], true, logs.id, &logs.id));
  BD_TRY(bd_onnx_regroup(l, step, step->in[0]->rank, step->in[0]->dims, &logs));
  bd_onnx_made(l, step, 1, logs);
  return BD_OK;
}

// Whether `value` is made by a LogSoftmax along dimension 1, as the classes of a loss.
static bool has_log_softmax(const bd_onnx_lowering *l, int value) {
  int producer = l->model->values[value].producer, rank = l->facts[value].rank;
  const bd_onnx_node *node = producer < 0 ? NULL : &l->model->nodes[producer];
  if (!node || strcmp(node->op, "LogSoftmax") != 0) return false;
  bool old = bd_onnx_rule_of(node)->since < 13; // along all dimensions from the axis on
  const bd_onnx_step step = {.ctx = l->ctx, .model = l->model, .node = node};
  int64_t axis = bd_onnx_int(&step, "axis", old ? 1 : -1);
  return (axis == 1 || axis == 1 - rank) && (!old || rank == 2);
}

bool bd_onnx_trains(const bd_onnx_lowering *l, const bd_onnx_node *node) {
  if (strcmp(node->op, "SoftmaxCrossEntropyLoss") == 0) return true;
  return strcmp(node->op, "NegativeLogLikelihoodLoss") == 0 && has_log_softmax(l, node->in[0]);
}

// The loss that trains is the mean of a softmax's over targets that are an input as a whole, whose
// number the program counts. Logarithms of a softmax have the same as what they are of.
static bd_status lower_loss(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool plain = !step->in[2] && bd_onnx_trains(l, step->node) &&
               strcmp(bd_onnx_text(step, "reduction", "mean"), "mean") == 0 &&
               (step->out_count < 2 || step->node->out[1] == BD_ONNX_ABSENT);
  return plain && l->target >= 0 ? lower_trained(l, step) : lower_parts(l, step);
}

static const bd_onnx_lower_rule rules[] = {
    {"NegativeLogLikelihoodLoss", lower_loss, BD_OP_GATHER},
    {"SoftmaxCrossEntropyLoss", lower_loss, BD_OP_XENT},
};
const bd_onnx_lower_rules bd_onnx_lower_losses = {sizeof rules / sizeof *rules, rules};
