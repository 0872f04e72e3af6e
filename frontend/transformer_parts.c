#include "frontend/transformer_parts.h"

bd_type bd_transformer_ids(int64_t sequence) {
  return bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, sequence});
}

bd_type bd_transformer_activations(int64_t sequence, int64_t width) {
  return bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, sequence, width});
}

bd_weight_pattern bd_transformer_matrix(const char *name, const char *stored, int64_t rows,
                                        int64_t columns, double scale) {
  return (bd_weight_pattern){
      .name = name,
      .type = bd_type_make(BD_F32, 2, (int64_t[]){rows, columns}),
      .storage = {.name = stored, .rank = 2, .dims = {rows, columns}, .slice_dim = -1},
      .init = BD_INIT_NORMAL,
      .init_scale = scale};
}

bd_weight_pattern bd_transformer_linear(const char *name, const char *stored, int64_t in,
                                        int64_t out, double scale) {
  bd_weight_pattern pattern = bd_transformer_matrix(name, stored, out, in, scale);
  pattern.type = bd_type_make(BD_F32, 2, (int64_t[]){in, out});
  pattern.storage.transpose = true;
  return pattern;
}

void bd_transformer_take_rows(bd_weight_pattern *pattern, const char *stored, int64_t rows,
                              int64_t start) {
  bd_storage *storage = &pattern->storage;
  storage->name = stored;
  storage->slice_dim = 0;
  storage->slice_start = start;
  storage->slice_size = storage->dims[0];
  storage->dims[0] = rows;
}

bd_transformer_dense bd_transformer_plain(const char *name, const char *stored, int64_t in,
                                          int64_t out, double scale) {
  return (bd_transformer_dense){.name = name,
                                .stored = stored,
                                .rule = "btc,cf->btf",
                                .in = in,
                                .out = out,
                                .matrix = bd_type_make(BD_F32, 2, (int64_t[]){in, out}),
                                .bias = bd_type_make(BD_F32, 1, &out),
                                .biased = true,
                                .scale = scale};
}

bd_id bd_transformer_apply(bd_graph_build *g, bd_layer *layer, const bd_transformer_dense *d,
                           bd_id x) {
  bd_weight_pattern matrix =
      bd_transformer_linear(bd_intern_f(g->ctx, "%s.w", d->name),
                            bd_intern_f(g->ctx, "%s.weight", d->stored), d->in, d->out, d->scale);
  matrix.type = d->matrix;
  bd_id w = bd_graph_layer_weight(g, layer, matrix);
  if (!d->biased) return bd_graph_contract(g, d->name, d->rule, x, w);
  bd_weight_pattern vector =
      bd_graph_vector(bd_intern_f(g->ctx, "%s.b", d->name),
                      bd_intern_f(g->ctx, "%s.bias", d->stored), BD_INIT_ZEROS, d->out);
  vector.type = d->bias;
  bd_id bias = bd_graph_layer_weight(g, layer, vector);
  bd_id y = bd_graph_contract(g, bd_intern_f(g->ctx, "%s_product", d->name), d->rule, x, w);
  return bd_graph_binary(g, d->name, BD_OP_ADD, y, bias);
}

bd_id bd_transformer_normalize(bd_graph_build *g, bd_layer *layer, const bd_transformer_norm *norm,
                               const char *name, const char *stored, bd_id x) {
  bd_id gain = bd_graph_layer_weight(
      g, layer,
      bd_graph_vector(bd_intern_f(g->ctx, "%s.g", name),
                      bd_intern_f(g->ctx, "%s.%s", stored, norm->gain), BD_INIT_ONES, norm->width));
  bd_id shift =
      bd_graph_layer_weight(g, layer,
                            bd_graph_vector(bd_intern_f(g->ctx, "%s.b", name),
                                            bd_intern_f(g->ctx, "%s.%s", stored, norm->shift),
                                            BD_INIT_ZEROS, norm->width));
  bd_attr eps = bd_attr_real(g->ctx, "eps", norm->epsilon);
  return bd_graph_op(g, name, BD_OP_LAYERNORM, 3, (bd_id[]){x, gain, shift}, 1, &eps);
}

