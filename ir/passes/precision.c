// The passes `precision` and `precision-f16`: weights and activations become bf16 or f16, with a
// master copy in f32 for each weight. What is a statistic, a loss, or a gradient of a weight stays
// f32. A value of main has one width everywhere, and so have a parameter and a result of a function
// in all its calls: narrow wherever one of them is.
#include "ir/passes/precision.h"

#include "ir/pass.h"
#include <string.h>

typedef struct precision {
  bd_ctx *ctx;
  const bd_module *in;
  bd_dtype dtype;         // of what is narrow
  bd_narrowed *functions; // per function of the module
  bool *narrow;           // per value of main
} precision;

static bd_narrowed *find(const precision *p, const char *name) {
  for (int i = 0; i < p->in->function_count; i++)
    if (strcmp(p->in->functions[i]->name, name) == 0) return &p->functions[i];
  return NULL;
}

static bool is_forward_call(const precision *p, const bd_op *op) {
  return op->kind == BD_OP_CALL && find(p, op->callee)->from->role == BD_ROLE_FORWARD;
}

static bd_id weight_value(const precision *p, int weight) {
  return p->in->main->params[p->in->input_count + weight];
}

static bd_id loss_of(const precision *p) {
  return p->in->main->results[0];
}

// Sets `flag`; whether that changed it.
static bool set(bool *flag, bool value) {
  bool changes = value && !*flag;
  *flag |= value;
  return changes;
}

// One round over the forward calls: widths flow from operands to parameters, through the function
// to its results, and back from parameters and results that another call has made narrow.
static bool flow(precision *p) {
  const bd_function *main = p->in->main;
  bool changed = false;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (!is_forward_call(p, op)) continue;
    bd_narrowed *f = find(p, op->callee);
    bool *inside = BD_NEW_ARRAY(p->ctx->arena, bool, f->from->value_count);
    for (int k = 0; k < op->in_count; k++) {
      changed |= set(&f->narrow_param[k], p->narrow[op->in[k]]);
      changed |= set(&p->narrow[op->in[k]], f->narrow_param[k]);
    }
    bd_precision_propagate(f->from, f->narrow_param, inside);
    for (int k = 0; k < op->out_count; k++) {
      if (op->out[k] == loss_of(p)) continue;
      changed |= set(&f->narrow_result[k], inside[f->from->results[k]] || p->narrow[op->out[k]]);
      changed |= set(&p->narrow[op->out[k]], f->narrow_result[k]);
    }
  }
  return changed;
}

// The loss is f32 whatever made it.
static bd_status check_loss(const precision *p) {
  const bd_function *main = p->in->main;
  if (p->narrow[loss_of(p)])
    return bd_fail(p->ctx, BD_UNSUPPORTED, main->loc,
                   "the loss is also an operand of a call on %s values", bd_dtype_name(p->dtype));
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (!is_forward_call(p, op)) continue;
    for (int k = 0; k < op->out_count; k++)
      if (op->out[k] == loss_of(p) && find(p, op->callee)->narrow_result[k])
        return bd_fail(p->ctx, BD_UNSUPPORTED, op->loc,
                       "the function of the loss is called for an activation as well");
  }
  return BD_OK;
}

// A weight's gradients are f32, so a parameter is a weight in all calls or in none; and a weight
// that is never updated has no master, so it is not narrow.
static bd_status check_weights(const precision *p) {
  const bd_function *main = p->in->main;
  bool *weights = BD_NEW_ARRAY(p->ctx->arena, bool, main->value_count);
  bool *updated = BD_NEW_ARRAY(p->ctx->arena, bool, main->value_count);
  for (int i = 1; i < main->result_count; i++)
    updated[weight_value(p, p->in->gradient_weight[i - 1])] = true;
  for (int i = 0; i < p->in->weight_count; i++)
    weights[weight_value(p, i)] = true;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (!is_forward_call(p, op)) continue;
    const bd_function *callee = find(p, op->callee)->from;
    for (int k = 0; k < op->in_count; k++)
      if (weights[op->in[k]] && p->narrow[op->in[k]] && !updated[op->in[k]])
        return bd_fail(p->ctx, BD_UNSUPPORTED, op->loc,
                       "operand %d of @%s is a weight without gradients", k + 1, callee->name);
      else if (weights[op->in[k]] && !callee->is_weight[k])
        return bd_fail(p->ctx, BD_UNSUPPORTED, op->loc,
                       "operand %d of @%s is a weight here and an activation elsewhere", k + 1,
                       callee->name);
  }
  return BD_OK;
}

