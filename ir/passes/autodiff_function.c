// Reverse-mode differentiation of a straight-line function. The ops are first built in a draft that
// takes every forward value as a parameter; then the live part is copied, and the forward values
// that it reads become the function's saves. What is but repeated is repeated again.
#include "ir/free_names.h"
#include "ir/passes/autodiff.h"

#include <assert.h>
#include <string.h>

enum { FREE_GROUP = -1 }; // belongs to no forward loop nest

typedef struct differ {
  bd_ctx *ctx;
  const bd_function *forward;
  bd_function *draft;
  bd_id *held;         // per forward value: the draft's parameter, of the same number
  bd_id *gradient;     // per forward value: the sum of what has reached it, or BD_NO_ID
  bool *active;        // per forward value
  bd_id *arriving;     // per forward result: the draft's parameter, or BD_NO_ID
  bd_free_names names; // of the copy
} differ;

void bd_autodiff_propagate(const bd_function *function, const bool *active_params,
                           bool *out_active) {
  for (int v = 0; v < function->value_count; v++)
    out_active[v] = false;
  for (int i = 0; i < function->param_count; i++) {
    bd_id v = function->params[i];
    out_active[v] = active_params[i] && bd_dtype_is_float(function->values[v].type.dtype);
  }
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    bool active = false;
    for (int k = 0; k < op->in_count; k++)
      active |= out_active[op->in[k]] && bd_op_gives_gradient(op, k);
    for (int k = 0; k < op->out_count; k++)
      out_active[op->out[k]] = active && bd_dtype_is_float(function->values[op->out[k]].type.dtype);
  }
}

static bd_status accumulate(differ *d, bd_id value, bd_id contribution, bd_loc loc) {
  if (d->gradient[value] == BD_NO_ID) {
    d->gradient[value] = contribution;
    return BD_OK;
  }
  const bd_id in[2] = {d->gradient[value], contribution};
  BD_TRY(bd_build(d->ctx, d->draft, BD_OP_ADD, 2, in, 0, NULL, loc, &d->gradient[value]));
  d->draft->ops[d->draft->op_count - 1].group = FREE_GROUP;
  return BD_OK;
}

static bd_status differentiate_op(differ *d, int index) {
  const bd_op *op = &d->forward->ops[index];
  bd_op_gradient build = bd_op_get_gradient(op->kind);
  bd_id dout[BD_MAX_RESULTS], din[BD_MAX_OPERANDS];
  bool need[BD_MAX_OPERANDS], any_need = false;
  for (int i = 0; i < op->out_count; i++) {
    dout[i] = d->gradient[op->out[i]];
    if (i > 0 && dout[i] != BD_NO_ID)
      return bd_fail(d->ctx, BD_UNSUPPORTED, op->loc,
                     "the loss depends on result %d of '%s', which has no gradient; use result 0 "
                     "only, or compute it from the operands",
                     i, bd_op_get_info(op->kind)->name);
  }
  for (int i = 0; i < op->in_count; i++) {
    din[i] = BD_NO_ID;
    any_need |= need[i] = d->active[op->in[i]] && bd_op_gives_gradient(op, i);
  }
  if (!build || !any_need || dout[0] == BD_NO_ID) return BD_OK;
  bd_gradient gradient = {d->forward, op, d->draft, d->held, dout, need, din};
  int before = d->draft->op_count;
  BD_TRY(build(d->ctx, &gradient));
  for (int i = before; i < d->draft->op_count; i++)
    d->draft->ops[i].group = index;
  for (int i = 0; i < op->in_count; i++)
    if (need[i] && din[i] != BD_NO_ID) BD_TRY(accumulate(d, op->in[i], din[i], op->loc));
  return BD_OK;
}

static void start_draft(differ *d, const bool *need, const bool *result_has) {
  const bd_function *forward = d->forward;
  d->draft = bd_function_create(d->ctx, "draft");
  d->held = BD_NEW_ARRAY(d->ctx->arena, bd_id, forward->value_count);
  d->gradient = BD_NEW_ARRAY(d->ctx->arena, bd_id, forward->value_count);
  d->active = BD_NEW_ARRAY(d->ctx->arena, bool, forward->value_count);
  d->arriving = BD_NEW_ARRAY(d->ctx->arena, bd_id, forward->result_count);
  bd_autodiff_propagate(forward, need, d->active);
  for (int v = 0; v < forward->value_count; v++) {
    const bd_value *value = &forward->values[v];
    d->held[v] = bd_function_add_param(d->ctx, d->draft, value->name, value->type);
    assert(d->held[v] == v);
    d->gradient[v] = BD_NO_ID;
  }
  for (int i = 0; i < forward->result_count; i++) {
    const bd_value *value = &forward->values[forward->results[i]];
    d->arriving[i] =
        result_has[i] ? bd_function_add_param(d->ctx, d->draft, NULL, value->type) : BD_NO_ID;
  }
}

