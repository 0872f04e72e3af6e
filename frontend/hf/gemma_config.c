#include "frontend/hf/llama_config.h"
#include <math.h>
#include <string.h>

const char *const bd_hf_gemma_keys[] = {"head_dim", "hidden_activation", "attention_bias",
                                        "use_bidirectional_attention", NULL};

// transformers computes with `hidden_act`, whose "gelu" means the approximation in the folders that
// the family came with, and passes `hidden_activation` over, which older versions took before it.
static bd_status read_activation(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const char *counts = NULL, *other = NULL;
  BD_TRY(bd_json_string(ctx, json, "hidden_act", false, &counts));
  BD_TRY(bd_json_string(ctx, json, "hidden_activation", false, &other));
  if (!counts || strcmp(counts, "gelu") == 0) c->activation = BD_OP_GELU;
  bd_op_kind named = c->activation;
  BD_TRY(bd_hf_activation(ctx, json, "hidden_activation", &named));
  if (named == c->activation) return BD_OK;
  const char *said = !counts ? "left out and so \"gelu_pytorch_tanh\""
                     : strcmp(counts, "gelu") == 0
                         ? "\"gelu\", which means \"gelu_pytorch_tanh\" here"
                         : bd_intern_f(ctx, "\"%s\"", counts);
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "hidden_activation"),
                 "\"hidden_activation\" is \"%s\", but \"hidden_act\", with which transformers "
                 "computes, is %s: leave \"hidden_activation\" out, or say in \"hidden_act\" what "
                 "is meant",
                 other, said);
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
