#include "frontend/hf/llama_config.h"

const char *const bd_hf_olmo2_keys[] = {"attention_bias", NULL};

// Norms come last, and queries and keys are normalized whole.
bd_status bd_hf_read_olmo2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  static const bd_llama_norms norms = {.attention_out = "post_attention_layernorm",
                                       .perceptron_out = "post_feedforward_layernorm"};
  c->norms = &norms;
  c->normed_projections = true;
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  return BD_OK;
}
