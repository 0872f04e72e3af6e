// Sequences of tensors, whose members are known: which value of the model each is, or which part of
// one. They are no values of the graph; what is taken from them is.
#include "frontend/onnx/infer/step.h"

static bd_status give(bd_onnx_step *step, bd_onnx_dtype dtype, int count,
                      const bd_onnx_member *members) {
  if (count > BD_ONNX_MOST_MEMBERS)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "its sequence has more than %d members",
                             BD_ONNX_MOST_MEMBERS);
  step->members->made += count;
  if (step->members->made > BD_ONNX_MOST_MADE)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "the sequences up to it have more than %d members together; export "
                             "the model without lists of tensors",
                             BD_ONNX_MOST_MADE);
  bd_onnx_sequence *sequence = BD_NEW(step->ctx->arena, bd_onnx_sequence);
  *sequence = (bd_onnx_sequence){dtype, count, members};
  step->out[0].sequence = sequence;
  return BD_OK;
}

static bd_onnx_member member_of(const bd_onnx_step *step, int i) {
  bd_onnx_fact *in = step->in[i];
  return (bd_onnx_member){
      .value = step->node->in[i], .source = in, .axis = -1, .rank = in->rank, .dims = in->dims};
}

// One index into `count` members, counted from the end where it is negative; `behind`: or one past
// them.
static bd_status read_index(const bd_onnx_step *step, int i, int count, bool behind, int *out) {
  bd_onnx_number at;
  BD_TRY(bd_onnx_one(step, i, &at));
  if (at.batch || at.integer < -count || at.integer >= count + behind)
    return bd_onnx_step_fail(step, BD_INVALID, "its index %lld is outside of %d members",
                             (long long)at.integer, count);
  *out = (int)(at.integer < 0 ? at.integer + count : at.integer);
  return BD_OK;
}

static bd_status infer_construct(bd_onnx_step *step) {
  bd_onnx_member *members = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_member, step->in_count);
  for (int i = 0; i < step->in_count; i++)
    members[i] = member_of(step, i);
  return give(step, step->in[0]->dtype, step->in_count, members);
}

static bd_status infer_empty(bd_onnx_step *step) {
  int64_t dtype = bd_onnx_int(step, "dtype", BD_ONNX_FLOAT);
  if (dtype <= BD_ONNX_UNDEFINED || dtype > BD_ONNX_BFLOAT16)
    return bd_onnx_step_fail(step, BD_INVALID, "its members are of type %lld, which is none",
                             (long long)dtype);
  return give(step, (bd_onnx_dtype)dtype, 0, NULL);
}

static bd_status infer_insert(bd_onnx_step *step) {
  const bd_onnx_sequence *in = step->in[0]->sequence;
  int at = in->count;
  if (step->in[1]->dtype != in->dtype)
    return bd_onnx_step_fail(step, BD_INVALID, "puts %s into a sequence of %s",
                             bd_onnx_dtype_name(step->in[1]->dtype), bd_onnx_dtype_name(in->dtype));
  if (step->in[2]) BD_TRY(read_index(step, 2, in->count, true, &at));
  bd_onnx_member *members = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_member, in->count + 1);
  for (int i = 0; i <= in->count; i++)
    members[i] = i == at ? member_of(step, 1) : in->members[i - (i > at)];
  return give(step, in->dtype, in->count + 1, members);
}

static bd_status infer_erase(bd_onnx_step *step) {
  const bd_onnx_sequence *in = step->in[0]->sequence;
  int at = in->count - 1;
  if (step->in[1]) BD_TRY(read_index(step, 1, in->count, false, &at));
  if (in->count == 0) return bd_onnx_step_fail(step, BD_INVALID, "its sequence is empty");
  bd_onnx_member *members = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_member, in->count);
  for (int i = 0; i < in->count - 1; i++)
    members[i] = in->members[i + (i >= at)];
  return give(step, in->dtype, in->count - 1, members);
}

