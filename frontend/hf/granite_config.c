#include "frontend/hf/llama_config.h"

const char *const bd_hf_granite_keys[] = {"attention_bias",
                                          "mlp_bias",
                                          "embedding_multiplier",
                                          "attention_multiplier",
                                          "residual_multiplier",
                                          "logits_scaling",
                                          NULL};

// As Llama, with factors of the embedding, of scores and of what is added, and logits divided.
bd_status bd_hf_read_granite(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const double least = 1e-9, most = 1e9;
  double divisor = 1;
  c->embedding_scale = c->attention_scale = c->residual_scale = 1;
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  BD_TRY(bd_json_bool(ctx, json, "mlp_bias", false, &c->mlp_bias));
  BD_TRY(bd_json_real(ctx, json, "embedding_multiplier", false, least, most, &c->embedding_scale));
  BD_TRY(bd_json_real(ctx, json, "attention_multiplier", false, least, most, &c->attention_scale));
  BD_TRY(bd_json_real(ctx, json, "residual_multiplier", false, least, most, &c->residual_scale));
  BD_TRY(bd_json_real(ctx, json, "logits_scaling", false, least, most, &divisor));
  c->logit_scale = 1 / divisor;
  return BD_OK;
}
