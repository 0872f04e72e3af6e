// One function of the pass `channels-last`. A value of the old function is had in one order of its
// dimensions or in several: made in that of what it is made from, and permuted where another is
// asked for. So permutes that meet cancel, and a broadcast is made in the order that is asked for.
#include "ir/free_names.h"
#include "ir/passes/channels_last.h"

#include <string.h>

// Dimension i of the old value is dimension at[i] of the new one.
typedef struct order {
  int8_t at[BD_MAX_RANK];
} order;

typedef struct version {
  bd_id id; // of the new function
  order order;
  const struct version *next;
} version;

typedef struct turner {
  bd_ctx *ctx;
  const bd_function *from;
  bd_function *to;
  bd_free_names names;      // unlike those of both functions
  const version **versions; // per value of `from`: the first is what it was made as
} turner;

static order plain_order(void) {
  order o;
  for (int d = 0; d < BD_MAX_RANK; d++)
    o.at[d] = (int8_t)d;
  return o;
}

static order last_order(int rank) {
  order o = plain_order();
  o.at[1] = (int8_t)(rank - 1);
  for (int d = 2; d < rank; d++)
    o.at[d] = (int8_t)(d - 1);
  return o;
}

static bool same(order a, order b, int rank) {
  return memcmp(a.at, b.at, (size_t)rank) == 0;
}

static int rank_of(const turner *t, bd_id value) {
  return t->from->values[value].type.rank;
}

static const bd_op *producer_of(const turner *t, bd_id value) {
  int producer = t->from->values[value].producer;
  return producer < 0 ? NULL : &t->from->ops[producer];
}

static void add_version(turner *t, bd_id value, bd_id id, order order) {
  version *v = BD_NEW(t->ctx->arena, version);
  *v = (version){id, order, NULL};
  const version **end = &t->versions[value];
  if (*end) { // the first stays
    v->next = (*end)->next;
    version *first = BD_NEW(t->ctx->arena, version);
    *first = **end;
    first->next = v;
    *end = first;
  } else {
    *end = v;
  }
}

static void name_result(turner *t, bd_id id, const char *name) {
  if (strcmp(t->to->values[id].name, name) != 0) bd_function_rename(t->ctx, t->to, id, name);
}

// The name of another version of a value.
static void name_version(turner *t, bd_id id, bd_id value, const char *suffix) {
  const char *wanted = bd_intern_f(t->ctx, "%s.%s", t->from->values[value].name, suffix);
  name_result(t, id, bd_free_names_take(&t->names, wanted));
}

// The letters of a tensor whose dimensions are put into an order.
static void put_letters(const char *letters, int rank, order order, char *out) {
  for (int d = 0; d < rank; d++)
    out[order.at[d]] = letters[d];
}

// A broadcast in an order: its rule's result and its extents are put into it.
static bd_status make_broadcast(turner *t, bd_id value, const bd_op *op, order order, bd_id *out) {
  const version *in = t->versions[op->in[0]];
  int rank = rank_of(t, value), operand = rank_of(t, op->in[0]);
  const char *rule = bd_op_string(op, "rule");
  char text[2 * BD_MAX_RANK + 3] = {0};
  int64_t dims[BD_MAX_RANK];
  put_letters(rule, operand, in->order, text);
  memcpy(text + operand, "->", 2);
  put_letters(rule + operand + 2, rank, order, text + operand + 2);
  for (int d = 0; d < rank; d++)
    dims[order.at[d]] = bd_op_find_attr(op, "dims")->ints[d];
  const bd_attr attrs[] = {bd_attr_string(t->ctx, "rule", text),
                           bd_attr_ints(t->ctx, "dims", rank, dims)};
  return bd_build(t->ctx, t->to, BD_OP_BROADCAST, 1, &in->id, 2, attrs, op->loc, out);
}

