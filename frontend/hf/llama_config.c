#include "frontend/hf/llama_config.h"
#include "frontend/hf/llama_families.h"
#include "frontend/hf/rope_config.h"
#include <string.h>

// Members of all families.
static const char *const shared[] = {"vocab_size",          "max_position_embeddings",
                                     "hidden_size",         "intermediate_size",
                                     "num_hidden_layers",   "num_attention_heads",
                                     "num_key_value_heads", "hidden_act",
                                     "rms_norm_eps",        "rope_theta",
                                     "rope_scaling",        "rope_parameters",
                                     "attention_dropout",   NULL};
static size_t count_of(const char *const *list) {
  size_t count = 0;
  while (list[count])
    ++count;
  return count;
}

// With a family's own.
static const char *const *members(bd_ctx *ctx, const char *const *own) {
  size_t first = count_of(shared), rest = count_of(own) + 1;
  const char **out = BD_NEW_ARRAY(ctx->arena, const char *, first + rest);
  memcpy(out, shared, first * sizeof *out);
  memcpy(out + first, own, rest * sizeof *out);
  return out;
}

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "hidden_size", &c->width));
  BD_TRY(bd_hf_extent(ctx, json, "intermediate_size", &c->inner));
  BD_TRY(bd_json_int(ctx, json, "num_hidden_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "num_attention_heads", &c->heads));
  const bd_json *kv_heads = bd_json_find(json, "num_key_value_heads");
  bd_hf_size sizes[9] = {
      {"vocab_size", c->vocabulary},    {"max_position_embeddings", c->positions},
      {"hidden_size", c->width},        {"intermediate_size", c->inner},
      {"num_hidden_layers", c->layers}, {"num_attention_heads", c->heads}};
  int count = 6;
  if (c->kv_heads > 0 && !kv_heads)
    sizes[count++] = (bd_hf_size){"num_key_value_heads", c->kv_heads};
  if (c->head_width > 0) sizes[count++] = (bd_hf_size){"head_dim", c->head_width};
  bd_hf_tell_defaults(ctx, json, sizes);
  if (c->kv_heads == 0 || (kv_heads && kv_heads->kind == BD_JSON_NULL)) c->kv_heads = c->heads;
  BD_TRY(bd_hf_extent(ctx, json, "num_key_value_heads", &c->kv_heads));
  return bd_hf_divides(ctx, json, "num_key_value_heads", c->kv_heads, "num_attention_heads",
                       c->heads);
}

static bd_status read_head_width(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "head_dim", &c->head_width));
  if (c->head_width == 0)
    BD_TRY(bd_hf_divides(ctx, json, "num_attention_heads", c->heads, "hidden_size", c->width));
  if (c->head_width == 0) c->head_width = c->width / c->heads;
  if (c->head_width % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "head_dim"),
                 "the head width %lld is odd; rotary positions need pairs",
                 (long long)c->head_width);
}

static bd_status read_variants(bd_ctx *ctx, const bd_json *json, const bd_llama_family *family,
                               bd_llama_config *c) {
  bd_hf_rotary_family rotary = {.theta = "rope_theta",
                                .share = "partial_rotary_factor",
                                .layers = family->turned_layers,
                                .usual_share = family->turned_share != 0 ? family->turned_share : 1,
                                .whole = !family->turns_in_part,
                                .positions = c->positions};
  BD_TRY(bd_hf_rotary_read(ctx, json, &rotary, c->head_width, &c->rotary));
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c->activation));
  return bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied);
}

bd_status bd_hf_refuse_of(bd_ctx *ctx, const bd_json *json, const char *key, const char *family) {
  const bd_json *member = bd_json_given(json, key);
  if (!member) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, member->loc, "\"%s\" is not supported of a %s model", key,
                 family);
}

bd_status bd_hf_llama_config(bd_ctx *ctx, const bd_json *json, const char *model_type,
                             bd_llama_config *out_config) {
  const bd_llama_family *family = bd_llama_family_find(model_type);
  bd_llama_config c = family->defaults;
  if (c.width == 0) c.width = 4096;
  if (c.layers == 0) c.layers = 32;
  if (c.heads == 0) c.heads = 32;
  c.activation = BD_OP_SILU;
  if (c.epsilon == 0) c.epsilon = 1e-6;
  if (c.rotary.theta == 0) c.rotary.theta = 10000;
  if (c.init_scale == 0) c.init_scale = 0.02;
  const char *epsilon = family->epsilon;
  if (epsilon) BD_TRY(bd_hf_refuse_of(ctx, json, "rms_norm_eps", model_type));
  BD_TRY(bd_hf_only_known(ctx, json, members(ctx, family->keys)));
  const bd_json *head = bd_json_find(json, "head_dim");
  if (family->divides_width && head && head->kind == BD_JSON_NULL) c.head_width = 0;
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(family->latent ? bd_hf_read_latent(ctx, json, &c) : read_head_width(ctx, json, &c));
  BD_TRY(read_variants(ctx, json, family, &c));
  BD_TRY(family->read(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, epsilon ? epsilon : "rms_norm_eps", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c.dropout_attention));
  *out_config = c;
  return BD_OK;
}
