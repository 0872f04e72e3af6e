// Placement inside one call: the tape slot and the workspace.
#include "ir/fuse.h"
#include "ir/memory.h"
#include "ir/memory_fit.h"
#include "ir/parts.h"
#include <assert.h>

typedef struct placing {
  bd_ctx *ctx;
  const bd_module *module;
  bd_function *function;
  bd_fusion fusion;
  int *made;       // per value: the step that makes it
  int *last_read;  // per value: the last step that reads it, or its own when none does
  int *buffer;     // per value: its buffer, or -1
  bd_id *restored; // per value: the restored value whose bytes of the tape it has, or BD_NO_ID
  int buffer_count;
  bd_buffer *buffers;
  int *scratch; // per op: its buffer, or -1
  int *started; // per op: the step in parts of which a collective sums, or -1
} placing;

static bool is_param(const bd_value *value) {
  return value->producer < 0;
}

static bool has_id(const bd_id *ids, int count, bd_id id) {
  return bd_ids_find(ids, count, id) >= 0;
}

static bool in_workspace(const placing *p, bd_id id) {
  const bd_function *f = p->function;
  return !is_param(&f->values[id]) && !p->fusion.inner[id] &&
         !has_id(f->results, f->result_count, id) && !has_id(f->saves, f->save_count, id);
}

static void find_steps(placing *p) {
  const bd_function *f = p->function;
  for (int step = 0; step < p->fusion.step_count; ++step)
    for (int i = 0; i < p->fusion.step_ops[step]; ++i) {
      const bd_op *op = &f->ops[p->fusion.first_op[step] + i];
      for (int k = 0; k < op->in_count; ++k)
        p->last_read[op->in[k]] = step;
      for (int k = 0; k < op->out_count; ++k)
        p->last_read[op->out[k]] = p->made[op->out[k]] = step;
    }
}

// The one value that the step writes to memory, or BD_NO_ID when there are more.
static bd_id only_output(const placing *p, int step) {
  bd_id only = BD_NO_ID;
  for (int i = 0; i < p->fusion.step_ops[step]; ++i) {
    const bd_op *op = &p->function->ops[p->fusion.first_op[step] + i];
    for (int k = 0; k < op->out_count; ++k) {
      if (p->fusion.inner[op->out[k]]) continue;
      if (only != BD_NO_ID) return BD_NO_ID;
      only = op->out[k];
    }
  }
  return only;
}

static bool is_product(const placing *p, bd_id id) {
  int producer = p->function->values[id].producer;
  const bd_op *op = producer < 0 ? NULL : &p->function->ops[producer];
  return op && op->kind == BD_OP_CONTRACT && !bd_op_find_attr(op, "fp8");
}

// GPUs: the kernel of a product of halves may do more (codegen/epilogue.h): take gelu, writing its
// argument where the product would lie, or multiply by gelu's slope. That product, or BD_NO_ID.
static bd_id product_of_gelu(const placing *p, int step) {
  const bd_op *first = &p->function->ops[p->fusion.first_op[step]];
  const bd_type *type = &p->function->values[first->out[0]].type;
  bool has_gelu = false;
  if (!p->module->cuda || type->dtype == bd_dtype_wide(type->dtype)) return BD_NO_ID;
  if (first->kind == BD_OP_GELU_GRAD) return is_product(p, first->in[1]) ? first->in[1] : BD_NO_ID;
  for (int i = 0; i < p->fusion.step_ops[step]; ++i)
    has_gelu |= first[i].kind == BD_OP_GELU;
  for (int k = 0; has_gelu && k < first->in_count; ++k)
    if (is_product(p, first->in[k])) return first->in[k];
  return BD_NO_ID;
}

// What that kernel needs apart from its result.
static bool lies_apart(const placing *p, int step, const bd_op *op, bd_id operand) {
  bd_id product = product_of_gelu(p, step);
  if (product == BD_NO_ID) return false;
  return op->kind == BD_OP_GELU_GRAD ? operand != product : operand == product;
}

// When a step's results are written at the earliest.
static int first_write(const placing *p, int step) {
  bd_id product = product_of_gelu(p, step);
  int started = p->started[p->fusion.first_op[step]];
  if (started >= 0) return started;
  return product == BD_NO_ID ? step : p->made[product];
}

static bool may_take(const placing *p, int step, bd_id operand, bd_id result) {
  const bd_value *from = &p->function->values[operand], *to = &p->function->values[result];
  return p->last_read[operand] == step && bd_type_equal(&from->type, &to->type) &&
         bd_sharding_equal(&from->sharding, &to->sharding);
}