static bd_status make_permute(turner *t, bd_id value, order order, bd_loc loc, bd_id *out) {
  const version *made = t->versions[value];
  int rank = rank_of(t, value);
  char text[2 * BD_MAX_RANK + 3] = {0}, letters[BD_MAX_RANK];
  for (int d = 0; d < rank; d++)
    letters[d] = (char)('a' + made->order.at[d]);
  for (int d = 0; d < rank; d++)
    text[d] = (char)('a' + d);
  memcpy(text + rank, "->", 2);
  put_letters(letters, rank, order, text + rank + 2);
  const bd_attr rule = bd_attr_string(t->ctx, "rule", text);
  return bd_build(t->ctx, t->to, BD_OP_PERMUTE, 1, &made->id, 1, &rule, loc, out);
}

static bool is_rule(const turner *t, const bd_op *op);

static bool is_late(const turner *t, bd_id value) {
  const bd_op *op = producer_of(t, value);
  return op && op->kind == BD_OP_BROADCAST && is_rule(t, op) && bd_op_find_attr(op, "dims");
}

// The new value that holds the old one in an order.
static bd_status get(turner *t, bd_id value, order order, bd_loc loc, bd_id *out) {
  int rank = rank_of(t, value);
  for (const version *v = t->versions[value]; v; v = v->next)
    if (same(v->order, order, rank)) {
      *out = v->id;
      return BD_OK;
    }
  bool first = !t->versions[value];
  if (is_late(t, value))
    BD_TRY(make_broadcast(t, value, producer_of(t, value), order, out));
  else
    BD_TRY(make_permute(t, value, order, loc, out));
  if (first)
    name_result(t, *out, t->from->values[value].name);
  else
    name_version(t, *out, value, same(order, plain_order(), rank) ? "first" : "last");
  add_version(t, value, *out, order);
  return BD_OK;
}

// Appends an op on new operands. Its results are in the given orders.
static bd_status add_op(turner *t, const bd_op *op, const bd_id *in, int attr_count,
                        const bd_attr *attrs, order made) {
  bd_id out[BD_MAX_RESULTS];
  BD_TRY(bd_build(t->ctx, t->to, op->kind, op->in_count, in, attr_count, attrs, op->loc, out));
  for (int k = 0; k < op->out_count; k++) {
    name_result(t, out[k], t->from->values[op->out[k]].name);
    add_version(t, op->out[k], out[k], made);
  }
  return BD_OK;
}

// The op's attributes with one of them set.
static int with_attr(turner *t, const bd_op *op, bd_attr attr, bd_attr **out) {
  int count = 0;
  *out = BD_NEW_ARRAY(t->ctx->arena, bd_attr, op->attr_count + 1);
  for (int i = 0; i < op->attr_count; i++)
    if (strcmp(op->attrs[i].name, attr.name) != 0) (*out)[count++] = op->attrs[i];
  (*out)[count++] = attr;
  return count;
}

// As it is, on operands in their old order.
static bd_status keep(turner *t, const bd_op *op) {
  bd_id in[BD_MAX_OPERANDS];
  for (int k = 0; k < op->in_count; k++)
    BD_TRY(get(t, op->in[k], plain_order(), op->loc, &in[k]));
  return add_op(t, op, in, op->attr_count, op->attrs, plain_order());
}

// Convolutions and pools: images are turned, filters are not.
static bd_status turn_window(turner *t, const bd_op *op) {
  bool filter_made = op->kind == BD_OP_CONV_DW;
  bd_id in[BD_MAX_OPERANDS];
  for (int k = 0; k < op->in_count; k++) {
    bool filter = k == 1 && (op->kind == BD_OP_CONV || op->kind == BD_OP_CONV_DX);
    order wanted = filter ? plain_order() : last_order(rank_of(t, op->in[k]));
    BD_TRY(get(t, op->in[k], wanted, op->loc, &in[k]));
  }
  bd_attr *attrs;
  int count = with_attr(t, op, bd_attr_int(t->ctx, "channels_last", 1), &attrs);
  return add_op(t, op, in, count, attrs,
                filter_made ? plain_order() : last_order(rank_of(t, op->out[0])));
}

