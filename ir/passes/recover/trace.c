#include "ir/passes/recover/trace.h"
#include <string.h>

// Masks are made of a few ops; what is longer is something else.
enum { MOST_STEPS = 32 };

bd_traced bd_trace_begin(const bd_edit *e, bd_id id) {
  bd_traced value = {.id = id, .rank = e->from->values[id].type.rank};
  for (int d = 0; d < value.rank; ++d)
    value.dim[d] = d;
  return value;
}

bd_traced bd_trace_operand(const bd_edit *e, const bd_traced *value, int i) {
  bd_traced in = {.id = bd_edit_producer(e, value->id)->in[i]};
  in.rank = e->from->values[in.id].type.rank;
  for (int d = 0; d < in.rank; ++d) {
    in.dim[d] = value->dim[value->rank - in.rank + d];
    in.at[d] = value->at[value->rank - in.rank + d];
  }
  return in;
}

// Permutations and repetitions: every dimension of the operand is one of the result.
static bool trace_rule(const bd_edit *e, const bd_op *op, bd_traced *value) {
  const char *rule = bd_op_string(op, "rule"), *arrow = rule ? strstr(rule, "->") : NULL;
  bd_traced in = {.id = op->in[0], .rank = e->from->values[op->in[0]].type.rank};
  if (!arrow || arrow - rule != in.rank || strlen(arrow + 2) != (size_t)value->rank) return false;
  for (int d = 0; d < in.rank; ++d) {
    const char *at = strchr(arrow + 2, rule[d]);
    if (!at) return false;
    in.dim[d] = value->dim[at - (arrow + 2)];
    in.at[d] = value->at[at - (arrow + 2)];
  }
  *value = in;
  return true;
}

static bool trace_reshape(const bd_edit *e, const bd_op *op, bd_traced *value) {
  const bd_type *from = &e->from->values[op->in[0]].type, *to = &e->from->values[value->id].type;
  bd_traced in = {.id = op->in[0], .rank = from->rank};
  int k = 0;
  for (int d = 0; d < from->rank; ++d) {
    while (k < to->rank && to->dims[k] == 1 && from->dims[d] != 1)
      ++k;
    bool same = k < to->rank && to->dims[k] == from->dims[d];
    if (!same && from->dims[d] != 1) return false;
    in.dim[d] = same ? value->dim[k] : -1;
    in.at[d] = same ? value->at[k] : 0;
    k += same;
  }
  for (; k < to->rank; ++k)
    if (to->dims[k] != 1) return false;
  *value = in;
  return true;
}

static bool trace_slice(const bd_edit *e, const bd_op *op, bd_traced *value) {
  int64_t dim = bd_op_int(op, "dim", 0);
  bool one = e->from->values[value->id].type.dims[dim] == 1;
  if (bd_op_int(op, "step", 1) != 1 || (value->dim[dim] >= 0 && !one)) return false;
  if (value->dim[dim] >= 0) value->at[dim] = 0;
  value->dim[dim] = -1;
  value->at[dim] += bd_op_int(op, "start", 0);
  value->id = op->in[0];
  return true;
}

static bool is_whole(bd_dtype dtype) {
  return !bd_dtype_is_float(dtype);
}

static bool trace_view(const bd_edit *e, bd_traced *value) {
  const bd_op *op = bd_edit_producer(e, value->id);
  if (!op) return false;
  switch (op->kind) {
  case BD_OP_PERMUTE:
  case BD_OP_BROADCAST:
    return trace_rule(e, op, value);
  case BD_OP_RESHAPE:
    return trace_reshape(e, op, value);
  case BD_OP_SLICE:
    return trace_slice(e, op, value);
  case BD_OP_CAST:
    if (!is_whole(e->from->values[value->id].type.dtype) ||
        !is_whole(e->from->values[op->in[0]].type.dtype))
      return false;
    value->id = op->in[0];
    return true;
  default:
    return false;
  }
}

void bd_trace_views(const bd_edit *e, bd_traced *value) {
  while (trace_view(e, value))
    continue;
}

// Whether the element is one number that is known.
static bool trace_number(const bd_edit *e, bd_traced value, double *out) {
  bd_trace_views(e, &value);
  const bd_op *op = bd_edit_producer(e, value.id);
  if (!op) return false;
  if (op->kind == BD_OP_IOTA) {
    int64_t dim = bd_op_int(op, "dim", 0);
    *out = (double)value.at[dim];
    return value.dim[dim] < 0;
  }
  if (op->kind != BD_OP_CONSTANT) return false;
  const bd_attr *values = bd_op_find_attr(op, "values");
  *out = bd_op_real(op, "value", 0);
  if (!values) return true;
  const bd_type *type = &e->from->values[value.id].type;
  int64_t index = 0;
  for (int d = 0; d < value.rank; ++d) {
    if (value.dim[d] >= 0) return false;
    index = index * type->dims[d] + value.at[d];
  }
  if (index >= values->count) return false;
  *out = values->kind == BD_ATTR_INTS ? (double)values->ints[index] : values->reals[index];
  return true;
}

