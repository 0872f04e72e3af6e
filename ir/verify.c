#include "ir/verify_internal.h"
#include <math.h>

const bd_function *bd_verifier_find(const bd_verifier *v, const char *name) {
  int number = bd_name_map_find(&v->functions, name);
  return number < 0 ? NULL : v->module->functions[number];
}

bd_status bd_verify_type(bd_verifier *v, bd_loc loc, const char *name, const bd_type *type) {
  if (type->rank < 0 || type->rank > BD_MAX_RANK || (unsigned)type->dtype >= BD_DTYPE_COUNT)
    return bd_fail(v->ctx, BD_INVALID, loc, "%s has no valid type", name);
  int64_t batch = v->module->micro_batch > 0 ? v->module->micro_batch : 1;
  int64_t elements = 1;
  for (int d = 0; d < type->rank; ++d) {
    int64_t extent = bd_extent(type->dims[d], batch);
    if (extent < 1) return bd_fail(v->ctx, BD_INVALID, loc, "%s has an extent below 1", name);
    if (extent > BD_MAX_ELEMENTS / elements)
      return bd_fail(v->ctx, BD_INVALID, loc, "%s has more than %lld elements", name,
                     (long long)BD_MAX_ELEMENTS);
    elements *= extent;
  }
  return BD_OK;
}

// What is read from the file must have the elements of the weight.
static bd_status verify_storage(bd_verifier *v, const bd_weight *weight, bd_loc loc) {
  const bd_storage *storage = &weight->storage;
  if (!storage->name || storage->rank < 0 || storage->rank > BD_MAX_RANK)
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s is not stored anywhere", weight->name);
  bd_type stored = bd_type_make(weight->type.dtype, storage->rank, storage->dims);
  BD_TRY(bd_verify_type(v, loc, "a stored tensor", &stored));
  if (bd_type_has_batch(&stored))
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s is stored with an extent below 1", weight->name);
  if (storage->slice_dim >= 0) {
    int dim = storage->slice_dim;
    int64_t every = dim >= storage->rank       ? 0
                    : storage->slice_every > 0 ? storage->slice_every
                                               : stored.dims[dim];
    if (dim >= storage->rank || storage->slice_start < 0 || storage->slice_size < 1 ||
        storage->slice_every < 0 || storage->slice_start > every - storage->slice_size)
      return bd_fail(v->ctx, BD_INVALID, loc, "@%s is a slice outside of its stored tensor",
                     weight->name);
    if (stored.dims[dim] % every != 0)
      return bd_fail(v->ctx, BD_INVALID, loc, "@%s: %lld stored indices are not every %lld",
                     weight->name, (long long)stored.dims[dim], (long long)every);
    stored.dims[dim] = stored.dims[dim] / every * storage->slice_size;
  }
  if (storage->transpose && storage->rank != 2)
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s: only a stored matrix can be transposed",
                   weight->name);
  if (storage->stack > 0 &&
      (weight->type.rank < 1 || weight->type.dims[0] != storage->stack || !storage->stack_rest ||
       storage->stack_first < 0 || storage->stack_first > BD_MAX_ELEMENTS ||
       storage->stack_gap < 0 || storage->stack_gap > BD_MAX_ELEMENTS))
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s is no stack of %lld stored tensors", weight->name,
                   (long long)storage->stack);
  if (!(weight->average >= 0 && weight->average <= 1))
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s: an average's share of new values is from 0 to 1",
                   weight->name);
  int64_t elements = bd_type_elements(&stored, 1) * (storage->stack > 0 ? storage->stack : 1);
  if (elements != bd_type_elements(&weight->type, 1))
    return bd_fail(v->ctx, BD_INVALID, loc, "@%s has %lld elements, its stored form has %lld",
                   weight->name, (long long)bd_type_elements(&weight->type, 1),
                   (long long)elements);
  return BD_OK;
}

