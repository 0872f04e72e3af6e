#include "frontend/hf/rope_config.h"

static const char *const keys[] = {"vocab_size",
                                   "max_position_embeddings",
                                   "hidden_size",
                                   "intermediate_size",
                                   "num_hidden_layers",
                                   "num_attention_heads",
                                   "hidden_act",
                                   "layer_norm_eps",
                                   "rotary_pct",
                                   "rotary_emb_base",
                                   "partial_rotary_factor",
                                   "rope_theta",
                                   "rope_scaling",
                                   "rope_parameters",
                                   "attention_dropout",
                                   "hidden_dropout",
                                   "attention_probs_dropout_prob",
                                   "hidden_dropout_prob",
                                   "attention_bias",
                                   "use_parallel_residual",
                                   NULL};

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_neox_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "hidden_size", &c->width));
  BD_TRY(bd_hf_extent(ctx, json, "intermediate_size", &c->inner));
  BD_TRY(bd_json_int(ctx, json, "num_hidden_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "num_attention_heads", &c->heads));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"hidden_size", c->width},
                              {"intermediate_size", c->inner},
                              {"num_hidden_layers", c->layers},
                              {"num_attention_heads", c->heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return bd_hf_divides(ctx, json, "num_attention_heads", c->heads, "hidden_size", c->width);
}

static bd_status read_rotary(bd_ctx *ctx, const bd_json *json, bd_neox_config *c) {
  const bd_hf_rotary_family own = {.theta = "rotary_emb_base",
                                   .share = "rotary_pct",
                                   .usual_share = 0.25,
                                   .positions = c->positions};
  c->rotary.theta = 10000;
  return bd_hf_rotary_read(ctx, json, &own, c->width / c->heads, &c->rotary);
}

// transformers passes over what older folders call dropout.
static bd_status read_dropout(bd_ctx *ctx, const bd_json *json, bd_neox_config *c) {
  double unused = 0;
  BD_TRY(bd_hf_agree_keys(ctx, json, "attention_dropout", "attention_probs_dropout_prob"));
  BD_TRY(bd_hf_agree_keys(ctx, json, "hidden_dropout", "hidden_dropout_prob"));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c->dropout_attention));
  BD_TRY(bd_hf_probability(ctx, json, "hidden_dropout", &c->dropout_hidden));
  BD_TRY(bd_hf_probability(ctx, json, "attention_probs_dropout_prob", &unused));
  return bd_hf_probability(ctx, json, "hidden_dropout_prob", &unused);
}

bd_status bd_hf_neox_config(bd_ctx *ctx, const bd_json *json, bd_neox_config *out_config) {
  bd_neox_config c = {.vocabulary = 50432,
                      .positions = 2048,
                      .width = 6144,
                      .layers = 44,
                      .heads = 64,
                      .inner = 24576,
                      .activation = BD_OP_GELU_ERF,
                      .epsilon = 1e-5,
                      .init_scale = 0.02,
                      .attention_bias = true,
                      .parallel = true};
  BD_TRY(bd_hf_only_known(ctx, json, keys));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(read_rotary(ctx, json, &c));
  BD_TRY(read_dropout(ctx, json, &c));
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c.activation));
  BD_TRY(bd_json_real(ctx, json, "layer_norm_eps", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c.attention_bias));
  BD_TRY(bd_json_bool(ctx, json, "use_parallel_residual", false, &c.parallel));
  BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &c.tied));
  *out_config = c;
  return BD_OK;
}
