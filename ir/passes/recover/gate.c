#include "ir/passes/recover/gate.h"
#include "ir/passes/recover/pattern.h"
#include <string.h>

// Stands for the dimension of the choices where a value is summed over them.
enum { CHOICES = BD_MAX_RANK };

static const bd_type *type_of(const bd_edit *e, bd_id id) {
  return &e->from->values[id].type;
}

static bool is_zero(const bd_edit *e, bd_id id) {
  double number;
  return bd_uniform_number(e->from, id, &number) && number == 0;
}

int bd_summed_dim(const bd_op *op) {
  const char *rule = bd_op_string(op, "rule"), *arrow = rule ? strstr(rule, "->") : NULL;
  if (op->kind != BD_OP_REDUCE_SUM || !arrow || strlen(arrow + 2) + 1 != (size_t)(arrow - rule))
    return -1;
  int at = 0;
  while (arrow[2 + at] && arrow[2 + at] == rule[at])
    ++at;
  const char *rest = arrow + 2 + at;
  return strncmp(rule + at + 1, rest, strlen(rest)) == 0 ? at : -1;
}

bool bd_is_by_choice(const bd_edit *e, const bd_traced *value, const bd_expert_role *roles) {
  if (value->rank != 3) return false;
  for (int d = 0; d < 3; ++d) {
    bool lone = value->dim[d] < 0 && type_of(e, value->id)->dims[d] == 1;
    if (!lone && (value->dim[d] < 0 || roles[value->dim[d]] != (bd_expert_role)d)) return false;
  }
  return true;
}

// scatter(0, chosen, weights) along the experts.
static bool find_scattered(const bd_edit *e, const bd_traced *value, bd_gate *out) {
  static const bd_expert_role roles[] = {BD_EXPERT_BATCH, BD_EXPERT_TOKEN, BD_EXPERT_CHOICE};
  const bd_op *op = bd_edit_producer(e, value->id);
  if (op->kind != BD_OP_SCATTER || value->rank != 3 || bd_op_int(op, "dim", 0) != 2 ||
      bd_op_int(op, "batch", 0) != 2 || !is_zero(e, op->in[0]))
    return false;
  bd_traced chosen = bd_trace_begin(e, op->in[1]), weights = bd_trace_begin(e, op->in[2]);
  bd_trace_views(e, &weights);
  if (!bd_trace_chosen(e, &chosen) || !bd_is_by_choice(e, &chosen, roles) ||
      !bd_is_by_choice(e, &weights, roles) || type_of(e, weights.id)->dtype != BD_F32)
    return false;
  *out = (bd_gate){.chosen = chosen.id,
                   .weights = weights.id,
                   .batch = value->dim[0],
                   .token = value->dim[1],
                   .number = value->dim[2],
                   .expert = value->at[2]};
  return true;
}

// The operand of a sum over the choices by the dimensions of what the sum is traced to.
static bd_traced trace_summed(const bd_edit *e, const bd_traced *value, int summed) {
  bd_traced inner = bd_trace_begin(e, bd_edit_producer(e, value->id)->in[0]);
  for (int d = 0; d < inner.rank; ++d) {
    int from = d < summed ? d : d - 1;
    inner.dim[d] = d == summed ? CHOICES : value->dim[from];
    inner.at[d] = d == summed ? 0 : value->at[from];
  }
  return inner;
}

// A mask of choices and weights for the same ones.
static bool find_masked(const bd_edit *e, bd_traced mask, bd_traced weights, bd_gate *out) {
  bd_traced_choice choice;
  bd_trace_views(e, &weights);
  if (!bd_trace_choice(e, mask, &choice)) return false;
  const bd_traced *chosen = &choice.chosen;
  if (chosen->rank != 3 || weights.rank != 3 || type_of(e, weights.id)->dtype != BD_F32)
    return false;
  for (int d = 0; d < 3; ++d)
    if (chosen->dim[d] < 0 || weights.dim[d] != chosen->dim[d]) return false;
  *out = (bd_gate){.chosen = chosen->id,
                   .weights = weights.id,
                   .batch = chosen->dim[0],
                   .token = chosen->dim[1],
                   .number = choice.expert_dim,
                   .expert = choice.expert};
  return chosen->dim[2] == CHOICES;
}

// sum(mask * weights) or sum(select(mask, weights, 0)) over the choices.
static bool find_summed(const bd_edit *e, const bd_traced *value, bd_gate *out) {
  int summed = bd_summed_dim(bd_edit_producer(e, value->id));
  if (summed < 0) return false;
  bd_traced inner = trace_summed(e, value, summed);
  const bd_op *op = bd_edit_producer(e, inner.id);
  if (!op) return false;
  if (op->kind == BD_OP_SELECT && is_zero(e, op->in[2]))
    return find_masked(e, bd_trace_operand(e, &inner, 0), bd_trace_operand(e, &inner, 1), out);
  for (int side = 0; op->kind == BD_OP_MUL && side < 2; ++side)
    if (find_masked(e, bd_trace_operand(e, &inner, side), bd_trace_operand(e, &inner, 1 - side),
                    out))
      return true;
  return false;
}

bool bd_find_gate(const bd_edit *e, bd_traced value, bd_gate *out) {
  bd_trace_views(e, &value);
  if (!bd_edit_producer(e, value.id)) return false;
  return (find_scattered(e, &value, out) || find_summed(e, &value, out)) && out->batch >= 0 &&
         out->token >= 0;
}
