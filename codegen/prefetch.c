#include "codegen/prefetch.h"
#include "ir/memory.h"
#include "runtime/braid_rt_abi.h"

typedef struct stretch {
  int64_t start, end; // bytes of the workspace; empty elsewhere
} stretch;

typedef struct search {
  const bd_module *module;
  const bd_function *function;
  const bd_fusion *fusion;
} search;

static stretch stretch_of(const search *s, bd_id id) {
  const bd_value *value = &s->function->values[id];
  if (value->segment != BD_SEGMENT_WORKSPACE) return (stretch){0, 0};
  return (stretch){value->offset_bytes,
                   value->offset_bytes + bd_memory_value_bytes(s->module, value)};
}

static bool meet(stretch a, stretch b) {
  return a.start < b.end && b.start < a.end;
}

static bool op_touches(const search *s, const bd_op *op, stretch bytes) {
  int64_t scratch = bd_op_int(op, "scratch", -1);
  if (scratch >= 0) {
    int64_t size = bd_memory_scratch_bytes(s->module, s->function, op);
    if (meet((stretch){scratch, scratch + size}, bytes)) return true;
  }
  for (int i = 0; i < op->in_count; ++i)
    if (meet(stretch_of(s, op->in[i]), bytes)) return true;
  for (int i = 0; i < op->out_count; ++i)
    if (meet(stretch_of(s, op->out[i]), bytes)) return true;
  return false;
}

static bool step_touches(const search *s, int step, stretch bytes) {
  for (int i = 0; i < s->fusion->step_ops[step]; ++i)
    if (op_touches(s, &s->function->ops[s->fusion->first_op[step] + i], bytes)) return true;
  return false;
}

// A weight's parts, cut evenly along what is its first dimension but for ones.
static bool may_begin_early(const search *s, const bd_op *op) {
  if (op->kind != BD_OP_ALL_GATHER) return false;
  const bd_value *from = &s->function->values[op->in[0]], *to = &s->function->values[op->out[0]];
  int axis = (int)bd_op_int(op, "axis", -1);
  if (from->segment != BD_SEGMENT_WEIGHTS || to->segment != BD_SEGMENT_WORKSPACE) return false;
  bd_type whole = bd_local_type(&s->module->mesh, &to->sharding, &to->type, s->module->micro_batch);
  int dim = from->sharding.at[axis];
  for (int d = 0; d < dim; ++d)
    if (whole.dims[d] != 1) return false;
  return whole.dims[dim] % s->module->mesh.size[axis] == 0;
}

const int *bd_prefetch_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                            const bd_fusion *fusion) {
  const search s = {module, function, fusion};
  int *begin = BD_NEW_ARRAY(ctx->arena, int, fusion->step_count), count = 0;
  for (int step = 0; step < fusion->step_count; ++step) {
    const bd_op *op = &function->ops[fusion->first_op[step]];
    begin[step] = step;
    if (!module->cuda || count == BD_RT_PREFETCHES || !may_begin_early(&s, op)) continue;
    stretch bytes = stretch_of(&s, op->out[0]);
    while (begin[step] > 0 && !step_touches(&s, begin[step] - 1, bytes))
      begin[step]--;
    count += begin[step] < step;
  }
  return begin;
}
