// T5: an encoder and a decoder that reads it, RMS norm before each part of a block, no biases but
// those of relative positions, whose two tables every block of a side shares. Scores are not
// scaled.
#include "frontend/relative.h"
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"
#include <math.h>

enum {
  SITE_EMBEDDING,
  SITE_SELF_SCORES,
  SITE_SELF,
  SITE_CROSS_SCORES,
  SITE_CROSS,
  SITE_INNER,
  SITE_PERCEPTRON,
  SITE_END
};

typedef struct builder {
  bd_graph_build graph;
  const bd_t5_config *config;
  int64_t sequence; // of the encoder and of the decoder
  bd_layer embed, encoder, memory, decoder, head;
} builder;

static bd_type stream_type(const builder *b) {
  return bd_transformer_activations(b->sequence, b->config->width);
}

static bd_id drop(builder *b, const char *name, bd_id x, int site) {
  return bd_graph_dropout(&b->graph, name, x, b->config->dropout, site);
}

static bd_id normalize(builder *b, bd_layer *layer, const char *name, const char *stored, bd_id x) {
  bd_graph_build *g = &b->graph;
  bd_id gain = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(g->ctx, "%s.g", name),
                                                     bd_intern_f(g->ctx, "%s.weight", stored),
                                                     BD_INIT_ONES, b->config->width));
  bd_attr eps = bd_attr_real(g->ctx, "eps", b->config->epsilon);
  return bd_graph_op(g, name, BD_OP_RMSNORM, 2, (bd_id[]){x, gain}, 1, &eps);
}

// Queries, keys or values of x.
static bd_id project(builder *b, bd_layer *layer, const char *part, char letter, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  double fan = (double)c->width * (letter == 'q' ? (double)c->head_width : 1);
  bd_transformer_dense dense = {
      .name = bd_intern_f(g->ctx, "%s.%c", part, letter),
      .stored = bd_intern_f(g->ctx, "%s.%c", part, letter),
      .rule = "btc,chd->bthd",
      .in = c->width,
      .out = c->heads * c->head_width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->width, c->heads, c->head_width}),
      .scale = c->init_scale / sqrt(fan)};
  return bd_transformer_apply(g, layer, &dense, x);
}

static bd_id join(builder *b, bd_layer *layer, const char *part, bd_id attended) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  int64_t in = c->heads * c->head_width;
  bd_transformer_dense dense = {
      .name = bd_intern_f(g->ctx, "%s.o", part),
      .stored = bd_intern_f(g->ctx, "%s.o", part),
      .rule = "bthd,hdc->btc",
      .in = in,
      .out = c->width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->heads, c->head_width, c->width}),
      .scale = c->init_scale / sqrt((double)in)};
  return bd_transformer_apply(g, layer, &dense, attended);
}

// What self-attention adds to the stream x.
static bd_id attend_self(builder *b, bd_layer *layer, bd_id table, bool causal, bd_id hidden,
                         bd_id x) {
  static const char part[] = "layer.0.SelfAttention";
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  bd_relative relative = {c->buckets, c->distance, b->sequence, causal};
  bd_id n = normalize(b, layer, "norm_1", "layer.0.layer_norm", x);
  bd_id q = project(b, layer, part, 'q', n), k = project(b, layer, part, 'k', n);
  bd_id v = project(b, layer, part, 'v', n);
  bd_transformer_attending how = {.name = "attended_self",
                                  .scale = 1,
                                  .dropout = c->dropout,
                                  .causal = causal,
                                  .site = SITE_SELF_SCORES,
                                  .hidden = hidden,
                                  .biases = bd_relative_biases(g, &relative, table)};
  bd_id attended = bd_transformer_attention(g, q, k, v, &how);
  return drop(b, "self_dropped", join(b, layer, part, attended), SITE_SELF);
}

// What the decoder's attention to the encoder adds to the stream x.
static bd_id attend_memory(builder *b, bd_layer *layer, bd_id memory, bd_id hidden, bd_id x) {
  static const char part[] = "layer.1.EncDecAttention";
  bd_id n = normalize(b, layer, "norm_2", "layer.1.layer_norm", x);
  bd_id q = project(b, layer, part, 'q', n), k = project(b, layer, part, 'k', memory);
  bd_id v = project(b, layer, part, 'v', memory);
  bd_transformer_attending how = {.name = "attended_memory",
                                  .scale = 1,
                                  .dropout = b->config->dropout,
                                  .site = SITE_CROSS_SCORES,
                                  .hidden = hidden,
                                  .biases = BD_NO_ID};
  bd_id attended = bd_transformer_attention(&b->graph, q, k, v, &how);
  return drop(b, "memory_dropped", join(b, layer, part, attended), SITE_CROSS);
}