static bd_status check_types(const precision *p, const bd_function *function) {
  for (bd_id v = 0; v < function->value_count; v++) {
    bd_dtype dtype = function->values[v].type.dtype;
    if (bd_dtype_is_float(dtype) && dtype != BD_F32)
      return bd_fail(p->ctx, BD_UNSUPPORTED, function->loc,
                     "only models in f32 are made %s; %%%s is %s", bd_dtype_name(p->dtype),
                     function->values[v].name, bd_dtype_name(dtype));
  }
  return BD_OK;
}

static bd_status start(precision *p) {
  const bd_module *in = p->in;
  bd_arena *arena = p->ctx->arena;
  BD_TRY(check_types(p, in->main));
  p->functions = BD_NEW_ARRAY(arena, bd_narrowed, in->function_count);
  for (int i = 0; i < in->function_count; i++) {
    const bd_function *from = in->functions[i];
    BD_TRY(check_types(p, from));
    p->functions[i] = (bd_narrowed){
        .from = from,
        .dtype = p->dtype,
        .narrow_param = BD_NEW_ARRAY(arena, bool, from->param_count),
        .narrow_result = BD_NEW_ARRAY(arena, bool, from->result_count),
    };
  }
  p->narrow = BD_NEW_ARRAY(arena, bool, in->main->value_count);
  for (int i = 0; i < in->input_count; i++)
    p->narrow[in->main->params[i]] = in->inputs[i] == BD_INPUT_REALS;
  for (int i = 1; i < in->main->result_count; i++)
    p->narrow[weight_value(p, in->gradient_weight[i - 1])] = true;
  while (flow(p))
    continue;
  BD_TRY(check_loss(p));
  return check_weights(p);
}

static bool is_narrow(const precision *p, const bd_function *function, bd_id value) {
  return function->values[value].type.dtype == p->dtype;
}

// The gradient of what is narrow is narrow, a weight's excepted.
static bd_status rewrite_backward(const precision *p, bd_narrowed *backward) {
  const bd_narrowed *forward = find(p, backward->from->peer);
  const bd_function *from = backward->from;
  for (int i = 0; i < from->param_count; i++) {
    int result = i - from->restore_count;
    bd_id id = result < 0 ? forward->to->saves[i] : forward->to->results[result];
    backward->narrow_param[i] = is_narrow(p, forward->to, id);
  }
  for (int i = 0; i < from->result_count; i++) {
    int param = from->gradient_of[i];
    backward->narrow_result[i] =
        !forward->from->is_weight[param] && is_narrow(p, forward->to, forward->to->params[param]);
  }
  return bd_precision_rewrite(p->ctx, backward, forward);
}

static bd_status rewrite_functions(const precision *p, bd_module *out) {
  for (int role = BD_ROLE_FORWARD; role <= BD_ROLE_BACKWARD; role++)
    for (int i = 0; i < p->in->function_count; i++) {
      bd_narrowed *f = &p->functions[i];
      if (f->from->role != (bd_role)role) continue;
      if (role == BD_ROLE_FORWARD)
        BD_TRY(bd_precision_rewrite(p->ctx, f, NULL));
      else
        BD_TRY(rewrite_backward(p, f));
      out->functions[i] = f->to;
    }
  return BD_OK;
}

static void set_width(const precision *p, bd_function *main, bd_id value, bool narrow) {
  if (narrow) main->values[value].type.dtype = p->dtype;
}

// Values of main take the types of the functions' results; sums of gradients those of their
// operands.
static void retype_main(const precision *p, bd_module *out) {
  bd_function *main = out->main;
  for (int i = 0; i < main->param_count; i++)
    set_width(p, main, main->params[i], p->narrow[main->params[i]]);
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    const bd_function *callee = op->kind == BD_OP_CALL ? find(p, op->callee)->to : NULL;
    for (int k = 0; k < op->out_count; k++)
      set_width(p, main, op->out[k],
                callee ? is_narrow(p, callee, callee->results[k]) : is_narrow(p, main, op->in[0]));
  }
  for (int i = 0; i < out->weight_count; i++) // masters stay f32
    if (p->narrow[weight_value(p, i)]) out->weights[i].type.dtype = p->dtype;
}

static bd_status make_narrow(bd_ctx *ctx, const bd_module *in, bd_dtype dtype,
                             bd_module **out_module) {
  precision p = {.ctx = ctx, .in = in, .dtype = dtype};
  BD_TRY(start(&p));
  bd_module *out = bd_module_clone(ctx, in);
  BD_TRY(rewrite_functions(&p, out));
  retype_main(&p, out);
  *out_module = out;
  return BD_OK;
}

bd_status bd_pass_precision(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  return make_narrow(ctx, in, BD_BF16, out_module);
}

bd_status bd_pass_precision_f16(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  return make_narrow(ctx, in, BD_F16, out_module);
}
