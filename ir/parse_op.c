#include "ir/base/suggest.h"
#include "ir/parse_internal.h"

// A growing list of ids or names of one op.
typedef struct name_list {
  const char **names;
  bd_loc *locs;
  int count, capacity;
} name_list;

static void add_name(bd_parser *p, name_list *list, const char *name, bd_loc loc) {
  if (list->count == list->capacity) {
    int capacity = list->capacity * 2 + 4;
    size_t count = (size_t)list->count;
    list->names =
        bd_arena_grow(p->ctx->arena, list->names, count, (size_t)capacity, sizeof *list->names);
    list->locs =
        bd_arena_grow(p->ctx->arena, list->locs, count, (size_t)capacity, sizeof *list->locs);
    list->capacity = capacity;
  }
  list->names[list->count] = name;
  list->locs[list->count++] = loc;
}

// `%a, %b =`, or nothing.
static bd_status parse_result_names(bd_parser *p, name_list *out_list) {
  if (!bd_parser_peek(p, '%')) return BD_OK;
  do {
    bd_loc loc = bd_parser_loc(p);
    const char *name = NULL;
    BD_TRY(bd_parser_value(p, &name));
    add_name(p, out_list, name, loc);
  } while (bd_parser_accept(p, ','));
  return bd_parser_expect(p, '=');
}

