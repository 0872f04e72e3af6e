#include "ir/inputs.h"

int bd_input_find(const bd_module *module, bd_input_kind kind) {
  for (int i = 0; i < module->input_count; ++i)
    if (module->inputs[i] == kind) return i;
  return -1;
}

int64_t bd_input_elements(const bd_module *module, int input) {
  return bd_type_elements(&module->main->values[module->main->params[input]].type, 1);
}

// The value that collectives made this one of.
static bd_id origin(const bd_function *function, bd_id id) {
  int producer = function->values[id].producer;
  while (producer >= 0 && bd_op_get_info(function->ops[producer].kind)->level == BD_COLLECTIVE &&
         function->ops[producer].in_count == 1) {
    id = function->ops[producer].in[0];
    producer = function->values[id].producer;
  }
  return id;
}

// Whether the operand of an op inside the callee is main's input number `input`.
static bool reads_input(const bd_module *module, const bd_op *call, const bd_function *callee,
                        bd_id operand, int input) {
  bd_id id = origin(callee, operand);
  for (int i = 0; i < call->in_count; ++i)
    if (callee->params[i] == id)
      return origin(module->main, call->in[i]) == module->main->params[input];
  return false;
}

int64_t bd_input_indexes(const bd_module *module, bd_op_kind kind, int input, bool last) {
  for (int c = 0; c < module->main->op_count; ++c) {
    const bd_op *call = &module->main->ops[c];
    if (call->kind != BD_OP_CALL || bd_op_find_attr(call, "of")) continue;
    const bd_function *f = bd_module_find(module, call->callee);
    for (int i = 0; i < f->op_count; ++i) {
      const bd_op *op = &f->ops[i];
      if (op->kind != kind || !reads_input(module, call, f, op->in[1], input)) continue;
      const bd_type *type = &f->values[op->in[0]].type;
      return type->dims[last ? type->rank - 1 : 0];
    }
  }
  return 0;
}
