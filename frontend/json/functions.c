#include "frontend/json/reader.h"
#include "ir/base/suggest.h"
#include <string.h>

enum { MOST_OPS = 10000, MOST_RESULTS = 64 };

static bd_status define(bd_ctx *ctx, bd_name_map *values, const char *name, bd_id id, bd_loc loc) {
  if (bd_name_map_add(values, name, id)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, loc, "\"%s\" is defined twice", name);
}

static bd_status read_param(bd_json_reader *reader, const bd_json *json, bd_name_map *values) {
  static const char *const keys[] = {"name", "dtype", "dims", NULL};
  bd_ctx *ctx = reader->graph.ctx;
  const char *name = NULL, *dtype_name = "f32";
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_model_json_name(ctx, json, "name", &name));
  BD_TRY(bd_json_string(ctx, json, "dtype", false, &dtype_name));
  bd_dtype dtype = BD_F32;
  bool known = bd_dtype_parse(dtype_name, &dtype);
  if (!known || (dtype != BD_F32 && dtype != BD_I32))
    return bd_fail(ctx, known ? BD_UNSUPPORTED : BD_INVALID, bd_json_find(json, "dtype")->loc,
                   "\"dtype\": \"%s\" is not one of f32, i32", dtype_name);
  int rank = 0;
  int64_t dims[BD_MAX_RANK] = {0};
  BD_TRY(bd_model_json_dims(ctx, json, "dims", &rank, dims));
  reader->graph.loc = json->loc;
  bd_id id = bd_graph_param(&reader->graph, name, bd_type_make(dtype, rank, dims), false);
  BD_TRY(reader->graph.status);
  return define(ctx, values, name, id, json->loc);
}

// Ops that a graph can hold: those that compute, and not those that only gradients are made of.
static bool is_graph_op(bd_op_kind kind) {
  const bd_op_info *info = bd_op_get_info(kind);
  return info->level == BD_LOGICAL && !(info->traits & BD_DERIVED);
}

static bd_status find_op(bd_ctx *ctx, const bd_json *json, bd_op_kind *out_kind) {
  const char *name = NULL;
  BD_TRY(bd_json_string(ctx, json, "op", true, &name));
  if (bd_op_find(name, out_kind) && is_graph_op(*out_kind)) return BD_OK;
  const char *names[BD_OP_KIND_COUNT + 1] = {0};
  int count = 0;
  for (int kind = 0; kind < BD_OP_KIND_COUNT; ++kind) {
    if (is_graph_op((bd_op_kind)kind)) names[count++] = bd_op_get_info((bd_op_kind)kind)->name;
  }
  const char *meant = bd_suggest(name, names);
  bd_loc loc = bd_json_find(json, "op")->loc;
  if (meant)
    return bd_fail(ctx, BD_INVALID, loc, "unknown op \"%s\"; did you mean \"%s\"?", name, meant);
  return bd_fail(ctx, BD_INVALID, loc, "unknown op \"%s\"", name);
}

static bd_status read_op(bd_json_reader *reader, const bd_json *json, bd_name_map *values) {
  static const char *const keys[] = {"op", "in", "out", "attrs", NULL};
  bd_ctx *ctx = reader->graph.ctx;
  BD_TRY(bd_json_only(ctx, json, keys));
  bd_op_kind kind;
  BD_TRY(find_op(ctx, json, &kind));
  int in_count = 0, name_count = 0, attr_count = 0;
  bd_id *in = NULL;
  BD_TRY(bd_model_json_uses(ctx, json, "in", values, &in_count, &in));
  const char *names[BD_MAX_RESULTS];
  BD_TRY(bd_model_json_results(ctx, json, "out", 1, bd_op_get_info(kind)->out, &name_count, names));
  const bd_json *attrs_json = NULL;
  bd_attr *attrs = NULL;
  BD_TRY(bd_json_object(ctx, json, "attrs", false, &attrs_json));
  if (attrs_json) BD_TRY(bd_model_json_attrs(ctx, attrs_json, &attrs, &attr_count));
  reader->graph.loc = json->loc;
  bd_id first = bd_graph_op(&reader->graph, names[0], kind, in_count, in, attr_count, attrs);
  BD_TRY(reader->graph.status);
  bd_value *made = reader->graph.function->values + first;
  for (int i = 0; i < bd_op_get_info(kind)->out; ++i) {
    if (i < name_count) made[i].name = names[i];
    BD_TRY(define(ctx, values, made[i].name, first + i, json->loc));
  }
  return BD_OK;
}

static bd_status read_body(bd_json_reader *reader, const bd_json *json, bd_name_map *values) {
  bd_ctx *ctx = reader->graph.ctx;
  const bd_json *params = NULL, *ops = NULL;
  BD_TRY(bd_json_array(ctx, json, "params", true, &params));
  BD_TRY(bd_json_array(ctx, json, "ops", true, &ops));
  if (params->count + ops->count > MOST_OPS)
    return bd_fail(ctx, BD_INVALID, json->loc, "a function has at most %d parameters and ops",
                   MOST_OPS);
  for (size_t i = 0; i < params->count; ++i)
    BD_TRY(read_param(reader, &params->items[i], values));
  for (size_t i = 0; i < ops->count; ++i)
    BD_TRY(read_op(reader, &ops->items[i], values));
  return BD_OK;
}