static bd_status parse_kind(bd_parser *p, bd_op_kind *out_kind) {
  bd_loc loc = bd_parser_loc(p);
  const char *word = NULL;
  BD_TRY(bd_parser_word(p, "an op", &word));
  if (bd_op_find(word, out_kind)) return BD_OK;
  const char *names[BD_OP_KIND_COUNT + 1] = {0};
  for (int i = 0; i < BD_OP_KIND_COUNT; ++i)
    names[i] = bd_op_get_info((bd_op_kind)i)->name;
  const char *near = bd_suggest(word, names);
  return bd_fail(p->ctx, BD_INVALID, loc, "there is no op '%s'%s%s%s", word,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bd_status parse_operands(bd_parser *p, bd_id **out_in, int *out_count) {
  int count = 0, capacity = 4;
  bd_id *in = BD_NEW_ARRAY(p->ctx->arena, bd_id, capacity);
  BD_TRY(bd_parser_expect(p, '('));
  while (!bd_parser_peek(p, ')')) {
    if (count > 0) BD_TRY(bd_parser_expect(p, ','));
    if (count == capacity) {
      in = bd_arena_grow(p->ctx->arena, in, (size_t)count, (size_t)count * 2, sizeof *in);
      capacity *= 2;
    }
    BD_TRY(bd_parser_use(p, &in[count]));
    ++count;
  }
  *out_in = in;
  *out_count = count;
  return bd_parser_expect(p, ')');
}

// A list of integers or, where one of them is a real, of reals.
static bd_status parse_list(bd_parser *p, bd_attr *attr) {
  int capacity = 0;
  int64_t *ints = NULL;
  double *reals = NULL;
  attr->kind = BD_ATTR_INTS;
  BD_TRY(bd_parser_expect(p, '['));
  while (!bd_parser_peek(p, ']')) {
    if (attr->count > 0) BD_TRY(bd_parser_expect(p, ','));
    if (attr->count == capacity) {
      size_t count = (size_t)attr->count;
      capacity = 2 * capacity + 8;
      ints = bd_arena_grow(p->ctx->arena, ints, count, (size_t)capacity, sizeof *ints);
      reals = bd_arena_grow(p->ctx->arena, reals, count, (size_t)capacity, sizeof *reals);
    }
    bool is_real = false;
    BD_TRY(bd_parser_number(p, "a number", &is_real, &ints[attr->count], &reals[attr->count]));
    if (is_real) attr->kind = BD_ATTR_REALS;
    ++attr->count;
  }
  attr->ints = attr->kind == BD_ATTR_INTS ? ints : NULL;
  attr->reals = attr->kind == BD_ATTR_REALS ? reals : NULL;
  return bd_parser_expect(p, ']');
}

static bd_status parse_attr(bd_parser *p, bd_op *op) {
  bd_loc loc = bd_parser_loc(p);
  bd_attr attr = {0};
  BD_TRY(bd_parser_word(p, "an attribute", &attr.name));
  if (bd_op_find_attr(op, attr.name))
    return bd_fail(p->ctx, BD_INVALID, loc, "the attribute '%s' stands twice", attr.name);
  BD_TRY(bd_parser_expect(p, '='));
  if (bd_parser_peek(p, '"')) {
    attr.kind = BD_ATTR_STRING;
    BD_TRY(bd_parser_string(p, "a string", &attr.string));
  } else if (bd_parser_peek(p, '[')) {
    BD_TRY(parse_list(p, &attr));
  } else {
    bool is_real = false;
    BD_TRY(
        bd_parser_number(p, "a number, a string or a list", &is_real, &attr.integer, &attr.real));
    attr.kind = is_real ? BD_ATTR_REAL : BD_ATTR_INT;
    if (is_real)
      attr.integer = 0;
    else
      attr.real = 0;
  }
  bd_op_set_attr(p->ctx, op, attr);
  return BD_OK;
}

static bd_status parse_attrs(bd_parser *p, bd_op *op) {
  if (!bd_parser_accept(p, '{')) return BD_OK;
  do {
    BD_TRY(parse_attr(p, op));
  } while (bd_parser_accept(p, ','));
  return bd_parser_expect(p, '}');
}

static bd_status parse_split(bd_parser *p, bd_op *op) {
  op->has_split = true;
  BD_TRY(bd_parser_expect(p, '['));
  for (int axis = 0; axis < p->module->mesh.axes; ++axis) {
    if (axis > 0) BD_TRY(bd_parser_expect(p, ','));
    int loop = -1;
    if (!bd_parser_accept(p, '-')) BD_TRY(bd_parser_small(p, "a loop or '-'", 0, 127, &loop));
    op->split[axis] = (int8_t)loop;
  }
  return bd_parser_expect(p, ']');
}

// What follows the attributes, in this order.
static bd_status parse_marks(bd_parser *p, bd_op *op) {
  if (bd_parser_accept_word(p, "group"))
    BD_TRY(bd_parser_small(p, "a group", -1, INT32_MAX, &op->group));
  if (bd_parser_accept_word(p, "split")) BD_TRY(parse_split(p, op));
  op->recomputed = bd_parser_accept_word(p, "recomputed");
  if (bd_parser_accept_word(p, "stage"))
    BD_TRY(bd_parser_small(p, "a stage", 0, INT32_MAX, &op->stage));
  return BD_OK;
}

static bd_status parse_results(bd_parser *p, const name_list *names, int op_index) {
  for (int i = 0; i < names->count; ++i) {
    BD_TRY(bd_parser_expect(p, i ? ',' : ':'));
    bd_value like;
    bd_id id = BD_NO_ID;
    BD_TRY(bd_parser_value_type(p, &like));
    BD_TRY(bd_parser_define(p, names->locs[i], names->names[i], &like, false, &id));
    p->function->values[id].producer = op_index;
    p->function->values[id].result = i;
    p->function->ops[op_index].out[i] = id;
  }
  return BD_OK;
}

bd_status bd_parser_op(bd_parser *p) {
  name_list results = {0};
  bd_op_kind kind = BD_OP_CALL;
  BD_TRY(parse_result_names(p, &results));
  bd_loc loc = bd_parser_loc(p);
  BD_TRY(parse_kind(p, &kind));
  const char *callee = NULL;
  if (kind == BD_OP_CALL) BD_TRY(bd_parser_symbol(p, "the called function (@name)", &callee));
  bd_id *in = NULL;
  int in_count = 0;
  BD_TRY(parse_operands(p, &in, &in_count));
  bd_id *out = BD_NEW_ARRAY(p->ctx->arena, bd_id, results.count);
  for (int i = 0; i < results.count; ++i)
    out[i] = BD_NO_ID;
  int index = p->function->op_count;
  bd_op *op = bd_function_add_op(p->ctx, p->function, kind, in_count, in, results.count, out, loc);
  op->callee = callee;
  BD_TRY(parse_attrs(p, op));
  BD_TRY(parse_marks(p, op));
  return parse_results(p, &results, index);
}