// The order of the first operand that has been made in another than the old one.
static order order_of_operands(const turner *t, const bd_op *op, int rank) {
  for (int k = 0; k < op->in_count; k++) {
    const version *made = t->versions[op->in[k]];
    if (made && rank_of(t, op->in[k]) == rank && !same(made->order, plain_order(), rank))
      return made->order;
  }
  return plain_order();
}

// Whether each operand has the result's dimensions or none.
static bool is_even(const turner *t, const bd_op *op) {
  int rank = rank_of(t, op->out[0]);
  for (int k = 0; k < op->in_count; k++)
    if (rank_of(t, op->in[k]) != rank && rank_of(t, op->in[k]) != 0) return false;
  return op->in_count > 0;
}

// Ops that do the same to every element, or along one dimension that an attribute names.
static bd_status follow(turner *t, const bd_op *op) {
  int rank = rank_of(t, op->out[0]);
  order wanted = order_of_operands(t, op, rank);
  bd_id in[BD_MAX_OPERANDS];
  bd_attr *attrs = op->attrs;
  int count = op->attr_count;
  for (int k = 0; k < op->in_count; k++)
    BD_TRY(
        get(t, op->in[k], rank_of(t, op->in[k]) == rank ? wanted : plain_order(), op->loc, &in[k]));
  if (bd_op_find_attr(op, "dim"))
    count =
        with_attr(t, op, bd_attr_int(t->ctx, "dim", wanted.at[bd_op_int(op, "dim", 0)]), &attrs);
  return add_op(t, op, in, count, attrs, wanted);
}

// A rule whose every tensor has a letter for each dimension.
static bool is_rule(const turner *t, const bd_op *op) {
  const char *at = bd_op_string(op, "rule");
  if (!at || op->out_count != 1) return false;
  for (int k = 0; k < op->in_count; k++) {
    size_t rank = (size_t)rank_of(t, op->in[k]);
    if (strcspn(at, ",-.|") != rank) return false;
    at += rank + (k + 1 < op->in_count);
  }
  return strncmp(at, "->", 2) == 0 && strlen(at + 2) == (size_t)rank_of(t, op->out[0]) &&
         !strpbrk(at, ".|");
}

// Sums and products: the rule names the dimensions in the order in which they come.
static bd_status reorder_rule(turner *t, const bd_op *op) {
  const char *rule = bd_op_string(op, "rule");
  char *text = BD_NEW_ARRAY(t->ctx->arena, char, strlen(rule) + 1);
  bd_id in[BD_MAX_OPERANDS];
  size_t at = 0;
  memcpy(text, rule, strlen(rule));
  for (int k = 0; k < op->in_count; k++) {
    if (!t->versions[op->in[k]]) BD_TRY(get(t, op->in[k], plain_order(), op->loc, &in[k]));
    const version *made = t->versions[op->in[k]];
    int rank = rank_of(t, op->in[k]);
    in[k] = made->id;
    put_letters(rule + at, rank, made->order, text + at);
    at += (size_t)rank + 1;
  }
  bd_attr *attrs;
  int count = with_attr(t, op, bd_attr_string(t->ctx, "rule", text), &attrs);
  return add_op(t, op, in, count, attrs, plain_order());
}

// The operand seen otherwise.
static bd_status see_permuted(turner *t, const bd_op *op) {
  const char *rule = bd_op_string(op, "rule");
  int rank = rank_of(t, op->out[0]);
  bd_id id;
  if (!t->versions[op->in[0]]) BD_TRY(get(t, op->in[0], plain_order(), op->loc, &id));
  const version *made = t->versions[op->in[0]];
  order seen = plain_order();
  for (int d = 0; d < rank; d++)
    seen.at[d] = made->order.at[strchr(rule, rule[rank + 2 + d]) - rule];
  add_version(t, op->out[0], made->id, seen);
  return BD_OK;
}