static bd_status infer_length(bd_onnx_step *step) {
  BD_TRY(bd_onnx_shape(step, 0, 0, NULL));
  bd_onnx_fold(step, 0)[0] = bd_onnx_whole(step->in[0]->sequence->count);
  return BD_OK;
}

// Sizes of the parts: those given, or one for all but the last, which may be smaller.
static bd_status read_sizes(const bd_onnx_step *step, int axis, int64_t extent, int *out_count,
                            const bd_onnx_number **out_sizes) {
  const bd_onnx_number *given = NULL;
  int count = 0;
  BD_TRY(bd_onnx_numbers(step, NULL, 1, &count, &given));
  int64_t sum = 0;
  for (int i = 0; i < count; i++)
    if (given[i].batch || given[i].integer < 0 ||
        __builtin_add_overflow(sum, given[i].integer, &sum))
      return bd_onnx_step_fail(step, BD_INVALID, "its parts have sizes that are none");
  if (step->in[1] && step->in[1]->rank == 1) {
    *out_count = count;
    *out_sizes = given;
    if (sum == extent) return BD_OK;
    return bd_onnx_step_fail(step, BD_INVALID,
                             "the sizes of its parts add up to %lld, not to the %lld of dimension "
                             "%d",
                             (long long)sum, (long long)extent, axis);
  }
  int64_t size = given ? given[0].integer : 1;
  if (size < 1) return bd_onnx_step_fail(step, BD_INVALID, "its parts have sizes that are none");
  int64_t parts = extent / size + (extent % size > 0);
  if (parts > BD_ONNX_MOST_MEMBERS) parts = BD_ONNX_MOST_MEMBERS + 1; // is refused
  bd_onnx_number *sizes = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, parts);
  for (int64_t i = 0; i < parts; i++)
    sizes[i] = bd_onnx_whole(extent - i * size < size ? extent - i * size : size);
  *out_count = (int)parts;
  *out_sizes = sizes;
  return BD_OK;
}

// The standard passes over `keepdims` where sizes are given; PyTorch's exporter gives both for an
// unbind in a script, and ONNX Runtime drops the dimension.
static bd_status read_squeezed(const bd_onnx_step *step, bool *out) {
  *out = bd_onnx_int(step, "keepdims", 1) == 0;
  if (!*out || !step->in[1]) return BD_OK;
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "has both sizes and \"keepdims\" 0, which readers of ONNX do not agree "
                           "on; export the model traced, not scripted, which makes a Split of it");
}

static bd_status infer_split(bd_onnx_step *step) {
  bd_onnx_fact *in = step->in[0];
  int axis = 0, count = 0;
  int64_t start = 0;
  const bd_onnx_number *sizes = NULL;
  bool squeezed = false;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), in->rank, &axis));
  BD_TRY(read_squeezed(step, &squeezed));
  if (in->dims[axis].batch)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "parts dimension %d, which is the batch; samples must be apart", axis);
  BD_TRY(read_sizes(step, axis, in->dims[axis].integer, &count, &sizes));
  bd_onnx_member *members = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_member, count);
  for (int i = 0; i < count; i++) {
    bd_onnx_number *dims = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, in->rank);
    int rank = 0;
    for (int d = 0; d < in->rank; d++)
      if (d != axis || !squeezed) dims[rank++] = d == axis ? sizes[i] : in->dims[d];
    members[i] = (bd_onnx_member){.value = step->node->in[0],
                                  .source = in,
                                  .axis = axis,
                                  .start = start,
                                  .size = sizes[i].integer,
                                  .rank = rank,
                                  .dims = dims};
    start += sizes[i].integer;
  }
  return give(step, in->dtype, count, members);
}

