#include "ir/module.h"
#include <assert.h>
#include <string.h>

static const char *const stage_names[BD_STAGE_COUNT] = {"graph", "train", "sharded", "spmd",
                                                        "exec"};
static const char *const segment_names[BD_SEGMENT_COUNT] = {"none",      "weights", "gradients",
                                                            "optimizer", "tape",    "boundary",
                                                            "workspace", "library", "sends"};

static const char *const masters_names[BD_MASTERS_COUNT + 1] = {
    [BD_MASTERS_F32] = "f32", [BD_MASTERS_NONE] = "none"};

const char *bd_masters_name(bd_masters masters) {
  assert(masters < BD_MASTERS_COUNT);
  return masters_names[masters];
}

const char *const *bd_masters_names(void) {
  return masters_names;
}

static const char *const gradients_names[BD_GRADIENTS_COUNT + 1] = {
    [BD_GRADIENTS_F32] = "f32", [BD_GRADIENTS_BF16] = "bf16"};

const char *bd_gradients_name(bd_gradients gradients) {
  assert(gradients < BD_GRADIENTS_COUNT);
  return gradients_names[gradients];
}

const char *const *bd_gradients_names(void) {
  return gradients_names;
}

bd_dtype bd_gradient_dtype(bd_gradients gradients, bd_dtype weight) {
  return gradients == BD_GRADIENTS_BF16 && weight == BD_BF16 ? BD_BF16 : bd_dtype_wide(weight);
}

const char *bd_stage_name(bd_stage stage) {
  assert(stage < BD_STAGE_COUNT);
  return stage_names[stage];
}

const char *bd_segment_name(bd_segment segment) {
  assert(segment < BD_SEGMENT_COUNT);
  return segment_names[segment];
}

bd_module *bd_module_create(bd_ctx *ctx, bd_stage stage, const char *name) {
  bd_module *module = BD_NEW(ctx->arena, bd_module);
  module->stage = stage;
  module->name = bd_intern_z(ctx, name);
  module->main = bd_function_create(ctx, "main");
  return module;
}

void bd_module_add_function(bd_ctx *ctx, bd_module *module, bd_function *function) {
  if (module->function_count >= module->function_capacity) {
    int capacity = 2 * module->function_count + 4;
    module->functions = bd_arena_grow(ctx->arena, module->functions, (size_t)module->function_count,
                                      (size_t)capacity, sizeof *module->functions);
    module->function_capacity = capacity;
  }
  module->functions[module->function_count++] = function;
}

int64_t bd_storage_count(const bd_storage *storage) {
  return storage->stack > 0 ? storage->stack : 1;
}

const char *bd_storage_name(bd_ctx *ctx, const bd_storage *storage, int64_t number) {
  if (storage->stack == 0) return storage->name;
  int64_t named = storage->stack_first + number * (storage->stack_gap + 1);
  return bd_intern_f(ctx, "%s%lld%s", storage->name, (long long)named, storage->stack_rest);
}

int bd_module_add_weight(bd_ctx *ctx, bd_module *module, bd_weight weight) {
  if (module->weight_count >= module->weight_capacity) {
    int capacity = 2 * module->weight_count + 8;
    module->weights = bd_arena_grow(ctx->arena, module->weights, (size_t)module->weight_count,
                                    (size_t)capacity, sizeof *module->weights);
    module->weight_capacity = capacity;
  }
  weight.name = bd_intern_z(ctx, weight.name);
  if (weight.storage.name) weight.storage.name = bd_intern_z(ctx, weight.storage.name);
  if (weight.storage.stack_rest)
    weight.storage.stack_rest = bd_intern_z(ctx, weight.storage.stack_rest);
  module->weights[module->weight_count] = weight;
  return module->weight_count++;
}

bd_function *bd_module_find(const bd_module *module, const char *name) {
  for (int i = 0; i < module->function_count; ++i)
    if (strcmp(module->functions[i]->name, name) == 0) return module->functions[i];
  return NULL;
}

int bd_module_number(const bd_module *module, const bd_function *function) {
  int number = 0;
  while (module->functions[number] != function)
    ++number;
  return number;
}

bd_id bd_module_loss_gradient(const bd_module *module) {
  int index = module->input_count + module->weight_count;
  return index < module->main->param_count ? module->main->params[index] : BD_NO_ID;
}

bd_type bd_value_local_type(const bd_module *module, const bd_value *value) {
  return bd_local_type(&module->mesh, &value->sharding, &value->type, module->micro_batch);
}

