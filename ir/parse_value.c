#include "ir/parse_internal.h"

bd_status bd_parser_dtype(bd_parser *p, bd_dtype *out_dtype) {
  const char *names[BD_DTYPE_COUNT];
  for (int i = 0; i < BD_DTYPE_COUNT; ++i)
    names[i] = bd_dtype_name((bd_dtype)i);
  int dtype = 0;
  BD_TRY(bd_parser_choice(p, "an element type", names, BD_DTYPE_COUNT, &dtype));
  *out_dtype = (bd_dtype)dtype;
  return BD_OK;
}

bd_status bd_parser_type(bd_parser *p, bd_type *out_type) {
  bd_type type = {0};
  BD_TRY(bd_parser_dtype(p, &type.dtype));
  BD_TRY(bd_parser_expect(p, '['));
  while (!bd_parser_peek(p, ']')) {
    if (type.rank > 0) BD_TRY(bd_parser_expect(p, ','));
    if (type.rank == BD_MAX_RANK)
      return bd_fail(p->ctx, BD_INVALID, bd_parser_loc(p), "a type has at most %d dimensions",
                     BD_MAX_RANK);
    int64_t dim = BD_DIM_BATCH;
    if (!bd_parser_accept_word(p, "B"))
      BD_TRY(bd_parser_int(p, "an extent", 1, BD_MAX_ELEMENTS, &dim));
    type.dims[type.rank++] = dim;
  }
  *out_type = type;
  return bd_parser_expect(p, ']');
}

bd_status bd_parser_ints(bd_parser *p, const char *what, int64_t min, int64_t max,
                         int64_t **out_values, int *out_count) {
  int count = 0, capacity = 8;
  int64_t *values = BD_NEW_ARRAY(p->ctx->arena, int64_t, capacity);
  BD_TRY(bd_parser_expect(p, '['));
  while (!bd_parser_peek(p, ']')) {
    if (count > 0) BD_TRY(bd_parser_expect(p, ','));
    if (count == capacity) {
      values =
          bd_arena_grow(p->ctx->arena, values, (size_t)count, (size_t)count * 2, sizeof *values);
      capacity *= 2;
    }
    BD_TRY(bd_parser_int(p, what, min, max, &values[count]));
    ++count;
  }
  *out_values = values;
  *out_count = count;
  return bd_parser_expect(p, ']');
}

static bd_status parse_sharding(bd_parser *p, bd_sharding *out_sharding) {
  static const char *const words[] = {"sum", "max", "lse"};
  bd_sharding sharding = bd_sharding_replicated();
  BD_TRY(bd_parser_expect(p, '['));
  for (int axis = 0; axis < p->module->mesh.axes; ++axis) {
    if (axis > 0) BD_TRY(bd_parser_expect(p, ','));
    int dim = BD_REPLICATED, i = 0;
    while (i < 3 && !bd_parser_accept_word(p, words[i]))
      ++i;
    if (i < 3)
      dim = BD_PARTIAL_SUM - i;
    else if (!bd_parser_accept(p, '-'))
      BD_TRY(bd_parser_small(p, "a dimension, '-', sum, max or lse", 0, BD_MAX_RANK - 1, &dim));
    sharding.at[axis] = (int8_t)dim;
  }
  *out_sharding = sharding;
  return bd_parser_expect(p, ']');
}

bd_status bd_parser_value_type(bd_parser *p, bd_value *out_value) {
  bd_value value = {.sharding = bd_sharding_replicated()};
  BD_TRY(bd_parser_type(p, &value.type));
  if (bd_parser_accept_word(p, "sharded")) {
    value.has_sharding = true;
    BD_TRY(parse_sharding(p, &value.sharding));
  }
  if (bd_parser_accept_word(p, "at")) {
    const char *names[BD_SEGMENT_COUNT];
    for (int i = BD_SEGMENT_NONE + 1; i < BD_SEGMENT_COUNT; ++i)
      names[i - 1] = bd_segment_name((bd_segment)i);
    int segment = 0;
    BD_TRY(bd_parser_choice(p, "a segment", names, BD_SEGMENT_COUNT - 1, &segment));
    value.segment = (bd_segment)(segment + 1);
    BD_TRY(bd_parser_expect(p, '+'));
    BD_TRY(bd_parser_int(p, "an offset", 0, INT64_MAX / 4, &value.offset_bytes));
  }
  *out_value = value;
  return BD_OK;
}

bd_status bd_parser_define(bd_parser *p, bd_loc loc, const char *name, const bd_value *like,
                           bool is_param, bd_id *out_id) {
  if (!bd_name_map_add(&p->values, name, p->function->value_count))
    return bd_fail(p->ctx, BD_INVALID, loc, "%%%s is defined twice", name);
  bd_id id = is_param ? bd_function_add_param(p->ctx, p->function, name, like->type)
                      : bd_function_add_value(p->ctx, p->function, name, like->type);
  bd_value *value = &p->function->values[id];
  value->sharding = like->sharding;
  value->has_sharding = like->has_sharding;
  value->segment = like->segment;
  value->offset_bytes = like->offset_bytes;
  *out_id = id;
  return BD_OK;
}

bd_status bd_parser_use(bd_parser *p, bd_id *out_id) {
  bd_loc loc = bd_parser_loc(p);
  const char *name;
  BD_TRY(bd_parser_value(p, &name));
  *out_id = bd_name_map_find(&p->values, name);
  if (*out_id < 0)
    return bd_fail(p->ctx, BD_INVALID, loc, "%%%s is not defined above its use", name);
  return BD_OK;
}
