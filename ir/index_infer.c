#include "ir/base/text.h"
#include "ir/index_rule.h"
#include <assert.h>
#include <string.h>

bd_status bd_inference_fail(const bd_inference *inference, const char *format, ...) {
  bd_text text = bd_text_init(inference->ctx->arena);
  va_list arguments;
  va_start(arguments, format);
  bd_text_addv(&text, format, arguments);
  va_end(arguments);
  return bd_fail(inference->ctx, BD_INVALID, inference->op->loc, "%s: %s", inference->info->name,
                 text.data);
}

bd_extent_text bd_extent_print(int64_t extent) {
  bd_extent_text out = {"B"};
  if (extent != BD_DIM_BATCH) snprintf(out.text, sizeof out.text, "%lld", (long long)extent);
  return out;
}

const char *bd_type_describe(bd_ctx *ctx, const bd_type *type) {
  bd_text text = bd_text_init(ctx->arena);
  bd_text_addf(&text, "%s[", bd_dtype_name(type->dtype));
  for (int i = 0; i < type->rank; ++i)
    bd_text_addf(&text, "%s%s", i ? "," : "", bd_extent_print(type->dims[i]).text);
  bd_text_add(&text, "]");
  return text.data;
}

int bd_inference_add_loop(bd_inference *inference, char letter, bd_loop_kind kind, int64_t extent) {
  bd_index_map *map = inference->map;
  assert(map->loops < BD_MAX_LOOPS);
  map->loop[map->loops] = (bd_loop){.letter = letter, .kind = kind, .within = -1, .extent = extent};
  return map->loops++;
}

// Operands align with the result's last dimensions; the first of the highest rank gives the shape.
static bd_status infer_pointwise(bd_inference *inference) {
  int widest = 0;
  for (int i = 1; i < inference->op->in_count; ++i)
    if (inference->in[i]->rank > inference->in[widest]->rank) widest = i;
  const bd_type *shape = inference->in[widest];
  inference->out[0] = *shape;
  for (int d = 0; d < shape->rank; ++d) {
    bd_inference_add_loop(inference, (char)('A' + d), BD_LOOP_PARALLEL, shape->dims[d]);
    inference->map->out[0][d] = (int8_t)d;
  }
  for (int i = 0; i < inference->op->in_count; ++i) {
    const bd_type *type = inference->in[i];
    int skip = shape->rank - type->rank;
    for (int d = 0; d < type->rank; ++d) {
      if (type->dims[d] != shape->dims[d + skip])
        return bd_inference_fail(inference,
                                 "operand %d is %s, which does not align with the last "
                                 "dimensions of %s",
                                 i + 1, bd_type_describe(inference->ctx, type),
                                 bd_type_describe(inference->ctx, shape));
      inference->map->in[i][d] = (int8_t)(d + skip);
    }
  }
  return BD_OK;
}

static bd_status infer_shapes(bd_inference *inference) {
  const char *rule = inference->info->rule;
  switch (rule[0]) {
  case '=':
    return infer_pointwise(inference);
  case '@':
    return bd_inference_apply_attribute(inference);
  case '#':
    return bd_named_rule_find(rule + 1)(inference);
  default:
    return bd_inference_apply(inference, rule, 0, NULL);
  }
}

static bd_status check_type(bd_inference *inference, const bd_type *type) {
  int64_t elements = 1;
  for (int d = 0; d < type->rank; ++d) {
    int64_t extent = type->dims[d];
    if (extent == BD_DIM_BATCH) continue;
    if (extent < 1)
      return bd_inference_fail(inference, "the result %s has an extent below 1",
                               bd_type_describe(inference->ctx, type));
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > BD_MAX_ELEMENTS)
      return bd_inference_fail(inference, "the result %s has more than 2^46 elements",
                               bd_type_describe(inference->ctx, type));
  }
  return BD_OK;
}

static bd_status bind_operand_types(bd_inference *inference, const bd_function *function) {
  const bd_op *op = inference->op;
  if (inference->info->level != BD_LOGICAL)
    return bd_inference_fail(inference, "has no result shapes of its own");
  bool any = inference->info->in == BD_VARIADIC;
  if (any && (op->in_count < 1 || op->in_count > BD_MAX_OPERANDS))
    return bd_inference_fail(inference, "takes 1 to %d operands, not %d", BD_MAX_OPERANDS,
                             op->in_count);
  if (!any && op->in_count != inference->info->in)
    return bd_inference_fail(inference, "takes %d operands, not %d", inference->info->in,
                             op->in_count);
  if (op->out_count != inference->info->out)
    return bd_inference_fail(inference, "makes %d results, not %d", inference->info->out,
                             op->out_count);
  for (int i = 0; i < op->in_count; ++i) {
    if (op->in[i] < 0 || op->in[i] >= function->value_count)
      return bd_inference_fail(inference, "operand %d is not a value", i + 1);
    inference->in[i] = &function->values[op->in[i]].type;
  }
  return BD_OK;
}

bd_status bd_op_infer(bd_ctx *ctx, const bd_function *function, const bd_op *op,
                      bd_index_map *out_map, bd_type *out_types) {
  bd_inference inference = {
      .ctx = ctx, .op = op, .info = bd_op_get_info(op->kind), .map = out_map, .out = out_types};
  *out_map = (bd_index_map){0};
  memset(out_map->in, -1, sizeof out_map->in);
  memset(out_map->out, -1, sizeof out_map->out);
  memset(out_types, 0, BD_MAX_RESULTS * sizeof *out_types);
  BD_TRY(bind_operand_types(&inference, function));
  BD_TRY(bd_inference_check_attrs(&inference));
  BD_TRY(bd_inference_check_dtypes(&inference));
  BD_TRY(infer_shapes(&inference));
  bd_inference_set_dtypes(&inference);
  for (int i = 0; i < op->out_count; ++i)
    BD_TRY(check_type(&inference, &out_types[i]));
  return BD_OK;
}
