// DeepSeek's families: attention of latent vectors, experts beside a perceptron that all tokens
// have. What transformers passes over is passed over.
#include "frontend/hf/llama_config.h"
#include "frontend/hf/rope_config.h"
#include "ir/index.h"
#include <math.h>
#include <string.h>

#define DEEPSEEK_KEYS                                                                              \
  "head_dim", "qk_head_dim", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",                    \
      "qk_rope_head_dim", "v_head_dim", "attention_bias", "mlp_bias", "pretraining_tp",            \
      "moe_intermediate_size", "moe_layer_freq", "n_routed_experts", "n_shared_experts",           \
      "num_experts_per_tok", "first_k_dense_replace", "n_group", "topk_group", "topk_method",      \
      "scoring_func", "norm_topk_prob", "routed_scaling_factor", "aux_loss_alpha", "seq_aux",      \
      "ep_size", "expert_capacity"

const char *const bd_hf_deepseek_v2_keys[] = {DEEPSEEK_KEYS, NULL};
const char *const bd_hf_deepseek_v3_keys[] = {DEEPSEEK_KEYS, "rope_interleave",
                                              "num_nextn_predict_layers", NULL};

// A member that, where it is there, must be `value`, which follows from others.
static bd_status check_size(bd_ctx *ctx, const bd_json *json, const char *key, int64_t value,
                            const char *from) {
  int64_t given = value;
  BD_TRY(bd_hf_extent(ctx, json, key, &given));
  if (given == value) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, key), "\"%s\" is %lld, but %s %lld", key,
                 (long long)given, from, (long long)value);
}

// A member that, where it is there, must be this word.
static bd_status check_word(bd_ctx *ctx, const bd_json *json, const char *key, const char *word) {
  const char *given = word;
  BD_TRY(bd_json_string(ctx, json, key, false, &given));
  if (strcmp(given, word) == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, key),
                 "\"%s\": \"%s\" is not supported of this family (%s)", key, given, word);
}

// The widths of heads, and of the vectors that they are made of.
bd_status bd_hf_read_latent(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bd_latent *latent = BD_NEW(ctx->arena, bd_latent);
  const bd_json *query = bd_json_find(json, "q_lora_rank");
  *latent = (bd_latent){.query_rank = 1536, .rank = 512, .plain_width = 128, .value_width = 128};
  c->head_width = 64;
  if (query && query->kind == BD_JSON_NULL) latent->query_rank = 0;
  BD_TRY(bd_hf_extent(ctx, json, "q_lora_rank", &latent->query_rank));
  BD_TRY(bd_hf_extent(ctx, json, "kv_lora_rank", &latent->rank));
  BD_TRY(bd_hf_extent(ctx, json, "qk_nope_head_dim", &latent->plain_width));
  BD_TRY(bd_hf_extent(ctx, json, "qk_rope_head_dim", &c->head_width));
  BD_TRY(bd_hf_extent(ctx, json, "v_head_dim", &latent->value_width));
  const bd_hf_size sizes[] = {{"kv_lora_rank", latent->rank},
                              {"qk_nope_head_dim", latent->plain_width},
                              {"qk_rope_head_dim", c->head_width},
                              {"v_head_dim", latent->value_width},
                              {query ? NULL : "q_lora_rank", latent->query_rank},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (c->kv_heads != c->heads)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_key_value_heads"),
                   "\"num_key_value_heads\" is %lld, but every one of %lld heads has keys and "
                   "values of its own",
                   (long long)c->kv_heads, (long long)c->heads);
  BD_TRY(check_size(ctx, json, "head_dim", c->head_width, "\"qk_rope_head_dim\" is"));
  BD_TRY(check_size(ctx, json, "qk_head_dim", latent->plain_width + c->head_width,
                    "\"qk_nope_head_dim\" and \"qk_rope_head_dim\" make"));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &latent->bias));
  c->attention_scale = 1 / sqrt((double)(latent->plain_width + c->head_width));
  c->output_bias = latent->bias;
  c->latent = latent;
  if (c->head_width % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "qk_rope_head_dim"),
                 "\"qk_rope_head_dim\" is odd; rotary positions need pairs");
}

// The member of `rope_scaling`, or of transformers 5's `rope_parameters`.
static bd_status read_scaling(bd_ctx *ctx, const bd_json *json, const char *key, double *out) {
  const bd_json *older = NULL, *newer = NULL;
  BD_TRY(bd_json_object(ctx, json, "rope_scaling", false, &older));
  BD_TRY(bd_json_object(ctx, json, "rope_parameters", false, &newer));
  if (older) BD_TRY(bd_json_real(ctx, older, key, false, 0, 1e6, out));
  return newer ? bd_json_real(ctx, newer, key, false, 0, 1e6, out) : BD_OK;
}

// What stretched positions do to scores.
static bd_status scale_scores(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  double share = 0, factor = 1;
  BD_TRY(read_scaling(ctx, json, "mscale_all_dim", &share));
  BD_TRY(read_scaling(ctx, json, "factor", &factor));
  double scale = bd_hf_yarn_amplitude(factor, share);
  c->attention_scale *= scale * scale;
  return BD_OK;
}

