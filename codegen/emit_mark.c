// Instructions: what a profile of the program tells apart.
#include "codegen/emit.h"
#include "runtime/braid_rt_abi.h"

static void add_names(bd_text *text, const bd_function *function, bd_emit_ops ops,
                      bd_emit_ops more) {
  for (int i = 0; i < ops.count + more.count; ++i) {
    int op = i < ops.count ? ops.first + i : more.first + i - ops.count;
    bd_text_addf(text, "%s%s", i ? ", " : "", bd_op_get_info(function->ops[op].kind)->name);
  }
}

int bd_emit_instruction(bd_emitter *emitter, int number, int step, const bd_function *function,
                        bd_emit_ops ops, bd_emit_ops more) {
  bd_text_addf(emitter->instructions, "    {%d, %d, \"", number, step);
  add_names(emitter->instructions, function, ops, more);
  bd_text_add(emitter->instructions, "\"},\n");
  return BD_RT_MARKS + emitter->instruction_count++;
}

int bd_emit_mark(bd_emitter *emitter, bd_text *text, int number, int step,
                 const bd_function *function, bd_emit_ops ops, bd_emit_ops more) {
  int instruction = bd_emit_instruction(emitter, number, step, function, ops, more);
  bd_text_addf(text, "bd_rt_mark(rt, %d); // ", instruction);
  add_names(text, function, ops, more);
  bd_text_add(text, "\n");
  return instruction;
}