static bd_id widen(builder *b, bd_layer *layer, const char *stored, const char *name, bd_id x) {
  const bd_t5_config *c = b->config;
  bd_transformer_dense dense = bd_transformer_plain(name, stored, c->width, c->inner,
                                                    c->init_scale / sqrt((double)c->width));
  dense.biased = false;
  return bd_transformer_apply(&b->graph, layer, &dense, x);
}

// What the perceptron, part number `number` of a block, adds to the stream x.
static bd_id perceive(builder *b, bd_layer *layer, int number, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  const char *part = bd_intern_f(g->ctx, "layer.%d.DenseReluDense", number);
  bd_id n = normalize(b, layer, "norm_3", bd_intern_f(g->ctx, "layer.%d.layer_norm", number), x);
  bd_id h = widen(b, layer, bd_intern_f(g->ctx, c->gated ? "%s.wi_0" : "%s.wi", part), "wi", n);
  h = bd_graph_unary(g, "activated", c->activation, h);
  if (c->gated)
    h = bd_graph_binary(g, "gated", BD_OP_MUL, h,
                        widen(b, layer, bd_intern_f(g->ctx, "%s.wi_1", part), "wi_1", n));
  h = drop(b, "inner_dropped", h, SITE_INNER);
  bd_transformer_dense down =
      bd_transformer_plain("wo", bd_intern_f(g->ctx, "%s.wo", part), c->inner, c->width,
                           c->init_scale / sqrt((double)c->inner));
  down.biased = false;
  return drop(b, "perceptron_dropped", bd_transformer_apply(g, layer, &down, h), SITE_PERCEPTRON);
}

static void build_embed(builder *b) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  b->embed.function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  bd_id shared = bd_graph_layer_weight(
      g, &b->embed,
      bd_transformer_matrix("shared", "shared.weight", c->vocabulary, c->width, c->init_scale));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, shared, tokens);
  bd_graph_result(g, drop(b, "dropped", rows, SITE_EMBEDDING));
}

// What hides the encoder's padding, from its tokens, another operand of a block that attends to it.
static bd_id hide_padding(builder *b) {
  bd_graph_build *g = &b->graph;
  if (b->config->padding < 0) return BD_NO_ID;
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  return bd_transformer_hide(g, tokens, b->sequence, b->config->padding);
}

static void build_encoder(builder *b) {
  bd_graph_build *g = &b->graph;
  b->encoder.function = bd_graph_function(g, "encoder");
  bd_id x = bd_graph_param(g, "x", stream_type(b), false);
  bd_id table = bd_graph_param(
      g, "table", bd_type_make(BD_F32, 2, (int64_t[]){b->config->buckets, b->config->heads}), true);
  bd_id y = attend_self(b, &b->encoder, table, false, hide_padding(b), x);
  x = bd_graph_binary(g, "middle", BD_OP_ADD, x, y);
  bd_graph_result(g, bd_graph_binary(g, "out", BD_OP_ADD, x, perceive(b, &b->encoder, 1, x)));
}

// The end of the encoder, which every block of the decoder reads.
static void build_memory(builder *b) {
  bd_graph_build *g = &b->graph;
  b->memory.function = bd_graph_function(g, "memory");
  bd_id x = bd_graph_param(g, "x", stream_type(b), false);
  x = normalize(b, &b->memory, "encoder_norm", "encoder.final_layer_norm", x);
  bd_graph_result(g, drop(b, "dropped", x, SITE_END));
}

static void build_decoder(builder *b) {
  bd_graph_build *g = &b->graph;
  b->decoder.function = bd_graph_function(g, "decoder");
  bd_id x = bd_graph_param(g, "x", stream_type(b), false);
  bd_id memory = bd_graph_param(g, "memory", stream_type(b), false);
  bd_id table = bd_graph_param(
      g, "table", bd_type_make(BD_F32, 2, (int64_t[]){b->config->buckets, b->config->heads}), true);
  bd_id hidden = hide_padding(b);
  bd_id y = attend_self(b, &b->decoder, table, true, BD_NO_ID, x);
  x = bd_graph_binary(g, "middle", BD_OP_ADD, x, y);
  y = attend_memory(b, &b->decoder, memory, hidden, x);
  x = bd_graph_binary(g, "informed", BD_OP_ADD, x, y);
  bd_graph_result(g, bd_graph_binary(g, "out", BD_OP_ADD, x, perceive(b, &b->decoder, 2, x)));
}

// The embedding's elements are larger than those of an output matrix of its own: for it,
// activations are scaled down.
static void build_head(builder *b) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  b->head.function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", stream_type(b), false);
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->sequence), false);
  x = normalize(b, &b->head, "decoder_norm", "decoder.final_layer_norm", x);
  x = drop(b, "dropped", x, SITE_END);
  bd_id lm = bd_transformer_output_matrix(g, "lm", c->vocabulary, c->width);
  bd_attr value = bd_attr_real(g->ctx, "value", 1 / sqrt((double)c->width));
  if (c->scaled) x = bd_graph_op(g, "scaled", BD_OP_SCALE, 1, &x, 1, &value);
  bd_transformer_loss(g, bd_transformer_logits(g, x, lm), targets);
}

