// The families whose perceptron is a mixture of experts.
#include "frontend/hf/llama_config.h"
#include "ir/index.h"

const char *const bd_hf_mixtral_keys[] = {"head_dim",
                                          "sliding_window",
                                          "num_local_experts",
                                          "num_experts_per_tok",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "expert_capacity",
                                          NULL};
const char *const bd_hf_qwen3_moe_keys[] = {"moe_intermediate_size",
                                            "head_dim",
                                            "attention_bias",
                                            "mlp_bias",
                                            "sliding_window",
                                            "use_sliding_window",
                                            "max_window_layers",
                                            "num_experts",
                                            "num_local_experts",
                                            "num_experts_per_tok",
                                            "norm_topk_prob",
                                            "decoder_sparse_step",
                                            "mlp_only_layers",
                                            "router_aux_loss_coef",
                                            "qkv_bias",
                                            "use_qk_norm",
                                            "shared_expert_intermediate_size",
                                            "expert_capacity",
                                            NULL};

const bd_expert_names bd_hf_projected_experts = {.router = "mlp.gate.weight",
                                                 .experts = "mlp.experts.",
                                                 .gate = ".gate_proj.weight",
                                                 .up = ".up_proj.weight",
                                                 .down = ".down_proj.weight"};

bd_status bd_hf_read_mixture(bd_ctx *ctx, const bd_json *json, const char *key,
                             bd_llama_config *c) {
  bool balanced = false;
  BD_TRY(bd_json_int(ctx, json, key, false, 1, BD_MAX_STACK, &c->experts));
  BD_TRY(bd_json_int(ctx, json, "num_experts_per_tok", false, 1, BD_MAX_NAMED_ROWS, &c->choices));
  BD_TRY(bd_hf_extent(ctx, json, "expert_capacity", &c->capacity));
  BD_TRY(bd_json_bool(ctx, json, "output_router_logits", false, &balanced));
  BD_TRY(bd_json_real(ctx, json, "router_aux_loss_coef", false, 0, 1e6, &c->balance));
  if (!balanced) c->balance = 0;
  if (c->choices <= c->experts) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_experts_per_tok"),
                 "\"num_experts_per_tok\": a token cannot have %lld of %lld experts",
                 (long long)c->choices, (long long)c->experts);
}

bd_status bd_hf_read_mixtral(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  double noise = 0;
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &c->window));
  BD_TRY(bd_hf_read_mixture(ctx, json, "num_local_experts", c));
  BD_TRY(bd_json_real(ctx, json, "router_jitter_noise", false, 0, 1, &noise));
  const bd_hf_size sizes[] = {
      {"num_local_experts", c->experts}, {"num_experts_per_tok", c->choices}, {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (noise == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "router_jitter_noise"),
                 "\"router_jitter_noise\" is not supported");
}

// `mlp_only_layers` names layers that have one perceptron, and those are whose number, from 1 on,
// `decoder_sparse_step` does not divide.
static bd_status read_plain_layers(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const bd_json *named = NULL;
  bool *plain = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  int64_t step = 1, layer = 0;
  BD_TRY(bd_json_int(ctx, json, "decoder_sparse_step", false, 1, BD_MAX_CONFIG_LAYERS, &step));
  BD_TRY(bd_json_array(ctx, json, "mlp_only_layers", false, &named));
  for (int64_t i = 0; i < c->layers; ++i)
    plain[i] = (i + 1) % step != 0;
  for (size_t i = 0; named && i < named->count; ++i) {
    if (!bd_json_whole(&named->items[i], 0, c->layers - 1, &layer))
      return bd_fail(ctx, BD_INVALID, named->items[i].loc,
                     "\"mlp_only_layers\": expected numbers of layers, from 0 to %lld",
                     (long long)c->layers - 1);
    plain[layer] = true;
  }
  for (int64_t i = 0; i < c->layers; ++i)
    c->plain_layers += plain[i];
  if (c->plain_layers > 0) c->plain = plain;
  if (c->plain_layers < c->layers) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED,
                 bd_hf_place(json, named ? "mlp_only_layers" : "decoder_sparse_step"),
                 "no layer has experts; make it a \"qwen3\" model");
}

// As qwen3, but for the perceptrons, and that all layers have a window or none has. transformers 5
// calls num_experts num_local_experts.
bd_status bd_hf_read_qwen3_moe(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const char *count =
      bd_json_given(json, "num_local_experts") ? "num_local_experts" : "num_experts";
  bool of_chosen = false;
  BD_TRY(bd_hf_agree_keys(ctx, json, "num_experts", "num_local_experts"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "qkv_bias"));
  BD_TRY(bd_hf_only_value(ctx, json, "use_qk_norm", "true"));
  BD_TRY(bd_hf_only_value(ctx, json, "shared_expert_intermediate_size", "0"));
  BD_TRY(bd_hf_read_normed(ctx, json, c));
  BD_TRY(bd_hf_window_of_all(ctx, json, c));
  BD_TRY(bd_hf_read_mixture(ctx, json, count, c));
  BD_TRY(read_plain_layers(ctx, json, c));
  BD_TRY(bd_json_bool(ctx, json, "norm_topk_prob", false, &of_chosen));
  c->raw_shares = !of_chosen;
  c->expert_names = &bd_hf_projected_experts;
  c->plain_inner = c->inner;
  c->inner = 768;
  BD_TRY(bd_hf_extent(ctx, json, "moe_intermediate_size", &c->inner));
  const bd_hf_size sizes[] = {{count, c->experts},
                              {"num_experts_per_tok", c->choices},
                              {"moe_intermediate_size", c->inner},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return BD_OK;
}