// The gradient of a parameter as a result of its own: a parameter of the draft, or a value that is
// a result already, is copied.
static bd_status add_result(differ *d, int param) {
  bd_function *draft = d->draft;
  bd_id value = d->gradient[d->forward->params[param]];
  if (value == BD_NO_ID) return BD_OK;
  bool own = draft->values[value].producer >= 0;
  for (int i = 0; i < draft->result_count; i++)
    own &= draft->results[i] != value;
  if (!own) {
    bd_attr one = bd_attr_real(d->ctx, "value", 1);
    bd_id copy;
    BD_TRY(bd_build(d->ctx, draft, BD_OP_SCALE, 1, &value, 1, &one, d->forward->loc, &copy));
    draft->ops[draft->op_count - 1].group = FREE_GROUP;
    value = copy;
    d->gradient[d->forward->params[param]] = value;
  }
  bd_function_add_result(d->ctx, draft, value);
  draft->gradient_of[draft->result_count - 1] = param;
  return BD_OK;
}

// The op that makes a forward value of one with fewer elements, or NULL.
static const bd_op *repeats(const bd_function *forward, bd_id value) {
  int producer = forward->values[value].producer;
  if (producer < 0) return NULL;
  const bd_op *op = &forward->ops[producer];
  if (op->kind != BD_OP_BROADCAST) return NULL;
  const bd_type *from = &forward->values[op->in[0]].type, *to = &forward->values[value].type;
  return from->rank < to->rank ? op : NULL;
}

static bool *find_live(bd_ctx *ctx, const bd_function *draft) {
  bool *live = BD_NEW_ARRAY(ctx->arena, bool, draft->value_count);
  for (int i = 0; i < draft->result_count; i++)
    live[draft->results[i]] = true;
  for (int i = draft->op_count - 1; i >= 0; i--) {
    const bd_op *op = &draft->ops[i];
    bool used = false;
    for (int k = 0; k < op->out_count; k++)
      used |= live[op->out[k]];
    for (int k = 0; used && k < op->in_count; k++)
      live[op->in[k]] = true;
  }
  return live;
}

// Forward values that backward reads, and those that they repeat.
static void find_kept(const differ *d, bool *live) {
  for (int i = d->forward->op_count - 1; i >= 0; i--) {
    const bd_op *op = &d->forward->ops[i];
    if (live[d->held[op->out[0]]] && repeats(d->forward, op->out[0]))
      live[d->held[op->in[0]]] = true;
  }
}

// Parameters: the saves, then the gradients of the results.
static void copy_params(differ *d, bd_function *saver, const bool *live, bd_function *to,
                        bd_id *moved) {
  saver->save_count = 0;
  for (int i = 0; i < saver->param_count; i++)
    bd_function_add_save(d->ctx, saver, saver->params[i]);
  for (int i = 0; i < saver->op_count; i++)
    for (int k = 0; k < saver->ops[i].out_count; k++) {
      bd_id value = saver->ops[i].out[k];
      if (live[d->held[value]] && !repeats(saver, value))
        bd_function_add_save(d->ctx, saver, value);
    }
  to->restore_count = saver->save_count;
  for (int i = 0; i < saver->save_count; i++) {
    const bd_value *value = &saver->values[saver->saves[i]];
    moved[d->held[saver->saves[i]]] = bd_function_add_param(d->ctx, to, value->name, value->type);
    if (i < saver->param_count) to->is_weight[i] = saver->is_weight[i];
  }
  d->names = bd_free_names_of(d->ctx, to);
  for (int i = 0; i < saver->result_count; i++) {
    if (d->arriving[i] == BD_NO_ID) continue;
    const bd_value *value = &saver->values[saver->results[i]];
    const char *name = bd_free_names_take(&d->names, bd_intern_f(d->ctx, "d.%s", value->name));
    moved[d->arriving[i]] = bd_function_add_param(d->ctx, to, name, value->type);
  }
}