static bd_status verify_weights(bd_verifier *v) {
  const bd_module *module = v->module;
  bd_loc loc = module->main->loc;
  bd_name_map names = bd_name_map_init(v->ctx->arena);
  for (int i = 0; i < module->weight_count; ++i) {
    const bd_weight *weight = &module->weights[i];
    if (!bd_name_map_add(&names, weight->name, i))
      return bd_fail(v->ctx, BD_INVALID, loc, "there are two weights @%s", weight->name);
    BD_TRY(bd_verify_type(v, loc, "a weight", &weight->type));
    if (bd_type_has_batch(&weight->type))
      return bd_fail(v->ctx, BD_INVALID, loc, "@%s: a weight cannot have the extent B",
                     weight->name);
    if (!bd_dtype_is_float(weight->type.dtype))
      return bd_fail(v->ctx, BD_INVALID, loc, "@%s: a weight must have a float type", weight->name);
    if (weight->masters == BD_MASTERS_NONE &&
        (weight->wide != BD_F32 || weight->type.dtype != BD_BF16))
      return bd_fail(v->ctx, BD_INVALID, loc,
                     "@%s: a weight of bf16 may be rounded from f32, found %s from %s",
                     weight->name, bd_dtype_name(weight->type.dtype), bd_dtype_name(weight->wide));
    if (weight->gradients == BD_GRADIENTS_BF16 && weight->masters != BD_MASTERS_NONE)
      return bd_fail(v->ctx, BD_INVALID, loc,
                     "@%s: only a weight that is rounded may have its gradients in bf16",
                     weight->name);
    if (weight->wide != weight->type.dtype &&
        (weight->wide != BD_F32 || bd_dtype_bytes(weight->type.dtype) != 2))
      return bd_fail(v->ctx, BD_INVALID, loc,
                     "@%s: a weight of bf16 or f16 may have a master of f32, found %s of %s",
                     weight->name, bd_dtype_name(weight->wide), bd_dtype_name(weight->type.dtype));
    if (!isfinite(weight->init_scale) || weight->init_scale < 0)
      return bd_fail(v->ctx, BD_INVALID, loc, "@%s: the scale must be finite and not negative",
                     weight->name);
    BD_TRY(verify_storage(v, weight, loc));
  }
  return BD_OK;
}

static bd_status verify_mesh(bd_verifier *v) {
  const bd_module *module = v->module;
  const bd_mesh *mesh = &module->mesh;
  bd_loc loc = module->main->loc;
  if (module->stage < BD_STAGE_SHARDED) {
    if (mesh->axes != 0 || module->stages != 0 || module->micro_batch != 0)
      return bd_fail(v->ctx, BD_INVALID, loc, "a %s module has no mesh",
                     bd_stage_name(module->stage));
    return BD_OK;
  }
  enum { MAX_RANKS = 1 << 24 };
  int64_t ranks = module->stages;
  if (mesh->axes < 0 || mesh->axes > BD_MAX_AXES || module->stages < 1 || module->micro_batch < 1)
    return bd_fail(v->ctx, BD_INVALID, loc, "mesh, stages and micro-batch must be set");
  for (int axis = 0; axis < mesh->axes && ranks <= MAX_RANKS; ++axis) {
    if (mesh->size[axis] < 1)
      return bd_fail(v->ctx, BD_INVALID, loc, "a mesh axis has a size below 1");
    ranks *= mesh->size[axis];
  }
  if (ranks > MAX_RANKS)
    return bd_fail(v->ctx, BD_INVALID, loc, "there are more than %d ranks", MAX_RANKS);
  return BD_OK;
}

static bd_status verify_function(bd_verifier *v, const bd_function *function) {
  BD_TRY(bd_verify_values(v, function));
  for (int i = 0; i < function->op_count; ++i)
    BD_TRY(bd_verify_op(v, function, i));
  if (function != v->module->main) BD_TRY(bd_verify_pair(v, function));
  if (function != v->module->main) BD_TRY(bd_verify_pool(v, function));
  if (v->module->stage == BD_STAGE_EXEC) BD_TRY(bd_verify_places(v, function));
  return BD_OK;
}

bd_status bd_module_verify(bd_ctx *ctx, const bd_module *module) {
  bd_verifier v = {.ctx = ctx, .module = module, .functions = bd_name_map_init(ctx->arena)};
  BD_TRY(verify_mesh(&v));
  BD_TRY(verify_weights(&v));
  for (int i = 0; i < module->function_count; ++i) {
    const bd_function *function = module->functions[i];
    if (!bd_name_map_add(&v.functions, function->name, i))
      return bd_fail(ctx, BD_INVALID, function->loc, "there are two functions @%s", function->name);
  }
  for (int i = 0; i < module->function_count; ++i)
    BD_TRY(verify_function(&v, module->functions[i]));
  BD_TRY(verify_function(&v, module->main));
  return bd_verify_main(&v);
}
