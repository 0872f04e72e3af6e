// The families whose perceptron is a mixture of experts.
#include "frontend/hf/llama_config.h"
#include "ir/index.h"

const char *const bd_hf_mixtral_keys[] = {"vocab_size",
                                          "max_position_embeddings",
                                          "hidden_size",
                                          "intermediate_size",
                                          "num_hidden_layers",
                                          "num_attention_heads",
                                          "num_key_value_heads",
                                          "head_dim",
                                          "hidden_act",
                                          "rms_norm_eps",
                                          "rope_theta",
                                          "rope_scaling",
                                          "rope_parameters",
                                          "attention_dropout",
                                          "sliding_window",
                                          "num_local_experts",
                                          "num_experts_per_tok",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "expert_capacity",
                                          NULL};

// The loss of uneven load is part of the loss where the router's outputs are asked for.
bd_status bd_hf_read_mixtral(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool balanced = false;
  double noise = 0;
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &c->window));
  BD_TRY(bd_json_int(ctx, json, "num_local_experts", false, 1, BD_MAX_STACK, &c->experts));
  BD_TRY(bd_json_int(ctx, json, "num_experts_per_tok", false, 1, BD_MAX_NAMED_ROWS, &c->choices));
  BD_TRY(bd_hf_extent(ctx, json, "expert_capacity", &c->capacity));
  BD_TRY(bd_json_bool(ctx, json, "output_router_logits", false, &balanced));
  BD_TRY(bd_json_real(ctx, json, "router_aux_loss_coef", false, 0, 1e6, &c->balance));
  BD_TRY(bd_json_real(ctx, json, "router_jitter_noise", false, 0, 1, &noise));
  const bd_hf_size sizes[] = {
      {"num_local_experts", c->experts}, {"num_experts_per_tok", c->choices}, {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (!balanced) c->balance = 0;
  if (noise > 0)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "router_jitter_noise"),
                   "\"router_jitter_noise\" is not supported");
  if (c->choices <= c->experts) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_experts_per_tok"),
                 "\"num_experts_per_tok\": a token cannot have %lld of %lld experts",
                 (long long)c->choices, (long long)c->experts);
}
