#include "ir/interpret.h"

#include <assert.h>

static int64_t elements_of(const bd_type *type) {
  return bd_type_elements(type, 1);
}

// `type` with the symbolic extent bound.
static bd_type bind_batch(bd_type type, int64_t batch) {
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = bd_extent(type.dims[d], batch);
  return type;
}

static bd_tensor make_tensor(bd_ctx *ctx, bd_type type) {
  return (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, elements_of(&type))};
}

// Wide types stay in double; a half has only its own numbers.
static void round_half(bd_tensor *tensor) {
  if (!bd_dtype_is_float(tensor->type.dtype) || bd_dtype_bytes(tensor->type.dtype) != 2) return;
  int64_t count = elements_of(&tensor->type);
  for (int64_t i = 0; i < count; i++)
    tensor->data[i] = bd_dtype_round(tensor->type.dtype, tensor->data[i]);
}

static bd_status check_arguments(bd_ctx *ctx, const bd_function *function, const bd_tensor *in,
                                 int64_t batch) {
  for (int i = 0; i < function->param_count; i++) {
    bd_type wanted = bind_batch(function->values[function->params[i]].type, batch);
    if (!bd_type_equal(&wanted, &in[i].type))
      return bd_fail(ctx, BD_INVALID, function->loc, "argument %d of %s has another type", i,
                     function->name);
  }
  return BD_OK;
}

// Samples are numbered from the micro-batch's first one only where dimension 0 is the batch.
static bd_random_key key_of(const bd_function *function, const bd_op *op,
                            const bd_random_key *key) {
  bd_random_key own = *key;
  const bd_type *type = &function->values[op->out[0]].type;
  bool counts = bd_op_get_info(op->kind)->traits & BD_RANDOM;
  if (counts && (type->rank == 0 || type->dims[0] != BD_DIM_BATCH)) own.first_sample = 0;
  return own;
}

static bd_status run_op(bd_ctx *ctx, const bd_function *function, const bd_op *op,
                        const bd_random_key *key, int64_t batch, bd_tensor *values) {
  bd_op_eval eval = bd_op_get_eval(op->kind);
  if (!eval)
    return bd_fail(ctx, BD_UNSUPPORTED, op->loc, "the interpreter does not run '%s'",
                   bd_op_get_info(op->kind)->name);
  assert(op->in_count <= BD_MAX_OPERANDS && op->out_count <= BD_MAX_RESULTS);
  bd_tensor in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
  for (int i = 0; i < op->in_count; i++)
    in[i] = values[op->in[i]];
  for (int i = 0; i < op->out_count; i++) {
    out[i] = make_tensor(ctx, bind_batch(function->values[op->out[i]].type, batch));
    values[op->out[i]] = out[i];
  }
  bd_random_key own = key_of(function, op, key);
  eval(op, in, out, &own, ctx->arena);
  for (int i = 0; i < op->out_count; i++)
    round_half(&out[i]);
  return BD_OK;
}

static void collect_results(bd_ctx *ctx, const bd_function *function, const bd_tensor *values,
                            bd_tensor **out_results) {
  bd_tensor *results = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->result_count);
  for (int i = 0; i < function->result_count; i++)
    results[i] = values[function->results[i]];
  *out_results = results;
}

bd_status bd_interpret_function(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                                int64_t batch, const bd_tensor *in, const bd_random_key *key,
                                bd_tensor **out_results, bd_tensor **out_all_values) {
  (void)module;
  BD_TRY(check_arguments(ctx, function, in, batch));
  bd_tensor *values = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->value_count);
  for (int i = 0; i < function->param_count; i++)
    values[function->params[i]] = in[i];
  for (int i = 0; i < function->op_count; i++)
    BD_TRY(run_op(ctx, function, &function->ops[i], key, batch, values));
  collect_results(ctx, function, values, out_results);
  if (out_all_values) *out_all_values = values;
  return BD_OK;
}

// What running main needs: the tape is every value of each forward call.
typedef struct runner {
  bd_ctx *ctx;
  const bd_module *module;
  int64_t batch;
  bd_random_key key;
  bd_tensor *values; // of main
  bd_tensor **tape;  // per op of main
} runner;

// Fills the arguments of a call: what a backward function restores, then the operands.
static bd_status make_arguments(runner *run, const bd_function *callee, const bd_op *op, int of,
                                bd_tensor **out_in) {
  bd_tensor *in = BD_NEW_ARRAY(run->ctx->arena, bd_tensor, callee->param_count);
  int restored = 0;
  if (of >= 0) {
    const bd_function *forward = bd_module_find(run->module, run->module->main->ops[of].callee);
    if (!forward || forward->save_count != callee->restore_count)
      return bd_fail(run->ctx, BD_INVALID, op->loc,
                     "%s does not restore what its forward function "
                     "saves",
                     callee->name);
    for (; restored < callee->restore_count; restored++)
      in[restored] = run->tape[of][forward->saves[restored]];
  }
  if (restored + op->in_count != callee->param_count)
    return bd_fail(run->ctx, BD_INVALID, op->loc, "%s takes %d operands", callee->name,
                   callee->param_count - restored);
  for (int i = 0; i < op->in_count; i++)
    in[restored + i] = run->values[op->in[i]];
  *out_in = in;
  return BD_OK;
}

static bd_status run_call(runner *run, int index) {
  const bd_op *op = &run->module->main->ops[index];
  const bd_function *callee = bd_module_find(run->module, op->callee);
  if (!callee) return bd_fail(run->ctx, BD_INVALID, op->loc, "no function '%s'", op->callee);
  int of = (int)bd_op_int(op, "of", -1);
  bd_tensor *in = NULL, *results = NULL;
  BD_TRY(make_arguments(run, callee, op, of, &in));
  run->key.call = of >= 0 ? of : index;
  BD_TRY(bd_interpret_function(run->ctx, run->module, callee, run->batch, in, &run->key, &results,
                               &run->tape[index]));
  for (int i = 0; i < op->out_count; i++)
    run->values[op->out[i]] = results[i];
  return BD_OK;
}

bd_status bd_interpret_main(bd_ctx *ctx, const bd_module *module, int64_t batch,
                            const bd_tensor *in, double loss_scale, const bd_random_key *key,
                            bd_tensor **out_results) {
  const bd_function *main = module->main;
  runner run = {ctx,
                module,
                batch,
                *key,
                BD_NEW_ARRAY(ctx->arena, bd_tensor, main->value_count),
                BD_NEW_ARRAY(ctx->arena, bd_tensor *, main->op_count)};
  int given = module->input_count + module->weight_count;
  for (int i = 0; i < main->param_count; i++) {
    bd_type type = bind_batch(main->values[main->params[i]].type, batch);
    bd_tensor argument = i < given ? in[i] : make_tensor(ctx, type);
    if (i >= given) argument.data[0] = loss_scale;
    if (!bd_type_equal(&type, &argument.type))
      return bd_fail(ctx, BD_INVALID, main->loc, "argument %d of main has another type", i);
    run.values[main->params[i]] = argument;
  }
  for (int i = 0; i < main->op_count; i++) {
    if (main->ops[i].kind == BD_OP_CALL)
      BD_TRY(run_call(&run, i));
    else
      BD_TRY(run_op(ctx, main, &main->ops[i], &run.key, batch, run.values));
  }
  collect_results(ctx, main, run.values, out_results);
  return BD_OK;
}
