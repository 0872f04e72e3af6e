// gpt-oss: a window of every second layer, sinks, and experts with biases whose gates are clamped.
#include "frontend/hf/llama_config.h"
#include "frontend/hf/rope_config.h"

const char *const bd_hf_gpt_oss_keys[] = {"head_dim",
                                          "attention_bias",
                                          "sliding_window",
                                          "layer_types",
                                          "num_local_experts",
                                          "num_experts_per_tok",
                                          "experts_per_token",
                                          "router_aux_loss_coef",
                                          "swiglu_limit",
                                          "swiglu_alpha",
                                          "initial_context_length",
                                          "expert_capacity",
                                          NULL};

// As transformers has them, in version 4 whatever the configuration says.
static const double limit = 7, slope = 1.702;

static bd_status fail_otherwise(bd_ctx *ctx, const bd_json *json, const char *key,
                                const char *counts) {
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, key),
                 "\"%s\" is %s, but transformers computes "
                 "with %s",
                 key, bd_json_describe(ctx, bd_json_find(json, key)), counts);
}

// Members that other programs read, of what transformers takes from others or from nowhere.
static bd_status check_others(bd_ctx *ctx, const bd_json *json, const bd_llama_config *c) {
  double clamped = limit, steep = slope;
  int64_t choices = c->choices, positions = 0;
  BD_TRY(bd_json_real(ctx, json, "swiglu_limit", false, 0, 1e12, &clamped));
  BD_TRY(bd_json_real(ctx, json, "swiglu_alpha", false, 0, 1e12, &steep));
  if (clamped != limit) return fail_otherwise(ctx, json, "swiglu_limit", "7");
  if (steep != slope) return fail_otherwise(ctx, json, "swiglu_alpha", "1.702");
  if (c->activation != BD_OP_SILU)
    return fail_otherwise(ctx, json, "hidden_act", "a sigmoid of 1.702 times what it multiplies");
  BD_TRY(bd_json_int(ctx, json, "experts_per_token", false, 1, INT32_MAX, &choices));
  if (choices != c->choices)
    return fail_otherwise(ctx, json, "experts_per_token",
                          bd_intern_f(ctx, "\"num_experts_per_tok\", %lld", (long long)c->choices));
  static const char first[] = "original_max_position_embeddings", scaling[] = "rope_scaling";
  const bd_hf_member said[] = {{json, NULL, "initial_context_length"},
                               {bd_json_given(json, scaling), scaling, first}};
  BD_TRY(bd_hf_agree(ctx, 2, said));
  return bd_json_int(ctx, json, "initial_context_length", false, 1, BD_MAX_CONFIG_EXTENT,
                     &positions);
}

// Where no scaling of rotary positions is said.
static bd_status scale_rotary(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  static const bd_hf_yarn usual = {.factor = 32, .fast = 32, .slow = 1, .positions = 4096};
  if (bd_json_find(json, "rope_scaling") || bd_json_find(json, "rope_parameters")) return BD_OK;
  return bd_hf_yarn_set(ctx, json->loc, &usual, c->head_width, &c->rotary);
}

bd_status bd_hf_read_gpt_oss(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  static const bd_expert_names stored = {.router = "mlp.router.weight",
                                         .router_bias = "mlp.router.bias",
                                         .experts = "mlp.experts.",
                                         .gate = "gate_up_proj",
                                         .up = "gate_up_proj",
                                         .down = "down_proj",
                                         .bias = "_bias",
                                         .joined = true};
  bool biased = true;
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &biased));
  c->query_bias = c->output_bias = biased;
  c->sinks = c->balance_weights = true;
  c->limit = limit;
  c->slope = slope;
  c->expert_names = &stored;
  BD_TRY(bd_hf_window_by_turns(ctx, json, c));
  BD_TRY(bd_hf_read_mixture(ctx, json, "num_local_experts", c));
  BD_TRY(scale_rotary(ctx, json, c));
  BD_TRY(check_others(ctx, json, c));
  const bd_hf_size sizes[] = {
      {"num_local_experts", c->experts}, {"num_experts_per_tok", c->choices}, {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return BD_OK;
}
