// Products of rows in groups as calls of the runtime, which reads the groups' ends on the host.
#include "codegen/emit.h"
#include "ir/pitch.h"

// Whether a value holds the ends of a grouped product's groups.
static bool are_ends(const bd_function *function, bd_id id) {
  for (int i = 0; i < function->op_count; ++i)
    if (bd_op_is_grouped(function->ops[i].kind) && function->ops[i].in[2] == id) return true;
  return false;
}

// A number for each group: the ends of all samples are alike, and those of the first are read.
static int64_t end_count(const bd_function *function, bd_id ends) {
  return function->values[ends].type.dims[1];
}

// The room that the function's ends before value `end` take, one after another.
static int64_t room_before(const bd_function *function, bd_id end) {
  int64_t room = 0;
  for (bd_id v = 0; v < end; ++v)
    if (are_ends(function, v)) room += end_count(function, v);
  return room;
}

int64_t bd_emit_ends(const bd_function *function) {
  return room_before(function, function->value_count);
}

static void add_fetch(const bd_emit_body *body, bd_id ends) {
  if (body->fetched[ends]) return;
  body->fetched[ends] = true;
  bd_text_addf(body->text,
               "  const int32_t *const ends%d = bd_rt_fetch_ends(rt, %lld, v%d, %lld);\n", ends,
               (long long)room_before(body->function, ends), ends,
               (long long)end_count(body->function, ends));
}

// One of a value's dimensions: what of it is valid on this rank, a number where it is on all.
static const char *count_of(const bd_emit_body *body, bd_id id, int dim) {
  const bd_module *module = body->emitter->module;
  const bd_value *value = &body->function->values[id];
  int64_t local = bd_value_local_type(module, value).dims[dim];
  int64_t parts = bd_sharding_parts(&module->mesh, &value->sharding, dim);
  if (local * parts == bd_extent(value->type.dims[dim], module->micro_batch))
    return bd_intern_f(body->emitter->ctx, "%lld", (long long)local);
  return bd_emit_dim_count(body->emitter, value, dim);
}

// x [batch, rows, k], w [groups, k, n] and y [batch, rows, n] by their values, of which the rows of
// all samples lie in a row; `transposed`: w is stored as [groups, n, k].
static void add_shape(const bd_emit_body *body, const bd_op *op, bd_id x, bd_id w, bd_id y,
                      bool transposed) {
  const bd_module *module = body->emitter->module;
  const bd_function *f = body->function;
  bd_text *text = body->text;
  const bd_type local = bd_value_local_type(module, &f->values[x]);
  int64_t xs[BD_MAX_RANK], ws[BD_MAX_RANK], ys[BD_MAX_RANK];
  bd_value_strides(module, f, x, xs);
  bd_value_strides(module, f, w, ws);
  bd_value_strides(module, f, y, ys);
  bd_text_addf(text,
               "&(bd_rt_grouped){.rows = %lld, .groups = %lld, .n = %s, .k = %s,\n"
               "      .x_row = %lld, .y_row = %lld, .w_group = %lld, .w_k = %lld, .w_n = %lld,\n"
               "      ",
               (long long)(local.dims[0] * local.dims[1]), (long long)f->values[w].type.dims[0],
               count_of(body, y, 2), count_of(body, x, 2), (long long)xs[1], (long long)ys[1],
               (long long)ws[0], (long long)ws[transposed ? 2 : 1],
               (long long)ws[transposed ? 1 : 2]);
  if (bd_accumulates(f, op->out[0])) bd_text_add(text, ".accumulate = 1, ");
  bd_text_addf(text, ".grain = %lld, .dtype = %s, .out_dtype = %s",
               (long long)bd_op_int(op, "grain", 1), bd_emit_dtype(f->values[op->in[0]].type.dtype),
               bd_emit_dtype(f->values[op->out[0]].type.dtype));
  bd_emit_float8(body, op, false);
  bd_text_add(text, "}");
}

bd_status bd_emit_grouped(const bd_emit_body *body, const bd_op *op) {
  bool weights = op->kind == BD_OP_GROUPED_CONTRACT_DW;
  add_fetch(body, op->in[2]);
  bd_text_addf(body->text, "  bd_rt_grouped_%s(rt, ", weights ? "weights" : "rows");
  add_shape(body, op, op->in[0], weights ? op->out[0] : op->in[1], weights ? op->in[1] : op->out[0],
            bd_op_int(op, "transpose", 0));
  bd_text_addf(body->text, ",\n      v%d, v%d, ends%d, v%d);\n", op->in[0], op->in[1], op->in[2],
               op->out[0]);
  return BD_OK;
}
