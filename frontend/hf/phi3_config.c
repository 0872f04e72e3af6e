#include "frontend/hf/llama_config.h"

const char *const bd_hf_phi3_keys[] = {"original_max_position_embeddings",
                                       "partial_rotary_factor",
                                       "embd_pdrop",
                                       "resid_pdrop",
                                       "attention_bias",
                                       "sliding_window",
                                       "mlp_bias",
                                       "lm_head_bias",
                                       "full_attn_mod",
                                       "interpolate_factor",
                                       NULL};

// Queries, keys and values are one stored matrix, as are the two of the perceptron that read the
// same. transformers passes embd_pdrop over.
bd_status bd_hf_read_phi3(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  double unused = 0;
  c->fused = c->fused_perceptron = true;
  BD_TRY(bd_hf_refuse_true(ctx, json, "attention_bias"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "lm_head_bias"));
  BD_TRY(bd_hf_only_value(ctx, json, "full_attn_mod", "1"));
  BD_TRY(bd_hf_only_value(ctx, json, "interpolate_factor", "1"));
  BD_TRY(bd_hf_probability(ctx, json, "embd_pdrop", &unused));
  BD_TRY(bd_hf_probability(ctx, json, "resid_pdrop", &c->dropout_residual));
  return bd_hf_extent(ctx, json, "sliding_window", &c->window);
}