// An operand that dies in this step and that the step's only result may overwrite: every element is
// read before it is written. Of two, the one on the tape, which costs no workspace. BD_NO_ID: there
// is none.
static bd_id dying_operand(const placing *p, int step, bd_id result) {
  bd_id found = BD_NO_ID;
  for (int i = 0; i < p->fusion.step_ops[step]; ++i) {
    const bd_op *op = &p->function->ops[p->fusion.first_op[step] + i];
    unsigned traits = bd_op_get_info(op->kind)->traits;
    int candidates = traits & BD_POINTWISE ? op->in_count : traits & BD_INPLACE_0 ? 1 : 0;
    for (int k = 0; k < candidates; ++k) {
      bd_id operand = op->in[k];
      if (lies_apart(p, step, op, operand) || !may_take(p, step, operand, result)) continue;
      if (p->restored[operand] != BD_NO_ID) return operand;
      if (found == BD_NO_ID && p->buffer[operand] >= 0) found = operand;
    }
  }
  return found;
}

// Collectives that sum products in parts write from the product on.
static void find_started(placing *p) {
  const bd_function *f = p->function;
  for (int i = 0; i < f->op_count; ++i)
    p->started[i] = -1;
  for (int i = 0; i < f->op_count; ++i) {
    if (!bd_op_find_attr(&f->ops[i], BD_PARTS_ATTR)) continue;
    bd_parts parts = bd_parts_asked(p->module, f, i);
    if (parts.count > 1) p->started[parts.collective] = p->made[f->ops[i].out[0]];
  }
}

static int add_buffer(placing *p, int first, int last, int64_t bytes) {
  p->buffers[p->buffer_count] = (bd_buffer){.first = first, .last = last, .bytes = bytes};
  return p->buffer_count++;
}

static void place_output(placing *p, int step, bd_id id, bd_id only) {
  if (!in_workspace(p, id)) return;
  bd_id operand = id == only ? dying_operand(p, step, id) : BD_NO_ID;
  if (operand != BD_NO_ID) {
    p->restored[id] = p->restored[operand];
    p->buffer[id] = p->buffer[operand];
    if (p->buffer[id] >= 0) p->buffers[p->buffer[id]].last = p->last_read[id];
    return;
  }
  p->buffer[id] = add_buffer(p, first_write(p, step), p->last_read[id],
                             bd_memory_inner_bytes(p->module, p->function, id));
}

static void collect_buffers(placing *p) {
  for (int step = 0; step < p->fusion.step_count; ++step) {
    bd_id only = only_output(p, step);
    for (int i = 0; i < p->fusion.step_ops[step]; ++i) {
      int index = p->fusion.first_op[step] + i;
      const bd_op *op = &p->function->ops[index];
      for (int k = 0; k < op->out_count; ++k)
        place_output(p, step, op->out[k], only);
      int64_t scratch = bd_memory_scratch_bytes(p->module, p->function, op);
      p->scratch[index] = scratch > 0 ? add_buffer(p, step, step, scratch) : -1;
    }
  }
}

static void set_scratch(placing *p, bd_op *op, int64_t offset_bytes) {
  op->attrs = bd_arena_grow(p->ctx->arena, op->attrs, (size_t)op->attr_count,
                            (size_t)op->attr_count, sizeof *op->attrs);
  bd_op_set_attr(p->ctx, op, bd_attr_int(p->ctx, "scratch", offset_bytes));
}

static void write_offsets(placing *p) {
  bd_function *f = p->function;
  for (bd_id v = 0; v < f->value_count; ++v) {
    bd_value *value = &f->values[v];
    if (is_param(value)) continue;
    if (p->fusion.inner[v]) value->segment = BD_SEGMENT_NONE;
    if (p->restored[v] != BD_NO_ID) {
      value->segment = BD_SEGMENT_TAPE;
      value->offset_bytes = f->values[p->restored[v]].offset_bytes;
    }
    if (p->buffer[v] < 0) continue;
    value->segment = BD_SEGMENT_WORKSPACE;
    value->offset_bytes = p->buffers[p->buffer[v]].offset_bytes;
  }
  for (int i = 0; i < f->op_count; ++i)
    if (p->scratch[i] >= 0) set_scratch(p, &f->ops[i], p->buffers[p->scratch[i]].offset_bytes);
}

static placing open_placing(bd_ctx *ctx, const bd_module *module, bd_function *function) {
  placing p = {.ctx = ctx, .module = module, .function = function};
  bd_fuse(ctx, module, function, &p.fusion);
  p.made = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  p.last_read = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  p.buffer = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  p.scratch = BD_NEW_ARRAY(ctx->arena, int, function->op_count);
  p.started = BD_NEW_ARRAY(ctx->arena, int, function->op_count);
  p.buffers = BD_NEW_ARRAY(ctx->arena, bd_buffer, function->value_count + function->op_count);
  p.restored = BD_NEW_ARRAY(ctx->arena, bd_id, function->value_count);
  for (bd_id v = 0; v < function->value_count; ++v) {
    const bd_value *value = &function->values[v];
    p.buffer[v] = -1;
    p.restored[v] = is_param(value) && value->segment == BD_SEGMENT_TAPE ? v : BD_NO_ID;
  }
  find_steps(&p);
  find_started(&p);
  collect_buffers(&p);
  return p;
}