static bd_id add_weight(bd_graph_build *g, bd_weight_pattern pattern) {
  return bd_graph_weight(g, (bd_weight){.name = pattern.name,
                                        .type = pattern.type,
                                        .storage = pattern.storage,
                                        .init = pattern.init,
                                        .init_scale = pattern.init_scale,
                                        .decay = true});
}

static bd_id add_table(builder *b, const char *side) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  return add_weight(
      g, bd_transformer_matrix(
             bd_intern_f(g->ctx, "%s.table", side),
             bd_intern_f(g->ctx, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                         side),
             c->buckets, c->heads, c->init_scale / sqrt((double)c->width)));
}

// Calls of a side's blocks, one after another: x, the memory where there is one, the table, the
// encoder's tokens where padding is among them, weights.
static bd_id call_blocks(builder *b, const char *side, const bd_layer *layer, int64_t layers,
                         bd_id x, bd_id memory, bd_id table, bd_id tokens) {
  bd_graph_build *g = &b->graph;
  for (int64_t i = 0; i < layers; ++i) {
    bd_id in[4 + BD_MAX_LAYER_WEIGHTS];
    int count = 0;
    in[count++] = x;
    if (memory != BD_NO_ID) in[count++] = memory;
    in[count++] = table;
    if (b->config->padding >= 0) in[count++] = tokens;
    bd_graph_instantiate(g, layer, bd_intern_f(g->ctx, "%s%lld.", side, (long long)i),
                         bd_intern_f(g->ctx, "%s.block.%lld.", side, (long long)i), in + count);
    x = bd_graph_call(g, layer->function, count + layer->weight_count, in,
                      bd_intern_f(g->ctx, "%s.x%lld", side, (long long)i + 1));
  }
  return x;
}

static bd_id build_main(builder *b) {
  bd_graph_build *g = &b->graph;
  const bd_t5_config *c = b->config;
  bd_type ids = bd_transformer_ids(b->sequence);
  bd_id tokens = bd_graph_input(g, "tokens", BD_INPUT_IDS, ids);
  bd_id decoder_tokens = bd_graph_input(g, "decoder_tokens", BD_INPUT_IDS, ids);
  bd_id targets = bd_graph_input(g, "targets", BD_INPUT_TARGETS, ids);
  bd_id shared, norm;
  bd_graph_instantiate(g, &b->embed, "", "", &shared);
  bd_id encoder_table = add_table(b, "encoder"), decoder_table = add_table(b, "decoder");
  bd_id x = bd_graph_call(g, b->embed.function, 2, (bd_id[]){tokens, shared}, "encoder.x0");
  x = call_blocks(b, "encoder", &b->encoder, c->encoder_layers, x, BD_NO_ID, encoder_table, tokens);
  bd_graph_instantiate(g, &b->memory, "", "", &norm);
  bd_id memory = bd_graph_call(g, b->memory.function, 2, (bd_id[]){x, norm}, "memory");
  x = bd_graph_call(g, b->embed.function, 2, (bd_id[]){decoder_tokens, shared}, "decoder.x0");
  x = call_blocks(b, "decoder", &b->decoder, c->decoder_layers, x, memory, decoder_table, tokens);
  bd_graph_instantiate(g, &b->head, "", "", &norm);
  bd_id lm = c->tied ? shared
                     : add_weight(g, bd_transformer_matrix("lm_head", "lm_head.weight",
                                                           c->vocabulary, c->width, c->init_scale));
  return bd_graph_call(g, b->head.function, 4, (bd_id[]){x, targets, norm, lm}, "loss");
}

bd_status bd_t5_build(bd_ctx *ctx, const char *name, const bd_t5_config *config,
                      const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  bd_t5_config c = *config;
  if (options->vocabulary > 0) c.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc), .config = &c};
  b.sequence = options->sequence > 0 ? options->sequence : c.positions;
  for (int causal = 0; causal < 2; ++causal) {
    bd_relative relative = {c.buckets, c.distance, b.sequence, causal};
    if (!bd_relative_is_supported(&relative))
      return bd_fail(ctx, BD_UNSUPPORTED, loc,
                     "relative positions that tell more than 256 distances apart are not "
                     "supported");
  }
  build_embed(&b);
  build_encoder(&b);
  build_memory(&b);
  build_decoder(&b);
  build_head(&b);
  return bd_graph_finish(&b.graph, build_main(&b), out_graph);
}
