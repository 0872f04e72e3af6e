// BERT and its kin with their masked-language head: embeddings of tokens, positions and token
// types, layer norm after each half of a block, and a head that transforms before it compares with
// the embedding.
#include "frontend/encoder.h"
#include "frontend/transformer.h"

typedef struct builder {
  bd_graph_build graph;
  const bd_bert_config *config;
  bd_encoder encoder;
  bd_transformer_norm norm;
} builder;

static bd_id table(builder *b, bd_layer *layer, const char *name, const char *stored,
                   int64_t rows) {
  const bd_bert_config *c = b->config;
  return bd_graph_layer_weight(
      &b->graph, layer,
      bd_transformer_matrix(name,
                            bd_intern_f(b->graph.ctx, "%s%s.weight", c->names->embeddings, stored),
                            rows, c->encoder.width, c->encoder.init_scale));
}

// What the types of tokens add to their rows.
static bd_id embed_types(builder *b, bd_id kinds, bd_id types) {
  bd_graph_build *g = &b->graph;
  if (b->config->typed) return bd_graph_binary(g, "type_rows", BD_OP_EMBED, kinds, types);
  return bd_graph_sum(g, "type_row", kinds, "tc->c"); // of one
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_bert_config *c = b->config;
  bd_type ids = bd_transformer_ids(b->encoder.sequence);
  layer->function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", ids, false);
  bd_id types = c->typed ? bd_graph_param(g, "token_types", ids, false) : BD_NO_ID;
  bd_id words = table(b, layer, "words", "word_embeddings", c->vocabulary);
  bd_id positions = table(b, layer, "positions", "position_embeddings", c->positions);
  bd_id kinds = BD_NO_ID;
  if (c->types > 0) kinds = table(b, layer, "kinds", "token_type_embeddings", c->types);
  positions = bd_transformer_slice(g, "places", positions, 0, c->unread, b->encoder.sequence);
  bd_id x = bd_graph_binary(g, "rows", BD_OP_EMBED, words, tokens);
  if (c->types > 0) x = bd_graph_binary(g, "typed", BD_OP_ADD, x, embed_types(b, kinds, types));
  x = bd_graph_binary(g, "sum", BD_OP_ADD, x, positions);
  x = bd_transformer_normalize(g, layer, &b->norm, "embedding_norm",
                               bd_intern_f(g->ctx, "%sLayerNorm", c->names->embeddings), x);
  bd_graph_result(g,
                  bd_graph_dropout(g, "dropped", x, c->encoder.dropout_hidden, BD_SITE_EMBEDDING));
}

static void build_block(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "block");
  bd_id x = bd_graph_param(
      g, "x", bd_transformer_activations(b->encoder.sequence, b->config->encoder.width), false);
  if (b->config->padding >= 0) {
    bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->encoder.sequence), false);
    b->encoder.hidden = bd_transformer_hide(g, tokens, b->encoder.sequence, b->config->padding);
  }
  bd_id y = bd_encoder_attend(g, layer, &b->encoder, x);
  y = bd_graph_binary(g, "attended_sum", BD_OP_ADD, x, y);
  x = bd_transformer_normalize(g, layer, &b->norm, "norm_1", b->config->names->attention_norm, y);
  y = bd_encoder_perceive(g, layer, &b->encoder, x);
  y = bd_graph_binary(g, "sum", BD_OP_ADD, x, y);
  bd_graph_result(g, bd_transformer_normalize(g, layer, &b->norm, "norm_2",
                                              b->config->names->perceptron_norm, y));
}

static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_bert_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(
      g, "x", bd_transformer_activations(b->encoder.sequence, c->encoder.width), false);
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->encoder.sequence), false);
  bd_transformer_dense dense = bd_transformer_plain(
      "transform", c->names->transform, c->encoder.width, c->encoder.width, c->encoder.init_scale);
  x = bd_graph_unary(g, "activated", c->head_activation, bd_transformer_apply(g, layer, &dense, x));
  x = bd_transformer_normalize(g, layer, &b->norm, "transform_norm", c->names->norm, x);
  bd_id bias = bd_graph_layer_weight(
      g, layer, bd_graph_vector("bias", c->names->bias, BD_INIT_ZEROS, c->vocabulary));
  bd_id decoder = bd_transformer_output_matrix(g, "decoder", c->vocabulary, c->encoder.width);
  bd_id logits = bd_transformer_logits(g, x, decoder);
  bd_transformer_loss(g, bd_graph_binary(g, "logits_biased", BD_OP_ADD, logits, bias), targets);
}

bd_status bd_bert_build(bd_ctx *ctx, const char *name, const bd_bert_config *config,
                        const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  bd_bert_config c = *config;
  if (options->vocabulary > 0) c.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc),
               .config = &c,
               .encoder = {.config = &c.encoder, .names = c.names->block, .hidden = BD_NO_ID},
               .norm = {c.encoder.width, c.encoder.epsilon, c.stored_gain, c.stored_shift}};
  BD_TRY(bd_choose_sequence(ctx, options, c.positions - c.unread, loc, &b.encoder.sequence));
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_type ids = bd_transformer_ids(b.encoder.sequence);
  bd_transformer_chain chain = {
      .embed = &embed,
      .blocks_read = c.padding >= 0,
      .block = &block,
      .head = &head,
      .input_count = c.typed ? 2 : 1,
      .inputs = {{"tokens", BD_INPUT_IDS, ids}, {"token_types", BD_INPUT_IDS, ids}},
      .targets = ids,
      .layers = c.encoder.layers,
      .block_name = "layer",
      .stored_prefix = "",
      .stored_block = c.names->blocks,
      .tied = c.tied,
      .output = bd_transformer_matrix("decoder", c.names->decoder, c.vocabulary, c.encoder.width,
                                      c.encoder.init_scale)};
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
