#include "tests/unit/ir/support_program.h"
#include <assert.h>
#include <string.h>

typedef struct program {
  bd_ctx *ctx;
  const bd_module *spmd;
  bd_random_key key;
  spmd_value *values; // of main
  spmd_value **tapes; // per op of main: all values of a forward call
  int *call;          // per op of main: the number of a forward call
} program;

static spmd_value *gather_arguments(program *p, const bd_op *op, const bd_function *callee,
                                    int of) {
  spmd_value *in = BD_NEW_ARRAY(p->ctx->arena, spmd_value, callee->param_count);
  int restored = 0;
  if (of >= 0) {
    const bd_function *forward = bd_module_find(p->spmd, p->spmd->main->ops[of].callee);
    for (; restored < callee->restore_count; restored++)
      in[restored] = p->tapes[of][forward->saves[restored]];
  }
  assert(restored + op->in_count == callee->param_count);
  for (int i = 0; i < op->in_count; i++)
    in[restored + i] = p->values[op->in[i]];
  return in;
}

static void run_call(program *p, int index) {
  const bd_op *op = &p->spmd->main->ops[index];
  const bd_function *callee = bd_module_find(p->spmd, op->callee);
  int of = (int)bd_op_int(op, "of", -1);
  p->key.call = p->call[of >= 0 ? of : index];
  p->tapes[index] = spmd_run(p->ctx, p->spmd, callee, gather_arguments(p, op, callee, of), &p->key);
  for (int i = 0; i < op->out_count; i++)
    p->values[op->out[i]] = p->tapes[index][callee->results[i]];
}

// What the earlier stage sent under the tag.
static void receive(program *p, int index) {
  const bd_function *main = p->spmd->main;
  const bd_op *op = &main->ops[index];
  for (int i = 0; i < index; i++)
    if (main->ops[i].kind == BD_OP_SEND &&
        bd_op_int(&main->ops[i], "tag", -1) == bd_op_int(op, "tag", -2) &&
        bd_op_int(&main->ops[i], "to", -1) == op->stage &&
        bd_op_int(op, "from", -1) == main->ops[i].stage) {
      p->values[op->out[0]] = p->values[main->ops[i].in[0]];
      return;
    }
  assert(!"nothing was sent under the tag");
}

static void run_main(program *p) {
  const bd_function *main = p->spmd->main;
  int calls = 0;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->kind == BD_OP_CALL) {
      if (!bd_op_find_attr(op, "of")) p->call[i] = calls++;
      run_call(p, i);
    } else if (op->kind == BD_OP_RECV) {
      receive(p, i);
    } else if (op->kind != BD_OP_SEND) {
      spmd_run_one(p->ctx, p->spmd, main, op, &p->key, p->values);
    }
  }
}

double program_difference(bd_ctx *ctx, const bd_module *spmd, const bd_tensor *in,
                          double loss_scale, const bd_random_key *key, const bd_tensor *wanted) {
  const bd_function *main = spmd->main;
  program p = {.ctx = ctx, .spmd = spmd, .key = *key};
  p.values = BD_NEW_ARRAY(ctx->arena, spmd_value, main->value_count);
  p.tapes = BD_NEW_ARRAY(ctx->arena, spmd_value *, main->op_count);
  p.call = BD_NEW_ARRAY(ctx->arena, int, main->op_count);
  for (int i = 0; i < main->param_count; i++) {
    bd_tensor scale = {main->values[main->params[i]].type, &loss_scale};
    bool given = i < spmd->input_count + spmd->weight_count;
    p.values[main->params[i]] =
        spmd_scatter(ctx, spmd, &main->values[main->params[i]].sharding, given ? &in[i] : &scale);
  }
  run_main(&p);
  double worst = 0;
  for (int i = 0; i < main->result_count; i++) {
    bd_id id = main->results[i];
    double d = spmd_difference(ctx, spmd, &main->values[id].sharding, &p.values[id], &wanted[i]);
    worst = d > worst ? d : worst;
  }
  return worst;
}