bd_id bd_transformer_rotate(bd_graph_build *g, const char *name, bd_id x, const bd_rotary *rotary) {
  const bd_rope_stretch *stretch = &rotary->stretch;
  const bd_rope_ramp *ramp = &rotary->ramp;
  bd_attr attrs[10] = {bd_attr_real(g->ctx, "theta", rotary->theta),
                       bd_attr_int(g->ctx, "inverse", 0)};
  int count = 2;
  if (g->status != BD_OK) return BD_NO_ID;
  if (rotary->turned > 0 && rotary->turned < g->function->values[x].type.dims[3]) {
    attrs[count++] = bd_attr_int(g->ctx, "turned", rotary->turned);
    if (rotary->last) attrs[count++] = bd_attr_int(g->ctx, "last", 1);
  }
  if (rotary->interleaved) attrs[count++] = bd_attr_int(g->ctx, "interleaved", 1);
  if (stretch->factor > 0) {
    attrs[count++] = bd_attr_real(g->ctx, "factor", stretch->factor);
    attrs[count++] = bd_attr_real(g->ctx, "low_freq_factor", stretch->low_frequency_factor);
    attrs[count++] = bd_attr_real(g->ctx, "high_freq_factor", stretch->high_frequency_factor);
    attrs[count++] = bd_attr_int(g->ctx, "original_positions", stretch->original_positions);
  }
  if (ramp->factor > 0) {
    attrs[count++] = bd_attr_real(g->ctx, "factor", ramp->factor);
    attrs[count++] = bd_attr_real(g->ctx, "ramp_low", ramp->low);
    attrs[count++] = bd_attr_real(g->ctx, "ramp_high", ramp->high);
  }
  if (rotary->near) {
    const bd_type *type = &g->function->values[x].type;
    int64_t turned = rotary->turned > 0 ? rotary->turned : type->dims[3];
    attrs[count++] =
        bd_attr_reals(g->ctx, "divisors", (int)(turned / 2),
                      type->dims[1] > rotary->near_positions ? rotary->far : rotary->near);
  }
  if (rotary->amplitude > 0 && rotary->amplitude != 1)
    attrs[count++] = bd_attr_real(g->ctx, "amplitude", rotary->amplitude);
  return bd_graph_op(g, name, BD_OP_ROPE, 1, &x, count, attrs);
}

bd_id bd_transformer_hide(bd_graph_build *g, bd_id ids, int64_t sequence, int64_t padding) {
  bd_type type = bd_transformer_ids(sequence);
  bd_id is_padding = bd_graph_binary(g, "is_padding", BD_OP_EQ, ids,
                                     bd_graph_fill(g, "padding", &type, (double)padding));
  type.dtype = BD_F32;
  return bd_graph_select(g, "hidden_keys", is_padding,
                         bd_graph_fill(g, "out_of_sight", &type, BD_TRANSFORMER_HIDDEN),
                         bd_graph_fill(g, "in_sight", &type, 0));
}

// x with `size` elements in its last dimension, those that are new being `value`.
static bd_id widen(bd_graph_build *g, const char *name, bd_id x, int64_t size, double value) {
  bd_attr attrs[] = {bd_attr_int(g->ctx, "dim", 3), bd_attr_int(g->ctx, "start", 0),
                     bd_attr_int(g->ctx, "size", size), bd_attr_real(g->ctx, "value", value)};
  return bd_graph_op(g, name, BD_OP_PAD, 1, &x, 4, attrs);
}

// Keys are hidden by elements that they and the queries have more: ones times what hides. As many
// as keep rows whole vectors.
static bd_id attend_to_seen(bd_graph_build *g, bd_id q, bd_id k, bd_id v,
                            const bd_transformer_attending *how) {
  enum { MORE = 8 };
  if (g->status != BD_OK) return BD_NO_ID;
  bd_type type = g->function->values[k].type;
  int64_t width = type.dims[3];
  bd_transformer_attending seen = *how;
  bd_attr dim = bd_attr_int(g->ctx, "dim", 3);
  type.dims[3] = MORE;
  seen.hidden = BD_NO_ID;
  bd_id keys[] = {k, bd_graph_repeat(g, "hiding", how->hidden, "ab->abcd", &type)};
  q = widen(g, "q_wide", q, width + MORE, 1);
  k = bd_graph_op(g, "k_wide", BD_OP_CONCAT, 2, keys, 1, &dim);
  v = widen(g, "v_wide", v, width + MORE, 0);
  bd_id wide = bd_transformer_attention(g, q, k, v, &seen);
  return bd_transformer_slice(g, bd_intern_f(g->ctx, "%s_seen", how->name), wide, 3, 0, width);
}