// Elements of a member, where those of what it is a part of are known.
static bd_status fold_member(bd_onnx_step *step, const bd_onnx_member *m) {
  bd_onnx_fact *in = m->source, *out = &step->out[0];
  if (in->weight || !bd_onnx_is_known(in)) return BD_OK;
  BD_TRY(bd_onnx_load(step, in));
  out->uniform = in->uniform;
  if (!in->uniform && (!bd_onnx_plain(in) || bd_onnx_count(out) > BD_ONNX_MOST_KNOWN)) return BD_OK;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  if (in->uniform) {
    known[0] = in->known[0];
    return BD_OK;
  }
  int64_t inner = 1, count = bd_onnx_count(out), own = count, all = count;
  for (int d = m->axis + 1; d < in->rank; d++)
    inner *= in->dims[d].integer;
  if (m->axis >= 0) {
    own = m->size * inner;
    all = in->dims[m->axis].integer * inner;
  }
  for (int64_t i = 0; i < count; i++)
    known[i] = in->known[i / own * all + m->start * inner + i % own];
  return BD_OK;
}

static bd_status infer_at(bd_onnx_step *step) {
  const bd_onnx_sequence *in = step->in[0]->sequence;
  int at = 0;
  BD_TRY(read_index(step, 1, in->count, false, &at));
  const bd_onnx_member *m = &in->members[at];
  step->out[0].dtype = in->dtype;
  BD_TRY(bd_onnx_shape(step, 0, m->rank, m->dims));
  return fold_member(step, m);
}

static bd_status infer_concat(bd_onnx_step *step) {
  const bd_onnx_sequence *in = step->in[0]->sequence;
  bool stacks = bd_onnx_int(step, "new_axis", 0) != 0;
  int axis = 0;
  bd_onnx_number dims[BD_MAX_RANK + 1], sum = bd_onnx_whole(in->count);
  if (in->count == 0) return bd_onnx_step_fail(step, BD_INVALID, "its sequence is empty");
  step->members->joined += in->count;
  if (step->members->joined > BD_ONNX_MOST_JOINED)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "it and the joins before it take more than %d members of sequences "
                             "together; export the model with Split and Concat instead",
                             BD_ONNX_MOST_JOINED);
  const bd_onnx_member *first = &in->members[0];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), first->rank + stacks, &axis));
  for (int i = 0; i < in->count; i++) {
    const bd_onnx_member *m = &in->members[i];
    bool same = m->rank == first->rank;
    for (int d = 0; d < m->rank && same; d++)
      same = (d == axis && !stacks) || bd_onnx_same(m->dims[d], first->dims[d]);
    if (!same)
      return bd_onnx_step_fail(step, BD_INVALID, "its members' shapes do not agree: %s and %s",
                               bd_onnx_dims_text(step->ctx, first->rank, first->dims),
                               bd_onnx_dims_text(step->ctx, m->rank, m->dims));
    if (stacks) continue;
    if (i == 0)
      sum = m->dims[axis];
    else if (!bd_onnx_add(sum, m->dims[axis], &sum))
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "joins along the batch");
  }
  for (int d = 0; d < first->rank + stacks; d++)
    dims[d] = d == axis ? sum : first->dims[d - (stacks && d > axis)];
  step->out[0].dtype = in->dtype;
  return bd_onnx_shape(step, 0, first->rank + stacks, dims);
}

static const bd_onnx_rule rules[] = {
    {"ConcatFromSequence", 11, "q=x", "axis:i new_axis:i", 0, infer_concat, NULL},
    {"SequenceAt", 11, "qi=x", "", 1U << 1, infer_at, NULL},
    {"SequenceConstruct", 11, "t*=q", "", 0, infer_construct, NULL},
    {"SequenceEmpty", 11, "=q", "dtype:i", 0, infer_empty, NULL},
    {"SequenceErase", 11, "qi?=q", "", 1U << 1, infer_erase, NULL},
    {"SequenceInsert", 11, "qti?=q", "", 1U << 2, infer_insert, NULL},
    {"SequenceLength", 11, "q=l", "", 0, infer_length, NULL},
    {"SplitToSequence", 11, "ti?=q", "axis:i keepdims:i", 1U << 1, infer_split, NULL},
};
const bd_onnx_rules bd_onnx_sequence_rules = {sizeof rules / sizeof *rules, rules};
