#include "frontend/hf/llama_config.h"
#include "frontend/hf/rope_config.h"
#include <assert.h>
#include <string.h>

// Members of all families, and those of the families that are built alike; of these each lacks
// some.
static const char *const shared[] = {"vocab_size",          "max_position_embeddings",
                                     "hidden_size",         "intermediate_size",
                                     "num_hidden_layers",   "num_attention_heads",
                                     "num_key_value_heads", "hidden_act",
                                     "rms_norm_eps",        "rope_theta",
                                     "rope_scaling",        "rope_parameters",
                                     "attention_dropout",   NULL};
static const char *const keys[] = {
    "head_dim",       "partial_rotary_factor", "attention_bias",    "mlp_bias",    "pretraining_tp",
    "sliding_window", "use_sliding_window",    "max_window_layers", "layer_types", NULL};

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
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"hidden_size", c->width},
                              {"intermediate_size", c->inner},
                              {"num_hidden_layers", c->layers},
                              {"num_attention_heads", c->heads},
                              {c->head_width ? "head_dim" : NULL, c->head_width},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  const bd_json *kv_heads = bd_json_find(json, "num_key_value_heads");
  if (c->kv_heads == 0 || (kv_heads && kv_heads->kind == BD_JSON_NULL)) c->kv_heads = c->heads;
  BD_TRY(bd_hf_extent(ctx, json, "num_key_value_heads", &c->kv_heads));
  if (c->heads % c->kv_heads != 0)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "num_key_value_heads"),
                   "\"num_key_value_heads\": %lld does not divide \"num_attention_heads\" %lld",
                   (long long)c->kv_heads, (long long)c->heads);
  return BD_OK;
}

static bd_status read_head_width(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
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

// `in_part`: some elements of a head may be turned alone, usually that `share` of them.
static bd_status read_variants(bd_ctx *ctx, const bd_json *json, bool in_part, double share,
                               bd_llama_config *c) {
  bd_hf_rotary_family rotary = {"rope_theta", "partial_rotary_factor", share, !in_part,
                                c->positions};
  BD_TRY(bd_hf_rotary_read(ctx, json, &rotary, c->head_width, &c->rotary));
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c->activation));
  return bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied);
}