// Names of the draft's values in the copy: "d.x" for the gradient of x, NULL for the next number.
static const char **name_gradients(differ *d) {
  const char **names = BD_NEW_ARRAY(d->ctx->arena, const char *, d->draft->value_count);
  for (int v = 0; v < d->forward->value_count; v++)
    if (d->gradient[v] != BD_NO_ID)
      names[d->gradient[v]] = bd_intern_f(d->ctx, "d.%s", d->forward->values[v].name);
  return names;
}

// What is repeated is made where it is first read, and shares the forward op's loops.
static bd_id repeat(differ *d, bd_id value, bd_function *to, bd_id *moved) {
  bd_id *made = &moved[value];
  const bd_op *op = repeats(d->forward, value);
  if (!op || *made != BD_NO_ID) return *made;
  bd_id in = repeat(d, op->in[0], to, moved);
  const bd_value *like = &d->forward->values[value];
  bool numbered = strchr("0123456789", *like->name) != NULL; // there, not here
  const char *name = numbered ? NULL : bd_free_names_take(&d->names, like->name);
  *made = bd_function_add_value(d->ctx, to, name, like->type);
  bd_op *copy = bd_function_add_op(d->ctx, to, BD_OP_BROADCAST, 1, &in, 1, made, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  copy->group = d->forward->values[value].producer;
  return *made;
}

static void copy_ops(differ *d, const bool *live, bd_function *to, bd_id *moved) {
  const char **names = name_gradients(d);
  for (int i = 0; i < d->draft->op_count; i++) {
    const bd_op *op = &d->draft->ops[i];
    bool used = false;
    for (int k = 0; k < op->out_count; k++)
      used |= live[op->out[k]];
    if (!used) continue;
    bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
    for (int k = 0; k < op->in_count; k++)
      in[k] =
          op->in[k] < d->forward->value_count ? repeat(d, op->in[k], to, moved) : moved[op->in[k]];
    for (int k = 0; k < op->out_count; k++) {
      const char *name = names[op->out[k]];
      if (name) name = bd_free_names_take(&d->names, name);
      out[k] = bd_function_add_value(d->ctx, to, name, d->draft->values[op->out[k]].type);
      moved[op->out[k]] = out[k];
    }
    bd_op *copy =
        bd_function_add_op(d->ctx, to, op->kind, op->in_count, in, op->out_count, out, op->loc);
    copy->attr_count = op->attr_count;
    copy->attrs = op->attrs;
    copy->group = op->group;
  }
}

bd_status bd_autodiff_function(bd_ctx *ctx, bd_function *forward, const bool *need,
                               const bool *result_has, const char *name,
                               bd_function **out_backward) {
  differ d = {.ctx = ctx, .forward = forward};
  start_draft(&d, need, result_has);
  for (int i = 0; i < forward->result_count; i++)
    if (d.arriving[i] != BD_NO_ID)
      BD_TRY(accumulate(&d, forward->results[i], d.arriving[i], forward->loc));
  for (int i = forward->op_count - 1; i >= 0; i--)
    BD_TRY(differentiate_op(&d, i));
  for (int i = 0; i < forward->param_count; i++)
    if (need[i]) BD_TRY(add_result(&d, i));

  bd_function *backward = bd_function_create(ctx, name);
  bd_id *moved = BD_NEW_ARRAY(ctx->arena, bd_id, d.draft->value_count);
  for (int v = 0; v < d.draft->value_count; v++)
    moved[v] = BD_NO_ID;
  bool *live = find_live(ctx, d.draft);
  find_kept(&d, live);
  copy_params(&d, forward, live, backward, moved);
  copy_ops(&d, live, backward, moved);
  for (int i = 0; i < d.draft->result_count; i++) {
    bd_function_add_result(ctx, backward, moved[d.draft->results[i]]);
    backward->gradient_of[i] = d.draft->gradient_of[i];
  }
  backward->role = BD_ROLE_BACKWARD;
  backward->peer = forward->name;
  backward->loc = forward->loc;
  forward->role = BD_ROLE_FORWARD;
  forward->peer = backward->name;
  *out_backward = backward;
  return BD_OK;
}
