// Steps that are calls of the runtime: a writer per op.
#include "codegen/emit.h"
#include "ir/balance.h"
#include "ir/windows.h"
#include "runtime/braid_rt_abi.h"
#include <assert.h>
#include <string.h>

static const bd_value *operand(const bd_emit_body *body, const bd_op *op, int index) {
  return &body->function->values[op->in[index]];
}

static const bd_value *result(const bd_emit_body *body, const bd_op *op, int index) {
  return &body->function->values[op->out[index]];
}

static long long whole(const bd_emit_body *body, const bd_value *value, int dim) {
  return (long long)bd_extent(value->type.dims[dim], body->emitter->module->micro_batch);
}

static bool is_relative(const bd_op *op) {
  return op->kind == BD_OP_RELATIVE_ATTENTION || op->kind == BD_OP_RELATIVE_ATTENTION_GRAD;
}

// Of all ranks, of which the op may have half.
static long long all_queries(const bd_emit_body *body, const bd_op *op, const bd_value *q) {
  return bd_balance_queries(op, whole(body, q, 1));
}

// The global number of the rank's first query. Of 2n chunks rank r has number 2r, or mirrored, in
// the op for the other half of them, 2n - 1 - 2r.
static const char *first_query(const bd_emit_body *body, const bd_op *op, const bd_value *q) {
  bd_emitter *e = body->emitter;
  const char *start = bd_emit_dim_start(e, q, 1);
  long long chunk = (long long)bd_op_int(op, "chunk", 0);
  if (!chunk) return start;
  if (!bd_op_int(op, "half", 0)) return bd_intern_f(e->ctx, "2 * %s", start);
  return bd_intern_f(e->ctx, "%lld - 2 * %s", all_queries(body, op, q) - chunk, start);
}

static void add_attention_shape(const bd_emit_body *body, const bd_op *op) {
  bool gradient = bd_op_is_attention_grad(op->kind);
  const bd_value *q = operand(body, op, gradient), *k = operand(body, op, gradient + 1);
  const bd_value *v = operand(body, op, gradient + 2);
  bd_emitter *e = body->emitter;
  bd_type ql = bd_value_local_type(e->module, q), kl = bd_value_local_type(e->module, k);
  long long q_row = ql.dims[2] * ql.dims[3], k_row = kl.dims[2] * kl.dims[3];
  long long d_v = whole(body, v, 3), v_row = kl.dims[2] * d_v, out_row = ql.dims[2] * d_v;
  double dropout = bd_op_real(op, "dropout", 0);
  bd_text *text = body->text;
  bd_text_addf(text, "&(bd_rt_attention){.batch = %s, .tq = %lld, .tk = %lld,\n      .heads = %s, ",
               bd_emit_dim_count(e, q, 0), (long long)ql.dims[1], whole(body, k, 1),
               bd_emit_dim_count(e, q, 2));
  bd_text_addf(text, ".kv_heads = %s, .d = %lld, .d_v = %lld,\n      ", bd_emit_dim_count(e, k, 2),
               whole(body, q, 3), d_v);
  bd_text_addf(text, ".q_batch = %lld, .q_row = %lld, .k_batch = %lld, .k_row = %lld,\n      ",
               ql.dims[1] * q_row, q_row, kl.dims[1] * k_row, k_row);
  bd_text_addf(text, ".v_batch = %lld, .v_row = %lld, .out_batch = %lld, .out_row = %lld,\n      ",
               kl.dims[1] * v_row, v_row, ql.dims[1] * out_row, out_row);
  bd_text_addf(text, ".lse_batch = %lld, .lse_row = %lld, .scale = ",
               (long long)(ql.dims[1] * ql.dims[2]), (long long)ql.dims[2]);
  bd_text_add_double(text, bd_op_real(op, "scale", 1));
  bd_text_add(text, ", .dropout = ");
  bd_text_add_double(text, dropout);
  bd_text_addf(text,
               ", .causal = %d,\n      .site = %lld, .first_sample = random->first_sample + %s, ",
               bd_op_int(op, "causal", 0) != 0, (long long)bd_op_int(op, "site", 0),
               bd_emit_dim_start(e, q, 0));
  bd_text_addf(text, ".first_head = %s, .first_query = %s,\n      ", bd_emit_dim_start(e, q, 2),
               first_query(body, op, q));
  bd_text_addf(text, ".total_heads = %lld, .total_queries = %lld, .dtype = %s", whole(body, q, 2),
               all_queries(body, op, q), bd_emit_dtype(q->type.dtype));
  if (bd_op_int(op, "window", 0) > 0)
    bd_text_addf(text, ", .window = %lld", (long long)bd_op_int(op, "window", 0));
  if (bd_op_find_attr(op, "softcap")) {
    bd_text_add(text, ", .softcap = ");
    bd_text_add_double(text, bd_op_real(op, "softcap", 0));
  }
  if (is_relative(op))
    bd_text_addf(text, ", .places = %lld", whole(body, operand(body, op, gradient ? 6 : 3), 1));
  bd_text_add(text, "}");
}

