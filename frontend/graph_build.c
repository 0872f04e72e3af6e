#include "frontend/graph_build.h"

bd_graph_build bd_graph_begin(bd_ctx *ctx, const char *name, bd_loc loc) {
  bd_graph_build build = {.ctx = ctx, .loc = loc, .status = BD_OK};
  build.module = bd_module_create(ctx, BD_STAGE_GRAPH, name);
  return build;
}

// Products of extents stay far below 2^63: checked before each multiplication.
static bool is_bounded(const bd_type *type) {
  int64_t elements = 1;
  for (int d = 0; d < type->rank; ++d) {
    int64_t extent = bd_extent(type->dims[d], 1);
    if (extent < 1 || extent > BD_MAX_ELEMENTS / elements) return false;
    elements *= extent;
  }
  return true;
}

static bd_id fail(bd_graph_build *build, bd_status status) {
  build->status = status;
  return BD_NO_ID;
}

static bd_id fail_large(bd_graph_build *build, const char *what, const char *name) {
  return fail(build, bd_fail(build->ctx, BD_INVALID, build->loc,
                             "%s \"%s\" has more than 2^46 elements", what, name));
}

bd_id bd_graph_input(bd_graph_build *build, const char *name, bd_input_kind kind, bd_type type) {
  if (build->status != BD_OK) return BD_NO_ID;
  if (!is_bounded(&type)) return fail_large(build, "input", name);
  bd_module *module = build->module;
  bd_input_kind *inputs = BD_NEW_ARRAY(build->ctx->arena, bd_input_kind, module->input_count + 1);
  for (int i = 0; i < module->input_count; ++i)
    inputs[i] = module->inputs[i];
  inputs[module->input_count++] = kind;
  module->inputs = inputs;
  return bd_function_add_param(build->ctx, module->main, name, type);
}

bd_id bd_graph_weight(bd_graph_build *build, bd_weight weight) {
  if (build->status != BD_OK) return BD_NO_ID;
  if (!is_bounded(&weight.type)) return fail_large(build, "weight", weight.name);
  bd_module_add_weight(build->ctx, build->module, weight);
  bd_function *main = build->module->main;
  bd_id id = bd_function_add_param(build->ctx, main, weight.name, weight.type);
  main->is_weight[main->param_count - 1] = true;
  return id;
}

bd_function *bd_graph_function(bd_graph_build *build, const char *name) {
  build->function = bd_function_create(build->ctx, name);
  build->function->loc = build->loc;
  bd_module_add_function(build->ctx, build->module, build->function);
  return build->function;
}

bd_id bd_graph_param(bd_graph_build *build, const char *name, bd_type type, bool is_weight) {
  if (build->status != BD_OK) return BD_NO_ID;
  if (!is_bounded(&type)) return fail_large(build, "parameter", name);
  bd_function *function = build->function;
  bd_id id = bd_function_add_param(build->ctx, function, name, type);
  function->is_weight[function->param_count - 1] = is_weight;
  return id;
}

void bd_graph_result(bd_graph_build *build, bd_id value) {
  if (build->status == BD_OK) bd_function_add_result(build->ctx, build->function, value);
}

bd_weight_pattern bd_graph_vector(const char *name, const char *stored, bd_init_kind init,
                                  int64_t extent) {
  return (bd_weight_pattern){
      .name = name,
      .type = bd_type_make(BD_F32, 1, &extent),
      .storage = {.name = stored, .rank = 1, .dims = {extent}, .slice_dim = -1},
      .init = init};
}

bd_id bd_graph_layer_weight(bd_graph_build *build, bd_layer *layer, bd_weight_pattern pattern) {
  if (build->status != BD_OK) return BD_NO_ID;
  layer->weights[layer->weight_count++] = pattern;
  return bd_graph_param(build, pattern.name, pattern.type, true);
}

static void name_results(bd_graph_build *build, const char *name, const bd_id *ids, int count) {
  bd_value *values = build->function->values;
  values[ids[0]].name = bd_intern_z(build->ctx, name);
  for (int i = 1; i < count; ++i)
    values[ids[i]].name = bd_intern_f(build->ctx, "%s.%d", name, i);
}

bd_id bd_graph_op(bd_graph_build *build, const char *name, bd_op_kind kind, int in_count,
                  const bd_id *in, int attr_count, const bd_attr *attrs) {
  if (build->status != BD_OK) return BD_NO_ID;
  bd_id out[BD_MAX_RESULTS];
  bd_status status =
      bd_build(build->ctx, build->function, kind, in_count, in, attr_count, attrs, build->loc, out);
  if (status != BD_OK) return fail(build, status);
  int count = bd_op_get_info(kind)->out;
  for (int i = 0; i < count; ++i) {
    if (!is_bounded(&build->function->values[out[i]].type)) return fail_large(build, "value", name);
  }
  name_results(build, name, out, count);
  return out[0];
}

bd_id bd_graph_unary(bd_graph_build *build, const char *name, bd_op_kind kind, bd_id x) {
  return bd_graph_op(build, name, kind, 1, &x, 0, NULL);
}

