// GLM 4: `glm`, and `glm4` with norms of what attention and the perceptron give as well.
#include "frontend/hf/llama_config.h"

const char *const bd_hf_glm_keys[] = {"head_dim", "attention_bias", "partial_rotary_factor", NULL};

// Neighbours are turned together, and the two matrices of the perceptron that read the same are one
// that is stored.
bd_status bd_hf_read_glm(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  c->query_bias = true;
  c->rotary.interleaved = true;
  c->fused_perceptron = true;
  return bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias);
}

bd_status bd_hf_read_glm4(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  static const bd_llama_norms norms = {.attention_in = "input_layernorm",
                                       .attention_out = "post_self_attn_layernorm",
                                       .perceptron_in = "post_attention_layernorm",
                                       .perceptron_out = "post_mlp_layernorm"};
  c->norms = &norms;
  return bd_hf_read_glm(ctx, json, c);
}