bool bd_has_channels_second(const bd_op *op) {
  switch (op->kind) {
  case BD_OP_CONV:
  case BD_OP_CONV_DX:
  case BD_OP_CONV_DW:
  case BD_OP_MAXPOOL:
    return !bd_op_int(op, "channels_last", 0);
  default:
    return false;
  }
}

static bool follows(const turner *t, const bd_op *op) {
  unsigned traits = bd_op_get_info(op->kind)->traits;
  bool along = op->kind == BD_OP_CONCAT || op->kind == BD_OP_SLICE || op->kind == BD_OP_PAD;
  return along || ((traits & BD_POINTWISE) && !(traits & BD_RANDOM) && is_even(t, op));
}

static bd_status move_op(turner *t, const bd_op *op) {
  if (bd_has_channels_second(op)) return turn_window(t, op);
  if (op->out_count == 1 && is_late(t, op->out[0])) {
    bd_id in; // where it is asked for
    return t->versions[op->in[0]] ? BD_OK : get(t, op->in[0], plain_order(), op->loc, &in);
  }
  if (follows(t, op)) return follow(t, op);
  if (op->kind == BD_OP_PERMUTE && is_rule(t, op)) return see_permuted(t, op);
  if (bd_op_string(op, "rule") && op->kind != BD_OP_PERMUTE && is_rule(t, op))
    return reorder_rule(t, op);
  return keep(t, op);
}

static void move_params(turner *t, const bd_turned *turned) {
  for (int i = 0; i < t->from->param_count; i++) {
    bd_id param = t->from->params[i];
    const bd_value *value = &t->from->values[param];
    bd_type type = turned->param[i] ? bd_type_channels_last(&value->type) : value->type;
    bd_id id = bd_function_add_param(t->ctx, t->to, value->name, type);
    t->to->is_weight[i] = t->from->is_weight[i];
    add_version(t, param, id, turned->param[i] ? last_order(type.rank) : plain_order());
  }
}

// What the function returns is made by an op of its own, which nothing else that it returns is.
static bd_status add_result(turner *t, bd_id id, bd_loc loc) {
  bool copy = t->to->values[id].producer < 0;
  for (int i = 0; i < t->to->result_count; i++)
    copy |= t->to->results[i] == id;
  const bd_attr one = bd_attr_real(t->ctx, "value", 1);
  if (copy) BD_TRY(bd_build(t->ctx, t->to, BD_OP_SCALE, 1, &id, 1, &one, loc, &id));
  bd_function_add_result(t->ctx, t->to, id);
  return BD_OK;
}

bd_status bd_turn_function(bd_ctx *ctx, bd_turned *turned) {
  const bd_function *from = turned->from;
  turner t = {.ctx = ctx,
              .from = from,
              .to = bd_function_create(ctx, from->name),
              .names = bd_free_names_of(ctx, from),
              .versions = BD_NEW_ARRAY(ctx->arena, const version *, from->value_count)};
  t.to->role = from->role;
  t.to->loc = from->loc;
  turned->to = t.to;
  move_params(&t, turned);
  for (int i = 0; i < from->op_count; i++)
    BD_TRY(move_op(&t, &from->ops[i]));
  for (int i = 0; i < from->result_count; i++) {
    bd_id v = from->results[i], id;
    int rank = rank_of(&t, v);
    const version *made = t.versions[v];
    turned->is_last[i] = rank >= 3 && made && same(made->order, last_order(rank), rank);
    BD_TRY(get(&t, v, turned->result[i] ? last_order(rank) : plain_order(), from->loc, &id));
    BD_TRY(add_result(&t, id, from->loc));
  }
  return BD_OK;
}
