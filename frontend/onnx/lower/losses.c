// Losses: the graph's is a sum over targets, divided by their number where its gradient enters.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

bd_status bd_onnx_cross_entropy(bd_onnx_lowering *l, bd_id logits, bd_id targets, bd_id *out) {
  bd_id lse;
  BD_TRY(bd_onnx_emit1(l, BD_OP_LSE, logits, &lse));
  return bd_onnx_emit(l, BD_OP_XENT, 3, (bd_id[]){logits, targets, lse}, 0, NULL, out);
}

// Scores [N, C, ..] with the classes last, and one dimension of the graph.
static bd_status classes_last(bd_onnx_lowering *l, const bd_onnx_step *step, bd_onnx_part *scores) {
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  int rank = step->in[0]->rank, at = 0;
  BD_TRY(bd_onnx_operand(l, step, 0, scores));
  BD_TRY(bd_onnx_join(l, step, rank, 1U << 1, scores));
  int count = bd_onnx_type(l, scores->id)->rank, classes = scores->first[1];
  if (scores->first[2] == classes) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has one class");
  for (int i = 0; i < count; i++) {
    from[i] = (char)('a' + i);
    if (i != classes) to[at++] = from[i];
  }
  to[at] = from[classes];
  if (strcmp(from, to) == 0) return BD_OK;
  const char *rule = bd_intern_f(l->ctx, "%s->%s", from, to);
  return bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, &scores->id, rule, &scores->id);
}

// Targets that are not counted become negative.
static bd_status mark_ignored(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id *targets) {
  bd_id ignored, other, same;
  if (!bd_onnx_find(step, "ignore_index")) return BD_OK;
  int64_t ignore = bd_onnx_int(step, "ignore_index", -1);
  if (ignore < 0) return BD_OK; // as all negative ones are
  bd_dtype dtype = bd_onnx_type(l, *targets)->dtype;
  BD_TRY(bd_onnx_number_op(l, dtype, (double)ignore, &ignored));
  BD_TRY(bd_onnx_number_op(l, dtype, -1, &other));
  BD_TRY(bd_onnx_emit2(l, BD_OP_EQ, *targets, ignored, &same));
  return bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){same, other, *targets}, 0, NULL, targets);
}

static bd_status lower_cross_entropy(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part scores, targets, out = {0};
  if (step->in[2]) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "weighs its classes");
  if (strcmp(bd_onnx_text(step, "reduction", "mean"), "mean") != 0)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "reduces by \"%s\"; a loss that trains is the mean over its targets",
                             bd_onnx_text(step, "reduction", "mean"));
  if (step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "gives out its log-probabilities");
  if (l->target < 0)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "its targets are not a whole input of the model, in any shape; export "
                             "the model without its loss, and import it with --loss cross-entropy");
  BD_TRY(classes_last(l, step, &scores));
  BD_TRY(bd_onnx_indices(l, step, 1, &targets));
  // Positions go by the scores' structure.
  bd_type type = *bd_onnx_type(l, scores.id);
  BD_TRY(bd_onnx_emit_reshape(l, targets.id, type.rank - 1, type.dims, &targets.id));
  BD_TRY(mark_ignored(l, step, &targets.id));
  BD_TRY(bd_onnx_cross_entropy(l, scores.id, targets.id, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"SoftmaxCrossEntropyLoss", lower_cross_entropy, BD_OP_XENT},
};
const bd_onnx_lower_rules bd_onnx_lower_losses = {sizeof rules / sizeof *rules, rules};
