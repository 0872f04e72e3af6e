#include "codegen/evaluation.h"
#include "ir/memory.h"

bd_module *bd_evaluation_create(bd_ctx *ctx, int64_t batch) {
  bd_module *module = bd_module_create(ctx, BD_STAGE_EXEC, "evaluation");
  module->mesh = (bd_mesh){.axes = 1, .size = {1}};
  module->stages = 1;
  module->micro_batch = batch;
  return module;
}

static bool is_earlier_result(const bd_function *function, int result) {
  for (int i = 0; i < result; i++)
    if (function->results[i] == function->results[result]) return true;
  return false;
}

// A result has a buffer of its own: a parameter, or what is another result as well, is copied.
static bd_status separate_results(bd_ctx *ctx, bd_function *function) {
  for (int i = 0; i < function->result_count; i++) {
    const bd_value *value = &function->values[function->results[i]];
    if (value->producer >= 0 && !is_earlier_result(function, i)) continue;
    bd_attr dims = bd_attr_ints(ctx, "dims", value->type.rank, value->type.dims);
    BD_TRY(bd_build(ctx, function, BD_OP_RESHAPE, 1, &function->results[i], 1, &dims, function->loc,
                    &function->results[i]));
  }
  return BD_OK;
}

bd_status bd_evaluation_add(bd_ctx *ctx, bd_module *evaluation, const bd_function *function) {
  bd_function *copy = bd_function_clone(ctx, function);
  copy->name = bd_intern_f(ctx, "f%d", evaluation->function_count);
  BD_TRY(separate_results(ctx, copy));
  for (bd_id v = 0; v < copy->value_count; v++) {
    copy->values[v].sharding = bd_sharding_replicated();
    copy->values[v].has_sharding = true;
  }
  bd_module_add_function(ctx, evaluation, copy);
  return BD_OK;
}

int64_t bd_evaluation_bytes(const bd_module *evaluation, const bd_function *function, int count,
                            const bd_id *values) {
  int64_t bytes = 0;
  for (int i = 0; i < count; i++)
    bytes += bd_memory_value_bytes(evaluation, &function->values[values[i]]);
  return bytes;
}
