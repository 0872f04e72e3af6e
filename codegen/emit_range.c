// Extents and their parts: constants where every rank holds the same, else what the runtime says at
// start.
#include "codegen/emit.h"

uint32_t bd_emit_axes(const bd_module *module, const bd_sharding *sharding, int at) {
  uint32_t axes = 0;
  for (int axis = 0; axis < module->mesh.axes; ++axis)
    if (sharding->at[axis] == at && module->mesh.size[axis] > 1) axes |= 1u << axis;
  return axes;
}

const char *bd_emit_dtype(bd_dtype dtype) {
  static const char *const names[BD_DTYPE_COUNT] = {
      [BD_F32] = "BD_RT_F32",   [BD_BF16] = "BD_RT_BF16", [BD_F16] = "BD_RT_F16",
      [BD_F64] = "BD_RT_F64",   [BD_I32] = "BD_RT_I32",   [BD_I64] = "BD_RT_I64",
      [BD_BOOL] = "BD_RT_BOOL", [BD_U8] = "BD_RT_U8",     [BD_I8] = "BD_RT_I8",
      [BD_I16] = "BD_RT_I16",   [BD_U16] = "BD_RT_U16",   [BD_U32] = "BD_RT_U32",
      [BD_U64] = "BD_RT_U64",
  };
  return names[dtype];
}

const char *bd_emit_c_type(bd_dtype dtype) {
  static const char *const names[BD_DTYPE_COUNT] = {
      [BD_F32] = "float",    [BD_BF16] = "uint16_t", [BD_F16] = "uint16_t", [BD_F64] = "double",
      [BD_I32] = "int32_t",  [BD_I64] = "int64_t",   [BD_BOOL] = "uint8_t", [BD_U8] = "uint8_t",
      [BD_I8] = "int8_t",    [BD_I16] = "int16_t",   [BD_U16] = "uint16_t", [BD_U32] = "uint32_t",
      [BD_U64] = "uint64_t",
  };
  return names[dtype];
}

int64_t bd_emit_elements(const bd_module *module, const bd_value *value) {
  bd_type local = bd_value_local_type(module, value);
  return bd_type_elements(&local, module->micro_batch);
}

static int find_range(bd_emitter *e, int64_t extent, uint32_t axes) {
  for (int i = 0; i < e->range_count; ++i)
    if (e->ranges[i].extent == extent && e->ranges[i].axes == axes) return i;
  if (e->range_count == e->range_capacity) {
    int capacity = e->range_capacity ? 2 * e->range_capacity : 16;
    e->ranges = bd_arena_grow(e->ctx->arena, e->ranges, (size_t)e->range_count, (size_t)capacity,
                              sizeof *e->ranges);
    e->range_capacity = capacity;
  }
  e->ranges[e->range_count] = (bd_emit_range){extent, axes};
  return e->range_count++;
}

const char *bd_emit_start(bd_emitter *emitter, int64_t extent, uint32_t axes) {
  extent = bd_extent(extent, emitter->module->micro_batch);
  if (axes == 0) return "0";
  return bd_intern_f(emitter->ctx, "part%d.start", find_range(emitter, extent, axes));
}

const char *bd_emit_count(bd_emitter *emitter, int64_t extent, uint32_t axes) {
  extent = bd_extent(extent, emitter->module->micro_batch);
  if (axes == 0) return bd_intern_f(emitter->ctx, "%lld", (long long)extent);
  return bd_intern_f(emitter->ctx, "part%d.count", find_range(emitter, extent, axes));
}

const char *bd_emit_dim_start(bd_emitter *emitter, const bd_value *value, int dim) {
  return bd_emit_start(emitter, value->type.dims[dim],
                       bd_emit_axes(emitter->module, &value->sharding, dim));
}

const char *bd_emit_dim_count(bd_emitter *emitter, const bd_value *value, int dim) {
  return bd_emit_count(emitter, value->type.dims[dim],
                       bd_emit_axes(emitter->module, &value->sharding, dim));
}
