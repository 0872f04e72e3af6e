// Normalizations by statistics of the batch's elements or of running ones, of the graph's
// arithmetic.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

// x of the step with its layout, in the shape of the model.
typedef struct norm {
  bd_onnx_lowering *l;
  const bd_onnx_step *step;
  int rank;
  double epsilon;
} norm;

static bd_status pair_up(const norm *n, bd_op_kind kind, const bd_onnx_part *a,
                         const bd_onnx_part *b, bd_onnx_part *out) {
  bd_onnx_part both[] = {*a, *b};
  int ranks[] = {n->rank, n->rank};
  BD_TRY(bd_onnx_align(n->l, n->step, 2, ranks, both, n->rank, out));
  return bd_onnx_emit2(n->l, kind, both[0].id, both[1].id, &out->id);
}

// Operand `i`, an element per channel, as a value with the other dimensions 1.
static bd_status channels(const norm *n, int i, bd_onnx_part *out) {
  bd_onnx_part list;
  BD_TRY(bd_onnx_operand(n->l, n->step, i, &list));
  *out = (bd_onnx_part){.id = list.id};
  for (int d = 2; d <= n->rank; d++)
    out->first[d] = list.first[1];
  return BD_OK;
}

// Elements of all samples, `each` per sample: how many samples there are a plan decides.
static bd_status count_all(const norm *n, bd_dtype dtype, double each, bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(n->l->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(n->l->ctx, "dims", 1, (int64_t[]){BD_DIM_BATCH}),
                     bd_attr_real(n->l->ctx, "value", each)};
  BD_TRY(bd_onnx_emit(n->l, BD_OP_CONSTANT, 0, NULL, 3, attrs, out));
  return bd_onnx_emit_rule(n->l, BD_OP_REDUCE_SUM, 1, out, "A->", out);
}

// The mean of x over `axes`, which stay with extent 1.
static bd_status mean(const norm *n, unsigned axes, const bd_onnx_part *x,
                      const bd_onnx_number *dims, bd_onnx_part *out) {
  double size = 1;
  bool batch = false;
  bd_id count;
  for (int d = 0; d < n->rank; d++) {
    if (!(axes >> d & 1)) continue;
    batch = batch || dims[d].batch;
    size *= (double)dims[d].integer;
  }
  *out = *x;
  BD_TRY(bd_onnx_reduce(n->l, BD_OP_REDUCE_SUM, n->rank, axes, out));
  if (!batch) return bd_onnx_emit_real(n->l, BD_OP_SCALE, out->id, 1 / size, &out->id);
  BD_TRY(count_all(n, bd_onnx_type(n->l, x->id)->dtype, size, &count));
  return bd_onnx_emit2(n->l, BD_OP_DIV, out->id, count, &out->id);
}

// (x - centre) / sqrt(variance + epsilon).
static bd_status normalize(const norm *n, const bd_onnx_part *x, const bd_onnx_part *centre,
                           bd_onnx_part variance, bd_onnx_part *out) {
  bd_onnx_part apart;
  BD_TRY(pair_up(n, BD_OP_SUB, x, centre, &apart));
  BD_TRY(bd_onnx_emit_real(n->l, BD_OP_OFFSET, variance.id, n->epsilon, &variance.id));
  BD_TRY(bd_onnx_emit1(n->l, BD_OP_SQRT, variance.id, &variance.id));
  return pair_up(n, BD_OP_DIV, &apart, &variance, out);
}

// The mean of squares of what is left of x without its mean.
static bd_status statistics(const norm *n, unsigned axes, const bd_onnx_part *x,
                            const bd_onnx_number *dims, bd_onnx_part *centre,
                            bd_onnx_part *variance) {
  bd_onnx_part apart;
  BD_TRY(mean(n, axes, x, dims, centre));
  BD_TRY(pair_up(n, BD_OP_SUB, x, centre, &apart));
  BD_TRY(bd_onnx_emit2(n->l, BD_OP_MUL, apart.id, apart.id, &apart.id));
  return mean(n, axes, &apart, dims, variance);
}

// Scales and shifts by operands 1 and 2, and keeps the result.
static bd_status finish(const norm *n, bd_onnx_part x) {
  bd_onnx_part gain, bias;
  BD_TRY(channels(n, 1, &gain));
  BD_TRY(channels(n, 2, &bias));
  BD_TRY(pair_up(n, BD_OP_MUL, &x, &gain, &x));
  BD_TRY(pair_up(n, BD_OP_ADD, &x, &bias, &x));
  bd_onnx_made(n->l, n->step, 0, x);
  return BD_OK;
}

static norm begin(bd_onnx_lowering *l, const bd_onnx_step *step) {
  return (norm){l, step, step->in[0]->rank, bd_onnx_real(step, "epsilon", 1e-5)};
}