bd_id bd_transformer_attention(bd_graph_build *build, bd_id q, bd_id k, bd_id v,
                               const bd_transformer_attending *how) {
  bd_ctx *ctx = build->ctx;
  if (how->hidden != BD_NO_ID) return attend_to_seen(build, q, k, v, how);
  bd_attr attrs[6] = {bd_attr_real(ctx, "scale", how->scale),
                      bd_attr_int(ctx, "causal", how->causal)};
  int count = 2;
  if (how->window > 0) attrs[count++] = bd_attr_int(ctx, "window", how->window);
  if (how->softcap > 0) attrs[count++] = bd_attr_real(ctx, "softcap", how->softcap);
  if (how->dropout > 0) {
    attrs[count++] = bd_attr_real(ctx, "dropout", how->dropout);
    attrs[count++] = bd_attr_int(ctx, "site", how->site);
  }
  bd_op_kind kind = how->sinks                ? BD_OP_SINK_ATTENTION
                    : how->biases != BD_NO_ID ? BD_OP_RELATIVE_ATTENTION
                                              : BD_OP_ATTENTION;
  return bd_graph_op(build, how->name, kind, kind == BD_OP_ATTENTION ? 3 : 4,
                     (bd_id[]){q, k, v, how->biases}, count, attrs);
}

// The softmax is the same whatever is taken from all elements of a row; their lse is, as a constant
// without gradient, so that the sum of the powers is 1 and no power overflows.
bd_id bd_transformer_softmax(bd_graph_build *g, const char *prefix, bd_id x) {
  enum { LSE, LEVEL, LOWERED, POWER, SUM, SUMS, SHARE, NAMES };
  static const char *const plain[NAMES] = {"lse", "level", "lowered", "power",
                                           "sum", "sums",  "share"};
  const char *name[NAMES];
  if (g->status != BD_OK) return BD_NO_ID;
  for (int i = 0; i < NAMES; ++i)
    name[i] = bd_intern_f(g->ctx, "%s%s", prefix, plain[i]);
  bd_type type = g->function->values[x].type;
  bd_attr constant = bd_attr_int(g->ctx, "constant", 1);
  bd_id lse = bd_graph_op(g, name[LSE], BD_OP_LSE, 1, &x, 1, &constant);
  bd_id level = bd_graph_repeat(g, name[LEVEL], lse, "ab->abc", &type);
  bd_id lowered = bd_graph_binary(g, name[LOWERED], BD_OP_SUB, x, level);
  bd_id power = bd_graph_unary(g, name[POWER], BD_OP_EXP, lowered);
  bd_id sum = bd_graph_sum(g, name[SUM], power, "abc->ab");
  return bd_graph_binary(g, name[SHARE], BD_OP_DIV, power,
                         bd_graph_repeat(g, name[SUMS], sum, "ab->abc", &type));
}

bd_id bd_transformer_slice(bd_graph_build *g, const char *name, bd_id x, int dim, int64_t start,
                           int64_t size) {
  if (g->status != BD_OK || g->function->values[x].type.dims[dim] == size) return x;
  bd_attr attrs[] = {bd_attr_int(g->ctx, "dim", dim), bd_attr_int(g->ctx, "start", start),
                     bd_attr_int(g->ctx, "size", size)};
  return bd_graph_op(g, name, BD_OP_SLICE, 1, &x, 3, attrs);
}

bd_id bd_transformer_logits(bd_graph_build *build, bd_id x, bd_id output_matrix) {
  return bd_graph_contract(build, "logits", "btc,vc->btv", x, output_matrix);
}

bd_id bd_transformer_output_matrix(bd_graph_build *build, const char *name, int64_t vocabulary,
                                   int64_t width) {
  return bd_graph_param(build, name, bd_type_make(BD_F32, 2, (int64_t[]){vocabulary, width}), true);
}

bd_id bd_transformer_scale(bd_graph_build *g, const char *name, bd_id x, double factor) {
  if (factor == 0 || factor == 1) return x;
  bd_attr value = bd_attr_real(g->ctx, "value", factor);
  return bd_graph_op(g, name, BD_OP_SCALE, 1, &x, 1, &value);
}

bd_id bd_transformer_cap(bd_graph_build *g, bd_id x, double cap) {
  if (cap == 0) return x;
  bd_id within =
      bd_graph_unary(g, "within_cap", BD_OP_TANH, bd_transformer_scale(g, "of_cap", x, 1 / cap));
  return bd_transformer_scale(g, "capped", within, cap);
}

