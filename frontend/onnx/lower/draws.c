#include "frontend/onnx/lower/draws.h"

#include "frontend/onnx/summary.h"
#include <string.h>

typedef struct drawing {
  bd_onnx_lowering *l;
  bd_onnx_draw *draws; // per node
  bool *drawn;         // per value: u
  double *shifted;     // per value that is u and a probability: which; else 0
} drawing;

static bool is_op(const bd_onnx_node *node, const char *op) {
  return node->domain[0] == '\0' && strcmp(node->op, op) == 0;
}

static bd_status fail_use(const bd_onnx_step *step) {
  return bd_onnx_step_fail(
      step, BD_UNSUPPORTED,
      "uses random numbers otherwise than for a mask, which is floor(u + kept) or u < kept with "
      "a number from 0 to 1 for kept; export without it, or in evaluation mode");
}

static bd_status check_samples(const bd_onnx_step *step) {
  const bd_onnx_fact *out = &step->out[0];
  if (out->rank > 0 && out->dims[0].batch && out->dims[0].integer == 1) return BD_OK;
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "draws %s; random numbers have the batch as their first dimension, so "
                           "that each sample has its own",
                           bd_onnx_dims_text(step->ctx, out->rank, out->dims));
}

// Whether an operand is one number everywhere, which it may have been made as large for as it is.
static bd_status find_number(const drawing *d, const bd_onnx_step *step, bool *out_same,
                             bd_onnx_number *out) {
  const bd_onnx_model *model = d->l->model;
  bd_onnx_step at = *step;
  for (;;) {
    BD_TRY(bd_onnx_same_number(d->l, &at, 0, out_same, out));
    int producer = model->values[at.node->in[0]].producer;
    if (*out_same || producer < 0 || !is_op(&model->nodes[producer], "Expand")) return BD_OK;
    at = bd_onnx_lower_step(d->l, &model->nodes[producer]);
  }
}

// A mask of its own.
static bd_status toss(drawing *d, const bd_onnx_step *step) {
  bd_onnx_number kept = {.real = 0};
  bool same = false;
  BD_TRY(find_number(d, step, &same, &kept));
  if (!same || !(kept.real > 0 && kept.real <= 1))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "draws with probabilities that are not one number above 0, and 1 at "
                             "most; export without it, or in evaluation mode");
  BD_TRY(check_samples(step));
  d->draws[step->node->number] = (bd_onnx_draw){BD_ONNX_DRAW_MASK, kept.real};
  return BD_OK;
}

static bd_status begin(drawing *d, const bd_onnx_step *step) {
  double low = bd_onnx_real(step, "low", 0), high = bd_onnx_real(step, "high", 1);
  if (is_op(step->node, "Bernoulli")) return toss(d, step);
  if (!bd_onnx_equal_reals(low, 0) || !bd_onnx_equal_reals(high, 1)) return fail_use(step);
  BD_TRY(check_samples(step));
  d->draws[step->node->number].kind = BD_ONNX_DRAW_PART;
  d->drawn[step->node->out[0]] = true;
  return BD_OK;
}

// The operand that is random; the other's one number, where there is another.
static bd_status read_operands(const drawing *d, const bd_onnx_step *step, int *out_random,
                               double *out_number) {
  bool same = step->in_count == 2;
  bd_onnx_number number = {.real = 0};
  const int *in = step->node->in;
  *out_random = d->drawn[in[0]] || d->shifted[in[0]] > 0 ? 0 : 1;
  if (same) BD_TRY(bd_onnx_same_number(d->l, step, 1 - *out_random, &same, &number));
  *out_number = same ? number.real : 0;
  return BD_OK;
}

static bd_status follow(drawing *d, const bd_onnx_step *step) {
  const bd_onnx_node *node = step->node;
  bd_onnx_draw *draw = &d->draws[node->number];
  bool less = is_op(node, "Less"), greater = is_op(node, "Greater");
  int random = 0;
  double number = 0;
  if (is_op(node, "Floor") && d->shifted[node->in[0]] > 0) {
    *draw = (bd_onnx_draw){BD_ONNX_DRAW_MASK, d->shifted[node->in[0]]};
    return BD_OK;
  }
  if (!less && !greater && !is_op(node, "Add")) return fail_use(step);
  BD_TRY(read_operands(d, step, &random, &number));
  if (!d->drawn[node->in[random]] || !(number > 0 && number <= 1)) return fail_use(step);
  *draw = (bd_onnx_draw){BD_ONNX_DRAW_PART, 0};
  if (is_op(node, "Add")) {
    d->shifted[node->out[0]] = number;
    return BD_OK;
  }
  *draw = (bd_onnx_draw){BD_ONNX_DRAW_MASK, less == (random == 0) ? number : 1 - number};
  return draw->kept > 0 ? BD_OK : fail_use(step);
}

static bool takes_random(const drawing *d, const bd_onnx_node *node) {
  for (int i = 0; i < node->in_count; i++) {
    int value = node->in[i];
    if (bd_onnx_takes(d->l->facts, node, i) && (d->drawn[value] || d->shifted[value] > 0))
      return true;
  }
  return false;
}

bd_status bd_onnx_find_draws(bd_onnx_lowering *l, const bool *running,
                             const bd_onnx_draw **out_draws) {
  const bd_onnx_model *model = l->model;
  drawing d = {.l = l,
               .draws = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_draw, model->node_count),
               .drawn = BD_NEW_ARRAY(l->ctx->arena, bool, model->value_count),
               .shifted = BD_NEW_ARRAY(l->ctx->arena, double, model->value_count)};
  for (int n = 0; n < model->node_count; n++) {
    const bd_onnx_node *node = &model->nodes[n];
    bool begins = is_op(node, "RandomUniformLike") || is_op(node, "Bernoulli");
    if (!running[n] || !(begins || takes_random(&d, node))) continue;
    bd_onnx_step step = bd_onnx_lower_step(l, node);
    BD_TRY(begins ? begin(&d, &step) : follow(&d, &step));
  }
  for (int i = 0; i < model->output_count; i++) {
    int value = model->outputs[i];
    if (!d.drawn[value] && !(d.shifted[value] > 0)) continue;
    bd_onnx_step step = bd_onnx_lower_step(l, &model->nodes[model->values[value].producer]);
    return fail_use(&step);
  }
  *out_draws = d.draws;
  return BD_OK;
}

// Exactly 0 or 1 in any precision: whether dropout keeps a 1.
bd_status bd_onnx_lower_mask(bd_onnx_lowering *l, const bd_onnx_step *step, double kept) {
  const bd_onnx_fact *out = &step->out[0];
  bd_dtype dtype = BD_F32;
  bd_onnx_part part = {0}, none = {0};
  (void)bd_onnx_element_type(out->dtype, &dtype);
  BD_TRY(bd_onnx_number_op(l, BD_F32, 1, &part.id));
  BD_TRY(bd_onnx_spread(l, step, 0, &part, out->rank, out->dims));
  bd_attr attrs[] = {bd_attr_real(l->ctx, "p", 1 - kept), bd_attr_int(l->ctx, "site", l->sites++)};
  if (kept < 1) BD_TRY(bd_onnx_emit(l, BD_OP_DROPOUT, 1, &part.id, 2, attrs, &part.id));
  BD_TRY(bd_onnx_number_op(l, BD_F32, 0, &none.id));
  BD_TRY(bd_onnx_spread(l, step, 0, &none, out->rank, out->dims));
  BD_TRY(bd_onnx_emit2(l, BD_OP_LT, none.id, part.id, &part.id));
  BD_TRY(bd_onnx_emit_cast(l, part.id, dtype, &part.id));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}
