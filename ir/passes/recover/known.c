#include "ir/passes/recover/known.h"
#include "ir/type.h"
#include <math.h>
#include <string.h>

// Masks are made in a few ops; a hostile graph's are not followed to the end.
enum { MAX_DEPTH = 32, MAX_STEPS = 1024 };

typedef struct known_of {
  const bd_function *function;
  int depth, steps;
} known_of;

static bool find(known_of *k, bd_id id, bd_known *out);

static bd_known number(double value) {
  return (bd_known){.base = value};
}

bool bd_known_uniform(const bd_known *known, double *out) {
  *out = known->base;
  if (known->choice) *out = known->yes;
  if (known->choice) return known->yes == known->no;
  for (int d = 0; d < BD_MAX_RANK; ++d)
    if (known->coefficient[d] != 0) return false;
  return true;
}

static bool same_form(const bd_known *a, const bd_known *b) {
  return a->base == b->base && memcmp(a->coefficient, b->coefficient, sizeof a->coefficient) == 0;
}

// A choice whose condition holds everywhere or nowhere in the type's extents is one number.
static void settle(const bd_type *type, bd_known *known) {
  double least = known->base, most = known->base;
  for (int d = 0; d < type->rank; ++d) {
    double c = known->coefficient[d];
    if (c == 0) continue;
    if (type->dims[d] == BD_DIM_BATCH) return;
    double far = c * (double)(type->dims[d] - 1);
    least += far < 0 ? far : 0;
    most += far > 0 ? far : 0;
  }
  if (most <= 0)
    *known = number(known->yes);
  else if (least > 0)
    *known = number(known->no);
}

// ---- from nothing

static double element(const bd_attr *list, int64_t i) {
  return list->kind == BD_ATTR_REALS ? list->reals[i] : (double)list->ints[i];
}

// A list of a row, 0 1 2 .., or of a matrix that has one number on and below a diagonal and another
// above it.
static bool find_list(const bd_op *op, const bd_type *type, bd_known *out) {
  const bd_attr *list = bd_op_find_attr(op, "values");
  if (!list || list->count < 1 || type->rank < 1 || type->rank > 2) return false;
  int64_t columns = type->dims[type->rank - 1], rows = type->rank == 2 ? type->dims[0] : 1;
  if (columns < 1 || rows < 1 || rows * columns != list->count) return false;
  if (type->rank == 1) {
    *out = number(element(list, 0));
    out->coefficient[0] = columns > 1 ? element(list, 1) - element(list, 0) : 0;
    for (int64_t i = 0; i < columns; ++i)
      if (element(list, i) != element(list, 0) + (double)i * out->coefficient[0]) return false;
    return true;
  }
  int64_t reach = 0;
  while (reach + 1 < columns && element(list, reach + 1) == element(list, 0))
    ++reach;
  *out = (bd_known){.choice = true, .base = (double)-reach, .yes = element(list, 0)};
  out->no = reach + 1 < columns ? element(list, columns - 1) : out->yes;
  out->coefficient[0] = -1;
  out->coefficient[1] = 1;
  for (int64_t i = 0; i < list->count; ++i)
    if (element(list, i) != (i % columns - i / columns - reach <= 0 ? out->yes : out->no))
      return false;
  return true;
}

static bool find_constant(const bd_op *op, const bd_type *type, bd_known *out) {
  const bd_attr *value = bd_op_find_attr(op, "value");
  if (!value) return find_list(op, type, out);
  *out = number(value->kind == BD_ATTR_REAL ? value->real : (double)value->integer);
  return true;
}

// ---- moved about

// A broadcast or permutation: dimension `to` of the result is `from` of the operand by its letter.
static bool find_moved(known_of *k, const bd_op *op, bd_known *out) {
  bd_known in;
  const char *rule = bd_op_string(op, "rule"), *arrow = rule ? strstr(rule, "->") : NULL;
  if (!arrow || strchr(rule, '|') || !find(k, op->in[0], &in)) return false;
  *out = in;
  memset(out->coefficient, 0, sizeof out->coefficient);
  for (int d = 0; d < arrow - rule && d < BD_MAX_RANK; ++d) {
    const char *at = strchr(arrow + 2, rule[d]);
    if (!at || at - arrow - 2 >= BD_MAX_RANK) return false;
    out->coefficient[at - arrow - 2] = in.coefficient[d];
  }
  return true;
}