bd_status bd_model_json_function(bd_json_reader *reader, const bd_json *json) {
  static const char *const keys[] = {"name", "params", "ops", "results", NULL};
  bd_ctx *ctx = reader->graph.ctx;
  const char *name = NULL;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_model_json_name(ctx, json, "name", &name));
  int number = reader->graph.module->function_count;
  if (strcmp(name, "main") == 0 || !bd_name_map_add(&reader->functions, name, number))
    return bd_fail(ctx, BD_INVALID, json->loc, "function \"%s\" is defined twice", name);
  reader->graph.loc = json->loc;
  bd_graph_function(&reader->graph, name);
  bd_name_map values = bd_name_map_init(ctx->arena);
  BD_TRY(read_body(reader, json, &values));
  int count = 0;
  bd_id *results = NULL;
  BD_TRY(bd_model_json_uses(ctx, json, "results", &values, &count, &results));
  if (count < 1 || count > MOST_RESULTS)
    return bd_fail(ctx, BD_INVALID, json->loc, "a function has 1 to %d results", MOST_RESULTS);
  for (int i = 0; i < count; ++i)
    bd_graph_result(&reader->graph, results[i]);
  return BD_OK;
}

static bd_status find_callee(bd_json_reader *reader, const bd_json *json,
                             const bd_function **out_callee) {
  bd_ctx *ctx = reader->graph.ctx;
  const bd_module *module = reader->graph.module;
  const char *name = NULL;
  BD_TRY(bd_json_string(ctx, json, "call", true, &name));
  int number = bd_name_map_find(&reader->functions, name);
  if (number < 0) {
    const char **names = BD_NEW_ARRAY(ctx->arena, const char *, module->function_count + 1);
    for (int i = 0; i < module->function_count; ++i)
      names[i] = module->functions[i]->name;
    const char *meant = bd_suggest(name, names);
    bd_loc loc = bd_json_find(json, "call")->loc;
    if (meant)
      return bd_fail(ctx, BD_INVALID, loc, "no function \"%s\"; did you mean \"%s\"?", name, meant);
    return bd_fail(ctx, BD_INVALID, loc, "no function \"%s\"", name);
  }
  *out_callee = module->functions[number];
  return BD_OK;
}

static bool is_weight_of_main(const bd_module *module, bd_id value) {
  return value >= module->input_count && value < module->input_count + module->weight_count;
}

// Operands must be what the parameters say; a parameter takes weights in every call or in none.
static bd_status check_operands(bd_json_reader *reader, const bd_json *json,
                                const bd_function *callee, bool is_first, int count,
                                const bd_id *in) {
  bd_ctx *ctx = reader->graph.ctx;
  const bd_module *module = reader->graph.module;
  if (count != callee->param_count)
    return bd_fail(ctx, BD_INVALID, json->loc, "function \"%s\" takes %d operands, not %d",
                   callee->name, callee->param_count, count);
  for (int i = 0; i < count; ++i) {
    const bd_value *param = &callee->values[callee->params[i]];
    const bd_value *operand = &module->main->values[in[i]];
    if (!bd_type_equal(&param->type, &operand->type))
      return bd_fail(ctx, BD_INVALID, json->loc,
                     "\"%s\" does not have the type of parameter \"%s\" of function \"%s\"",
                     operand->name, param->name, callee->name);
    bool is_weight = is_weight_of_main(module, in[i]);
    if (is_first) callee->is_weight[i] = is_weight;
    if (callee->is_weight[i] != is_weight)
      return bd_fail(ctx, BD_INVALID, json->loc,
                     "parameter \"%s\" of function \"%s\" takes a weight in one call and a value "
                     "in another",
                     param->name, callee->name);
  }
  return BD_OK;
}

static bool is_called(const bd_function *main, const char *callee) {
  for (int i = 0; i < main->op_count; ++i) {
    if (strcmp(main->ops[i].callee, callee) == 0) return true;
  }
  return false;
}

bd_status bd_model_json_call(bd_json_reader *reader, const bd_json *json) {
  static const char *const keys[] = {"call", "in", "out", NULL};
  bd_ctx *ctx = reader->graph.ctx;
  bd_function *main = reader->graph.module->main;
  const bd_function *callee = NULL;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(find_callee(reader, json, &callee));
  int in_count = 0, name_count = 0;
  bd_id *in = NULL, out[MOST_RESULTS];
  const char *names[MOST_RESULTS];
  BD_TRY(bd_model_json_uses(ctx, json, "in", &reader->main, &in_count, &in));
  BD_TRY(check_operands(reader, json, callee, !is_called(main, callee->name), in_count, in));
  BD_TRY(bd_model_json_results(ctx, json, "out", callee->result_count, callee->result_count,
                               &name_count, names));
  for (int i = 0; i < name_count; ++i) {
    out[i] = bd_function_add_value(ctx, main, names[i], callee->values[callee->results[i]].type);
    BD_TRY(define(ctx, &reader->main, names[i], out[i], json->loc));
  }
  bd_op *op = bd_function_add_op(ctx, main, BD_OP_CALL, in_count, in, name_count, out, json->loc);
  op->callee = callee->name;
  return BD_OK;
}
