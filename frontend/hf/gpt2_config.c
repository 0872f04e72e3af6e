#include "frontend/hf/hf.h"

static const char *const keys[] = {"vocab_size",
                                   "n_positions",
                                   "n_ctx",
                                   "n_embd",
                                   "n_layer",
                                   "n_head",
                                   "n_inner",
                                   "activation_function",
                                   "layer_norm_epsilon",
                                   "embd_pdrop",
                                   "attn_pdrop",
                                   "resid_pdrop",
                                   "scale_attn_weights",
                                   "scale_attn_by_inverse_layer_idx",
                                   "reorder_and_upcast_attn",
                                   "summary_type",
                                   "summary_use_proj",
                                   "summary_activation",
                                   "summary_proj_to_labels",
                                   "summary_first_dropout",
                                   NULL};

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_gpt2_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "n_positions", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "n_embd", &c->width));
  BD_TRY(bd_json_int(ctx, json, "n_layer", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "n_head", &c->heads));
  c->inner = 4 * c->width;
  BD_TRY(bd_hf_extent(ctx, json, "n_inner", &c->inner));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary}, {"n_positions", c->positions},
                              {"n_embd", c->width},          {"n_layer", c->layers},
                              {"n_head", c->heads},          {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (c->width % c->heads == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "n_head"),
                 "\"n_head\": %lld heads do not divide \"n_embd\" %lld", (long long)c->heads,
                 (long long)c->width);
}

// Options that change what the model computes.
static bd_status read_variants(bd_ctx *ctx, const bd_json *json, bd_gpt2_config *c) {
  BD_TRY(bd_hf_refuse_true(ctx, json, "scale_attn_by_inverse_layer_idx"));
  bool scaled = true;
  BD_TRY(bd_json_bool(ctx, json, "scale_attn_weights", false, &scaled));
  c->attention_scale = scaled ? 0 : 1;
  BD_TRY(bd_hf_activation(ctx, json, "activation_function", &c->activation));
  return bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied);
}

bd_status bd_hf_gpt2_config(bd_ctx *ctx, const bd_json *json, bd_gpt2_config *out_config) {
  bd_gpt2_config c = {.vocabulary = 50257,
                      .positions = 1024,
                      .width = 768,
                      .layers = 12,
                      .heads = 12,
                      .activation = BD_OP_GELU,
                      .epsilon = 1e-5,
                      .dropout_embedding = 0.1,
                      .dropout_attention = 0.1,
                      .dropout_residual = 0.1,
                      .init_scale = 0.02,
                      .tied = true,
                      .stored_prefix = ""};
  BD_TRY(bd_hf_only_known(ctx, json, keys));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(read_variants(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, "layer_norm_epsilon", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "embd_pdrop", &c.dropout_embedding));
  BD_TRY(bd_hf_probability(ctx, json, "attn_pdrop", &c.dropout_attention));
  BD_TRY(bd_hf_probability(ctx, json, "resid_pdrop", &c.dropout_residual));
  *out_config = c;
  return BD_OK;
}
