#include "planner/full/weight.h"
#include "ir/index.h"
#include "planner/layer/layer.h"
#include <math.h>

static bd_status op_flops(bd_ctx *ctx, const bd_function *f, const bd_op *op, int64_t batch,
                          double *out) {
  static const int8_t unsplit[BD_MAX_AXES] = {-1, -1, -1, -1};
  const bd_mesh one = {0};
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, f, op, &map, types));
  *out = bd_op_flops(f, op, &map, &one, unsplit, batch);
  return BD_OK;
}

// Per op of a backward function: whether a gradient of an activation needs it.
static const bool *find_needed(bd_ctx *ctx, const bd_function *forward,
                               const bd_function *backward) {
  bool *value = BD_NEW_ARRAY(ctx->arena, bool, backward->value_count);
  bool *op = BD_NEW_ARRAY(ctx->arena, bool, backward->op_count);
  for (int r = 0; r < backward->result_count; r++)
    if (!forward->is_weight[backward->gradient_of[r]]) value[backward->results[r]] = true;
  for (int i = backward->op_count - 1; i >= 0; i--) {
    const bd_op *at = &backward->ops[i];
    for (int k = 0; k < at->out_count; k++)
      op[i] = op[i] || value[at->out[k]];
    for (int k = 0; op[i] && k < at->in_count; k++)
      value[at->in[k]] = true;
  }
  return op;
}

bd_status bd_add_pass_flops(bd_ctx *ctx, const bd_module *train, const bd_function *forward,
                            int64_t batch, bd_pass_flops *sum) {
  const bd_function *backward = bd_layer_backward(train, forward);
  double flops;
  for (int i = 0; i < forward->op_count; i++) {
    BD_TRY(op_flops(ctx, forward, &forward->ops[i], batch, &flops));
    sum->forward += flops;
  }
  const bool *needed = find_needed(ctx, forward, backward);
  for (int i = 0; i < backward->op_count; i++) {
    BD_TRY(op_flops(ctx, backward, &backward->ops[i], batch, &flops));
    sum->backward += flops;
    if (!needed[i]) sum->weight += flops;
  }
  return BD_OK;
}

double bd_weight_pass_seconds(const bd_pass_flops *flops, double forward_seconds,
                              double backward_seconds) {
  double of_backward = flops->backward > 0 ? flops->weight / flops->backward : 0;
  double of_forward = flops->forward > 0 ? flops->weight / flops->forward : INFINITY;
  return fmin(of_backward * backward_seconds, of_forward * forward_seconds);
}

// The two parts are equal where it is most.
double bd_weight_pass_share(const bd_pass_flops *flops) {
  if (flops->weight <= 0 || flops->backward <= 0) return 0;
  return flops->weight / (flops->backward + flops->forward);
}
