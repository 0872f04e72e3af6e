// The pass `autodiff`: a graph becomes the training of one micro-batch. Results of calls that the
// loss does not depend on go away. A function whose calls differ in which results matter, or in
// whether a gradient reaches them, becomes several.
#include "ir/passes/autodiff.h"
#include "ir/free_names.h"
#include "ir/pass.h"
#include <string.h>

// A function as the calls with one set of useful results see it.
typedef struct variant {
  const bd_function *source;
  bool *useful;                    // per result of the source: the loss depends on it
  bool *need;                      // per parameter: some call passes something that has a gradient
  bool *gives;                     // per parameter: backward has a gradient of it
  bool still;                      // no gradient reaches the calls
  bool called;                     // some call is left to it
  bool *result_has;                // per result of `forward`: a gradient arrives for it
  bd_function *forward, *backward; // the latter NULL where there is none
} variant;

typedef struct forward_call {
  int index; // in the graph's main
  variant *variant;
  int made; // index in the train module's main
} forward_call;

typedef struct differ {
  bd_ctx *ctx;
  const bd_module *graph;
  bd_module *train;
  int call_count;
  forward_call *calls; // in order
  int variant_count;
  variant *variants;
  bool *active;    // per value of the graph's main: depends on a weight
  bd_id *moved;    // per value of the graph's main: that of the train module's
  bd_id *gradient; // per value of the graph's main: in the train module's, or BD_NO_ID
  int use_count;
  struct weight_use *uses;
  bd_free_names names; // of the train module's main
} differ;

// A weight as operand of a call, and the gradient that the call gives it.
typedef struct weight_use {
  int weight;
  bd_id gradient;
} weight_use;

static bool same_flags(const bool *a, const bool *b, int count) {
  return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static variant *find_variant(differ *d, const bd_function *source, const bool *useful, bool still) {
  for (int i = 0; i < d->variant_count; i++) {
    variant *v = &d->variants[i];
    if (v->source == source && v->still == still &&
        same_flags(v->useful, useful, source->result_count))
      return v;
  }
  variant *made = &d->variants[d->variant_count++];
  made->source = source;
  made->still = still;
  made->useful = BD_NEW_ARRAY(d->ctx->arena, bool, source->result_count);
  for (int i = 0; i < source->result_count; i++)
    made->useful[i] = useful[i];
  made->need = BD_NEW_ARRAY(d->ctx->arena, bool, source->param_count);
  return made;
}

// From the loss backwards: the calls that it depends on, and their variants.
static bd_status find_calls(differ *d) {
  const bd_function *main = d->graph->main;
  bool *useful = BD_NEW_ARRAY(d->ctx->arena, bool, main->value_count);
  useful[main->results[0]] = true;
  for (int i = main->op_count - 1; i >= 0; i--) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL)
      return bd_fail(d->ctx, BD_INVALID, op->loc, "main of a graph holds calls only");
    const bd_function *callee = bd_module_find(d->graph, op->callee);
    if (!callee) return bd_fail(d->ctx, BD_INVALID, op->loc, "no function '%s'", op->callee);
    bool *flags = BD_NEW_ARRAY(d->ctx->arena, bool, op->out_count), any = false;
    for (int k = 0; k < op->out_count; k++)
      any |= flags[k] = useful[op->out[k]];
    if (!any) continue;
    for (int k = 0; k < op->in_count; k++)
      useful[op->in[k]] = true;
    d->calls[d->call_count++] = (forward_call){i, find_variant(d, callee, flags, false), -1};
  }
  for (int i = 0, j = d->call_count - 1; i < j; i++, j--) {
    forward_call swapped = d->calls[i];
    d->calls[i] = d->calls[j];
    d->calls[j] = swapped;
  }
  return BD_OK;
}

// What depends on weights, in call order; a parameter needs its gradient when any call's operand
// does.
static void propagate(differ *d) {
  const bd_function *main = d->graph->main;
  for (int i = 0; i < d->graph->weight_count; i++) {
    bd_id weight = main->params[d->graph->input_count + i];
    d->active[weight] = bd_dtype_is_float(main->values[weight].type.dtype);
  }
  for (int i = 0; i < d->call_count; i++) {
    const bd_op *op = &main->ops[d->calls[i].index];
    variant *v = d->calls[i].variant;
    bool *operands = BD_NEW_ARRAY(d->ctx->arena, bool, op->in_count);
    bool *inside = BD_NEW_ARRAY(d->ctx->arena, bool, v->source->value_count);
    for (int k = 0; k < op->in_count; k++)
      v->need[k] |= operands[k] = d->active[op->in[k]];
    bd_autodiff_propagate(v->source, operands, inside);
    for (int k = 0; k < op->out_count; k++)
      d->active[op->out[k]] = inside[v->source->results[k]];
  }
}