static bool find_slice(known_of *k, const bd_op *op, bd_known *out) {
  int64_t dim = bd_op_int(op, "dim", 0);
  if (!find(k, op->in[0], out)) return false;
  out->base += out->coefficient[dim] * (double)bd_op_int(op, "start", 0);
  out->coefficient[dim] *= (double)bd_op_int(op, "step", 1);
  return true;
}

// ---- of numbers

static bool apply1(const bd_op *op, bd_dtype to, double x, double *out) {
  double value = bd_op_real(op, "value", 0);
  switch (op->kind) {
  case BD_OP_NEG:
    *out = -x;
    return true;
  case BD_OP_SCALE:
    *out = x == 0 ? 0 : x * value;
    return true;
  case BD_OP_OFFSET:
    *out = x + value;
    return true;
  case BD_OP_NOT:
    *out = x == 0;
    return true;
  case BD_OP_CAST:
    *out = bd_dtype_round(to, x);
    return true;
  default:
    return false;
  }
}

static bool apply2(bd_op_kind kind, double a, double b, double *out) {
  switch (kind) {
  case BD_OP_ADD:
    *out = a + b;
    return true;
  case BD_OP_SUB:
    *out = a - b;
    return true;
  case BD_OP_MUL:
    *out = a * b;
    return true;
  case BD_OP_MIN:
    *out = fmin(a, b);
    return true;
  case BD_OP_MAX:
    *out = fmax(a, b);
    return true;
  case BD_OP_EQ:
    *out = a == b;
    return true;
  case BD_OP_LE:
    *out = a <= b;
    return true;
  case BD_OP_LT:
    *out = a < b;
    return true;
  case BD_OP_AND:
    *out = a != 0 && b != 0;
    return true;
  case BD_OP_OR:
    *out = a != 0 || b != 0;
    return true;
  default:
    return false;
  }
}

static bool find1(known_of *k, const bd_op *op, const bd_type *type, bd_known *out) {
  double same;
  if (!find(k, op->in[0], out)) return false;
  if (out->choice)
    return apply1(op, type->dtype, out->yes, &out->yes) &&
           apply1(op, type->dtype, out->no, &out->no);
  if (bd_known_uniform(out, &same)) return apply1(op, type->dtype, same, &out->base);
  double by = op->kind == BD_OP_NEG ? -1 : op->kind == BD_OP_SCALE ? bd_op_real(op, "value", 0) : 1;
  bool linear = op->kind == BD_OP_NEG || op->kind == BD_OP_SCALE || op->kind == BD_OP_OFFSET ||
                (op->kind == BD_OP_CAST && type->dtype != BD_BOOL);
  out->base *= by;
  if (op->kind == BD_OP_OFFSET) out->base += bd_op_real(op, "value", 0);
  for (int d = 0; d < BD_MAX_RANK; ++d)
    out->coefficient[d] *= by;
  return linear;
}

// Operands of a pointwise op stand at the last dimensions of its result.
static bool find_aligned(known_of *k, bd_id id, int rank, bd_known *out) {
  int own = k->function->values[id].type.rank;
  if (own > rank || !find(k, id, out)) return false;
  double coefficient[BD_MAX_RANK] = {0};
  for (int d = 0; d < own; ++d)
    coefficient[d + rank - own] = out->coefficient[d];
  memcpy(out->coefficient, coefficient, sizeof coefficient);
  return true;
}

static bool has_whole_numbers(const bd_known *known) {
  bool whole = known->base == floor(known->base);
  for (int d = 0; d < BD_MAX_RANK; ++d)
    whole = whole && known->coefficient[d] == floor(known->coefficient[d]);
  return whole;
}

// Sums and comparisons of what grows with the indices.
static bool combine_linear(bd_op_kind kind, const bd_known *a, const bd_known *b, bd_known *out) {
  double sign = kind == BD_OP_ADD ? 1 : -1;
  *out = *a;
  out->base += sign * b->base;
  for (int d = 0; d < BD_MAX_RANK; ++d)
    out->coefficient[d] += sign * b->coefficient[d];
  if (kind == BD_OP_ADD || kind == BD_OP_SUB) return true;
  if ((kind != BD_OP_LE && kind != BD_OP_LT) || !has_whole_numbers(out)) return false;
  if (kind == BD_OP_LT) out->base += 1;
  out->choice = true;
  out->yes = 1;
  out->no = 0;
  return true;
}

