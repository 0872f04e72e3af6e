// Llama: rotary positions, RMS norm, gated perceptron, grouped queries. Stored matrices are [out,
// in] and read as their transposes; the query matrix [heads * head width, C] becomes [C, heads,
// head width].
#include "frontend/graph_build.h"
#include "frontend/transformer.h"
#include <math.h>

enum { SITE_ATTENTION = 1 };

typedef struct builder {
  bd_graph_build graph;
  const bd_llama_config *config;
  int64_t sequence;
} builder;

static bd_type f32(int rank, const int64_t *dims) {
  return bd_type_make(BD_F32, rank, dims);
}

static bd_type activations(const builder *b) {
  return f32(3, (int64_t[]){BD_DIM_BATCH, b->sequence, b->config->width});
}

static bd_weight_pattern vector(const char *name, const char *stored, bd_init_kind init,
                                int64_t extent) {
  return (bd_weight_pattern){
      .name = name,
      .type = f32(1, &extent),
      .storage = {.name = stored, .rank = 1, .dims = {extent}, .slice_dim = -1},
      .init = init};
}

// A matrix used as [in, out], stored [out, in].
static bd_weight_pattern linear(const builder *b, const char *name, const char *stored, int64_t in,
                                int64_t out) {
  return (bd_weight_pattern){
      .name = name,
      .type = f32(2, (int64_t[]){in, out}),
      .storage = {.name = stored, .rank = 2, .dims = {out, in}, .slice_dim = -1, .transpose = true},
      .init = BD_INIT_NORMAL,
      .init_scale = b->config->init_scale};
}

// A matrix used as it is stored, a row per token of the vocabulary.
static bd_weight_pattern table(const builder *b, const char *name, const char *stored) {
  bd_weight_pattern pattern = linear(b, name, stored, b->config->vocabulary, b->config->width);
  pattern.storage.dims[0] = b->config->vocabulary;
  pattern.storage.dims[1] = b->config->width;
  pattern.storage.transpose = false;
  return pattern;
}

static bd_id normalize(builder *b, const char *name, bd_id x, bd_id gain) {
  bd_attr eps = bd_attr_real(b->graph.ctx, "eps", b->config->epsilon);
  return bd_graph_op(&b->graph, name, BD_OP_RMSNORM, 2, (bd_id[]){x, gain}, 1, &eps);
}

static bd_id rotate(builder *b, const char *name, bd_id x) {
  bd_ctx *ctx = b->graph.ctx;
  const bd_rope_stretch *stretch = &b->config->stretch;
  bd_attr attrs[] = {bd_attr_real(ctx, "theta", b->config->rope_theta),
                     bd_attr_int(ctx, "inverse", 0),
                     bd_attr_real(ctx, "factor", stretch->factor),
                     bd_attr_real(ctx, "low_freq_factor", stretch->low_frequency_factor),
                     bd_attr_real(ctx, "high_freq_factor", stretch->high_frequency_factor),
                     bd_attr_int(ctx, "original_positions", stretch->original_positions)};
  return bd_graph_op(&b->graph, name, BD_OP_ROPE, 1, &x, stretch->factor > 0 ? 6 : 2, attrs);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "embed");
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id tokens = bd_graph_param(g, "tokens", ids, false);
  bd_id embedding =
      bd_graph_layer_weight(g, layer, table(b, "embedding", "model.embed_tokens.weight"));
  bd_graph_result(g, bd_graph_binary(g, "rows", BD_OP_EMBED, embedding, tokens));
}

// Query, key or value: x times the matrix, plus the bias where the model has one.
static bd_id project(builder *b, bd_layer *layer, bd_id x, char letter, int64_t heads) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  int64_t width = heads * c->head_width;
  bd_weight_pattern pattern =
      linear(b, bd_intern_f(g->ctx, "w%c", letter),
             bd_intern_f(g->ctx, "self_attn.%c_proj.weight", letter), c->width, width);
  pattern.type = f32(3, (int64_t[]){c->width, heads, c->head_width});
  bd_id w = bd_graph_layer_weight(g, layer, pattern);
  bd_id y = bd_graph_contract(g, bd_intern_f(g->ctx, "%c", letter), "btc,chd->bthd", x, w);
  if (!c->attention_bias) return y;
  pattern = vector(bd_intern_f(g->ctx, "b%c", letter),
                   bd_intern_f(g->ctx, "self_attn.%c_proj.bias", letter), BD_INIT_ZEROS, width);
  pattern.type = f32(2, (int64_t[]){heads, c->head_width});
  bd_id bias = bd_graph_layer_weight(g, layer, pattern);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%c_biased", letter), BD_OP_ADD, y, bias);
}