static const char *free_function_name(differ *d, const char *wanted) {
  const char *name = bd_intern_z(d->ctx, wanted);
  for (int number = 2; bd_module_find(d->graph, name) || bd_module_find(d->train, name); number++)
    name = bd_intern_f(d->ctx, "%s.%d", wanted, number);
  return name;
}

static bd_function *make_forward(differ *d, const variant *v) {
  bd_function *forward = bd_function_clone(d->ctx, v->source);
  forward->role = BD_ROLE_FORWARD;
  forward->result_count = 0;
  for (int i = 0; i < v->source->result_count; i++)
    if (v->useful[i]) bd_function_add_result(d->ctx, forward, v->source->results[i]);
  return forward;
}

// Before it is known which calls it has: its backward function tells where gradients go.
static bd_status make_variant(differ *d, variant *v) {
  bd_function *forward = v->forward = make_forward(d, v);
  bool *active = BD_NEW_ARRAY(d->ctx->arena, bool, forward->value_count);
  v->result_has = BD_NEW_ARRAY(d->ctx->arena, bool, forward->result_count);
  v->gives = BD_NEW_ARRAY(d->ctx->arena, bool, forward->param_count);
  bd_autodiff_propagate(forward, v->need, active);
  for (int i = 0; i < forward->result_count; i++)
    v->result_has[i] = active[forward->results[i]];
  BD_TRY(bd_autodiff_function(d->ctx, forward, v->need, v->result_has, "backward", &v->backward));
  for (int i = 0; i < v->backward->result_count; i++)
    v->gives[v->backward->gradient_of[i]] = true;
  return BD_OK;
}

static bool any_of(const bool *flags, int count) {
  for (int i = 0; i < count; i++)
    if (flags[i]) return true;
  return false;
}

// Of calls whose gradients may be wanted.
static bd_status make_variants(differ *d) {
  for (int i = d->variant_count - 1; i >= 0; i--)
    BD_TRY(make_variant(d, &d->variants[i]));
  return BD_OK;
}

// From the loss backwards: where gradients go. Calls that none reaches get variants without
// backward, which save nothing.
static void find_still(differ *d) {
  const bd_function *main = d->graph->main;
  bool *reached = BD_NEW_ARRAY(d->ctx->arena, bool, main->value_count);
  reached[main->results[0]] = true;
  for (int i = d->call_count - 1; i >= 0; i--) {
    forward_call *call = &d->calls[i];
    const bd_op *op = &main->ops[call->index];
    const variant *v = call->variant;
    bool arrives = false;
    for (int k = 0; k < op->out_count; k++)
      arrives |= v->useful[k] && reached[op->out[k]];
    for (int k = 0; arrives && k < op->in_count; k++)
      reached[op->in[k]] |= v->gives[k] && d->active[op->in[k]];
    if (!arrives && any_of(v->gives, op->in_count))
      call->variant = find_variant(d, v->source, v->useful, true);
    call->variant->called = true;
  }
}

static bd_status add_variant(differ *d, variant *v) {
  if (v->still) v->forward = make_forward(d, v);
  bd_function *forward = v->forward;
  if (bd_module_find(d->train, forward->name))
    forward->name = free_function_name(d, v->source->name);
  bd_module_add_function(d->ctx, d->train, forward);
  if (v->still) return BD_OK;
  if (v->backward->result_count == 0) {
    v->backward = NULL;
    forward->peer = NULL;
    forward->save_count = 0;
    return BD_OK;
  }
  v->backward->peer = forward->name;
  v->backward->name = forward->peer =
      free_function_name(d, bd_intern_f(d->ctx, "%s.grad", forward->name));
  bd_module_add_function(d->ctx, d->train, v->backward);
  for (int i = 0; i < forward->result_count; i++)
    if (!v->result_has[i])
      return bd_fail(d->ctx, BD_UNSUPPORTED, forward->loc,
                     "result %d of '%s' has no gradient and others do; compute it in a function of "
                     "its own",
                     i, v->source->name);
  return BD_OK;
}

