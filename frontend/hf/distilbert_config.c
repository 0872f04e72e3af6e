// DistilBERT, as BERT without types of tokens.
#include "frontend/hf/hf.h"

static const char *const keys[] = {"vocab_size",
                                   "max_position_embeddings",
                                   "sinusoidal_pos_embds",
                                   "n_layers",
                                   "n_heads",
                                   "dim",
                                   "hidden_dim",
                                   "dropout",
                                   "attention_dropout",
                                   "activation",
                                   "qa_dropout",
                                   "seq_classif_dropout",
                                   "tie_weights_",
                                   NULL};

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_bert_config *c) {
  bd_encoder_config *e = &c->encoder;
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "dim", &e->width));
  BD_TRY(bd_hf_extent(ctx, json, "hidden_dim", &e->inner));
  BD_TRY(bd_json_int(ctx, json, "n_layers", false, 1, BD_MAX_CONFIG_LAYERS, &e->layers));
  BD_TRY(bd_hf_extent(ctx, json, "n_heads", &e->heads));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"dim", e->width},
                              {"hidden_dim", e->inner},
                              {"n_layers", e->layers},
                              {"n_heads", e->heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return bd_hf_divides(ctx, json, "n_heads", e->heads, "dim", e->width);
}

// Sinusoids of positions are not trained. What attention gives has no dropout.
bd_status bd_hf_distilbert_config(bd_ctx *ctx, const bd_json *json, bd_bert_config *out_config) {
  static const bd_encoder_names block = {.query = "attention.q_lin",
                                         .key = "attention.k_lin",
                                         .value = "attention.v_lin",
                                         .joined = "attention.out_lin",
                                         .up = "ffn.lin1",
                                         .down = "ffn.lin2"};
  static const bd_bert_names names = {.embeddings = "distilbert.embeddings.",
                                      .blocks = "distilbert.transformer.layer.",
                                      .block = &block,
                                      .attention_norm = "sa_layer_norm",
                                      .perceptron_norm = "output_layer_norm",
                                      .transform = "vocab_transform",
                                      .norm = "vocab_layer_norm",
                                      .bias = "vocab_projector.bias",
                                      .decoder = "vocab_projector.weight"};
  bd_bert_config c = {.vocabulary = 30522,
                      .positions = 512,
                      .encoder = {.width = 768,
                                  .layers = 6,
                                  .heads = 12,
                                  .inner = 3072,
                                  .activation = BD_OP_GELU_ERF,
                                  .epsilon = 1e-12,
                                  .dropout_hidden = 0.1,
                                  .dropout_attention = 0.1,
                                  .init_scale = 0.02,
                                  .query_bias = true},
                      .tied = true,
                      .names = &names,
                      .stored_gain = "weight",
                      .stored_shift = "bias"};
  BD_TRY(bd_hf_only_known(ctx, json, keys));
  BD_TRY(bd_hf_refuse_true(ctx, json, "is_encoder_decoder"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "sinusoidal_pos_embds"));
  BD_TRY(bd_hf_only_value(ctx, json, "tie_weights_", "true"));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(bd_hf_padding(ctx, json, c.vocabulary, &c.padding));
  BD_TRY(bd_hf_activation(ctx, json, "activation", &c.encoder.activation));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.encoder.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "dropout", &c.encoder.dropout_hidden));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c.encoder.dropout_attention));
  BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &c.tied));
  c.head_activation = c.encoder.activation;
  *out_config = c;
  return BD_OK;
}