// The buffers that the op reads and writes.
static void add_list(const bd_emit_body *body, const bd_op *op) {
  for (int i = 0; i < op->in_count; ++i)
    bd_text_addf(body->text, "%sv%d", i ? ", " : "", op->in[i]);
  for (int i = 0; i < op->out_count; ++i)
    bd_text_addf(body->text, ", v%d", op->out[i]);
}

// What cuDNN takes; it does not add to what is there.
static bool is_plain(const bd_function *f, const bd_op *op) {
  if (!bd_attention_suits_library(f, op)) return false;
  for (int i = 0; i < op->out_count; ++i)
    if (bd_accumulates(f, op->out[i])) return false;
  return true;
}

void bd_emit_attend(const bd_emit_body *body, const bd_op *op) {
  bool gradient = op->kind == BD_OP_ATTENTION_GRAD;
  if (!is_plain(body->function, op)) return;
  const char *kind = gradient ? "_grad" : op->kind == BD_OP_SINK_ATTENTION ? "_with_sinks" : "";
  bd_text_addf(body->text, "  if (!bd_rt_attend%s(rt, ", kind);
  add_attention_shape(body, op);
  bd_text_add(body->text, ",\n      ");
  add_list(body, op);
  if (gradient) bd_text_addf(body->text, ", work + %lld", (long long)bd_op_int(op, "scratch", 0));
  bd_text_add(body->text, "))\n  ");
}

static bd_status attention(const bd_emit_body *body, const bd_op *op) {
  bool gradient = bd_op_is_attention_grad(op->kind);
  const bd_type *q = &operand(body, op, gradient)->type;
  int64_t values = operand(body, op, gradient + 2)->type.dims[3];
  if (q->dtype != BD_F32 &&
      (q->dims[3] > BD_RT_ATTENTION_HALF_WIDTH || values > BD_RT_ATTENTION_HALF_WIDTH))
    return bd_fail(body->emitter->ctx, BD_UNSUPPORTED, op->loc,
                   "attention in %s on CPU ranks takes heads of at most %d elements",
                   bd_dtype_name(q->dtype), BD_RT_ATTENTION_HALF_WIDTH);
  const char *kind = is_relative(op)                    ? "relative_"
                     : op->kind == BD_OP_SINK_ATTENTION ? "sink_"
                                                        : "";
  bd_text_addf(body->text, "  bd_rt_%sattention_%s(rt, ", kind, gradient ? "backward" : "forward");
  add_attention_shape(body, op);
  bd_text_add(body->text, ",\n      random, ");
  add_list(body, op);
  bd_text_addf(body->text, ", work + %lld);\n", (long long)bd_op_int(op, "scratch", 0));
  return BD_OK;
}

// Images and filters of a convolution or pooling, whatever the direction: which values are x, w and
// y.
typedef struct window {
  const bd_value *x, *w, *y;
} window;

// The rules of these ops allow splits into equal parts only.
static bool has_equal_parts(const bd_module *module, const bd_value *value) {
  bd_type local = bd_value_local_type(module, value);
  for (int d = 1; d < local.rank; ++d)
    if (local.dims[d] * bd_sharding_parts(&module->mesh, &value->sharding, d) !=
        bd_extent(value->type.dims[d], module->micro_batch))
      return false;
  return true;
}

static void add_extents(bd_text *text, const char *name, const int64_t extents[BD_MAX_SPATIAL]) {
  bd_text_addf(text, ",\n      .%s = {%lld, %lld, %lld}", name, (long long)extents[0],
               (long long)extents[1], (long long)extents[2]);
}

static void add_window(const bd_emit_body *body, const bd_op *op, window at) {
  bd_emitter *e = body->emitter;
  bd_type x = bd_value_local_type(e->module, at.x), y = bd_value_local_type(e->module, at.y);
  bd_window_shape shape = bd_window_shape_of(op, &x, at.w ? &at.w->type : NULL, &y);
  // A rank that has a part of the channels of grouped images has that part of the groups.
  int channels = bd_image_order_of(op, x.rank).channels;
  int64_t groups = at.w ? x.dims[channels] / bd_value_local_type(e->module, at.w).dims[1] : 1;
  assert(has_equal_parts(e->module, at.x) && has_equal_parts(e->module, at.y));
  bd_text_addf(body->text, "&(bd_rt_conv){.n = %s, .c = %lld, .o = %lld, .groups = %lld",
               bd_emit_dim_count(e, at.x, 0), (long long)x.dims[channels],
               (long long)y.dims[channels], (long long)groups);
  add_extents(body->text, "x", shape.x);
  add_extents(body->text, "k", shape.k);
  add_extents(body->text, "y", shape.y);
  add_extents(body->text, "stride", shape.stride);
  add_extents(body->text, "dilation", shape.dilation);
  add_extents(body->text, "before", shape.before);
  bd_text_addf(body->text, ",\n      .dtype = %s, .out_dtype = %s",
               bd_emit_dtype(operand(body, op, 0)->type.dtype),
               bd_emit_dtype(result(body, op, 0)->type.dtype));
  bd_text_add(body->text, channels != 1 ? ", .channels_last = 1}" : "}");
}

