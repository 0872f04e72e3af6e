#include "planner/step/behind.h"
#include <math.h>

enum { FORWARD = 1, BACKWARD = 2 }; // products of a weight

int bd_step_product(const bd_function *backward, bd_id gradient) {
  for (int op; (op = backward->values[gradient].producer) >= 0;) {
    const bd_op *at = &backward->ops[op];
    if (bd_op_is_product(at->kind) || at->kind == BD_OP_CONV_DW) return at->group < 0 ? -1 : op;
    if (at->in_count != 1) return -1;
    gradient = at->in[0];
  }
  return -1;
}

static double behind(const bd_cost_model *model, double seconds, int products, double product) {
  double exposed = bd_part_or(model->cluster->work.gradients_exposed, BD_GRADIENTS_EXPOSED);
  if (!model->cluster->gpu || product <= 0) return seconds;
  return fmax(exposed * seconds, seconds - products * product);
}

double bd_step_behind(const bd_cost_model *model, double seconds, double product) {
  return behind(model, seconds, BACKWARD, product);
}

double bd_step_behind_forward(const bd_cost_model *model, double seconds, double product) {
  return behind(model, seconds, FORWARD, product);
}

bd_status bd_step_product_of(bd_ctx *ctx, const bd_cost_model *model, const bd_function *backward,
                             bd_id gradient, double *out_seconds) {
  int product = bd_step_product(backward, gradient);
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  *out_seconds = 0;
  if (product < 0) return BD_OK;
  const bd_op *op = &backward->ops[product];
  BD_TRY(bd_op_infer(ctx, backward, op, &map, types));
  *out_seconds = bd_cost_op(model, backward, op, &map, op->split);
  return BD_OK;
}