int bd_ids_find(const bd_id *ids, int count, bd_id id) {
  for (int i = 0; i < count; ++i)
    if (ids[i] == id) return i;
  return -1;
}

bool bd_function_is_weight(const bd_function *function, bd_id value) {
  int param = bd_ids_find(function->params, function->param_count, value);
  return param >= 0 && function->is_weight && function->is_weight[param];
}

bool bd_function_moves(const bd_function *function, bd_id value) {
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE &&
        bd_ids_find(op->in, op->in_count, value) >= 0)
      return true;
  }
  return false;
}

bool bd_module_calls_forward(const bd_module *module, const bd_op *op) {
  const bd_function *callee = op->kind == BD_OP_CALL ? bd_module_find(module, op->callee) : NULL;
  return callee && callee->role == BD_ROLE_FORWARD;
}

const char *bd_input_kind_name(bd_input_kind kind) {
  static const char *const names[] = {"tokens", "targets", "reals", "ids"};
  return names[kind];
}

int64_t bd_module_sequence(const bd_module *module) {
  if (module->input_count == 0) return 0;
  if (module->inputs[0] != BD_INPUT_TOKENS && module->inputs[0] != BD_INPUT_IDS) return 0;
  const bd_type *type = &module->main->values[module->main->params[0]].type;
  return type->rank > 1 ? type->dims[1] : 0;
}

// A copy of a list; NULL stays NULL, which tells lists that a stage leaves unset.
static void *copy_list(bd_ctx *ctx, const void *list, int count, size_t size) {
  if (!list) return NULL;
  return bd_arena_grow(ctx->arena, list, (size_t)count, (size_t)count, size);
}

static void clone_op(bd_ctx *ctx, bd_op *op) {
  op->in = copy_list(ctx, op->in, op->in_count, sizeof *op->in);
  op->out = copy_list(ctx, op->out, op->out_count, sizeof *op->out);
  op->attrs = copy_list(ctx, op->attrs, op->attr_count, sizeof *op->attrs);
  for (int i = 0; i < op->attr_count; ++i) {
    bd_attr *attr = &op->attrs[i];
    attr->ints = copy_list(ctx, attr->ints, attr->count, sizeof *attr->ints);
    attr->reals = copy_list(ctx, attr->reals, attr->count, sizeof *attr->reals);
  }
}

bd_function *bd_function_clone(bd_ctx *ctx, const bd_function *function) {
  bd_function *copy = BD_NEW(ctx->arena, bd_function);
  *copy = *function;
  copy->values = copy_list(ctx, function->values, function->value_count, sizeof *copy->values);
  copy->ops = copy_list(ctx, function->ops, function->op_count, sizeof *copy->ops);
  for (int i = 0; i < copy->op_count; ++i)
    clone_op(ctx, &copy->ops[i]);
  copy->params = copy_list(ctx, function->params, function->param_count, sizeof *copy->params);
  copy->results = copy_list(ctx, function->results, function->result_count, sizeof *copy->results);
  copy->saves = copy_list(ctx, function->saves, function->save_count, sizeof *copy->saves);
  copy->gradient_of =
      copy_list(ctx, function->gradient_of, function->result_count, sizeof *copy->gradient_of);
  copy->is_weight =
      copy_list(ctx, function->is_weight, function->param_count, sizeof *copy->is_weight);
  copy->value_capacity = function->value_count;
  copy->op_capacity = function->op_count;
  copy->param_capacity = function->param_count;
  copy->result_capacity = function->result_count;
  copy->save_capacity = function->save_count;
  return copy;
}

bd_module *bd_module_clone(bd_ctx *ctx, const bd_module *module) {
  bd_module *copy = BD_NEW(ctx->arena, bd_module);
  *copy = *module;
  copy->weights = copy_list(ctx, module->weights, module->weight_count, sizeof *copy->weights);
  copy->weight_capacity = module->weight_count;
  copy->functions =
      copy_list(ctx, module->functions, module->function_count, sizeof *copy->functions);
  copy->function_capacity = module->function_count;
  for (int i = 0; i < copy->function_count; ++i)
    copy->functions[i] = bd_function_clone(ctx, module->functions[i]);
  if (module->main) copy->main = bd_function_clone(ctx, module->main);
  copy->inputs = copy_list(ctx, module->inputs, module->input_count, sizeof *copy->inputs);
  int gradients =
      module->main && module->main->result_count > 0 ? module->main->result_count - 1 : 0;
  copy->gradient_weight =
      copy_list(ctx, module->gradient_weight, gradients, sizeof *copy->gradient_weight);
  return copy;
}
