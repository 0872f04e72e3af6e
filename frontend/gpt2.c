// GPT-2: learned positions, layer norm before each half of a block, biases everywhere. Stored
// matrices are [in, out]; the query, key and value matrices are one stored tensor [C, 3C], read
// here as three weights [C, heads, head width].
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"
#include <math.h>

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_PROJECTION, SITE_PERCEPTRON };

typedef struct builder {
  bd_graph_build graph;
  const bd_gpt2_config *config;
  int64_t sequence, head_width;
  double residual_scale; // of the matrices that write into the residual stream
} builder;

// Part `part` (query, key, value) of the fused matrix.
static bd_weight_pattern fused_matrix(const builder *b, const char *name, int part) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern =
      bd_transformer_matrix(name, "attn.c_attn.weight", width, 3 * width, b->config->init_scale);
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){width, b->config->heads, b->head_width});
  pattern.storage.slice_dim = 1;
  pattern.storage.slice_start = part * width;
  pattern.storage.slice_size = width;
  return pattern;
}

static bd_weight_pattern fused_bias(const builder *b, const char *name, int part) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern = bd_graph_vector(name, "attn.c_attn.bias", BD_INIT_ZEROS, 3 * width);
  pattern.type = bd_type_make(BD_F32, 2, (int64_t[]){b->config->heads, b->head_width});
  pattern.storage.slice_dim = 0;
  pattern.storage.slice_start = part * width;
  pattern.storage.slice_size = width;
  return pattern;
}

static bd_weight_pattern projection(const builder *b) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern =
      bd_transformer_matrix("c_proj.w", "attn.c_proj.weight", width, width, b->residual_scale);
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){b->config->heads, b->head_width, width});
  return pattern;
}

static bd_id normalize(builder *b, const char *name, bd_id x, bd_id gain, bd_id bias) {
  bd_attr eps = bd_attr_real(b->graph.ctx, "eps", b->config->epsilon);
  return bd_graph_op(&b->graph, name, BD_OP_LAYERNORM, 3, (bd_id[]){x, gain, bias}, 1, &eps);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  layer->function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  bd_id wte = bd_graph_layer_weight(
      g, layer, bd_transformer_matrix("wte", "wte.weight", c->vocabulary, c->width, c->init_scale));
  bd_id wpe = bd_graph_layer_weight(
      g, layer, bd_transformer_matrix("wpe", "wpe.weight", c->positions, c->width, c->init_scale));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, wte, tokens);
  wpe = bd_transformer_slice(g, "positions", wpe, 0, 0, b->sequence);
  bd_id sum = bd_graph_binary(g, "sum", BD_OP_ADD, rows, wpe);
  bd_graph_result(g, bd_graph_dropout(g, "dropped", sum, c->dropout_embedding, SITE_EMBEDDING));
}

// One of query, key, value: x times the matrix, plus the bias.
static bd_id project(builder *b, const char *name, const char *biased, bd_id x, bd_id w,
                     bd_id bias) {
  bd_id product = bd_graph_contract(&b->graph, name, "btc,chd->bthd", x, w);
  return bd_graph_binary(&b->graph, biased, BD_OP_ADD, product, bias);
}

static bd_id build_attention(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  bd_id gain = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_1.g", "ln_1.weight", BD_INIT_ONES, c->width));
  bd_id bias = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_1.b", "ln_1.bias", BD_INIT_ZEROS, c->width));
  bd_id wq = bd_graph_layer_weight(g, layer, fused_matrix(b, "wq", 0));
  bd_id wk = bd_graph_layer_weight(g, layer, fused_matrix(b, "wk", 1));
  bd_id wv = bd_graph_layer_weight(g, layer, fused_matrix(b, "wv", 2));
  bd_id bq = bd_graph_layer_weight(g, layer, fused_bias(b, "bq", 0));
  bd_id bk = bd_graph_layer_weight(g, layer, fused_bias(b, "bk", 1));
  bd_id bv = bd_graph_layer_weight(g, layer, fused_bias(b, "bv", 2));
  bd_id wo = bd_graph_layer_weight(g, layer, projection(b));
  bd_id bo = bd_graph_layer_weight(
      g, layer, bd_graph_vector("c_proj.b", "attn.c_proj.bias", BD_INIT_ZEROS, c->width));
  bd_id n = normalize(b, "ln_1", x, gain, bias);
  bd_id q = project(b, "q_product", "q", n, wq, bq);
  bd_id k = project(b, "k_product", "k", n, wk, bk);
  bd_id v = project(b, "v_product", "v", n, wv, bv);
  double scale = c->attention_scale != 0 ? c->attention_scale : 1 / sqrt((double)b->head_width);
  bd_transformer_attending how = {.name = "attended",
                                  .scale = scale,
                                  .dropout = c->dropout_attention,
                                  .causal = true,
                                  .site = SITE_ATTENTION,
                                  .hidden = BD_NO_ID,
                                  .biases = BD_NO_ID};
  bd_id attended = bd_transformer_attention(g, q, k, v, &how);
  bd_id product = bd_graph_contract(g, "c_proj_product", "bthd,hdc->btc", attended, wo);
  bd_id y = bd_graph_binary(g, "c_proj", BD_OP_ADD, product, bo);
  y = bd_graph_dropout(g, "c_proj_dropped", y, c->dropout_residual, SITE_PROJECTION);
  return bd_graph_binary(g, "middle", BD_OP_ADD, x, y);
}

