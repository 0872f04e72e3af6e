#include "ir/op_semantics.h"

#include "ir/ops/ops.h"

typedef struct semantics {
  bd_op_eval eval;
  bd_op_gradient gradient;
} semantics;

static const semantics table[BD_OP_KIND_COUNT] = {
#define BD_OP(NAME, spelling, in, out, level, rule, traits)                                        \
  [BD_OP_##NAME] = {(level) == BD_LOGICAL ? bd_eval_##spelling : NULL,                             \
                    (level) == BD_LOGICAL && !((traits)&BD_NO_GRADIENT) ? bd_gradient_##spelling   \
                                                                        : NULL},
#include "ir/ops.def"
#undef BD_OP
};

bd_op_eval bd_op_get_eval(bd_op_kind kind) {
  return table[kind].eval;
}

bd_op_gradient bd_op_get_gradient(bd_op_kind kind) {
  return table[kind].gradient;
}

bool bd_op_gives_gradient(const bd_op *op, int operand) {
  bool first_alone = bd_op_get_info(op->kind)->traits & BD_GRADIENT_0;
  return bd_op_get_gradient(op->kind) && !bd_op_int(op, "constant", 0) &&
         !(first_alone && operand > 0);
}