static bd_status refuse(bd_ctx *ctx, const bd_json *json, const char *key, const char *family) {
  const bd_json *member = bd_json_given(json, key);
  if (!member) return BD_OK;
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

// Queries, keys and values have a bias, outputs have none; no member says so.
static bd_status read_qwen2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(refuse(ctx, json, "attention_bias", "qwen2"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  c->query_bias = true;
  return bd_hf_window_of_some(ctx, json, c);
}

// Each head of queries and keys is normalized.
bd_status bd_hf_read_normed(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  c->normed_heads = true;
  return BD_OK;
}

static bd_status read_qwen3(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_read_normed(ctx, json, c));
  return bd_hf_window_of_some(ctx, json, c);
}

static const struct {
  const char *model_type;
  const char *const *keys;
  bd_llama_config defaults;
  bd_status (*read)(bd_ctx *ctx, const bd_json *json, bd_llama_config *c);
  bool turns_in_part;
  bool latent;         // heads are made of latent vectors
  bool divides_width;  // into heads where `head_dim` is null, whatever it is where it is left out
  double turned_share; // of each head, where the configuration does not say; 0: 1
  const char *epsilon; // the norms' member for it; NULL: rms_norm_eps, which others lack
} families[] = {
    {.model_type = "llama",
     .keys = keys,
     .defaults = {.vocabulary = 32000, .positions = 2048, .inner = 11008},
     .read = read_llama},
    {.model_type = "mistral",
     .keys = keys,
     .defaults = {.vocabulary = 32000, .positions = 131072, .inner = 14336, .kv_heads = 8},
     .read = read_mistral},
    {.model_type = "mixtral",
     .keys = bd_hf_mixtral_keys,
     .defaults = {.vocabulary = 32000,
                  .positions = 131072,
                  .inner = 14336,
                  .kv_heads = 8,
                  .epsilon = 1e-5,
                  .rotary.theta = 1e6,
                  .experts = 8,
                  .choices = 2,
                  .balance = 0.001},
     .read = bd_hf_read_mixtral},
    {.model_type = "qwen2",
     .keys = keys,
     .defaults = {.vocabulary = 151936, .positions = 32768, .inner = 22016, .kv_heads = 32},
     .read = read_qwen2},
    {.model_type = "qwen3",
     .keys = keys,
     .defaults = {.vocabulary = 151936,
                  .positions = 32768,
                  .inner = 22016,
                  .kv_heads = 32,
                  .head_width = 128},
     .read = read_qwen3},
    {.model_type = "qwen3_moe",
     .keys = bd_hf_qwen3_moe_keys,
     .defaults = {.vocabulary = 151936,
                  .positions = 32768,
                  .width = 2048,
                  .layers = 24,
                  .inner = 6144,
                  .kv_heads = 4,
                  .experts = 128,
                  .choices = 8,
                  .balance = 0.001},
     .read = bd_hf_read_qwen3_moe},
    {.model_type = "gpt_oss",
     .keys = bd_hf_gpt_oss_keys,
     .defaults = {.vocabulary = 201088,
                  .positions = 131072,
                  .width = 2880,
                  .layers = 36,
                  .heads = 64,
                  .kv_heads = 8,
                  .head_width = 64,
                  .inner = 2880,
                  .epsilon = 1e-5,
                  .rotary.theta = 150000,
                  .window = 128,
                  .experts = 128,
                  .choices = 4,
                  .balance = 0.9},
     .read = bd_hf_read_gpt_oss,
     .divides_width = true},
    {.model_type = "phi3",
     .keys = bd_hf_phi3_keys,
     .defaults =
         {.vocabulary = 32064, .positions = 4096, .width = 3072, .inner = 8192, .epsilon = 1e-5},
     .read = bd_hf_read_phi3,
     .turns_in_part = true},
    {.model_type = "gemma",
     .keys = bd_hf_gemma_keys,
     .defaults = {.vocabulary = 256000,
                  .positions = 8192,
                  .width = 3072,
                  .layers = 28,
                  .heads = 16,
                  .kv_heads = 16,
                  .head_width = 256,
                  .inner = 24576,
                  .tied = true},
     .read = bd_hf_read_gemma},
    {.model_type = "granite",
     .keys = bd_hf_granite_keys,
     .defaults = {.vocabulary = 32000, .positions = 2048, .inner = 11008},
     .read = bd_hf_read_granite},
    {.model_type = "smollm3",
     .keys = bd_hf_smollm3_keys,
     .defaults = {.vocabulary = 128256,
                  .positions = 32768,
                  .width = 2048,
                  .layers = 36,
                  .heads = 16,
                  .kv_heads = 4,
                  .inner = 11008,
                  .rotary.theta = 2e6,
                  .tied = true},
     .read = bd_hf_read_smollm3},
    {.model_type = "starcoder2",
     .keys = bd_hf_starcoder2_keys,
     .defaults = {.vocabulary = 49152,
                  .positions = 4096,
                  .width = 3072,
                  .layers = 30,
                  .heads = 24,
                  .kv_heads = 2,
                  .inner = 12288,
                  .epsilon = 1e-5,
                  .init_scale = 0.018042,
                  .tied = true},
     .read = bd_hf_read_starcoder2,
     .epsilon = "norm_epsilon"},
    {.model_type = "stablelm",
     .keys = bd_hf_stablelm_keys,
     .defaults = {.vocabulary = 50304,
                  .positions = 4096,
                  .width = 2560,
                  .kv_heads = 32,
                  .inner = 6912,
                  .epsilon = 1e-5},
     .read = bd_hf_read_stablelm,
     .turns_in_part = true,
     .turned_share = 0.25,
     .epsilon = "layer_norm_eps"},
    {.model_type = "gemma2",
     .keys = bd_hf_gemma2_keys,
     .defaults = {.vocabulary = 256000,
                  .positions = 8192,
                  .width = 2304,
                  .layers = 26,
                  .heads = 8,
                  .kv_heads = 4,
                  .head_width = 256,
                  .inner = 9216,
                  .tied = true},
     .read = bd_hf_read_gemma2},
    {.model_type = "gemma3_text",
     .keys = bd_hf_gemma3_keys,
     .defaults = {.vocabulary = 262208,
                  .positions = 131072,
                  .width = 2304,
                  .layers = 26,
                  .heads = 8,
                  .kv_heads = 4,
                  .head_width = 256,
                  .inner = 9216,
                  .rotary.theta = 1e6,
                  .tied = true},
     .read = bd_hf_read_gemma3},
    {.model_type = "olmo2",
     .keys = bd_hf_olmo2_keys,
     .defaults = {.vocabulary = 50304, .positions = 2048, .inner = 11008, .epsilon = 1e-5},
     .read = bd_hf_read_olmo2},
    {.model_type = "deepseek_v2",
     .keys = bd_hf_deepseek_v2_keys,
     .defaults =
         {.vocabulary = 32000, .positions = 2048, .inner = 11008, .experts = 64, .shared_inner = 2},
     .read = bd_hf_read_deepseek_v2,
     .latent = true},
    {.model_type = "deepseek_v3",
     .keys = bd_hf_deepseek_v3_keys,
     .defaults = {.vocabulary = 129280,
                  .positions = 4096,
                  .width = 7168,
                  .layers = 61,
                  .heads = 128,
                  .kv_heads = 128,
                  .inner = 18432,
                  .experts = 256,
                  .choices = 8,
                  .share_scale = 2.5,
                  .shared_inner = 1},
     .read = bd_hf_read_deepseek_v3,
     .latent = true}};

bd_status bd_hf_llama_config(bd_ctx *ctx, const bd_json *json, const char *model_type,
                             bd_llama_config *out_config) {
  size_t family = 0;
  while (strcmp(families[family].model_type, model_type) != 0) {
    ++family;
    assert(family < sizeof families / sizeof families[0]);
  }
  bd_llama_config c = families[family].defaults;
  if (c.width == 0) c.width = 4096;
  if (c.layers == 0) c.layers = 32;
  if (c.heads == 0) c.heads = 32;
  c.activation = BD_OP_SILU;
  if (c.epsilon == 0) c.epsilon = 1e-6;
  if (c.rotary.theta == 0) c.rotary.theta = 10000;
  if (c.init_scale == 0) c.init_scale = 0.02;
  const char *epsilon = families[family].epsilon;
  if (epsilon) BD_TRY(refuse(ctx, json, "rms_norm_eps", model_type));
  BD_TRY(bd_hf_only_known(ctx, json, members(ctx, families[family].keys)));
  const bd_json *head = bd_json_find(json, "head_dim");
  if (families[family].divides_width && head && head->kind == BD_JSON_NULL) c.head_width = 0;
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(families[family].latent ? bd_hf_read_latent(ctx, json, &c)
                                 : read_head_width(ctx, json, &c));
  double share = families[family].turned_share;
  BD_TRY(read_variants(ctx, json, families[family].turns_in_part, share != 0 ? share : 1, &c));
  BD_TRY(families[family].read(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, epsilon ? epsilon : "rms_norm_eps", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "attention_dropout", &c.dropout_attention));
  *out_config = c;
  return BD_OK;
}
