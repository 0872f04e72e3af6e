// Weights that a stage's forward calls wait for one by one: the step before has updated them in
// parts, which may go on being gathered.
#include "codegen/emit_pass.h"
#include "ir/memory.h"

static bd_id value_of(const bd_module *module, int weight) {
  return module->main->params[module->input_count + weight];
}

// The first gradient of a weight on the stage, or NULL.
static const bd_value *gradient_of(const bd_emitter *e, int weight) {
  const bd_function *main = e->module->main;
  for (int i = 1; i < main->result_count; ++i)
    if (e->module->gradient_weight[i - 1] == weight &&
        e->layout.values[main->results[i]].segment == BD_SEGMENT_GRADIENTS)
      return &main->values[main->results[i]];
  return NULL;
}

static bool is_shared(const bd_emitter *e, int weight) {
  const bd_module *module = e->module;
  const bd_value *value = &module->main->values[value_of(module, weight)];
  const bd_value *gradient = gradient_of(e, weight);
  if (!gradient) return false;
  return bd_memory_state_form(&module->mesh, &value->sharding, &gradient->sharding,
                              e->plan->zero_axes)
             .parts > 1;
}

// What an op of the forward pass moves is none.
static void leave_out(const bd_emitter *e, const bd_op *op, bool *awaited) {
  const bd_function *callee = op->kind == BD_OP_CALL ? bd_module_find(e->module, op->callee) : NULL;
  for (int i = 0; i < op->in_count; ++i)
    if (!callee || bd_function_moves(callee, callee->params[i])) awaited[op->in[i]] = false;
}

const bool *bd_emit_awaited(const bd_emitter *emitter) {
  const bd_module *module = emitter->module;
  const bd_layout *layout = &emitter->layout;
  bool *awaited = BD_NEW_ARRAY(emitter->ctx->arena, bool, module->main->value_count);
  if (!module->cuda || emitter->plan->zero_axes == 0) return awaited;
  for (int i = 0; i < layout->weight_count; ++i)
    awaited[value_of(module, layout->weights[i])] = is_shared(emitter, layout->weights[i]);
  for (int i = 0; i < layout->forward_ops; ++i)
    if (module->main->ops[i].stage == layout->stage)
      leave_out(emitter, &module->main->ops[i], awaited);
  return awaited;
}

bool bd_emit_awaits(const bd_emit_pass *pass, const bd_op *op, int index) {
  const bd_function *callee = bd_emit_callee(pass, op);
  return callee && callee->role == BD_ROLE_FORWARD && bd_emit_is_passed(callee, index) &&
         pass->awaited[op->in[index]];
}
