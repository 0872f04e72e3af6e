#include "frontend/hf/llama_config.h"
#include <math.h>
#include <string.h>

const char *const bd_hf_gemma_keys[] = {"head_dim", "hidden_activation", "attention_bias",
                                        "use_bidirectional_attention", NULL};

// `hidden_activation` stands for `hidden_act`, whose "gelu" means the approximation in the folders
// that the family came with.
static bd_status read_activation(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const char *older = NULL, *newer = NULL;
  BD_TRY(bd_json_string(ctx, json, "hidden_act", false, &older));
  BD_TRY(bd_json_string(ctx, json, "hidden_activation", false, &newer));
  bd_op_kind meant = !older || strcmp(older, "gelu") == 0 ? BD_OP_GELU : c->activation;
  c->activation = meant;
  BD_TRY(bd_hf_activation(ctx, json, "hidden_activation", &c->activation));
  if (!older || c->activation == meant) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "hidden_activation"),
                 "\"hidden_activation\": \"%s\" is another function than \"hidden_act\" \"%s\"; "
                 "leave one of them",
                 newer, older);
}

bd_status bd_hf_read_gemma(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_true(ctx, json, "use_bidirectional_attention"));
  BD_TRY(read_activation(ctx, json, c));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  c->gains_beside_one = true;
  c->embedding_scale = sqrt((double)c->width);
  return BD_OK;
}