static bd_id attend(builder *b, bd_id q, bd_id k, bd_id v) {
  bd_ctx *ctx = b->graph.ctx;
  const bd_llama_config *c = b->config;
  bd_attr attrs[] = {
      bd_attr_real(ctx, "scale", 1 / sqrt((double)c->head_width)), bd_attr_int(ctx, "causal", 1),
      bd_attr_real(ctx, "dropout", c->dropout_attention), bd_attr_int(ctx, "site", SITE_ATTENTION)};
  int count = c->dropout_attention > 0 ? 4 : 2;
  return bd_graph_op(&b->graph, "attended", BD_OP_ATTENTION, 3, (bd_id[]){q, k, v}, count, attrs);
}

static bd_id build_attention(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  bd_id gain = bd_graph_layer_weight(
      g, layer, vector("norm_1.g", "input_layernorm.weight", BD_INIT_ONES, c->width));
  bd_id n = normalize(b, "norm_1", x, gain);
  bd_id q = rotate(b, "q_rotated", project(b, layer, n, 'q', c->heads));
  bd_id k = rotate(b, "k_rotated", project(b, layer, n, 'k', c->kv_heads));
  bd_id v = project(b, layer, n, 'v', c->kv_heads);
  bd_weight_pattern out =
      linear(b, "wo", "self_attn.o_proj.weight", c->heads * c->head_width, c->width);
  out.type = f32(3, (int64_t[]){c->heads, c->head_width, c->width});
  bd_id wo = bd_graph_layer_weight(g, layer, out);
  bd_id y = bd_graph_contract(g, "o", "bthd,hdc->btc", attend(b, q, k, v), wo);
  if (c->attention_bias) {
    bd_id bias = bd_graph_layer_weight(
        g, layer, vector("bo", "self_attn.o_proj.bias", BD_INIT_ZEROS, c->width));
    y = bd_graph_binary(g, "o_biased", BD_OP_ADD, y, bias);
  }
  return bd_graph_binary(g, "middle", BD_OP_ADD, x, y);
}

// x times the matrix `name`, plus the bias where the model has one.
static bd_id apply_linear(builder *b, bd_layer *layer, const char *name, const char *rule, bd_id x,
                          int64_t in, int64_t out) {
  bd_graph_build *g = &b->graph;
  bd_id w = bd_graph_layer_weight(g, layer,
                                  linear(b, bd_intern_f(g->ctx, "%s.w", name),
                                         bd_intern_f(g->ctx, "mlp.%s_proj.weight", name), in, out));
  bd_id y = bd_graph_contract(g, name, rule, x, w);
  if (!b->config->mlp_bias) return y;
  bd_id bias = bd_graph_layer_weight(g, layer,
                                     vector(bd_intern_f(g->ctx, "%s.b", name),
                                            bd_intern_f(g->ctx, "mlp.%s_proj.bias", name),
                                            BD_INIT_ZEROS, out));
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%s_biased", name), BD_OP_ADD, y, bias);
}

static bd_id build_perceptron(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  bd_id gain = bd_graph_layer_weight(
      g, layer, vector("norm_2.g", "post_attention_layernorm.weight", BD_INIT_ONES, c->width));
  bd_id n = normalize(b, "norm_2", x, gain);
  bd_id gate = apply_linear(b, layer, "gate", "btc,cf->btf", n, c->width, c->inner);
  bd_id up = apply_linear(b, layer, "up", "btc,cf->btf", n, c->width, c->inner);
  bd_id h = bd_graph_unary(g, "activated", c->activation, gate);
  h = bd_graph_binary(g, "gated", BD_OP_MUL, h, up);
  bd_id y = apply_linear(b, layer, "down", "btf,fc->btc", h, c->inner, c->width);
  return bd_graph_binary(g, "out", BD_OP_ADD, x, y);
}

