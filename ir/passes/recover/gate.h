// The weights of tokens for experts, 0 where an expert is not chosen, as exporters make them.
#ifndef BD_IR_PASSES_RECOVER_GATE_H
#define BD_IR_PASSES_RECOVER_GATE_H
#include "ir/passes/recover/expert.h"

typedef struct bd_gate {
  bd_id chosen, weights; // [batch, token, choice]: a topk's result, and the weights of the choices
  int batch, token;      // dimensions of what tracing began at
  int number;            // that of the experts, or -1: it is of expert `expert` alone
  int64_t expert;
} bd_gate;

// Goes back from a value to scatter(0, chosen, weights), or to a sum over the choices of mask times
// weights.
bool bd_find_gate(const bd_edit *e, bd_traced value, bd_gate *out);

// The dimension that a sum leaves out; -1: the op is no sum over one dimension.
int bd_summed_dim(const bd_op *op);
// Whether a value [batch, token, choice] stands in dimensions of these roles.
bool bd_is_by_choice(const bd_edit *e, const bd_traced *value, const bd_expert_role *roles);
#endif
