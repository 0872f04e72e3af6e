// The pass `narrow-gradients`: weights in bf16 without masters have their gradients in bf16. What
// makes one sums in f32 and rounds the sum once; an op that cannot is followed by a cast.
#include "ir/index.h"
#include "ir/pass.h"

static bool is_result_once(const bd_function *f, bd_id id) {
  int count = 0;
  for (int i = 0; i < f->result_count; i++)
    count += f->results[i] == id;
  for (int i = 0; i < f->op_count; i++)
    if (bd_ids_find(f->ops[i].in, f->ops[i].in_count, id) >= 0) return false;
  return count == 1;
}

// Whether the op may write its result in bf16 by itself, and all of its results are gradients.
static bool may_round(const bd_function *f, const bd_op *op) {
  if (f->values[op->in[0]].type.dtype != BD_BF16 || !bd_op_rounds_sums(op->kind)) return false;
  for (int k = 0; k < op->out_count; k++)
    if (!is_result_once(f, op->out[k])) return false;
  return true;
}

static void set_dtype(bd_ctx *ctx, bd_op *op) {
  bd_op_set_attr(ctx, op, bd_attr_string(ctx, "dtype", bd_dtype_name(BD_BF16)));
}

// Where what is cast is made, so that it is not held until the function ends.
static bd_id add_cast(bd_ctx *ctx, bd_function *f, bd_id id) {
  bd_type type = f->values[id].type;
  type.dtype = BD_BF16;
  bd_id out = bd_function_add_value(ctx, f, NULL, type);
  bd_op *op = bd_function_add_op(ctx, f, BD_OP_CAST, 1, &id, 1, &out, f->loc);
  set_dtype(ctx, op);
  op->group = -1;
  bd_function_move_last_op(f, f->values[id].producer + 1);
  return out;
}

// The gradient of a weight in bf16, where it is not.
static bd_id narrow(bd_ctx *ctx, bd_function *f, bd_id id) {
  int producer = f->values[id].producer;
  if (f->values[id].type.dtype == BD_BF16) return id;
  if (producer < 0 || !may_round(f, &f->ops[producer])) return add_cast(ctx, f, id);
  bd_op *op = &f->ops[producer];
  set_dtype(ctx, op);
  for (int k = 0; k < op->out_count; k++)
    f->values[op->out[k]].type.dtype = BD_BF16;
  return id;
}

static void narrow_function(bd_ctx *ctx, const bd_module *module, bd_function *f) {
  const bd_function *forward = bd_module_find(module, f->peer);
  for (int i = 0; i < f->result_count; i++) {
    int param = f->gradient_of[i];
    if (forward->is_weight[param] && forward->values[forward->params[param]].type.dtype == BD_BF16)
      f->results[i] = narrow(ctx, f, f->results[i]);
  }
}

bd_status bd_pass_narrow_gradients(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *out = bd_module_clone(ctx, in);
  bd_function *main = out->main;
  bool any = false;
  for (int i = 0; i < out->weight_count; i++) {
    bd_weight *weight = &out->weights[i];
    if (weight->type.dtype == BD_BF16 && bd_weight_has_master(weight))
      return bd_fail(ctx, BD_UNSUPPORTED, in->main->loc,
                     "@%s has a master; the pass no-masters comes first", weight->name);
    if (weight->masters != BD_MASTERS_NONE) continue;
    weight->gradients = BD_GRADIENTS_BF16;
    any = true;
  }
  if (!any)
    return bd_fail(ctx, BD_INVALID, in->main->loc,
                   "no weight is rounded; the pass no-masters comes first");
  for (int i = 0; i < out->function_count; i++)
    if (out->functions[i]->role == BD_ROLE_BACKWARD) narrow_function(ctx, out, out->functions[i]);
  for (int i = 1; i < main->result_count; i++)
    main->values[main->results[i]].type.dtype =
        bd_weight_gradient_dtype(&out->weights[out->gradient_weight[i - 1]]);
  *out_module = out;
  return BD_OK;
}
