// GPT-NeoX: rotary positions of a part of each head, layer norm first, biases, and both halves of a
// block beside each other or one after the other. Stored matrices are [out, in]; a head's query,
// key and value are rows of one stored matrix [heads * 3 * head width, C], read here as three
// weights [C, heads, head width].
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"
#include <math.h>

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_PROJECTION, SITE_PERCEPTRON };

typedef struct builder {
  bd_graph_build graph;
  const bd_neox_config *config;
  bd_transformer_norm norm;
  int64_t sequence, head_width;
} builder;

static bd_weight_pattern table(const bd_neox_config *c, const char *name, const char *stored) {
  return bd_transformer_matrix(name, stored, c->vocabulary, c->width, c->init_scale);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_neox_config *c = b->config;
  layer->function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  bd_id embedding = bd_graph_layer_weight(g, layer, table(c, "embedding", "embed_in.weight"));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, embedding, tokens);
  bd_graph_result(g, bd_graph_dropout(g, "dropped", rows, c->dropout_hidden, SITE_EMBEDDING));
}

// Of the rows that every head has in the stored tensor, the query's, key's or value's.
static void take_part(const builder *b, bd_weight_pattern *pattern, int part) {
  bd_storage *storage = &pattern->storage;
  storage->dims[0] = 3 * b->config->width;
  storage->slice_dim = 0;
  storage->slice_start = part * b->head_width;
  storage->slice_size = b->head_width;
  storage->slice_every = 3 * b->head_width;
}

// Query, key or value, part 0 to 2.
static bd_id project(builder *b, bd_layer *layer, bd_id x, int part) {
  bd_graph_build *g = &b->graph;
  const bd_neox_config *c = b->config;
  char letter = "qkv"[part];
  bd_weight_pattern pattern =
      bd_transformer_linear(bd_intern_f(g->ctx, "w%c", letter), "attention.query_key_value.weight",
                            c->width, c->width, c->init_scale);
  take_part(b, &pattern, part);
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){c->width, c->heads, b->head_width});
  bd_id w = bd_graph_layer_weight(g, layer, pattern);
  bd_id y = bd_graph_contract(g, bd_intern_f(g->ctx, "%c", letter), "btc,chd->bthd", x, w);
  if (!c->attention_bias) return y;
  pattern = bd_graph_vector(bd_intern_f(g->ctx, "b%c", letter), "attention.query_key_value.bias",
                            BD_INIT_ZEROS, c->width);
  take_part(b, &pattern, part);
  pattern.type = bd_type_make(BD_F32, 2, (int64_t[]){c->heads, b->head_width});
  bd_id bias = bd_graph_layer_weight(g, layer, pattern);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%c_biased", letter), BD_OP_ADD, y, bias);
}

static bd_id build_attention(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_neox_config *c = b->config;
  bd_id n = bd_transformer_normalize(g, layer, &b->norm, "norm_1", "input_layernorm", x);
  bd_id q = bd_transformer_rotate(g, "q_rotated", project(b, layer, n, 0), &c->rotary);
  bd_id k = bd_transformer_rotate(g, "k_rotated", project(b, layer, n, 1), &c->rotary);
  bd_id v = project(b, layer, n, 2);
  bd_transformer_attending how = {.name = "attended",
                                  .scale = 1 / sqrt((double)b->head_width),
                                  .dropout = c->dropout_attention,
                                  .causal = true,
                                  .site = SITE_ATTENTION,
                                  .hidden = BD_NO_ID,
                                  .biases = BD_NO_ID};
  bd_id attended = bd_transformer_attention(g, q, k, v, &how);
  bd_transformer_dense out =
      bd_transformer_plain("o", "attention.dense", c->width, c->width, c->init_scale);
  out.rule = "bthd,hdc->btc";
  out.matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->heads, b->head_width, c->width});
  out.biased = c->attention_bias;
  bd_id y = bd_transformer_apply(g, layer, &out, attended);
  return bd_graph_dropout(g, "o_dropped", y, c->dropout_hidden, SITE_PROJECTION);
}

static bd_id build_perceptron(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_neox_config *c = b->config;
  bd_id n = bd_transformer_normalize(g, layer, &b->norm, "norm_2", "post_attention_layernorm", x);
  bd_transformer_dense up =
      bd_transformer_plain("up", "mlp.dense_h_to_4h", c->width, c->inner, c->init_scale);
  bd_transformer_dense down =
      bd_transformer_plain("down", "mlp.dense_4h_to_h", c->inner, c->width, c->init_scale);
  bd_id h = bd_graph_unary(g, "activated", c->activation, bd_transformer_apply(g, layer, &up, n));
  bd_id y = bd_transformer_apply(g, layer, &down, h);
  return bd_graph_dropout(g, "down_dropped", y, c->dropout_hidden, SITE_PERCEPTRON);
}

static void build_block(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "block");
  bd_id x =
      bd_graph_param(g, "x", bd_transformer_activations(b->sequence, b->config->width), false);
  bd_id middle = bd_graph_binary(g, "middle", BD_OP_ADD, x, build_attention(b, layer, x));
  bd_id y = build_perceptron(b, layer, b->config->parallel ? x : middle);
  bd_graph_result(g, bd_graph_binary(g, "out", BD_OP_ADD, middle, y));
}

// The output matrix is main's to choose: the embedding when tied.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_neox_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", bd_transformer_activations(b->sequence, c->width), false);
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->sequence), false);
  bd_id n = bd_transformer_normalize(g, layer, &b->norm, "norm", "final_layer_norm", x);
  bd_id lm = bd_transformer_output_matrix(g, "lm", c->vocabulary, c->width);
  bd_transformer_loss(g, bd_transformer_logits(g, n, lm), targets);
}

bd_status bd_neox_build(bd_ctx *ctx, const char *name, const bd_neox_config *config,
                        const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  if (config->width % config->heads != 0)
    return bd_fail(ctx, BD_INVALID, loc, "width %lld is not a multiple of %lld heads",
                   (long long)config->width, (long long)config->heads);
  bd_neox_config chosen = *config;
  if (options->vocabulary > 0) chosen.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc),
               .config = &chosen,
               .norm = {chosen.width, chosen.epsilon, "weight", "bias"},
               .head_width = chosen.width / chosen.heads};
  BD_TRY(bd_choose_sequence(ctx, options, chosen.positions, loc, &b.sequence));
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_transformer_chain chain =
      bd_transformer_decoder(ctx, options, b.sequence, "layers", chosen.stored_prefix);
  chain.embed = &embed;
  chain.block = &block;
  chain.head = &head;
  chain.layers = chosen.layers;
  chain.tied = chosen.tied;
  chain.output = table(&chosen, "embed_out", "embed_out.weight");
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