bd_id bd_graph_binary(bd_graph_build *build, const char *name, bd_op_kind kind, bd_id x, bd_id y) {
  return bd_graph_op(build, name, kind, 2, (bd_id[]){x, y}, 0, NULL);
}

bd_id bd_graph_contract(bd_graph_build *build, const char *name, const char *rule, bd_id x,
                        bd_id y) {
  bd_attr attr = bd_attr_string(build->ctx, "rule", rule);
  return bd_graph_op(build, name, BD_OP_CONTRACT, 2, (bd_id[]){x, y}, 1, &attr);
}

static bd_id apply_rule(bd_graph_build *build, const char *name, bd_op_kind kind, bd_id x,
                        const char *rule) {
  bd_attr attr = bd_attr_string(build->ctx, "rule", rule);
  return bd_graph_op(build, name, kind, 1, &x, 1, &attr);
}

bd_id bd_graph_sum(bd_graph_build *build, const char *name, bd_id x, const char *rule) {
  return apply_rule(build, name, BD_OP_REDUCE_SUM, x, rule);
}

bd_id bd_graph_permute(bd_graph_build *build, const char *name, bd_id x, const char *rule) {
  return apply_rule(build, name, BD_OP_PERMUTE, x, rule);
}

bd_id bd_graph_repeat(bd_graph_build *build, const char *name, bd_id x, const char *rule,
                      const bd_type *type) {
  bd_attr attrs[] = {bd_attr_string(build->ctx, "rule", rule),
                     bd_attr_ints(build->ctx, "dims", type->rank, type->dims)};
  return bd_graph_op(build, name, BD_OP_BROADCAST, 1, &x, 2, attrs);
}

static bd_id make(bd_graph_build *build, const char *name, bd_op_kind kind, const bd_type *type,
                  bd_attr attr) {
  bd_attr attrs[] = {bd_attr_string(build->ctx, "dtype", bd_dtype_name(type->dtype)),
                     bd_attr_ints(build->ctx, "dims", type->rank, type->dims), attr};
  return bd_graph_op(build, name, kind, 0, NULL, 3, attrs);
}

bd_id bd_graph_fill(bd_graph_build *build, const char *name, const bd_type *type, double value) {
  return make(build, name, BD_OP_CONSTANT, type, bd_attr_real(build->ctx, "value", value));
}

bd_id bd_graph_cast(bd_graph_build *build, const char *name, bd_id x, bd_dtype dtype) {
  bd_attr attr = bd_attr_string(build->ctx, "dtype", bd_dtype_name(dtype));
  return bd_graph_op(build, name, BD_OP_CAST, 1, &x, 1, &attr);
}

bd_id bd_graph_select(bd_graph_build *build, const char *name, bd_id condition, bd_id x, bd_id y) {
  return bd_graph_op(build, name, BD_OP_SELECT, 3, (bd_id[]){condition, x, y}, 0, NULL);
}

bd_id bd_graph_dropout(bd_graph_build *build, const char *name, bd_id x, double p, int site) {
  if (p == 0) return x;
  bd_attr attrs[] = {bd_attr_real(build->ctx, "p", p), bd_attr_int(build->ctx, "site", site)};
  return bd_graph_op(build, name, BD_OP_DROPOUT, 1, &x, 2, attrs);
}

void bd_graph_instantiate(bd_graph_build *build, const bd_layer *layer, const char *prefix,
                          const char *stored_prefix, bd_id *out) {
  for (int i = 0; i < layer->weight_count; ++i) {
    const bd_weight_pattern *pattern = &layer->weights[i];
    bd_weight weight = {.name = bd_intern_f(build->ctx, "%s%s", prefix, pattern->name),
                        .type = pattern->type,
                        .storage = pattern->storage,
                        .init = pattern->init,
                        .init_scale = pattern->init_scale,
                        .decay = pattern->storage.rank >= 2};
    weight.storage.name = bd_intern_f(build->ctx, "%s%s", stored_prefix, pattern->storage.name);
    out[i] = bd_graph_weight(build, weight);
  }
}

bd_id bd_graph_call(bd_graph_build *build, const bd_function *callee, int in_count, const bd_id *in,
                    const char *out_name) {
  if (build->status != BD_OK) return BD_NO_ID;
  bd_function *main = build->module->main;
  bd_id *out = BD_NEW_ARRAY(build->ctx->arena, bd_id, callee->result_count);
  for (int i = 0; i < callee->result_count; ++i)
    out[i] = bd_function_add_value(
        build->ctx, main, i == 0 ? out_name : bd_intern_f(build->ctx, "%s.%d", out_name, i),
        callee->values[callee->results[i]].type);
  bd_op *op = bd_function_add_op(build->ctx, main, BD_OP_CALL, in_count, in, callee->result_count,
                                 out, build->loc);
  op->callee = callee->name;
  op->stage = -1;
  return out[0];
}

bd_status bd_graph_finish(bd_graph_build *build, bd_id loss, bd_module **out_module) {
  BD_TRY(build->status);
  bd_function_add_result(build->ctx, build->module->main, loss);
  *out_module = build->module;
  return BD_OK;
}
