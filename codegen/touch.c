#include "codegen/touch.h"
#include "ir/memory.h"

bd_stretch bd_stretch_of(const bd_module *module, const bd_function *function, bd_id id) {
  const bd_value *value = &function->values[id];
  if (value->segment != BD_SEGMENT_WORKSPACE && value->segment != BD_SEGMENT_TAPE)
    return (bd_stretch){BD_SEGMENT_NONE, 0, 0};
  return (bd_stretch){value->segment, value->offset_bytes,
                      value->offset_bytes + bd_memory_inner_bytes(module, function, id)};
}

bool bd_stretch_meet(bd_stretch a, bd_stretch b) {
  return a.segment == b.segment && a.start < b.end && b.start < a.end;
}

static bool works_in(const bd_module *module, const bd_function *function, const bd_op *op,
                     bd_stretch bytes) {
  int64_t scratch = bd_op_int(op, "scratch", -1);
  if (scratch < 0) return false;
  int64_t size = bd_memory_scratch_bytes(module, function, op);
  return bd_stretch_meet((bd_stretch){BD_SEGMENT_WORKSPACE, scratch, scratch + size}, bytes);
}

bool bd_op_reads(const bd_module *module, const bd_function *function, const bd_op *op,
                 bd_stretch bytes) {
  if (works_in(module, function, op, bytes)) return true;
  for (int i = 0; i < op->in_count; ++i)
    if (bd_stretch_meet(bd_stretch_of(module, function, op->in[i]), bytes)) return true;
  return false;
}

bool bd_step_writes(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                    int step, bd_stretch bytes) {
  for (int i = 0; i < fusion->step_ops[step]; ++i) {
    const bd_op *op = &function->ops[fusion->first_op[step] + i];
    if (works_in(module, function, op, bytes)) return true;
    for (int k = 0; k < op->out_count; ++k)
      if (bd_stretch_meet(bd_stretch_of(module, function, op->out[k]), bytes)) return true;
  }
  return false;
}

bool bd_step_touches(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                     int step, bd_stretch bytes) {
  for (int i = 0; i < fusion->step_ops[step]; ++i)
    if (bd_op_reads(module, function, &function->ops[fusion->first_op[step] + i], bytes))
      return true;
  return bd_step_writes(module, function, fusion, step, bytes);
}
