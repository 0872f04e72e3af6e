#include "frontend/hf/hf.h"

static const char *const keys[] = {"vocab_size",
                                   "max_position_embeddings",
                                   "hidden_size",
                                   "ffn_dim",
                                   "num_hidden_layers",
                                   "num_attention_heads",
                                   "word_embed_proj_dim",
                                   "activation_function",
                                   "do_layer_norm_before",
                                   "dropout",
                                   "attention_dropout",
                                   "activation_dropout",
                                   "layerdrop",
                                   "init_std",
                                   "enable_bias",
                                   "layer_norm_elementwise_affine",
                                   NULL};

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_opt_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "hidden_size", &c->width));
  BD_TRY(bd_hf_extent(ctx, json, "ffn_dim", &c->inner));
  BD_TRY(bd_json_int(ctx, json, "num_hidden_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "num_attention_heads", &c->heads));
  c->row_width = c->width;
  BD_TRY(bd_hf_extent(ctx, json, "word_embed_proj_dim", &c->row_width));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"hidden_size", c->width},
                              {"ffn_dim", c->inner},
                              {"num_hidden_layers", c->layers},
                              {"num_attention_heads", c->heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return bd_hf_divides(ctx, json, "num_attention_heads", c->heads, "hidden_size", c->width);
}

// Norms last leave none for the end. `_remove_final_layer_norm` is how folders say that were tuned
// before transformers had it.
static bd_status read_norms(bd_ctx *ctx, const bd_json *json, bd_opt_config *c) {
  bool removed = false, stored = true;
  BD_TRY(bd_json_bool(ctx, json, "layer_norm_elementwise_affine", false, &stored));
  if (!stored)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "layer_norm_elementwise_affine"),
                   "\"layer_norm_elementwise_affine\": false is not supported (true)");
  BD_TRY(bd_json_bool(ctx, json, "do_layer_norm_before", false, &c->norm_first));
  BD_TRY(bd_json_bool(ctx, json, "_remove_final_layer_norm", false, &removed));
  c->end_norm = c->norm_first && !removed;
  return BD_OK;
}

// transformers passes over activation_dropout, which older folders have.
static bd_status read_dropout(bd_ctx *ctx, const bd_json *json, bd_opt_config *c) {
  double unused = 0, layers = 0;
  BD_TRY(bd_hf_probability(ctx, json, "dropout", &c->dropout_residual));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c->dropout_attention));
  BD_TRY(bd_hf_probability(ctx, json, "activation_dropout", &unused));
  BD_TRY(bd_hf_probability(ctx, json, "layerdrop", &layers));
  if (layers == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "layerdrop"),
                 "\"layerdrop\" above 0 is not supported; set it to 0 to train without");
}

bd_status bd_hf_opt_config(bd_ctx *ctx, const bd_json *json, bd_opt_config *out_config) {
  bd_opt_config c = {.vocabulary = 50272,
                     .positions = 2048,
                     .width = 768,
                     .layers = 12,
                     .heads = 12,
                     .inner = 3072,
                     .activation = BD_OP_RELU,
                     .epsilon = 1e-5,
                     .dropout_residual = 0.1,
                     .init_scale = 0.02,
                     .biased = true,
                     .norm_first = true,
                     .tied = true};
  BD_TRY(bd_hf_only_known(ctx, json, keys));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(read_norms(ctx, json, &c));
  BD_TRY(read_dropout(ctx, json, &c));
  BD_TRY(bd_hf_activation(ctx, json, "activation_function", &c.activation));
  BD_TRY(bd_json_real(ctx, json, "init_std", false, 0, 10, &c.init_scale));
  BD_TRY(bd_json_bool(ctx, json, "enable_bias", false, &c.biased));
  BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &c.tied));
  *out_config = c;
  return BD_OK;
}
