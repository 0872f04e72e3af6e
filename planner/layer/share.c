#include "planner/layer/share.h"

// Elements of the op's result, or 0 where these say little of what it wants.
static int64_t result_elements(const bd_layer_space *space, int op) {
  const bd_op *at = &space->forward->ops[op];
  const bd_type *type = &space->forward->values[at->out[0]].type;
  bool tell = at->kind == BD_OP_CONTRACT || at->kind == BD_OP_ROUTE;
  return tell ? bd_type_elements(type, space->request->cost.micro_batch) : 0;
}

// Whether the reader hands a gradient back, or none does.
static bool counts(const bd_layer_space *space, int op, bd_id value) {
  return !space->flows[value] || space->flows[space->forward->ops[op].out[0]];
}

static void add_reader(const bd_layer_space *space, int op, bd_layer_readers *of, bd_id value) {
  int64_t elements = result_elements(space, op);
  of->all++;
  of->alike = of->alike || !elements;
  if (!counts(space, op, value) || elements < of->most) return;
  if (elements > of->most) of->largest = 0;
  of->most = elements;
  of->largest++;
}

void bd_layer_find_shares(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->readers = BD_NEW_ARRAY(ctx->arena, bd_layer_readers, f->value_count);
  for (int i = 0; i < f->op_count; i++)
    for (int o = 0; o < f->ops[i].in_count; o++) {
      bd_id v = f->ops[i].in[o];
      int producer = f->values[v].producer;
      if (producer < 0 || space->cluster_of_op[producer] != space->cluster_of_op[i])
        add_reader(space, i, &space->readers[v], v);
    }
}

double bd_layer_share(const bd_layer_space *space, int op, bd_id value) {
  const bd_layer_readers *of = &space->readers[value];
  if (of->alike || !of->largest) return 1.0 / of->all;
  bool largest = counts(space, op, value) && result_elements(space, op) == of->most;
  return largest ? 1.0 / of->largest : 0;
}