bd_id bd_transformer_cross_entropy(bd_graph_build *build, bd_id logits, bd_id targets) {
  bd_id lse = bd_graph_unary(build, "lse", BD_OP_LSE, logits);
  bd_id operands[] = {logits, targets, lse};
  return bd_graph_op(build, "loss", BD_OP_XENT, 3, operands, 0, NULL);
}

void bd_transformer_loss(bd_graph_build *build, bd_id logits, bd_id targets) {
  bd_graph_result(build, bd_transformer_cross_entropy(build, logits, targets));
}

static bd_id output_matrix(bd_graph_build *build, const bd_transformer_chain *chain,
                           bd_id embedding) {
  const bd_weight_pattern *p = &chain->output;
  if (chain->tied) return embedding;
  return bd_graph_weight(build, (bd_weight){.name = p->name,
                                            .type = p->type,
                                            .storage = p->storage,
                                            .init = p->init,
                                            .init_scale = p->init_scale,
                                            .decay = true});
}

static const bd_layer *block_of(const bd_transformer_chain *chain, int layer) {
  return chain->kinds ? chain->kinds[layer] : chain->block;
}

bd_transformer_chain bd_transformer_decoder(bd_ctx *ctx, const bd_model_options *options,
                                            int64_t sequence, const char *block_name,
                                            const char *stored_prefix) {
  bd_type ids = bd_transformer_ids(sequence);
  return (bd_transformer_chain){
      .input_count = 1,
      .inputs = {{"tokens", options->samples ? BD_INPUT_IDS : BD_INPUT_TOKENS, ids}},
      .targets = ids,
      .block_name = block_name,
      .stored_prefix = stored_prefix,
      .stored_block = bd_intern_f(ctx, "%s%s.", stored_prefix, block_name)};
}

bd_id bd_transformer_main(bd_graph_build *g, const bd_transformer_chain *chain) {
  enum { OTHERS = 4 }; // operands of the head beside its weights
  int layers = (int)chain->layers, inputs = chain->input_count;
  int streams = chain->start || chain->blocks_read ? 2 : 1; // x, and what goes with it
  int ends = chain->start ? 2 : 1;                          // of them, what the head takes
  bd_id first[BD_MAX_TRANSFORMER_INPUTS + BD_MAX_LAYER_WEIGHTS];
  bd_id last[OTHERS + BD_MAX_LAYER_WEIGHTS];
  for (int i = 0; i < inputs; ++i)
    first[i] =
        bd_graph_input(g, chain->inputs[i].name, chain->inputs[i].kind, chain->inputs[i].type);
  last[ends] = bd_graph_input(g, "targets", BD_INPUT_TARGETS, chain->targets);

  int stride = streams + BD_MAX_LAYER_WEIGHTS; // the operands of one call, at most
  bd_id *blocks = BD_NEW_ARRAY(g->ctx->arena, bd_id, (int64_t)layers * stride);
  bd_graph_instantiate(g, chain->embed, "", chain->stored_prefix, first + inputs);
  for (int i = 0; i < layers; ++i)
    bd_graph_instantiate(g, block_of(chain, i), bd_intern_f(g->ctx, "%s%d.", chain->block_name, i),
                         bd_intern_f(g->ctx, "%s%d.", chain->stored_block, i),
                         blocks + i * stride + streams);
  bd_graph_instantiate(g, chain->head, "", chain->stored_prefix, last + ends + 1);
  int operands = ends + 1 + chain->head->weight_count;
  if (chain->tied || chain->output.name) last[operands++] = output_matrix(g, chain, first[inputs]);

  bd_id x[2] = {BD_NO_ID, first[0]};
  if (chain->start) x[1] = bd_graph_call(g, chain->start->function, 0, NULL, "start");
  x[0] = bd_graph_call(g, chain->embed->function, inputs + chain->embed->weight_count, first, "x0");
  for (int i = 0; i < layers; ++i) {
    const bd_layer *block = block_of(chain, i);
    bool plain = chain->is_plain && chain->is_plain[i];
    bd_id *in = blocks + i * stride + (plain ? streams - 1 : 0);
    for (int k = 0; k < (plain ? 1 : streams); ++k)
      in[k] = x[k];
    x[0] = bd_graph_call(g, block->function, (plain ? 1 : streams) + block->weight_count, in,
                         bd_intern_f(g->ctx, "x%d", i + 1));
    if (chain->start && !plain) x[1] = x[0] + 1;
  }
  for (int k = 0; k < ends; ++k)
    last[k] = x[k];
  return bd_graph_call(g, chain->head->function, operands, last, "loss");
}
