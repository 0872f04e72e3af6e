#include "frontend/hf/llama_config.h"

const char *const bd_hf_starcoder2_keys[] = {
    "norm_epsilon",     "norm_type",         "mlp_type",       "use_bias",
    "residual_dropout", "embedding_dropout", "sliding_window", NULL};

// Layer norms, a perceptron of two matrices, and biases of all matrices.
bd_status bd_hf_read_starcoder2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool biased = true;
  c->layer_norms = c->ungated = true;
  BD_TRY(bd_hf_only_value(ctx, json, "norm_type", "\"layer_norm\""));
  BD_TRY(bd_hf_only_value(ctx, json, "mlp_type", "\"default\""));
  if (!bd_json_given(json, "hidden_act")) c->activation = BD_OP_GELU;
  BD_TRY(bd_json_bool(ctx, json, "use_bias", false, &biased));
  c->query_bias = c->output_bias = c->mlp_bias = biased;
  BD_TRY(bd_hf_probability(ctx, json, "residual_dropout", &c->dropout_residual));
  BD_TRY(bd_hf_probability(ctx, json, "embedding_dropout", &c->dropout_embedding));
  return bd_hf_extent(ctx, json, "sliding_window", &c->window);
}