static void build_block(builder *b, bd_layer *layer) {
  layer->function = bd_graph_function(&b->graph, "block");
  bd_id x = bd_graph_param(&b->graph, "x", activations(b), false);
  x = build_attention(b, layer, x);
  bd_graph_result(&b->graph, build_perceptron(b, layer, x));
}

// The output matrix is main's to choose: the embedding when tied.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", activations(b), false);
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id targets = bd_graph_param(g, "targets", ids, false);
  bd_id gain = bd_graph_layer_weight(g, layer,
                                     vector("norm.g", "model.norm.weight", BD_INIT_ONES, c->width));
  bd_id lm = bd_graph_param(g, "lm", f32(2, (int64_t[]){c->vocabulary, c->width}), true);
  bd_id n = normalize(b, "norm", x, gain);
  bd_id logits = bd_graph_contract(g, "logits", "btc,vc->btv", n, lm);
  bd_id lse = bd_graph_unary(g, "lse", BD_OP_LSE, logits);
  bd_graph_result(g,
                  bd_graph_op(g, "loss", BD_OP_XENT, 3, (bd_id[]){logits, targets, lse}, 0, NULL));
}

static bd_id output_matrix(builder *b, bd_id embedding) {
  if (b->config->tied) return embedding;
  bd_weight_pattern p = table(b, "lm_head", "lm_head.weight");
  return bd_graph_weight(&b->graph, (bd_weight){.name = p.name,
                                                .type = p.type,
                                                .storage = p.storage,
                                                .init = p.init,
                                                .init_scale = p.init_scale,
                                                .decay = true});
}

static bd_id build_main(builder *b, const bd_layer *embed, const bd_layer *block,
                        const bd_layer *head) {
  bd_graph_build *g = &b->graph;
  int layers = (int)b->config->layers;
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id tokens = bd_graph_input(g, "tokens", BD_INPUT_TOKENS, ids);
  bd_id targets = bd_graph_input(g, "targets", BD_INPUT_TARGETS, ids);

  int stride = 1 + block->weight_count; // the operands of one call: x, then weights
  bd_id *blocks = BD_NEW_ARRAY(g->ctx->arena, bd_id, (int64_t)layers * stride);
  bd_id first[2] = {tokens}, last[4] = {BD_NO_ID, targets};
  bd_graph_instantiate(g, embed, "", "", first + 1);
  for (int i = 0; i < layers; ++i)
    bd_graph_instantiate(g, block, bd_intern_f(g->ctx, "layers%d.", i),
                         bd_intern_f(g->ctx, "model.layers.%d.", i), blocks + i * stride + 1);
  bd_graph_instantiate(g, head, "", "", last + 2);
  last[3] = output_matrix(b, first[1]);

  bd_id x = bd_graph_call(g, embed->function, 2, first, "x0");
  for (int i = 0; i < layers; ++i) {
    blocks[i * stride] = x;
    x = bd_graph_call(g, block->function, stride, blocks + i * stride,
                      bd_intern_f(g->ctx, "x%d", i + 1));
  }
  last[0] = x;
  return bd_graph_call(g, head->function, 4, last, "loss");
}

static bd_status check(bd_ctx *ctx, const bd_llama_config *c, bd_loc loc) {
  if (c->heads % c->kv_heads != 0)
    return bd_fail(ctx, BD_INVALID, loc, "%lld query heads do not divide over %lld key heads",
                   (long long)c->heads, (long long)c->kv_heads);
  if (c->head_width % 2 != 0)
    return bd_fail(ctx, BD_INVALID, loc, "head width %lld is odd; rotary positions need pairs",
                   (long long)c->head_width);
  return BD_OK;
}

bd_status bd_llama_build(bd_ctx *ctx, const char *name, const bd_llama_config *config,
                         const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(check(ctx, config, loc));
  bd_llama_config chosen = *config;
  if (options->vocabulary > 0) chosen.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc), .config = &chosen};
  BD_TRY(bd_choose_sequence(ctx, options, chosen.positions, loc, &b.sequence));
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_id loss = build_main(&b, &embed, &block, &head);
  return bd_graph_finish(&b.graph, loss, out_graph);
}
