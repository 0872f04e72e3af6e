// OPT: learned positions behind two rows that nothing reads, layer norm before or after each half
// of a block, biases. Embeddings may be narrower or wider than what flows between blocks; matrices
// then lead from them to it and back. Stored matrices are [out, in]; the query matrix [C, C] is
// read here as [C, heads, head width].
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"
#include <math.h>

enum { SITE_ATTENTION, SITE_PROJECTION, SITE_PERCEPTRON };
enum { ROWS_BEFORE = 2 }; // of the table of positions

typedef struct builder {
  bd_graph_build graph;
  const bd_opt_config *config;
  bd_transformer_norm norm;
  int64_t sequence, head_width;
} builder;

static bd_weight_pattern table(const bd_opt_config *c, const char *name, const char *stored) {
  return bd_transformer_matrix(name, stored, c->vocabulary, c->row_width, c->init_scale);
}

// x, `in` wide, made `out` wide where that is another width.
static bd_id change_width(builder *b, bd_layer *layer, const char *name, bd_id x, int64_t in,
                          int64_t out) {
  if (in == out) return x;
  bd_transformer_dense dense = bd_transformer_plain(name, name, in, out, b->config->init_scale);
  dense.biased = false;
  return bd_transformer_apply(&b->graph, layer, &dense, x);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_opt_config *c = b->config;
  layer->function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  bd_id embedding = bd_graph_layer_weight(g, layer, table(c, "embedding", "embed_tokens.weight"));
  bd_id places = bd_graph_layer_weight(g, layer,
                                       bd_transformer_matrix("places", "embed_positions.weight",
                                                             c->positions + ROWS_BEFORE, c->width,
                                                             c->init_scale));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, embedding, tokens);
  rows = change_width(b, layer, "project_in", rows, c->row_width, c->width);
  places = bd_transformer_slice(g, "positions", places, 0, ROWS_BEFORE, b->sequence);
  bd_graph_result(g, bd_graph_binary(g, "sum", BD_OP_ADD, rows, places));
}

// Queries, keys or values.
static bd_id project(builder *b, bd_layer *layer, bd_id x, char letter) {
  bd_graph_build *g = &b->graph;
  const bd_opt_config *c = b->config;
  bd_transformer_dense dense = bd_transformer_plain(
      bd_intern_f(g->ctx, "%c", letter), bd_intern_f(g->ctx, "self_attn.%c_proj", letter), c->width,
      c->width, c->init_scale);
  dense.rule = "btc,chd->bthd";
  dense.matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->width, c->heads, b->head_width});
  dense.bias = bd_type_make(BD_F32, 2, (int64_t[]){c->heads, b->head_width});
  dense.biased = c->biased;
  return bd_transformer_apply(g, layer, &dense, x);
}

// What attention adds to the stream, given what it reads.
static bd_id attend(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_opt_config *c = b->config;
  bd_id q = project(b, layer, x, 'q'), k = project(b, layer, x, 'k'), v = project(b, layer, x, 'v');
  bd_transformer_attending how = {.name = "attended",
                                  .scale = 1 / sqrt((double)b->head_width),
                                  .dropout = c->dropout_attention,
                                  .causal = true,
                                  .site = SITE_ATTENTION,
                                  .hidden = BD_NO_ID,
                                  .biases = BD_NO_ID};
  bd_transformer_dense out =
      bd_transformer_plain("o", "self_attn.out_proj", c->width, c->width, c->init_scale);
  out.rule = "bthd,hdc->btc";
  out.matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->heads, b->head_width, c->width});
  out.biased = c->biased;
  bd_id y = bd_transformer_apply(g, layer, &out, bd_transformer_attention(g, q, k, v, &how));
  return bd_graph_dropout(g, "o_dropped", y, c->dropout_residual, SITE_PROJECTION);
}

// What the perceptron adds, the same way.
static bd_id perceive(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_opt_config *c = b->config;
  bd_transformer_dense up = bd_transformer_plain("up", "fc1", c->width, c->inner, c->init_scale);
  bd_transformer_dense down =
      bd_transformer_plain("down", "fc2", c->inner, c->width, c->init_scale);
  up.biased = down.biased = c->biased;
  bd_id h = bd_graph_unary(g, "activated", c->activation, bd_transformer_apply(g, layer, &up, x));
  bd_id y = bd_transformer_apply(g, layer, &down, h);
  return bd_graph_dropout(g, "down_dropped", y, c->dropout_residual, SITE_PERCEPTRON);
}

// x and what half a block adds to it, normalized before it reads x or after that.
static bd_id add_half(builder *b, bd_layer *layer, bd_id x, const char *name, const char *norm,
                      const char *stored_norm,
                      bd_id (*half)(builder *b, bd_layer *layer, bd_id x)) {
  bd_graph_build *g = &b->graph;
  bool first = b->config->norm_first;
  bd_id n = first ? bd_transformer_normalize(g, layer, &b->norm, norm, stored_norm, x) : x;
  x = bd_graph_binary(g, name, BD_OP_ADD, x, half(b, layer, n));
  return first ? x : bd_transformer_normalize(g, layer, &b->norm, norm, stored_norm, x);
}

static void build_block(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "block");
  bd_id x =
      bd_graph_param(g, "x", bd_transformer_activations(b->sequence, b->config->width), false);
  x = add_half(b, layer, x, "middle", "norm_1", "self_attn_layer_norm", attend);
  bd_graph_result(g, add_half(b, layer, x, "out", "norm_2", "final_layer_norm", perceive));
}

// The output matrix is main's to choose: the embedding when tied.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_opt_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", bd_transformer_activations(b->sequence, c->width), false);
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->sequence), false);
  if (c->end_norm) x = bd_transformer_normalize(g, layer, &b->norm, "norm", "final_layer_norm", x);
  x = change_width(b, layer, "project_out", x, c->width, c->row_width);
  bd_id lm = bd_transformer_output_matrix(g, "lm", c->vocabulary, c->row_width);
  bd_transformer_loss(g, bd_transformer_logits(g, x, lm), targets);
}

bd_status bd_opt_build(bd_ctx *ctx, const char *name, const bd_opt_config *config,
                       const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  bd_opt_config chosen = *config;
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
  chain.output = table(&chosen, "lm_head", "lm_head.weight");
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