static bd_id build_perceptron(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  bd_id gain = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_2.g", "ln_2.weight", BD_INIT_ONES, c->width));
  bd_id bias = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_2.b", "ln_2.bias", BD_INIT_ZEROS, c->width));
  bd_id w1 = bd_graph_layer_weight(
      g, layer,
      bd_transformer_matrix("c_fc.w", "mlp.c_fc.weight", c->width, c->inner, c->init_scale));
  bd_id b1 = bd_graph_layer_weight(
      g, layer, bd_graph_vector("c_fc.b", "mlp.c_fc.bias", BD_INIT_ZEROS, c->inner));
  bd_id w2 = bd_graph_layer_weight(
      g, layer,
      bd_transformer_matrix("mlp.w", "mlp.c_proj.weight", c->inner, c->width, b->residual_scale));
  bd_id b2 = bd_graph_layer_weight(
      g, layer, bd_graph_vector("mlp.b", "mlp.c_proj.bias", BD_INIT_ZEROS, c->width));
  bd_id n = normalize(b, "ln_2", x, gain, bias);
  bd_id h = bd_graph_contract(g, "c_fc_product", "btc,cf->btf", n, w1);
  h = bd_graph_binary(g, "c_fc", BD_OP_ADD, h, b1);
  h = bd_graph_unary(g, "activated", c->activation, h);
  bd_id y = bd_graph_contract(g, "mlp_product", "btf,fc->btc", h, w2);
  y = bd_graph_binary(g, "mlp", BD_OP_ADD, y, b2);
  y = bd_graph_dropout(g, "mlp_dropped", y, c->dropout_residual, SITE_PERCEPTRON);
  return bd_graph_binary(g, "out", BD_OP_ADD, x, y);
}

static void build_block(builder *b, bd_layer *layer) {
  layer->function = bd_graph_function(&b->graph, "block");
  bd_id x = bd_graph_param(&b->graph, "x",
                           bd_transformer_activations(b->sequence, b->config->width), false);
  x = build_attention(b, layer, x);
  bd_graph_result(&b->graph, build_perceptron(b, layer, x));
}

// A tied output matrix is not the head's own: main passes the embedding.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x =
      bd_graph_param(g, "x", bd_transformer_activations(b->sequence, b->config->width), false);
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->sequence), false);
  bd_id gain = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_f.g", "ln_f.weight", BD_INIT_ONES, c->width));
  bd_id bias = bd_graph_layer_weight(
      g, layer, bd_graph_vector("ln_f.b", "ln_f.bias", BD_INIT_ZEROS, c->width));
  bd_id lm = bd_transformer_output_matrix(g, "lm", c->vocabulary, c->width);
  bd_id n = normalize(b, "ln_f", x, gain, bias);
  bd_transformer_loss(g, bd_transformer_logits(g, n, lm), targets);
}

static bd_status check(bd_ctx *ctx, const bd_gpt2_config *c, bd_loc loc) {
  if (c->width % c->heads != 0)
    return bd_fail(ctx, BD_INVALID, loc, "width %lld is not a multiple of %lld heads",
                   (long long)c->width, (long long)c->heads);
  return BD_OK;
}

bd_status bd_gpt2_build(bd_ctx *ctx, const char *name, const bd_gpt2_config *config,
                        const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(check(ctx, config, loc));
  bd_gpt2_config chosen = *config;
  if (options->vocabulary > 0) chosen.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc),
               .config = &chosen,
               .head_width = chosen.width / chosen.heads,
               .residual_scale = chosen.init_scale / sqrt(2 * (double)chosen.layers)};
  BD_TRY(bd_choose_sequence(ctx, options, chosen.positions, loc, &b.sequence));
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_transformer_chain chain =
      bd_transformer_decoder(ctx, options, b.sequence, "h", chosen.stored_prefix);
  chain.embed = &embed;
  chain.block = &block;
  chain.head = &head;
  chain.layers = chosen.layers;
  chain.tied = chosen.tied;
  chain.output = bd_transformer_matrix("lm_head", "lm_head.weight", chosen.vocabulary, chosen.width,
                                       chosen.init_scale);
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