// `call`: the function of the runtime.
static bd_status add_window_call(const bd_emit_body *body, const bd_op *op, const char *call,
                                 window at) {
  bd_text_addf(body->text, "  %s(rt, ", call);
  add_window(body, op, at);
  bd_text_add(body->text, ",\n      ");
  for (int i = 0; i < op->in_count; ++i)
    bd_text_addf(body->text, "v%d, ", op->in[i]);
  if (op->kind == BD_OP_CONV_DW)
    bd_text_addf(body->text, "%d, ", bd_accumulates(body->function, op->out[0]));
  bd_text_addf(body->text, "v%d);\n", op->out[0]);
  return BD_OK;
}

static bd_status conv(const bd_emit_body *body, const bd_op *op) {
  window at = {operand(body, op, 0), operand(body, op, 1), result(body, op, 0)};
  return add_window_call(body, op, "bd_rt_convolve", at);
}

static bd_status conv_dx(const bd_emit_body *body, const bd_op *op) {
  window at = {result(body, op, 0), operand(body, op, 1), operand(body, op, 0)};
  return add_window_call(body, op, "bd_rt_convolve_dx", at);
}

static bd_status conv_dw(const bd_emit_body *body, const bd_op *op) {
  window at = {operand(body, op, 0), result(body, op, 0), operand(body, op, 1)};
  return add_window_call(body, op, "bd_rt_convolve_dw", at);
}

static bd_status maxpool(const bd_emit_body *body, const bd_op *op) {
  window at = {operand(body, op, 0), NULL, result(body, op, 0)};
  return add_window_call(body, op, "bd_rt_maxpool", at);
}

static bd_status maxpool_grad(const bd_emit_body *body, const bd_op *op) {
  window at = {operand(body, op, 0), NULL, operand(body, op, 1)};
  return add_window_call(body, op, "bd_rt_maxpool_grad", at);
}

static bd_status collective(const bd_emit_body *body, const bd_op *op) {
  const char *in = bd_intern_f(body->emitter->ctx, "v%d", op->in[0]);
  const char *out = bd_intern_f(body->emitter->ctx, "v%d", op->out[0]);
  bd_text_add(body->text, "  ");
  bd_emit_collective(body->emitter, body->text, body->function, op, in, out);
  return BD_OK;
}

typedef bd_status (*writer)(const bd_emit_body *body, const bd_op *op);

static const writer writers[BD_OP_KIND_COUNT] = {
    [BD_OP_CONTRACT] = bd_emit_contract,
    [BD_OP_GROUPED_CONTRACT] = bd_emit_grouped,
    [BD_OP_GROUPED_CONTRACT_DW] = bd_emit_grouped,
    [BD_OP_ATTENTION] = attention,
    [BD_OP_ATTENTION_GRAD] = attention,
    [BD_OP_SINK_ATTENTION] = attention,
    [BD_OP_RELATIVE_ATTENTION] = attention,
    [BD_OP_RELATIVE_ATTENTION_GRAD] = attention,
    [BD_OP_EMBED_DW] = bd_emit_embed_dw,
    [BD_OP_CONV] = conv,
    [BD_OP_CONV_DX] = conv_dx,
    [BD_OP_CONV_DW] = conv_dw,
    [BD_OP_MAXPOOL] = maxpool,
    [BD_OP_MAXPOOL_GRAD] = maxpool_grad,
    [BD_OP_ALL_REDUCE] = collective,
    [BD_OP_ALL_GATHER] = collective,
    [BD_OP_REDUCE_SCATTER] = collective,
    [BD_OP_ALL_TO_ALL] = collective,
    [BD_OP_SHARD] = collective,
    [BD_OP_MIRROR] = collective,
};

bd_status bd_emit_library_op(const bd_emit_body *body, const bd_op *op) {
  if (!writers[op->kind])
    return bd_fail(body->emitter->ctx, BD_UNSUPPORTED, op->loc,
                   "the runtime for %s has no call for '%s'",
                   body->emitter->module->cuda ? "GPUs" : "CPUs", bd_op_get_info(op->kind)->name);
  return writers[op->kind](body, op);
}
