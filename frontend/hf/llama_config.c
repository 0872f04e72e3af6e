#include "frontend/hf/hf.h"
#include "ir/index.h"
#include <assert.h>
#include <string.h>

// Members of the families that are built alike; each family lacks some.
static const char *const keys[] = {"vocab_size",
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
                                   "partial_rotary_factor",
                                   "attention_dropout",
                                   "attention_bias",
                                   "mlp_bias",
                                   "pretraining_tp",
                                   "sliding_window",
                                   "use_sliding_window",
                                   "max_window_layers",
                                   "layer_types",
                                   NULL};
static const char *const mixtral_keys[] = {"vocab_size",
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

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "hidden_size", &c->width));
  BD_TRY(bd_hf_extent(ctx, json, "intermediate_size", &c->inner));
  BD_TRY(bd_json_int(ctx, json, "num_hidden_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "num_attention_heads", &c->heads));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"hidden_size", c->width},
                              {"intermediate_size", c->inner},
                              {"num_hidden_layers", c->layers},
                              {"num_attention_heads", c->heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  const bd_json *kv_heads = bd_json_find(json, "num_key_value_heads");
  if (c->kv_heads == 0 || (kv_heads && kv_heads->kind == BD_JSON_NULL)) c->kv_heads = c->heads;
  BD_TRY(bd_hf_extent(ctx, json, "num_key_value_heads", &c->kv_heads));
  if (c->heads % c->kv_heads != 0)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_key_value_heads"),
                   "\"num_key_value_heads\": %lld does not divide \"num_attention_heads\" %lld",
                   (long long)c->kv_heads, (long long)c->heads);
  c->head_width = 0;
  BD_TRY(bd_hf_extent(ctx, json, "head_dim", &c->head_width));
  if (c->head_width == 0 && c->width % c->heads != 0)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_attention_heads"),
                   "\"num_attention_heads\": %lld does not divide \"hidden_size\" %lld",
                   (long long)c->heads, (long long)c->width);
  if (c->head_width == 0) c->head_width = c->width / c->heads;
  if (c->head_width % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "head_dim"),
                 "the head width %lld is odd; rotary positions need pairs",
                 (long long)c->head_width);
}

static bd_status read_stretch(bd_ctx *ctx, const bd_json *rope, bd_rope_stretch *out) {
  bd_rope_stretch s = {0};
  BD_TRY(bd_json_real(ctx, rope, "factor", true, 1, 1e6, &s.factor));
  BD_TRY(bd_json_real(ctx, rope, "low_freq_factor", true, 1e-6, 1e6, &s.low_frequency_factor));
  BD_TRY(bd_json_real(ctx, rope, "high_freq_factor", true, 1e-6, 1e6, &s.high_frequency_factor));
  BD_TRY(bd_json_int(ctx, rope, "original_max_position_embeddings", true, 1, BD_MAX_CONFIG_EXTENT,
                     &s.original_positions));
  if (s.high_frequency_factor <= s.low_frequency_factor)
    return bd_fail(ctx, BD_INVALID, rope->loc,
                   "\"high_freq_factor\" must be greater than \"low_freq_factor\"");
  *out = s;
  return BD_OK;
}

// Every frequency is divided by the factor: those whose wavelength is above 1 are, and all are at
// least 2 pi.
static bd_status read_linear(bd_ctx *ctx, const bd_json *rope, bd_rope_stretch *out) {
  bd_rope_stretch s = {
      .low_frequency_factor = 1, .high_frequency_factor = 2, .original_positions = 1};
  BD_TRY(bd_json_real(ctx, rope, "factor", true, 1, 1e6, &s.factor));
  *out = s;
  return BD_OK;
}

// `rope_scaling` of transformers 4 (kind under `rope_type`, older `type`), `rope_parameters` of 5.
static bd_status read_rope(bd_ctx *ctx, const bd_json *json, const char *key, bd_llama_config *c) {
  const bd_json *rope = NULL;
  BD_TRY(bd_json_object(ctx, json, key, false, &rope));
  if (!rope) return BD_OK;
  const char *kind = "default";
  BD_TRY(bd_json_string(ctx, rope, "type", false, &kind));
  BD_TRY(bd_json_string(ctx, rope, "rope_type", false, &kind));
  BD_TRY(bd_json_real(ctx, rope, "rope_theta", false, 1, 1e12, &c->rope_theta));
  double share = 1;
  BD_TRY(bd_json_real(ctx, rope, "partial_rotary_factor", false, 0, 1, &share));
  if (share != 1)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(rope, "partial_rotary_factor"),
                   "\"partial_rotary_factor\": only 1 is supported");
  // What is dynamic stretches with sequences longer than the model's positions, which are refused.
  if (strcmp(kind, "default") == 0 || strcmp(kind, "dynamic") == 0) return BD_OK;
  if (strcmp(kind, "linear") == 0) return read_linear(ctx, rope, &c->stretch);
  if (strcmp(kind, "llama3") == 0) return read_stretch(ctx, rope, &c->stretch);
  return bd_fail(
      ctx, BD_UNSUPPORTED, rope->loc,
      "\"%s\": rotary scaling \"%s\" is not supported (default, linear, dynamic, llama3)", key,
      kind);
}