// Running statistics that are mixed with the batch's: momentum * old + (1 - momentum) * new.
static bd_status mix(const norm *n, int i, bd_onnx_part now) {
  bd_onnx_part old;
  double momentum = bd_onnx_real(n->step, "momentum", 0.9);
  BD_TRY(channels(n, i + 2, &old));
  BD_TRY(bd_onnx_emit_real(n->l, BD_OP_SCALE, old.id, momentum, &old.id));
  BD_TRY(bd_onnx_emit_real(n->l, BD_OP_SCALE, now.id, 1 - momentum, &now.id));
  BD_TRY(pair_up(n, BD_OP_ADD, &old, &now, &now));
  BD_TRY(bd_onnx_regroup(n->l, n->step, 1, n->step->out[i].dims, &now));
  bd_onnx_made(n->l, n->step, i, now);
  return BD_OK;
}

// Statistics of a model that trains are averaged in operand `i`, where that is a weight.
static bd_status track(const norm *n, int i, bd_onnx_part *now) {
  bd_onnx_part kept;
  if (!n->step->in[i]->weight) return BD_OK;
  BD_TRY(channels(n, i, &kept));
  bd_module *module = n->l->graph.module;
  const char *name = n->l->graph.function->values[kept.id].name;
  for (int w = 0; w < module->weight_count; w++)
    if (strcmp(module->weights[w].name, name) == 0)
      module->weights[w].average = 1 - bd_onnx_real(n->step, "momentum", 0.9);
  return bd_onnx_emit2(n->l, BD_OP_TRACK, kept.id, now->id, &now->id);
}

static bd_status lower_batch_norm(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const norm n = begin(l, step);
  bd_onnx_part x, centre, variance;
  if (n.rank < 2) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "normalizes a list");
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  bool trains = step->rule->since >= 14 && bd_onnx_int(step, "training_mode", 0) != 0;
  double momentum = bd_onnx_real(step, "momentum", 0.9);
  if (trains && !(momentum >= 0 && momentum <= 1))
    return bd_onnx_step_fail(step, BD_INVALID, "has a momentum of %g, which is not from 0 to 1",
                             momentum);
  if (trains) {
    unsigned axes = ((1U << n.rank) - 1) & ~2U;
    BD_TRY(statistics(&n, axes, &x, step->in[0]->dims, &centre, &variance));
    BD_TRY(track(&n, 3, &centre));
    BD_TRY(track(&n, 4, &variance));
    if (step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT) BD_TRY(mix(&n, 1, centre));
    if (step->out_count > 2 && step->node->out[2] != BD_ONNX_ABSENT) BD_TRY(mix(&n, 2, variance));
  } else {
    BD_TRY(channels(&n, 3, &centre));
    BD_TRY(channels(&n, 4, &variance));
  }
  BD_TRY(normalize(&n, &x, &centre, variance, &x));
  return finish(&n, x);
}

static bd_status lower_instance_norm(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const norm n = begin(l, step);
  bd_onnx_part x, centre, variance;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  unsigned axes = ((1U << n.rank) - 1) & ~3U;
  BD_TRY(statistics(&n, axes, &x, step->in[0]->dims, &centre, &variance));
  BD_TRY(normalize(&n, &x, &centre, variance, &x));
  return finish(&n, x);
}

// x as [N, groups, the rest], whose scale and bias are per group.
static bd_status lower_group_norm(bd_onnx_lowering *l, const bd_onnx_step *step) {
  norm n = begin(l, step);
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_number dims[3] = {in->dims[0], bd_onnx_whole(bd_onnx_int(step, "num_groups", 1))};
  bd_onnx_part x, centre, variance, gain, bias;
  bool good = bd_onnx_product(in->dims + 1, in->rank - 1, &dims[2]) &&
              bd_onnx_divide(dims[2], dims[1], &dims[2]);
  if (!good) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has groups of unknown size");
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_regroup(l, step, 3, dims, &x));
  n.rank = 3;
  BD_TRY(statistics(&n, 1U << 2, &x, dims, &centre, &variance));
  BD_TRY(normalize(&n, &x, &centre, variance, &x));
  BD_TRY(channels(&n, 1, &gain));
  BD_TRY(channels(&n, 2, &bias));
  BD_TRY(pair_up(&n, BD_OP_MUL, &x, &gain, &x));
  BD_TRY(pair_up(&n, BD_OP_ADD, &x, &bias, &x));
  BD_TRY(bd_onnx_regroup(l, step, in->rank, in->dims, &x));
  bd_onnx_made(l, step, 0, x);
  return BD_OK;
}

// Over every dimension after the channels.
static bd_status lower_global_pool(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const norm n = begin(l, step);
  unsigned axes = ((1U << n.rank) - 1) & ~3U;
  bd_onnx_part x, out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  out = x;
  BD_TRY(bd_onnx_lower_kind(step) == BD_OP_REDUCE_MAX
             ? bd_onnx_reduce(l, BD_OP_REDUCE_MAX, n.rank, axes, &out)
             : mean(&n, axes, &x, step->in[0]->dims, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"BatchNormalization", lower_batch_norm, BD_OP_DIV},
    {"GlobalAveragePool", lower_global_pool, BD_OP_REDUCE_SUM},
    {"GlobalMaxPool", lower_global_pool, BD_OP_REDUCE_MAX},
    {"GroupNormalization", lower_group_norm, BD_OP_DIV},
    {"InstanceNormalization", lower_instance_norm, BD_OP_DIV},
};
const bd_onnx_lower_rules bd_onnx_lower_norms = {sizeof rules / sizeof *rules, rules};