// The groups of experts, of which a token chooses some; where it chooses all there are none.
static bd_status read_groups(bd_ctx *ctx, const bd_json *json, int64_t usual, int64_t usual_chosen,
                             bd_llama_config *c) {
  int64_t groups = usual, chosen = usual_chosen, least = c->corrected ? 2 : 1;
  BD_TRY(bd_json_int(ctx, json, "n_group", usual == 0, 1, BD_MAX_NAMED_ROWS, &groups));
  BD_TRY(bd_json_int(ctx, json, "topk_group", usual == 0, 1, BD_MAX_NAMED_ROWS, &chosen));
  if (c->experts % groups != 0 || c->experts / groups < least)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "n_group"),
                   "\"n_group\": %lld experts do not make %lld groups of %s", (long long)c->experts,
                   (long long)groups, least == 2 ? "two or more" : "equal size");
  if (chosen > groups)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "topk_group"),
                   "\"topk_group\": a token cannot have %lld of %lld groups", (long long)chosen,
                   (long long)groups);
  if (c->choices > chosen * (c->experts / groups))
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_experts_per_tok"),
                   "\"num_experts_per_tok\": a token cannot have %lld of the %lld experts of its "
                   "groups",
                   (long long)c->choices, (long long)(chosen * (c->experts / groups)));
  if (chosen == groups) return BD_OK;
  c->groups = groups;
  c->chosen_groups = chosen;
  return BD_OK;
}

// The first layers have one perceptron. Of a model whose layers all have, nothing else is read.
static bd_status read_plain_layers(bd_ctx *ctx, const bd_json *json, int64_t first,
                                   bd_llama_config *c) {
  BD_TRY(bd_json_int(ctx, json, "first_k_dense_replace", false, 0, BD_MAX_CONFIG_LAYERS, &first));
  bool *plain = BD_NEW_ARRAY(ctx->arena, bool, c->layers);
  c->plain_layers = first < c->layers ? first : c->layers;
  for (int64_t i = 0; i < c->plain_layers; ++i)
    plain[i] = true;
  if (c->plain_layers == c->layers)
    c->experts = c->plain_layers = 0;
  else if (c->plain_layers > 0)
    c->plain = plain;
  return BD_OK;
}

// How many experts there are, how wide they are, and how tokens are shared out but for groups.
static bd_status read_experts(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  int64_t shared = c->shared_inner, inner = c->inner, every = 1;
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(bd_json_int(ctx, json, "n_routed_experts", false, 1, BD_MAX_STACK, &c->experts));
  BD_TRY(bd_json_int(ctx, json, "num_experts_per_tok", c->choices == 0, 1, BD_MAX_NAMED_ROWS,
                     &c->choices));
  BD_TRY(bd_hf_extent(ctx, json, "n_shared_experts", &shared));
  BD_TRY(bd_hf_extent(ctx, json, "moe_intermediate_size", &c->plain_inner));
  BD_TRY(bd_hf_extent(ctx, json, "expert_capacity", &c->capacity));
  BD_TRY(bd_json_int(ctx, json, "moe_layer_freq", false, 1, BD_MAX_CONFIG_LAYERS, &every));
  BD_TRY(bd_json_real(ctx, json, "routed_scaling_factor", false, 1e-6, 1e6, &c->share_scale));
  c->inner = c->plain_inner;
  c->plain_inner = inner;
  c->shared_inner = shared * c->inner;
  c->expert_names = &bd_hf_projected_experts;
  const bd_hf_size sizes[] = {{"n_routed_experts", c->experts},
                              {"num_experts_per_tok", c->choices},
                              {"n_shared_experts", shared},
                              {"moe_intermediate_size", c->inner},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (every != 1)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "moe_layer_freq"),
                   "\"moe_layer_freq\" above 1 is not supported");
  if (c->choices <= c->experts) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_experts_per_tok"),
                 "\"num_experts_per_tok\": a token cannot have %lld of %lld experts",
                 (long long)c->choices, (long long)c->experts);
}

// Shares of all experts by a softmax; the best ones of all, or of the best groups.
bd_status bd_hf_read_deepseek_v2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const char *method = "greedy";
  int64_t inner = c->inner;
  c->rotary.interleaved = true;
  c->raw_shares = true;
  c->plain_inner = 1407;
  BD_TRY(scale_scores(ctx, json, c));
  BD_TRY(read_experts(ctx, json, c));
  BD_TRY(bd_hf_refuse_true(ctx, json, "norm_topk_prob"));
  BD_TRY(check_word(ctx, json, "scoring_func", "softmax"));
  BD_TRY(bd_json_string(ctx, json, "topk_method", false, &method));
  if (strcmp(method, "group_limited_greedy") == 0)
    BD_TRY(read_groups(ctx, json, 0, 0, c));
  else if (strcmp(method, "greedy") != 0)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "topk_method"),
                   "\"topk_method\": \"%s\" is not supported (greedy, group_limited_greedy)",
                   method);
  BD_TRY(read_plain_layers(ctx, json, 0, c));
  if (c->experts == 0) c->inner = inner;
  return BD_OK;
}

// Shares by sigmoids, of which those chosen sum to 1 or not; groups by their two best experts.
bd_status bd_hf_read_deepseek_v3(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool of_chosen = true, interleaved = true;
  int64_t inner = c->inner;
  c->corrected = true;
  c->plain_inner = 2048;
  BD_TRY(bd_json_bool(ctx, json, "rope_interleave", false, &interleaved));
  c->rotary.interleaved = interleaved;
  BD_TRY(scale_scores(ctx, json, c));
  BD_TRY(read_experts(ctx, json, c));
  BD_TRY(bd_json_bool(ctx, json, "norm_topk_prob", false, &of_chosen));
  c->raw_shares = !of_chosen;
  BD_TRY(check_word(ctx, json, "scoring_func", "sigmoid"));
  BD_TRY(check_word(ctx, json, "topk_method", "noaux_tc"));
  BD_TRY(read_groups(ctx, json, 8, 4, c));
  BD_TRY(read_plain_layers(ctx, json, 3, c));
  if (c->experts == 0) c->inner = inner;
  return BD_OK;
}