bd_status bd_memory_place_workspace(bd_ctx *ctx, const bd_module *module, bd_function *function,
                                    int64_t *out_bytes) {
  placing p = open_placing(ctx, module, function);
  *out_bytes = bd_fit_buffers(ctx, p.buffers, p.buffer_count);
  write_offsets(&p);
  return BD_OK;
}

// The buffer lives from `first` to `last`, if that fits.
static bool hold(placing *p, bd_buffer *buffer, int first, int last, int64_t room_bytes) {
  const bd_buffer before = *buffer;
  buffer->first = first;
  buffer->last = last;
  if (bd_fit_buffers(p->ctx, p->buffers, p->buffer_count) <= room_bytes) return true;
  buffer->first = before.first;
  buffer->last = before.last;
  return false;
}

// The step before which a collective can begin: its operand is there, which a product makes that
// also does the sum with another tensor behind it.
static int begin_of(const placing *p, const bd_op *collective) {
  bd_id operand = collective->in[0];
  int producer = p->function->values[operand].producer;
  const bd_op *op = producer < 0 ? NULL : &p->function->ops[producer];
  int made = p->made[operand];
  for (int k = 0; op && op->kind == BD_OP_ADD && k < op->in_count; ++k)
    if (is_product(p, op->in[k]) && p->last_read[op->in[k]] == p->made[operand])
      made = p->made[op->in[k]];
  return producer < 0 ? 0 : made + 1;
}

// What a product for the gradient of a weight reads stays until step `until`, if that fits.
static void keep_operands(placing *p, const bd_op *op, int until, int64_t room_bytes) {
  if (!bd_op_is_product(op->kind) || !bd_accumulates(p->function, op->out[0])) return;
  for (int k = 0; k < op->in_count; ++k) {
    int index = p->buffer[op->in[k]];
    bd_buffer *buffer = index < 0 ? NULL : &p->buffers[index];
    if (buffer && buffer->last < until) (void)hold(p, buffer, buffer->first, until, room_bytes);
  }
}

static void place_beside(placing *p, int64_t room_bytes) {
  for (int i = 0, after = 0; i < p->function->op_count; ++i) {
    const bd_op *op = &p->function->ops[i];
    if (!bd_memory_runs_beside(p->module, p->function, op)) continue;
    int begin = begin_of(p, op), index = p->buffer[op->out[0]];
    bd_buffer *result = index < 0 ? NULL : &p->buffers[index];
    if (result && begin < result->first) (void)hold(p, result, begin, result->last, room_bytes);
    for (; after < i; ++after)
      keep_operands(p, &p->function->ops[after], begin, room_bytes);
  }
}

void bd_memory_place_early(bd_ctx *ctx, const bd_module *module, bd_function *function,
                           int64_t room_bytes) {
  placing p = open_placing(ctx, module, function);
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    if (!bd_memory_gathers_weight(module, function, op) || p.buffer[op->out[0]] < 0) continue;
    bd_buffer *buffer = &p.buffers[p.buffer[op->out[0]]];
    if (!hold(&p, buffer, 0, p.fusion.step_count - 1, room_bytes))
      (void)hold(&p, buffer, 0, buffer->last, room_bytes);
  }
  place_beside(&p, room_bytes);
  int64_t height = bd_fit_buffers(ctx, p.buffers, p.buffer_count);
  assert(height <= room_bytes);
  (void)height;
  write_offsets(&p);
}

bd_status bd_memory_place_tape(bd_ctx *ctx, const bd_module *module, bd_function *forward,
                               int64_t *out_bytes) {
  bd_function *backward = forward->peer ? bd_module_find(module, forward->peer) : NULL;
  if (backward && backward->restore_count != forward->save_count)
    return bd_fail(ctx, BD_INTERNAL, forward->loc, "%s restores %d values, %s saves %d",
                   backward->name, backward->restore_count, forward->name, forward->save_count);
  int64_t bytes = 0;
  for (int i = 0; i < forward->save_count; ++i) {
    bd_value *value = &forward->values[forward->saves[i]];
    if (is_param(value) || has_id(forward->results, forward->result_count, forward->saves[i]))
      continue;
    value->segment = BD_SEGMENT_TAPE;
    value->offset_bytes = bytes;
    bytes += bd_memory_inner_bytes(module, forward, forward->saves[i]);
    if (!backward) continue;
    bd_value *restored = &backward->values[backward->params[i]];
    restored->segment = BD_SEGMENT_TAPE;
    restored->offset_bytes = value->offset_bytes;
  }
  *out_bytes = bytes;
  return BD_OK;
}
