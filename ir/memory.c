#include "ir/memory.h"

#include "ir/columns.h"
#include "ir/fuse.h"
#include "ir/layout.h"
#include "ir/optimizer.h"
#include "ir/pitch.h"

int64_t bd_memory_value_bytes(const bd_module *module, const bd_value *value) {
  return bd_align(
      bd_local_elements(&module->mesh, &value->sharding, &value->type, module->micro_batch) *
      bd_dtype_bytes(value->type.dtype));
}

int64_t bd_memory_inner_bytes(const bd_module *module, const bd_function *function, bd_id id) {
  return bd_align(bd_value_elements(module, function, id) *
                  bd_dtype_bytes(function->values[id].type.dtype));
}

// Of a factor of bf16 in 8 bits.
static int64_t float8_bytes(const bd_module *module, const bd_value *value) {
  return bd_align(bd_memory_value_bytes(module, value) / 2);
}

// Sums of the gradients of scores by place, of each sample's heads; GPUs keep those of tiles of
// queries apart. 0: the op makes no gradient of biases.
static int64_t bias_sums_bytes(const bd_module *module, const bd_function *function,
                               const bd_op *op) {
  if (op->kind != BD_OP_RELATIVE_ATTENTION_GRAD) return 0;
  bd_type q = bd_value_local_type(module, &function->values[op->in[1]]);
  int64_t places = function->values[op->in[6]].type.dims[1];
  int64_t tiles = module->cuda ? bd_memory_query_tiles(q.dims[1]) : 1;
  return bd_align(q.dims[0] * q.dims[2] * tiles * places * bd_dtype_bytes(BD_F32));
}

int64_t bd_memory_scratch_bytes(const bd_module *module, const bd_function *function,
                                const bd_op *op) {
  bool gradient = bd_op_is_attention_grad(op->kind);
  if (module->cuda && bd_op_find_attr(op, "fp8"))
    return float8_bytes(module, &function->values[op->in[0]]) +
           float8_bytes(module, &function->values[op->in[1]]) + bd_align(1);
  int64_t sums = bias_sums_bytes(module, function, op);
  // GPUs: the products of each row of out and its gradient, one number per query as lse has; sums
  // of chunks of rows.
  if (module->cuda)
    return gradient ? bd_memory_value_bytes(module, &function->values[op->in[5]]) + sums
                    : bd_align(bd_column_chunk_bytes(module, function, op));
  return bd_op_attends(op->kind) ? bd_align(BD_ATTENTION_SCRATCH_BYTES) + sums : 0;
}

// An all-gather or a reduce-scatter of parts of equal size, one after another.
static bool moves_blocks(const bd_module *module, const bd_function *function, const bd_op *op) {
  if (op->kind != BD_OP_ALL_GATHER && op->kind != BD_OP_REDUCE_SCATTER) return false;
  bool gathers = op->kind == BD_OP_ALL_GATHER;
  const bd_value *whole = &function->values[gathers ? op->out[0] : op->in[0]];
  const bd_value *part = &function->values[gathers ? op->in[0] : op->out[0]];
  int axis = (int)bd_op_int(op, "axis", -1), dim = part->sharding.at[axis];
  bd_type local = bd_value_local_type(module, whole);
  for (int d = 0; d < dim; ++d)
    if (local.dims[d] != 1) return false;
  return local.dims[dim] % module->mesh.size[axis] == 0;
}

bool bd_memory_runs_beside(const bd_module *module, const bd_function *function, const bd_op *op) {
  if (!module->cuda || bd_op_get_info(op->kind)->level != BD_COLLECTIVE) return false;
  const bd_value *from = &function->values[op->in[0]];
  int64_t axis = bd_op_int(op, "axis", -1);
  if (axis < 0 || module->mesh.size[axis] == 1 || from->segment == BD_SEGMENT_WEIGHTS ||
      bd_accumulates(function, op->out[0]))
    return false;
  return op->kind == BD_OP_ALL_REDUCE ? from->sharding.at[axis] != BD_PARTIAL_LSE
                                      : moves_blocks(module, function, op);
}

bool bd_memory_gathers_weight(const bd_module *module, const bd_function *function,
                              const bd_op *op) {
  return module->cuda && op->kind == BD_OP_ALL_GATHER &&
         function->values[op->in[0]].segment == BD_SEGMENT_WEIGHTS &&
         moves_blocks(module, function, op);
}

int64_t bd_optimizer_state_bytes(const char *optimizer, bd_masters masters, bd_dtype weight) {
  bd_dtype wide = bd_dtype_wide(weight);
  bool master = wide != weight && masters == BD_MASTERS_F32;
  return (master ? bd_dtype_bytes(wide) : 0) + 4 * bd_optimizer_find(optimizer)->moments;
}

int64_t bd_memory_update_bytes(const char *optimizer, bd_masters masters, bd_dtype weight,
                               bd_dtype gradient) {
  return 2 * (bd_dtype_bytes(weight) + bd_dtype_bytes(gradient) +
              bd_optimizer_state_bytes(optimizer, masters, weight)) +
         bd_optimizer_find(optimizer)->extra_passes * bd_dtype_bytes(gradient);
}

bd_state_form bd_memory_state_form(const bd_mesh *mesh, const bd_sharding *weight,
                                   const bd_sharding *gradient, unsigned zero_axes) {
  bd_state_form out = {*weight, 1};
  for (int axis = 0; gradient && axis < mesh->axes; ++axis)
    if (gradient->at[axis] >= 0) out.form.at[axis] = gradient->at[axis];
  if (!bd_sharding_equal(&out.form, weight)) return out;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if ((zero_axes >> axis & 1) && weight->at[axis] == BD_REPLICATED) out.parts *= mesh->size[axis];
  return out;
}

int64_t bd_memory_state_elements(const bd_mesh *mesh, const bd_type *weight,
                                 const bd_state_form *states) {
  return (bd_local_elements(mesh, &states->form, weight, 1) + states->parts - 1) / states->parts;
}

int64_t bd_memory_optimizer_bytes(const char *optimizer, bd_masters masters, const bd_mesh *mesh,
                                  const bd_type *weight, const bd_state_form *states) {
  int64_t elements = bd_memory_state_elements(mesh, weight, states);
  return bd_align(
      elements * bd_optimizer_state_bytes(optimizer, masters, weight->dtype) +
      bd_optimizer_factor_bytes(bd_optimizer_find(optimizer), mesh, weight, &states->form));
}

bd_status bd_memory_of_stage(bd_ctx *ctx, const bd_module *spmd, int stage, bd_schedule schedule,
                             int micro_batches, const char *optimizer, unsigned zero_axes,
                             bd_memory *out_memory) {
  bd_layout layout;
  BD_TRY(
      bd_layout_of_stage(ctx, spmd, stage, schedule, micro_batches, optimizer, zero_axes, &layout));
  *out_memory = layout.memory;
  return BD_OK;
}