// Variants were found from the last call to the first; the first one made keeps the name.
static bd_status add_variants(differ *d) {
  for (int still = 0; still < 2; still++)
    for (int i = d->variant_count - 1; i >= 0; i--)
      if (d->variants[i].called && d->variants[i].still == still)
        BD_TRY(add_variant(d, &d->variants[i]));
  return BD_OK;
}

static void start_main(differ *d) {
  const bd_function *from = d->graph->main;
  bd_function *to = d->train->main;
  to->loc = from->loc;
  for (int i = 0; i < from->param_count; i++) {
    const bd_value *value = &from->values[from->params[i]];
    d->moved[from->params[i]] = bd_function_add_param(d->ctx, to, value->name, value->type);
    if (from->is_weight) to->is_weight[i] = from->is_weight[i];
  }
}

static void make_forward_calls(differ *d) {
  const bd_function *from = d->graph->main;
  bd_function *to = d->train->main;
  for (int i = 0; i < d->call_count; i++) {
    const bd_op *op = &from->ops[d->calls[i].index];
    const variant *v = d->calls[i].variant;
    bd_id *in = BD_NEW_ARRAY(d->ctx->arena, bd_id, op->in_count);
    bd_id *out = BD_NEW_ARRAY(d->ctx->arena, bd_id, op->out_count);
    int results = 0;
    for (int k = 0; k < op->in_count; k++)
      in[k] = d->moved[op->in[k]];
    for (int k = 0; k < op->out_count; k++) {
      if (!v->useful[k]) continue;
      const bd_value *value = &from->values[op->out[k]];
      out[results++] = d->moved[op->out[k]] =
          bd_function_add_value(d->ctx, to, value->name, value->type);
    }
    bd_op *call =
        bd_function_add_op(d->ctx, to, BD_OP_CALL, op->in_count, in, results, out, op->loc);
    call->callee = v->forward->name;
    d->calls[i].made = to->op_count - 1;
  }
}

// Adds the gradient that a backward call gives to the operand `value` of its forward call.
static bd_status deliver(differ *d, bd_id value, bd_id contribution, bd_loc loc) {
  const bd_function *from = d->graph->main;
  bd_function *to = d->train->main;
  for (int w = 0; w < d->graph->weight_count; w++)
    if (from->params[d->graph->input_count + w] == value) {
      d->uses[d->use_count++] = (weight_use){w, contribution};
      return BD_OK;
    }
  if (!d->active[value]) return BD_OK;
  if (d->gradient[value] == BD_NO_ID) {
    d->gradient[value] = contribution;
    return BD_OK;
  }
  const bd_id in[2] = {d->gradient[value], contribution};
  return bd_build(d->ctx, to, BD_OP_ADD, 2, in, 0, NULL, loc, &d->gradient[value]);
}

// The operands of a backward call.
static bd_status find_arriving(differ *d, const forward_call *call, bd_id *arriving,
                               int *out_count) {
  const bd_op *op = &d->graph->main->ops[call->index];
  const variant *v = call->variant;
  int wanted = 0, count = 0;
  for (int k = 0; k < op->out_count; k++) {
    if (!v->useful[k]) continue;
    wanted++;
    if (d->gradient[op->out[k]] != BD_NO_ID) arriving[count++] = d->gradient[op->out[k]];
  }
  if (count < wanted)
    return bd_fail(d->ctx, BD_UNSUPPORTED, op->loc,
                   "the loss has gradients for some results of this call of '%s' and none for "
                   "others that it depends on; split the function",
                   op->callee);
  *out_count = count;
  return BD_OK;
}

