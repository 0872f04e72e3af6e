#include "ir/pitch.h"
#include <string.h>

enum {
  LEAST = 256, // of a row, elements
  GRAIN = 8,   // 16 bytes
  LINE = 64,   // 128 bytes, for rows so long that this adds less than a part in LINE
};

// The local extent of rows that may have room behind them, or 0.
static int64_t uneven_row(const bd_module *module, const bd_value *value) {
  int rank = value->type.rank;
  if (!module->cuda || rank < 2 || value->type.dtype == bd_dtype_wide(value->type.dtype)) return 0;
  int64_t row = bd_value_local_type(module, value).dims[rank - 1];
  return row >= LEAST && row % GRAIN ? row : 0;
}

// Whether an op of the function, or of the one whose values it restores, makes the value.
static bool is_made(const bd_module *module, const bd_function *function, bd_id id) {
  if (function->values[id].producer >= 0) return true;
  if (function->role != BD_ROLE_BACKWARD || !function->peer) return false;
  const bd_function *forward = bd_module_find(module, function->peer);
  int at = bd_ids_find(function->params, function->restore_count, id);
  return forward && at >= 0 && at < forward->save_count &&
         forward->values[forward->saves[at]].producer >= 0;
}

// Which of a rule's three tensors have a letter, a bit each.
static int tensors_with(const char *rule, char letter) {
  int found = 0, tensor = 0;
  for (const char *at = rule; *at; at++) {
    if (*at == ',' || *at == '>') tensor++;
    if (*at == letter) found |= 1 << tensor;
  }
  return found;
}

// Whether rows of a product's tensor `tensor` may lie apart: its last two dimensions are no loop of
// their own together. Those of a product of groups never are.
static bool may_be_apart(const bd_op *op, int tensor, int rank) {
  if (bd_op_is_grouped(op->kind)) return true;
  const char *rule = bd_op_string(op, "rule"), *at = rule;
  for (int t = 0; t < tensor; t++)
    at = strpbrk(at, ",>") + 1;
  return tensors_with(rule, at[rank - 1]) != tensors_with(rule, at[rank - 2]);
}

static bool takes_strides(const bd_op *op) {
  return (bd_op_get_info(op->kind)->traits & BD_POINTWISE) || bd_op_is_product(op->kind) ||
         op->kind == BD_OP_REDUCE_SUM || op->kind == BD_OP_LSE || op->kind == BD_OP_XENT ||
         op->kind == BD_OP_XENT_GRAD;
}

static bool op_allows(const bd_module *module, const bd_function *function, const bd_op *op,
                      int64_t row) {
  for (int i = 0; i < op->in_count + op->out_count; i++) {
    bd_id id = i < op->in_count ? op->in[i] : op->out[i - op->in_count];
    const bd_value *value = &function->values[id];
    if (uneven_row(module, value) != row) continue;
    bool is_product = bd_op_is_product(op->kind);
    if (!is_made(module, function, id) && !is_product) return false;
    if (!takes_strides(op)) return false;
    if (is_product && !may_be_apart(op, i, value->type.rank)) return false;
  }
  return true;
}

static bool function_allows(const bd_module *module, const bd_function *function, int64_t row) {
  for (int i = 0; i < function->result_count; i++)
    if (uneven_row(module, &function->values[function->results[i]]) == row) return false;
  for (int i = 0; i < function->op_count; i++)
    if (!op_allows(module, function, &function->ops[i], row)) return false;
  return true;
}

// Elements from row to row.
static int64_t pitch_of(const bd_module *module, const bd_function *function, bd_id id) {
  const bd_value *value = &function->values[id];
  int64_t row = uneven_row(module, value);
  if (row == 0 || function == module->main || !is_made(module, function, id))
    return bd_value_local_type(module, value).dims[value->type.rank - 1];
  const bd_function *peer = function->peer ? bd_module_find(module, function->peer) : NULL;
  if (!function_allows(module, function, row) || (peer && !function_allows(module, peer, row)))
    return row;
  int64_t grain = row < (int64_t)LINE * LINE ? GRAIN : LINE;
  return (row + grain - 1) / grain * grain;
}

void bd_value_strides(const bd_module *module, const bd_function *function, bd_id id,
                      int64_t out_strides[BD_MAX_RANK]) {
  bd_type local = bd_value_local_type(module, &function->values[id]);
  int64_t stride = 1;
  for (int d = local.rank - 1; d >= 0; d--) {
    out_strides[d] = stride;
    stride *= d == local.rank - 1 ? pitch_of(module, function, id) : local.dims[d];
  }
}

int64_t bd_value_elements(const bd_module *module, const bd_function *function, bd_id id) {
  const bd_value *value = &function->values[id];
  int64_t row = uneven_row(module, value);
  int64_t elements =
      bd_local_elements(&module->mesh, &value->sharding, &value->type, module->micro_batch);
  return row == 0 ? elements : elements / row * pitch_of(module, function, id);
}
