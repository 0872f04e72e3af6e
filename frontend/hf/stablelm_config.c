#include "frontend/hf/llama_config.h"

const char *const bd_hf_stablelm_keys[] = {"layer_norm_eps",
                                           "use_qkv_bias",
                                           "qk_layernorm",
                                           "use_parallel_residual",
                                           "partial_rotary_factor",
                                           "hidden_dropout",
                                           NULL};

// Layer norms, and biases of queries, keys and values where there are any. Heads of queries and
// keys that are normalized have a gain each.
bd_status bd_hf_read_stablelm(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  double dropped = 0;
  c->layer_norms = true;
  BD_TRY(bd_json_bool(ctx, json, "qk_layernorm", false, &c->head_gains));
  BD_TRY(bd_json_bool(ctx, json, "use_parallel_residual", false, &c->parallel));
  BD_TRY(bd_hf_probability(ctx, json, "hidden_dropout", &dropped));
  if (dropped > 0)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "hidden_dropout"),
                   "\"hidden_dropout\" above 0 is not supported");
  return bd_json_bool(ctx, json, "use_qkv_bias", false, &c->query_bias);
}