static bd_status make_backward_call(differ *d, const forward_call *call) {
  const bd_op *op = &d->graph->main->ops[call->index];
  const bd_function *backward = call->variant->backward;
  bd_function *to = d->train->main;
  if (!backward) return BD_OK;
  int count = 0;
  bd_id *in = BD_NEW_ARRAY(d->ctx->arena, bd_id, op->out_count);
  BD_TRY(find_arriving(d, call, in, &count));
  bd_id *out = BD_NEW_ARRAY(d->ctx->arena, bd_id, backward->result_count);
  for (int k = 0; k < backward->result_count; k++) {
    bd_id operand = op->in[backward->gradient_of[k]];
    const char *wanted = bd_intern_f(d->ctx, "d.%s", d->graph->main->values[operand].name);
    out[k] = bd_function_add_value(d->ctx, to, bd_free_names_take(&d->names, wanted),
                                   backward->values[backward->results[k]].type);
  }
  bd_op *made =
      bd_function_add_op(d->ctx, to, BD_OP_CALL, count, in, backward->result_count, out, op->loc);
  made->callee = backward->name;
  bd_op_set_attr(d->ctx, made, bd_attr_int(d->ctx, "of", call->made));
  for (int k = 0; k < backward->result_count; k++)
    BD_TRY(deliver(d, op->in[backward->gradient_of[k]], out[k], op->loc));
  return BD_OK;
}

// Results: the loss, then the gradients by weight; of one weight from the first forward call that
// uses it to the last.
static void finish_main(differ *d) {
  bd_function *to = d->train->main;
  bd_function_add_result(d->ctx, to, d->moved[d->graph->main->results[0]]);
  d->train->gradient_weight = BD_NEW_ARRAY(d->ctx->arena, int, d->use_count);
  for (int w = 0; w < d->graph->weight_count; w++)
    for (int i = d->use_count - 1; i >= 0; i--)
      if (d->uses[i].weight == w) {
        d->train->gradient_weight[to->result_count - 1] = w;
        bd_function_add_result(d->ctx, to, d->uses[i].gradient);
      }
}

static void copy_header(differ *d) {
  for (int i = 0; i < d->graph->weight_count; i++)
    bd_module_add_weight(d->ctx, d->train, d->graph->weights[i]);
  d->train->input_count = d->graph->input_count;
  d->train->inputs = BD_NEW_ARRAY(d->ctx->arena, bd_input_kind, d->graph->input_count);
  for (int i = 0; i < d->graph->input_count; i++)
    d->train->inputs[i] = d->graph->inputs[i];
}

static void make_room(differ *d) {
  const bd_function *main = d->graph->main;
  int operands = 0;
  for (int i = 0; i < main->op_count; i++)
    operands += main->ops[i].in_count;
  d->calls = BD_NEW_ARRAY(d->ctx->arena, forward_call, main->op_count);
  d->variants = BD_NEW_ARRAY(d->ctx->arena, variant, 2 * main->op_count);
  d->uses = BD_NEW_ARRAY(d->ctx->arena, weight_use, operands);
  d->active = BD_NEW_ARRAY(d->ctx->arena, bool, main->value_count);
  d->moved = BD_NEW_ARRAY(d->ctx->arena, bd_id, main->value_count);
  d->gradient = BD_NEW_ARRAY(d->ctx->arena, bd_id, main->value_count);
  for (int i = 0; i < main->value_count; i++)
    d->moved[i] = d->gradient[i] = BD_NO_ID;
}

bd_status bd_pass_autodiff(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  differ d = {.ctx = ctx, .graph = in};
  if (in->main->result_count != 1)
    return bd_fail(ctx, BD_INVALID, in->main->loc, "main of a graph returns the loss sum alone");
  bd_id loss = in->main->results[0];
  if (in->main->values[loss].type.rank != 0)
    return bd_fail(ctx, BD_INVALID, in->main->loc, "the loss sum is a single number");
  d.train = bd_module_create(ctx, BD_STAGE_TRAIN, in->name);
  copy_header(&d);
  make_room(&d);
  BD_TRY(find_calls(&d));
  propagate(&d);
  BD_TRY(make_variants(&d));
  find_still(&d);
  BD_TRY(add_variants(&d));
  start_main(&d);
  make_forward_calls(&d);
  bd_function *main = d.train->main;
  d.names = bd_free_names_of(ctx, main);
  const char *name = bd_free_names_take(&d.names, "dloss");
  d.gradient[loss] = bd_function_add_param(ctx, main, name, in->main->values[loss].type);
  for (int i = d.call_count - 1; i >= 0; i--)
    BD_TRY(make_backward_call(&d, &d.calls[i]));
  finish_main(&d);
  *out_module = d.train;
  return BD_OK;
}