static bd_status read_variants(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_json_real(ctx, json, "rope_theta", false, 1, 1e12, &c->rope_theta));
  BD_TRY(read_rope(ctx, json, "rope_scaling", c));
  BD_TRY(read_rope(ctx, json, "rope_parameters", c));
  double share = 1;
  BD_TRY(bd_json_real(ctx, json, "partial_rotary_factor", false, 0, 1, &share));
  if (share != 1)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "partial_rotary_factor"),
                   "\"partial_rotary_factor\": only 1 is supported");
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c->activation));
  return bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied);
}

static bd_status refuse(bd_ctx *ctx, const bd_json *json, const char *key, const char *family) {
  const bd_json *member = bd_json_find(json, key);
  if (!member || member->kind == BD_JSON_NULL) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, member->loc, "\"%s\" is not supported of a %s model", key,
                 family);
}

// The same bias for queries, keys, values and outputs, or none.
static bd_status read_llama(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(refuse(ctx, json, "sliding_window", "llama"));
  BD_TRY(refuse(ctx, json, "use_sliding_window", "llama"));
  BD_TRY(refuse(ctx, json, "layer_types", "llama"));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  return bd_json_bool(ctx, json, "mlp_bias", false, &c->mlp_bias);
}

// Every layer looks back `sliding_window` positions; null: as far as there are any.
static bd_status read_mistral(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_true(ctx, json, "attention_bias"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(refuse(ctx, json, "use_sliding_window", "mistral"));
  BD_TRY(refuse(ctx, json, "layer_types", "mistral"));
  const bd_json *window = bd_json_find(json, "sliding_window");
  c->window = window && window->kind == BD_JSON_NULL ? 0 : 4096;
  return bd_hf_extent(ctx, json, "sliding_window", &c->window);
}

// Whether a layer has the window: what `layer_types` says of each, else what `use_sliding_window`
// says of some.
static bd_status read_qwen2_layers(bd_ctx *ctx, const bd_json *json, int64_t layers,
                                   bool *out_window) {
  const bd_json *types = NULL;
  BD_TRY(bd_json_array(ctx, json, "layer_types", false, &types));
  BD_TRY(bd_json_bool(ctx, json, "use_sliding_window", false, out_window));
  if (!types) return BD_OK;
  *out_window = false;
  if ((int64_t)types->count != layers)
    return bd_fail(ctx, BD_INVALID, types->loc, "\"layer_types\" names %zu layers of %lld",
                   types->count, (long long)layers);
  for (size_t i = 0; i < types->count; ++i) {
    const bd_json *type = &types->items[i];
    bool sliding = type->kind == BD_JSON_STRING && strcmp(type->string, "sliding_attention") == 0;
    *out_window |= sliding;
    if (sliding || (type->kind == BD_JSON_STRING && strcmp(type->string, "full_attention") == 0))
      continue;
    return bd_fail(ctx, BD_UNSUPPORTED, type->loc,
                   "\"layer_types\": a layer is \"full_attention\" or \"sliding_attention\"");
  }
  return BD_OK;
}

// Queries, keys and values have a bias, outputs have none; no member says so.
static bd_status read_qwen2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bool slides = false;
  BD_TRY(refuse(ctx, json, "attention_bias", "qwen2"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(read_qwen2_layers(ctx, json, c->layers, &slides));
  c->query_bias = true;
  int64_t window = 4096;
  const bd_json *given = bd_json_find(json, "sliding_window");
  BD_TRY(bd_hf_extent(ctx, json, "sliding_window", &window));
  if (slides && !(given && given->kind == BD_JSON_NULL)) c->window = window;
  return BD_OK;
}

// The loss of uneven load is part of the loss where the router's outputs are asked for.
static bd_status read_mixtral(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
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

static const struct {
  const char *model_type;
  const char *const *keys;
  bd_llama_config defaults;
  bd_status (*read)(bd_ctx *ctx, const bd_json *json, bd_llama_config *c);
} families[] = {
    {"llama", keys, {.vocabulary = 32000, .positions = 2048, .inner = 11008}, read_llama},
    {"mistral",
     keys,
     {.vocabulary = 32000, .positions = 131072, .inner = 14336, .kv_heads = 8},
     read_mistral},
    {"mixtral",
     mixtral_keys,
     {.vocabulary = 32000,
      .positions = 131072,
      .inner = 14336,
      .kv_heads = 8,
      .epsilon = 1e-5,
      .rope_theta = 1e6,
      .experts = 8,
      .choices = 2,
      .balance = 0.001},
     read_mixtral},
    {"qwen2",
     keys,
     {.vocabulary = 151936, .positions = 32768, .inner = 22016, .kv_heads = 32},
     read_qwen2}};

bd_status bd_hf_llama_config(bd_ctx *ctx, const bd_json *json, const char *model_type,
                             bd_llama_config *out_config) {
  size_t family = 0;
  while (strcmp(families[family].model_type, model_type) != 0) {
    ++family;
    assert(family < sizeof families / sizeof families[0]);
  }
  bd_llama_config c = families[family].defaults;
  c.width = 4096;
  c.layers = c.heads = 32;
  c.activation = BD_OP_SILU;
  if (c.epsilon == 0) c.epsilon = 1e-6;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  c.init_scale = 0.02;
  BD_TRY(bd_hf_only_known(ctx, json, families[family].keys));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(read_variants(ctx, json, &c));
  BD_TRY(families[family].read(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, "rms_norm_eps", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c.dropout_attention));
  *out_config = c;
  return BD_OK;
}
