#include "ir/index_rule.h"
#include "ir/verify_internal.h"

static bool is_loss_type(const bd_type *type) {
  return type->rank == 0 && type->dtype == BD_F32;
}

static bd_status verify_params(bd_verifier *v) {
  const bd_module *module = v->module;
  const bd_function *main = module->main;
  int dloss = module->stage == BD_STAGE_GRAPH ? 0 : 1;
  int wanted = module->input_count + module->weight_count + dloss;
  if (main->param_count != wanted)
    return bd_fail(v->ctx, BD_INVALID, main->loc,
                   "main takes %d parameters; %d inputs, %d weights%s make %d", main->param_count,
                   module->input_count, module->weight_count,
                   dloss ? " and the loss's gradient" : "", wanted);
  for (int i = 0; i < main->param_count; ++i) {
    const bd_value *value = &main->values[main->params[i]];
    int weight = i - module->input_count;
    if (weight < 0) {
      bool reals = module->inputs[i] == BD_INPUT_REALS;
      if (reals ? !bd_dtype_is_float(value->type.dtype) : value->type.dtype != BD_I32)
        return bd_fail(v->ctx, BD_INVALID, main->loc, "the input %%%s must be of %s", value->name,
                       reals ? "a float type" : "i32");
    } else if (weight < module->weight_count) {
      const bd_weight *stored = &module->weights[weight];
      if (!bd_type_equal(&value->type, &stored->type))
        return bd_fail(v->ctx, BD_INVALID, main->loc,
                       "main's parameter %%%s is %s, weight @%s is %s", value->name,
                       bd_type_describe(v->ctx, &value->type), stored->name,
                       bd_type_describe(v->ctx, &stored->type));
    } else if (!is_loss_type(&value->type)) {
      return bd_fail(v->ctx, BD_INVALID, main->loc, "the loss's gradient %%%s must be f32[]",
                     value->name);
    }
  }
  return BD_OK;
}

static bd_status verify_results(bd_verifier *v) {
  const bd_module *module = v->module;
  const bd_function *main = module->main;
  if (main->result_count < 1 || !is_loss_type(&main->values[main->results[0]].type))
    return bd_fail(v->ctx, BD_INVALID, main->loc, "main's first result must be the loss, f32[]");
  if (module->stage == BD_STAGE_GRAPH && main->result_count != 1)
    return bd_fail(v->ctx, BD_INVALID, main->loc, "main of a graph module has one result");
  for (int i = 1; i < main->result_count; ++i) {
    const bd_value *value = &main->values[main->results[i]];
    int weight = module->gradient_weight ? module->gradient_weight[i - 1] : -1;
    if (weight < 0 || weight >= module->weight_count)
      return bd_fail(v->ctx, BD_INVALID, main->loc, "%%%s is the gradient of no weight",
                     value->name);
    bd_type wanted = module->weights[weight].type;
    wanted.dtype = bd_weight_gradient_dtype(&module->weights[weight]);
    if (!bd_type_equal(&value->type, &wanted))
      return bd_fail(v->ctx, BD_INVALID, main->loc, "%%%s has not the type of the weight @%s, %s",
                     value->name, module->weights[weight].name, bd_type_describe(v->ctx, &wanted));
  }
  return BD_OK;
}

// Data is a stream of tokens, or samples one by one.
static bd_status verify_inputs(bd_verifier *v) {
  bool has[BD_INPUT_KIND_COUNT] = {0};
  for (int i = 0; i < v->module->input_count; ++i)
    has[v->module->inputs[i]] = true;
  if (!has[BD_INPUT_TOKENS] || !has[BD_INPUT_IDS]) return BD_OK;
  return bd_fail(v->ctx, BD_INVALID, v->module->main->loc,
                 "a model has inputs of kind tokens or of kind ids, not both");
}

// `first`: of the callee's parameters, those before it come from the tape.
static bd_status verify_signature(bd_verifier *v, const bd_op *op, const bd_function *callee,
                                  int first, const bool *weights) {
  const bd_function *main = v->module->main;
  int params = callee->param_count - first;
  if (op->in_count != params || op->out_count != callee->result_count)
    return bd_fail(v->ctx, BD_INVALID, op->loc,
                   "@%s takes %d operands and makes %d results, found %d and %d", callee->name,
                   params, callee->result_count, op->in_count, op->out_count);
  for (int i = 0; i < params; ++i) {
    const bd_type *found = &main->values[op->in[i]].type;
    const bd_type *wanted = &callee->values[callee->params[first + i]].type;
    if (!bd_type_equal(found, wanted))
      return bd_fail(v->ctx, BD_INVALID, op->loc, "operand %d of @%s is %s, it takes %s", i + 1,
                     callee->name, bd_type_describe(v->ctx, found),
                     bd_type_describe(v->ctx, wanted));
    if (first == 0 && callee->is_weight && callee->is_weight[i] && !weights[op->in[i]])
      return bd_fail(v->ctx, BD_INVALID, op->loc, "operand %d of @%s must be a weight", i + 1,
                     callee->name);
  }
  for (int i = 0; i < op->out_count; ++i) {
    const bd_type *found = &main->values[op->out[i]].type;
    const bd_type *wanted = &callee->values[callee->results[i]].type;
    if (!bd_type_equal(found, wanted))
      return bd_fail(v->ctx, BD_INVALID, op->loc, "result %d of @%s is %s, not %s", i + 1,
                     callee->name, bd_type_describe(v->ctx, wanted),
                     bd_type_describe(v->ctx, found));
  }
  return BD_OK;
}

// A backward call names its forward call.
static bd_status verify_of(bd_verifier *v, int index, const bd_function *callee) {
  const bd_function *main = v->module->main;
  const bd_op *op = &main->ops[index];
  int64_t of = bd_op_int(op, "of", -1);
  const char *called = of >= 0 && of < index ? main->ops[of].callee : NULL;
  if (called && bd_verifier_find(v, called) == bd_verifier_find(v, callee->peer)) return BD_OK;
  return bd_fail(v->ctx, BD_INVALID, op->loc, "`of` must number a call of @%s above", callee->peer);
}

static bd_status verify_call(bd_verifier *v, int index, const bool *weights) {
  const bd_op *op = &v->module->main->ops[index];
  const bd_function *callee = op->callee ? bd_verifier_find(v, op->callee) : NULL;
  if (!callee)
    return bd_fail(v->ctx, BD_INVALID, op->loc, "there is no function @%s",
                   op->callee ? op->callee : "");
  bool backward = callee->role == BD_ROLE_BACKWARD;
  BD_TRY(verify_signature(v, op, callee, backward ? callee->restore_count : 0, weights));
  return backward ? verify_of(v, index, callee) : BD_OK;
}

bd_status bd_verify_main(bd_verifier *v) {
  const bd_function *main = v->module->main;
  BD_TRY(verify_params(v));
  BD_TRY(verify_inputs(v));
  bool *weights = BD_NEW_ARRAY(v->ctx->arena, bool, main->value_count);
  for (int i = 0; i < v->module->weight_count; ++i)
    weights[main->params[v->module->input_count + i]] = true;
  for (int i = 0; i < main->op_count; ++i)
    if (main->ops[i].kind == BD_OP_CALL) BD_TRY(verify_call(v, i, weights));
  return verify_results(v);
}