// As a choice under the condition of `like`. False: it is one under another.
static bool as_choice(const bd_known *like, bd_known *known) {
  double same;
  if (bd_known_uniform(known, &same)) {
    *known = *like;
    known->yes = known->no = same;
    return true;
  }
  return known->choice && same_form(known, like);
}

static bool find2(known_of *k, const bd_op *op, int rank, bd_known *out) {
  bd_known a, b;
  double x, y;
  if (!find_aligned(k, op->in[0], rank, &a) || !find_aligned(k, op->in[1], rank, &b)) return false;
  if (bd_known_uniform(&a, &x) && bd_known_uniform(&b, &y)) {
    *out = number(0);
    return apply2(op->kind, x, y, &out->base);
  }
  if (!a.choice && !b.choice) return combine_linear(op->kind, &a, &b, out);
  *out = a.choice ? a : b;
  return as_choice(out, &a) && as_choice(out, &b) && apply2(op->kind, a.yes, b.yes, &out->yes) &&
         apply2(op->kind, a.no, b.no, &out->no);
}

static bool find_select(known_of *k, const bd_op *op, int rank, bd_known *out) {
  bd_known c, a, b;
  double same;
  if (!find_aligned(k, op->in[0], rank, &c) || !find_aligned(k, op->in[1], rank, &a) ||
      !find_aligned(k, op->in[2], rank, &b))
    return false;
  if (bd_known_uniform(&c, &same)) {
    *out = same != 0 ? a : b;
    return true;
  }
  *out = c;
  if (!as_choice(&c, &a) || !as_choice(&c, &b)) return false;
  out->yes = c.yes != 0 ? a.yes : b.yes;
  out->no = c.no != 0 ? a.no : b.no;
  return true;
}

static bool find_by_kind(known_of *k, const bd_op *op, const bd_type *type, bd_known *out) {
  switch (op->kind) {
  case BD_OP_CONSTANT:
    return find_constant(op, type, out);
  case BD_OP_IOTA:
    *out = number(0);
    out->coefficient[bd_op_int(op, "dim", 0)] = 1;
    return true;
  case BD_OP_BROADCAST:
  case BD_OP_PERMUTE:
    return find_moved(k, op, out);
  case BD_OP_RESHAPE: {
    double same;
    return find(k, op->in[0], out) && bd_known_uniform(out, &same);
  }
  case BD_OP_SLICE:
    return find_slice(k, op, out);
  case BD_OP_SELECT:
    return find_select(k, op, type->rank, out);
  default:
    if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE)) return false;
    if (op->in_count == 1) return find1(k, op, type, out);
    return op->in_count == 2 && find2(k, op, type->rank, out);
  }
}

static bool find(known_of *k, bd_id id, bd_known *out) {
  const bd_value *value = &k->function->values[id];
  if (value->producer < 0 || k->depth == MAX_DEPTH || k->steps++ == MAX_STEPS) return false;
  ++k->depth;
  bool found = find_by_kind(k, &k->function->ops[value->producer], &value->type, out);
  --k->depth;
  if (found && out->choice) settle(&value->type, out);
  return found;
}

bool bd_known_of(const bd_function *function, bd_id id, bd_known *out) {
  known_of k = {function, 0, 0};
  return find(&k, id, out);
}

bool bd_known_triangle(const bd_known *known, int rank, double *reach, double *on_and_below,
                       double *above) {
  if (!known->choice || rank < 2) return false;
  double row = known->coefficient[rank - 2], column = known->coefficient[rank - 1];
  if (row != -column || column == 0) return false;
  for (int d = 0; d < rank - 2; ++d)
    if (known->coefficient[d] != 0) return false;
  // column - row <= reach, or column - row >= least.
  double bound = -known->base / column;
  bool upward = column > 0;
  *on_and_below = upward ? known->yes : known->no;
  *above = upward ? known->no : known->yes;
  *reach = upward ? floor(bound) : ceil(bound) - 1;
  return true;
}
