// What is taken from sequences of tensors. They themselves make no ops: their members are values of
// the model, or parts of values.
#include "frontend/onnx/lower/layout.h"

static bd_status lower_nothing(bd_onnx_lowering *l, const bd_onnx_step *step) {
  (void)l;
  (void)step;
  return BD_OK;
}

static bd_status make_member(bd_onnx_lowering *l, const bd_onnx_step *step,
                             const bd_onnx_member *member, bd_onnx_part *out) {
  int value = member->value, rank = member->source->rank;
  bd_onnx_fact *source = member->source;
  bd_onnx_node node = *step->node;
  bd_onnx_step of_source = *step;
  node.in = &value;
  of_source.node = &node;
  of_source.in = &source;
  BD_TRY(bd_onnx_operand(l, &of_source, 0, out));
  if (member->axis < 0) return BD_OK;
  BD_TRY(bd_onnx_cut(l, step, rank, member->axis, member->start, 1, member->size, out));
  return member->rank == rank ? BD_OK : bd_onnx_regroup(l, step, member->rank, member->dims, out);
}

static bd_status lower_at(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_sequence *sequence = step->in[0]->sequence;
  bd_onnx_number at;
  bd_onnx_part part;
  BD_TRY(bd_onnx_one(step, 1, &at));
  int64_t i = at.integer < 0 ? at.integer + sequence->count : at.integer;
  BD_TRY(make_member(l, step, &sequence->members[i], &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bool is_empty(const bd_onnx_member *member) {
  for (int d = 0; d < member->rank; d++)
    if (member->dims[d].integer == 0) return true;
  return false;
}

static bd_status lower_concat(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_sequence *sequence = step->in[0]->sequence;
  const bd_onnx_fact *out = &step->out[0];
  int axis, count = 0;
  bool stacks = bd_onnx_int(step, "new_axis", 0) != 0;
  bd_onnx_part *parts = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_part, sequence->count), part;
  int64_t *extents = BD_NEW_ARRAY(l->ctx->arena, int64_t, sequence->count);
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), out->rank, &axis));
  bool batch = out->dims[axis].batch && sequence->count > 1;
  if (batch) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "joins along the batch");
  for (int i = 0; i < sequence->count; i++) {
    const bd_onnx_member *member = &sequence->members[i];
    if (is_empty(member)) continue;
    bd_onnx_number dims[BD_MAX_RANK];
    for (int d = 0; d < out->rank; d++)
      dims[d] = d != axis ? out->dims[d] : stacks ? bd_onnx_whole(1) : member->dims[d];
    BD_TRY(make_member(l, step, member, &parts[count]));
    if (stacks) BD_TRY(bd_onnx_regroup(l, step, out->rank, dims, &parts[count]));
    extents[count++] = dims[axis].integer;
  }
  part = parts[0];
  if (count > 1) BD_TRY(bd_onnx_concat(l, step, count, extents, out->rank, axis, parts, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"ConcatFromSequence", lower_concat, BD_OP_CONCAT},
    {"SequenceAt", lower_at, BD_OP_SLICE},
    {"SequenceConstruct", lower_nothing, BD_OP_SLICE},
    {"SequenceEmpty", lower_nothing, BD_OP_SLICE},
    {"SequenceErase", lower_nothing, BD_OP_SLICE},
    {"SequenceInsert", lower_nothing, BD_OP_SLICE},
    {"SplitToSequence", lower_nothing, BD_OP_SLICE},
};
const bd_onnx_lower_rules bd_onnx_lower_sequences = {sizeof rules / sizeof *rules, rules};
