#include "frontend/hf/hf.h"
#include <string.h>

static bd_loc place(const bd_json *json, const char *key) {
  const bd_json *member = bd_json_find(json, key);
  return member ? member->loc : json->loc;
}

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
  c->kv_heads = c->heads;
  BD_TRY(bd_hf_extent(ctx, json, "num_key_value_heads", &c->kv_heads));
  if (c->heads % c->kv_heads != 0)
    return bd_fail(ctx, BD_INVALID, place(json, "num_key_value_heads"),
                   "\"num_key_value_heads\": %lld does not divide \"num_attention_heads\" %lld",
                   (long long)c->kv_heads, (long long)c->heads);
  c->head_width = 0;
  BD_TRY(bd_hf_extent(ctx, json, "head_dim", &c->head_width));
  if (c->head_width == 0 && c->width % c->heads != 0)
    return bd_fail(ctx, BD_INVALID, place(json, "num_attention_heads"),
                   "\"num_attention_heads\": %lld does not divide \"hidden_size\" %lld",
                   (long long)c->heads, (long long)c->width);
  if (c->head_width == 0) c->head_width = c->width / c->heads;
  if (c->head_width % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, place(json, "head_dim"),
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
    return bd_fail(ctx, BD_UNSUPPORTED, place(rope, "partial_rotary_factor"),
                   "\"partial_rotary_factor\": only 1 is supported");
  if (strcmp(kind, "default") == 0) return BD_OK;
  if (strcmp(kind, "llama3") == 0) return read_stretch(ctx, rope, &c->stretch);
  return bd_fail(ctx, BD_UNSUPPORTED, rope->loc,
                 "\"%s\": rotary scaling \"%s\" is not supported (default, llama3)", key, kind);
}

static bd_status read_variants(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_json_real(ctx, json, "rope_theta", false, 1, 1e12, &c->rope_theta));
  BD_TRY(read_rope(ctx, json, "rope_scaling", c));
  BD_TRY(read_rope(ctx, json, "rope_parameters", c));
  double share = 1;
  BD_TRY(bd_json_real(ctx, json, "partial_rotary_factor", false, 0, 1, &share));
  if (share != 1)
    return bd_fail(ctx, BD_UNSUPPORTED, place(json, "partial_rotary_factor"),
                   "\"partial_rotary_factor\": only 1 is supported");
  const bd_json *window = bd_json_find(json, "sliding_window");
  if (window && window->kind != BD_JSON_NULL)
    return bd_fail(ctx, BD_UNSUPPORTED, window->loc, "\"sliding_window\" is not supported");
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c->activation));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->attention_bias));
  BD_TRY(bd_json_bool(ctx, json, "mlp_bias", false, &c->mlp_bias));
  return bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied);
}

bd_status bd_hf_llama_config(bd_ctx *ctx, const bd_json *json, bd_llama_config *out_config) {
  bd_llama_config c = {.vocabulary = 32000,
                       .positions = 2048,
                       .width = 4096,
                       .layers = 32,
                       .heads = 32,
                       .inner = 11008,
                       .activation = BD_OP_SILU,
                       .epsilon = 1e-6,
                       .rope_theta = 10000,
                       .init_scale = 0.02};
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(read_variants(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, "rms_norm_eps", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c.dropout_attention));
  *out_config = c;
  return BD_OK;
}