static bool is_operand(const bd_edit *e, const bd_traced *value, int i, double number) {
  double known;
  return trace_number(e, bd_trace_operand(e, value, i), &known) && known == number;
}

// The operand that a sum or product leaves as it is, or -1.
static int kept_operand(const bd_edit *e, const bd_traced *value, double neutral) {
  return is_operand(e, value, 1, neutral) ? 0 : is_operand(e, value, 0, neutral) ? 1 : -1;
}

static bool same_traced(const bd_traced *a, const bd_traced *b) {
  if (a->id != b->id) return false;
  for (int d = 0; d < a->rank; ++d)
    if (a->dim[d] != b->dim[d] || (a->dim[d] < 0 && a->at[d] != b->at[d])) return false;
  return true;
}

// Numbers below 0 count from the end, of which no choice is one: select(n < 0, n + experts, n).
static bool is_wrapped(const bd_edit *e, const bd_traced *value) {
  bd_traced below = bd_trace_operand(e, value, 0), kept = bd_trace_operand(e, value, 2);
  bd_trace_views(e, &below);
  const bd_op *op = bd_edit_producer(e, below.id);
  if (!op || op->kind != BD_OP_LT || !is_operand(e, &below, 1, 0)) return false;
  below = bd_trace_operand(e, &below, 0);
  bd_trace_views(e, &below);
  bd_trace_views(e, &kept);
  return same_traced(&below, &kept);
}

bool bd_trace_chosen(const bd_edit *e, bd_traced *value) {
  for (int step = 0; step < MOST_STEPS; ++step) {
    bd_trace_views(e, value);
    const bd_op *op = bd_edit_producer(e, value->id);
    if (!op) return false;
    int kept = -1;
    if (op->kind == BD_OP_TOPK)
      return op->out[1] == value->id && bd_op_int(op, "largest", 1) != 0 &&
             e->from->values[op->out[1]].type.dtype == BD_I64;
    if (op->kind == BD_OP_SELECT && is_wrapped(e, value)) kept = 2;
    if (op->kind == BD_OP_MUL) kept = kept_operand(e, value, 1);
    if (op->kind == BD_OP_ADD) kept = kept_operand(e, value, 0);
    if (kept < 0) return false;
    *value = bd_trace_operand(e, value, kept);
  }
  return false;
}

// select(c, 1, 0) is c, and so is not(c == 0), and a real number made of it.
static bool trace_truth(const bd_edit *e, bd_traced *value) {
  const bd_op *op = bd_edit_producer(e, value->id);
  if (op && op->kind == BD_OP_CAST && is_whole(e->from->values[op->in[0]].type.dtype)) {
    value->id = op->in[0];
    return true;
  }
  if (op && op->kind == BD_OP_SELECT) {
    if (!is_operand(e, value, 1, 1) || !is_operand(e, value, 2, 0)) return false;
    *value = bd_trace_operand(e, value, 0);
    return true;
  }
  if (!op || op->kind != BD_OP_NOT) return false;
  bd_traced equal = bd_trace_operand(e, value, 0);
  bd_trace_views(e, &equal);
  op = bd_edit_producer(e, equal.id);
  int kept = op && op->kind == BD_OP_EQ ? kept_operand(e, &equal, 0) : -1;
  if (kept < 0) return false;
  *value = bd_trace_operand(e, &equal, kept);
  return true;
}

// Whether elements count from 0 along one dimension, of any other the same.
static bool trace_count(const bd_edit *e, bd_traced value, int *out_dim) {
  bd_trace_views(e, &value);
  const bd_op *op = bd_edit_producer(e, value.id);
  if (!op || value.rank != 1 || value.dim[0] < 0) return false;
  *out_dim = value.dim[0];
  if (op->kind == BD_OP_IOTA) return true;
  const bd_attr *values = op->kind == BD_OP_CONSTANT ? bd_op_find_attr(op, "values") : NULL;
  for (int i = 0; values && i < values->count; ++i)
    if (values->kind != BD_ATTR_INTS || values->ints[i] != i) return false;
  return values != NULL;
}

bool bd_trace_choice(const bd_edit *e, bd_traced value, bd_traced_choice *out) {
  bd_trace_views(e, &value);
  for (int step = 0; step < MOST_STEPS && trace_truth(e, &value); ++step)
    bd_trace_views(e, &value);
  const bd_op *op = bd_edit_producer(e, value.id);
  double expert;
  if (!op || op->kind != BD_OP_EQ) return false;
  for (int side = 0; side < 2; ++side) {
    bd_traced number = bd_trace_operand(e, &value, side);
    out->expert_dim = -1;
    expert = 0;
    if (!trace_number(e, number, &expert) && !trace_count(e, number, &out->expert_dim)) continue;
    out->chosen = bd_trace_operand(e, &value, 1 - side);
    out->expert = (int64_t)expert;
    return (double)out->expert == expert && bd_trace_chosen(e, &out->chosen);
  }
  return false;
}
