// One computation for all experts, of what was read.
#include "ir/passes/recover/expert_node.h"
#include "ir/passes/recover/views.h"
#include <string.h>

void bd_experts_letters(const char *head, int features, char *out) {
  while (*head)
    *out++ = *head++;
  for (int i = 0; i < features; ++i)
    *out++ = (char)('f' + i);
  *out = '\0';
}

// Several matrices as one, joined a few at a time.
static bd_status join(bd_edit *e, int count, bd_id *ids, bd_id *out) {
  bd_attr dim = bd_attr_int(e->ctx, "dim", 0);
  while (count > 1) {
    int joined = 0;
    for (int i = 0; i < count; i += BD_MAX_OPERANDS) {
      int some = count - i < BD_MAX_OPERANDS ? count - i : BD_MAX_OPERANDS;
      if (some == 1)
        ids[joined] = ids[i];
      else
        BD_TRY(bd_edit_emit(e, BD_OP_CONCAT, some, ids + i, 1, &dim, &ids[joined]));
      ++joined;
    }
    count = joined;
  }
  *out = ids[0];
  return BD_OK;
}

// The weights of all experts, which are the first dimension.
static bd_status emit_weights(bd_experts *x, bd_expert_node *node) {
  bd_edit *e = x->e;
  const bd_type *type = &x->e->from->values[node->weights[0]].type;
  int64_t dims[BD_MAX_RANK + 1] = {1};
  if (x->lanes == 1) {
    node->made = bd_edit_value(e, node->weights[0]);
    return BD_OK;
  }
  bd_id *ids = BD_NEW_ARRAY(e->ctx->arena, bd_id, x->lanes);
  memcpy(dims + 1, type->dims, (size_t)type->rank * sizeof *dims);
  for (int i = 0; i < x->lanes; ++i) {
    ids[i] = bd_edit_value(e, node->weights[i]);
    BD_TRY(bd_emit_reshaped(e, type->rank + 1, dims, &ids[i]));
  }
  return join(e, x->lanes, ids, &node->made);
}

// A bias for every place of every expert.
static bd_status emit_bias(bd_experts *x, const bd_type *placed, bd_id *id) {
  bd_edit *e = x->e;
  const bd_type type = *bd_edit_type(e, *id);
  char from[BD_MAX_RANK + 1], to[BD_MAX_RANK + 1];
  int64_t dims[BD_MAX_RANK];
  bd_experts_letters("e", type.rank - 1, from);
  bd_experts_letters("bep", type.rank - 1, to);
  memcpy(dims, placed->dims, 3 * sizeof *dims);
  memcpy(dims + 3, type.dims + 1, (size_t)(type.rank - 1) * sizeof *dims);
  bd_attr attrs[] = {bd_attr_string(e->ctx, "rule", bd_intern_f(e->ctx, "%s->%s", from, to)),
                     bd_attr_ints(e->ctx, "dims", type.rank + 2, dims)};
  return bd_edit_emit(e, BD_OP_BROADCAST, 1, id, 2, attrs, id);
}

// Letters with those of tokens replaced by `head`, and features named anew.
static void rename_letters(const bd_expert_node *node, const char *letters, const char *head,
                           char *names, char *out) {
  while (*head)
    *out++ = *head++;
  for (; *letters; ++letters) {
    int at = bd_expert_place_of(node->result, *letters);
    if (at >= 0 && node->roles[at] != BD_EXPERT_FEATURE) continue;
    if (!strchr(names, *letters)) strncat(names, letters, 1);
    *out++ = (char)('f' + bd_expert_place_of(names, *letters));
  }
  *out = '\0';
}

static bd_status emit_contract(bd_experts *x, const bd_expert_node *node, bd_id in[2], bd_id *out) {
  char rule[3][2 * BD_MAX_RANK], names[2 * BD_MAX_RANK + 1] = "";
  for (int i = 0; i < 2; ++i)
    rename_letters(node, node->letters[i],
                   x->nodes[node->in[i]].kind == BD_EXPERT_NODE_WEIGHT ? "e" : "bep", names,
                   rule[i]);
  rename_letters(node, node->result, "bep", names, rule[2]);
  bd_attr attr = bd_attr_string(x->e->ctx, "rule",
                                bd_intern_f(x->e->ctx, "%s,%s->%s", rule[0], rule[1], rule[2]));
  return bd_edit_emit(x->e, BD_OP_CONTRACT, 2, in, 1, &attr, out);
}

static bd_status emit_slice(bd_experts *x, const bd_expert_node *node, bd_id in, bd_id *out) {
  int64_t dim = 3;
  for (int d = 0; d < bd_op_int(node->op, "dim", 0); ++d)
    dim += node->roles[d] == BD_EXPERT_FEATURE;
  bd_ctx *ctx = x->e->ctx;
  bd_attr attrs[] = {bd_attr_int(ctx, "dim", dim),
                     bd_attr_int(ctx, "start", bd_op_int(node->op, "start", 0)),
                     bd_attr_int(ctx, "size", bd_op_int(node->op, "size", 0)),
                     bd_attr_int(ctx, "step", bd_op_int(node->op, "step", 1))};
  return bd_edit_emit(x->e, BD_OP_SLICE, 1, &in, bd_op_int(node->op, "step", 1) == 1 ? 3 : 4, attrs,
                      out);
}

static bd_status emit_applied(bd_experts *x, bd_expert_node *node, bd_id placed) {
  bd_id in[2] = {BD_NO_ID, BD_NO_ID};
  bool contracts = node->op->kind == BD_OP_CONTRACT;
  for (int k = 0; k < node->op->in_count; ++k) {
    BD_TRY(bd_experts_emit(x, node->in[k], placed, &in[k]));
    bool bias = !contracts && x->nodes[node->in[k]].kind == BD_EXPERT_NODE_WEIGHT;
    if (bias) BD_TRY(emit_bias(x, bd_edit_type(x->e, placed), &in[k]));
  }
  if (contracts) return emit_contract(x, node, in, &node->made);
  if (node->op->kind == BD_OP_SLICE) return emit_slice(x, node, in[0], &node->made);
  return bd_edit_emit(x->e, node->op->kind, node->op->in_count, in, node->op->attr_count,
                      node->op->attrs, &node->made);
}

static bd_status emit_number(bd_experts *x, bd_expert_node *node) {
  bd_ctx *ctx = x->e->ctx;
  bd_attr attrs[] = {
      bd_attr_string(ctx, "dtype", bd_dtype_name(x->e->from->values[node->id].type.dtype)),
      bd_attr_ints(ctx, "dims", 0, NULL), bd_attr_real(ctx, "value", node->number)};
  return bd_edit_emit(x->e, BD_OP_CONSTANT, 0, NULL, 3, attrs, &node->made);
}

bd_status bd_experts_emit(bd_experts *x, int index, bd_id placed, bd_id *out) {
  bd_expert_node *node = &x->nodes[index];
  if (node->made == BD_NO_ID) {
    if (node->kind == BD_EXPERT_NODE_PLACED) node->made = placed;
    if (node->kind == BD_EXPERT_NODE_NUMBER) BD_TRY(emit_number(x, node));
    if (node->kind == BD_EXPERT_NODE_WEIGHT) BD_TRY(emit_weights(x, node));
    if (node->kind == BD_EXPERT_NODE_APPLIED) BD_TRY(emit_applied(x, node, placed));
  }
  *out = node->made;
  return BD_OK;
}
