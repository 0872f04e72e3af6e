// Calls that move data along a mesh axis.
#include "codegen/emit.h"
#include <assert.h>
#include <string.h>

// A tensor seen around the dimensions that a collective touches.
static long long product(const bd_type *type, int from, int to) {
  long long elements = 1;
  for (int d = from; d < to; ++d)
    elements *= type->dims[d];
  return elements;
}

static void add_all_reduce(bd_emitter *e, bd_text *text, const bd_value *from, int axis) {
  static const char *const combiners[] = {"BD_RT_SUM", "BD_RT_MAX", "BD_RT_LSE"};
  int partial = BD_PARTIAL_SUM - from->sharding.at[axis];
  assert(partial >= 0 && partial < 3);
  bd_text_addf(text, "bd_rt_all_reduce(rt, %d, %s, %s, %lld", axis, bd_emit_dtype(from->type.dtype),
               combiners[partial], (long long)bd_emit_elements(e->module, from));
}

static void add_all_to_all(bd_text *text, int axis, int split, int joined, const bd_type *in,
                           const bd_type *out) {
  // `whole` has both dimensions in full.
  bd_type whole = *in;
  whole.dims[joined] = out->dims[joined];
  bool swapped = split > joined;
  int first = swapped ? joined : split, second = swapped ? split : joined;
  bd_text_addf(text, "bd_rt_all_to_all(rt, %d, %s, %lld, %lld, %lld, %lld, %lld, %d", axis,
               bd_emit_dtype(in->dtype), product(&whole, 0, first), (long long)whole.dims[first],
               product(&whole, first + 1, second), (long long)whole.dims[second],
               product(&whole, second + 1, whole.rank), swapped);
}

static void add_extents(bd_text *text, int axis, int dim, const bd_type *whole) {
  bd_text_addf(text, "%d, %s, %lld, %lld, %lld", axis, bd_emit_dtype(whole->dtype),
               product(whole, 0, dim), (long long)whole->dims[dim],
               product(whole, dim + 1, whole->rank));
}

static void add_along(bd_text *text, const char *name, int axis, int dim, const bd_type *whole) {
  bd_text_addf(text, "bd_rt_%s(rt, ", name);
  add_extents(text, axis, dim, whole);
}

void bd_emit_prefetch(bd_emitter *emitter, bd_text *text, const bd_function *function,
                      const bd_op *op, int slot) {
  const bd_value *from = &function->values[op->in[0]], *to = &function->values[op->out[0]];
  bd_type whole = bd_value_local_type(emitter->module, to);
  int axis = (int)bd_op_int(op, "axis", -1);
  bd_text_addf(text, "bd_rt_prefetch(rt, %d, ", slot);
  add_extents(text, axis, from->sharding.at[axis], &whole);
  bd_text_addf(text, ", v%d, v%d);\n", op->in[0], op->out[0]);
}

void bd_emit_gather(bd_emitter *emitter, bd_text *text, const bd_function *function,
                    const bd_op *op) {
  const bd_value *from = &function->values[op->in[0]], *to = &function->values[op->out[0]];
  bd_type whole = bd_value_local_type(emitter->module, to);
  int axis = (int)bd_op_int(op, "axis", -1), dim = from->sharding.at[axis];
  bd_text_addf(text, ".axis = %d, .dtype = %s, .extent = %lld, .inner = %lld", axis,
               bd_emit_dtype(whole.dtype), (long long)whole.dims[dim],
               product(&whole, dim + 1, whole.rank));
}

void bd_emit_collective(bd_emitter *emitter, bd_text *text, const bd_function *function,
                        const bd_op *op, const char *in, const char *out) {
  const bd_value *from = &function->values[op->in[0]], *to = &function->values[op->out[0]];
  bd_type from_local = bd_value_local_type(emitter->module, from);
  bd_type to_local = bd_value_local_type(emitter->module, to);
  int axis = (int)bd_op_int(op, "axis", -1);
  assert(axis >= 0);
  int was = from->sharding.at[axis], is = to->sharding.at[axis];
  // The side that holds the dimension in full tells the extents.
  if (was >= 0 && is < 0) from_local = to_local;
  if (op->kind == BD_OP_ALL_REDUCE)
    add_all_reduce(emitter, text, from, axis);
  else if (op->kind == BD_OP_MIRROR)
    bd_text_addf(text, "bd_rt_mirror(rt, %d, %s, %lld", axis, bd_emit_dtype(from->type.dtype),
                 (long long)bd_emit_elements(emitter->module, from));
  else if (op->kind == BD_OP_ALL_TO_ALL)
    add_all_to_all(text, axis, is, was, &from_local, &to_local);
  else
    add_along(text, bd_op_get_info(op->kind)->name, axis, is >= 0 ? is : was, &from_local);
  bd_text_addf(text, ", %s, %s);\n", in, out);
}

// A part of what all ranks are given is one stretch, and of the ranks' shares as well.
void bd_emit_collective_part(const bd_emit_body *body, const bd_emit_part *part) {
  const bd_parts *p = part->parts;
  const bd_op *op = part->collective;
  const bd_value *from = &body->function->values[op->in[0]];
  const char *type = bd_emit_c_type(from->type.dtype);
  const int64_t share = p->runs * p->rows * p->columns;
  int axis = (int)bd_op_int(op, "axis", -1);
  if (op->kind == BD_OP_ALL_REDUCE)
    bd_text_addf(body->text, "  bd_rt_all_reduce(rt, %d, %s, BD_RT_SUM, %lld", axis,
                 bd_emit_dtype(from->type.dtype), (long long)share);
  else
    bd_text_addf(body->text, "  bd_rt_reduce_scatter(rt, %d, %s, 1, %lld, %lld", axis,
                 bd_emit_dtype(from->type.dtype), (long long)p->blocks, (long long)share);
  bd_text_addf(body->text, ", (%s *)v%d + part * %lld, (%s *)v%d + part * %lld);\n", type,
               op->in[0], (long long)(p->blocks * share), type, op->out[0], (long long)share);
}
