// Normalizations, softmax, and losses.
#include "frontend/onnx/infer/step.h"
#include <string.h>

static bd_status check_channels(const bd_onnx_step *step, int first, int count) {
  const bd_onnx_fact *x = step->in[0];
  if (x->rank < 2)
    return bd_onnx_step_fail(step, BD_INVALID, "its operand has %d dimensions", x->rank);
  for (int i = first; i < first + count; i++)
    if (step->in[i]->rank != 1 || !bd_onnx_same(step->in[i]->dims[0], x->dims[1]))
      return bd_onnx_step_fail(step, BD_INVALID,
                               "operand %d, %s, does not have an element per channel of %s", i,
                               bd_onnx_dims_text(step->ctx, step->in[i]->rank, step->in[i]->dims),
                               bd_onnx_dims_text(step->ctx, x->rank, x->dims));
  return BD_OK;
}

static bd_status infer_batch_norm(bd_onnx_step *step) {
  bd_onnx_number channels = {0};
  bool per_element = bd_onnx_int(step, "spatial", 1) == 0;
  if (per_element)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "normalizes every element by itself (spatial=0)");
  // A list of samples has one channel.
  if (step->in[0]->rank == 1)
    channels = bd_onnx_whole(1);
  else
    BD_TRY(check_channels(step, 1, 4));
  if (step->in[0]->rank > 1) channels = step->in[0]->dims[1];
  BD_TRY(bd_onnx_shape_of(step, 0, 0));
  for (int i = 1; i < step->out_count; i++)
    BD_TRY(bd_onnx_shape(step, i, 1, &channels));
  return BD_OK;
}

static bd_status infer_instance_norm(bd_onnx_step *step) {
  BD_TRY(check_channels(step, 1, 2));
  return bd_onnx_shape_of(step, 0, 0);
}

// Version 18 has a scale and bias per group.
static bd_status infer_group_norm(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0];
  int64_t groups = bd_onnx_int(step, "num_groups", 0);
  bd_onnx_number left = bd_onnx_whole(1);
  bool good = x->rank >= 2 && groups >= 1 &&
              bd_onnx_remainder(x->dims[1], bd_onnx_whole(groups), &left) && left.integer == 0;
  for (int i = 1; good && i < 3; i++)
    good = step->in[i]->rank == 1 && bd_onnx_is(step->in[i]->dims[0], groups);
  if (!good)
    return bd_onnx_step_fail(step, BD_INVALID, "its channels, groups, scale and bias do not agree");
  return bd_onnx_shape_of(step, 0, 0);
}

static bd_status infer_layer_norm(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0];
  bd_onnx_number dims[BD_MAX_RANK];
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), x->rank, &axis));
  int rank = 0;
  BD_TRY(bd_onnx_broadcast(step, 0, step->in_count, &rank, dims));
  if (rank != x->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "its scale has more dimensions than its operand");
  BD_TRY(bd_onnx_shape_of(step, 0, 0));
  for (int d = 0; d < x->rank; d++)
    dims[d] = d < axis ? x->dims[d] : bd_onnx_whole(1);
  for (int i = 1; i < step->out_count; i++) {
    if (bd_onnx_int(step, "stash_type", 1) == 1) step->out[i].dtype = BD_ONNX_FLOAT;
    BD_TRY(bd_onnx_shape(step, i, x->rank, dims));
  }
  return BD_OK;
}

static bd_status infer_softmax(bd_onnx_step *step) {
  int axis;
  int64_t absent = step->rule->since < 13 ? 1 : -1, given = bd_onnx_int(step, "axis", absent);
  // Before version 13, the axis may be the rank: a softmax over one element.
  if (step->rule->since < 13 && given == step->in[0]->rank) given = step->in[0]->rank - 1;
  BD_TRY(bd_onnx_axis(step, given, step->in[0]->rank, &axis));
  return bd_onnx_shape_of(step, 0, 0);
}

// Scores [N, C, d1, ..] and targets [N, d1, ..]; weights [C].
static bd_status infer_loss(bd_onnx_step *step) {
  const bd_onnx_fact *scores = step->in[0], *targets = step->in[1], *weights = step->in[2];
  bool good = scores->rank >= 2 && targets->rank == scores->rank - 1;
  for (int d = 0; good && d < targets->rank; d++)
    good = bd_onnx_same(targets->dims[d], scores->dims[d == 0 ? 0 : d + 1]);
  good =
      good && (!weights || (weights->rank == 1 && bd_onnx_same(weights->dims[0], scores->dims[1])));
  if (!good)
    return bd_onnx_step_fail(step, BD_INVALID, "its scores %s and targets %s do not agree",
                             bd_onnx_dims_text(step->ctx, scores->rank, scores->dims),
                             bd_onnx_dims_text(step->ctx, targets->rank, targets->dims));
  bool each = strcmp(bd_onnx_text(step, "reduction", "mean"), "none") == 0;
  BD_TRY(bd_onnx_shape(step, 0, each ? targets->rank : 0, targets->dims));
  return step->out_count < 2 ? BD_OK : bd_onnx_shape_of(step, 1, 0);
}

#define LOSS "ignore_index:i reduction:s{none,mean,sum}"
static const bd_onnx_rule rules[] = {
    {"BatchNormalization", 6, "fffff=ff?f?f?f?", "epsilon:f momentum:f is_test:i spatial:i", 0,
     infer_batch_norm, NULL},
    {"BatchNormalization", 7, "fffff=ff?f?f?f?", "epsilon:f momentum:f spatial:i", 0,
     infer_batch_norm, NULL},
    {"BatchNormalization", 9, "fffff=ff?f?f?f?", "epsilon:f momentum:f", 0, infer_batch_norm, NULL},
    {"BatchNormalization", 14, "fgghh=fh?h?", "epsilon:f momentum:f training_mode:i", 0,
     infer_batch_norm, NULL},
    {"GroupNormalization", 18, "fff=f", "epsilon:f num_groups:i", 0, infer_group_norm, NULL},
    {"InstanceNormalization", 6, "fff=f", "epsilon:f", 0, infer_instance_norm, NULL},
    {"LayerNormalization", 17, "fff?=fx?x?", "axis:i epsilon:f stash_type:i", 0, infer_layer_norm,
     NULL},
    {"LogSoftmax", 1, "f=f", "axis:i", 0, infer_softmax, NULL},
    {"LogSoftmax", 13, "f=f", "axis:i", 0, infer_softmax, NULL},
    {"NegativeLogLikelihoodLoss", 12, "fif?=f", LOSS, 0, infer_loss, NULL},
    {"Softmax", 1, "f=f", "axis:i", 0, infer_softmax, NULL},
    {"Softmax", 13, "f=f", "axis:i", 0, infer_softmax, NULL},
    {"SoftmaxCrossEntropyLoss", 12, "fif?=ff?", LOSS, 0, infer_loss, NULL},
};
const bd_onnx_rules bd_onnx_normal_rules = {sizeof rules / sizeof *rules, rules};
