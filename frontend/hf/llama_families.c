// Llama's kin: what each family has of its own.
#include "frontend/hf/llama_families.h"
#include "frontend/hf/llama_config.h"
#include <assert.h>
#include <string.h>

// Of the families that are nearest to Llama, each of which lacks some.
static const char *const keys[] = {
    "head_dim",       "partial_rotary_factor", "attention_bias",    "mlp_bias",    "pretraining_tp",
    "sliding_window", "use_sliding_window",    "max_window_layers", "layer_types", NULL};

// The same bias for queries, keys, values and outputs, or none.
static bd_status read_llama(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_of(ctx, json, "sliding_window", "llama"));
  BD_TRY(bd_hf_refuse_of(ctx, json, "use_sliding_window", "llama"));
  BD_TRY(bd_hf_refuse_of(ctx, json, "layer_types", "llama"));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  return bd_json_bool(ctx, json, "mlp_bias", false, &c->mlp_bias);
}

// Every layer looks back `sliding_window` positions; null: as far as there are any.
static bd_status read_mistral(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_true(ctx, json, "attention_bias"));
  BD_TRY(bd_hf_refuse_true(ctx, json, "mlp_bias"));
  BD_TRY(bd_hf_refuse_of(ctx, json, "use_sliding_window", "mistral"));
  BD_TRY(bd_hf_refuse_of(ctx, json, "layer_types", "mistral"));
  const bd_json *window = bd_json_find(json, "sliding_window");
  c->window = window && window->kind == BD_JSON_NULL ? 0 : 4096;
  return bd_hf_extent(ctx, json, "sliding_window", &c->window);
}

// Queries, keys and values have a bias, outputs have none; no member says so.
static bd_status read_qwen2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  BD_TRY(bd_hf_refuse_of(ctx, json, "attention_bias", "qwen2"));
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

static const bd_llama_family families[] = {
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
     .read = bd_hf_read_gemma3,
     .turned_layers = "full_attention"},
    {.model_type = "olmo2",
     .keys = bd_hf_olmo2_keys,
     .defaults = {.vocabulary = 50304, .positions = 2048, .inner = 11008, .epsilon = 1e-5},
     .read = bd_hf_read_olmo2},
    {.model_type = "glm",
     .keys = bd_hf_glm_keys,
     .defaults = {.vocabulary = 151552,
                  .positions = 131072,
                  .layers = 40,
                  .kv_heads = 2,
                  .head_width = 128,
                  .inner = 13696,
                  .epsilon = 1.5625e-7},
     .read = bd_hf_read_glm,
     .turns_in_part = true,
     .turned_share = 0.5},
    {.model_type = "glm4",
     .keys = bd_hf_glm_keys,
     .defaults = {.vocabulary = 151552,
                  .positions = 131072,
                  .layers = 40,
                  .kv_heads = 2,
                  .head_width = 128,
                  .inner = 13696,
                  .epsilon = 1.5625e-7},
     .read = bd_hf_read_glm4,
     .turns_in_part = true,
     .turned_share = 0.5},
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

const bd_llama_family *bd_llama_family_find(const char *model_type) {
  const bd_llama_family *family = families;
  while (strcmp(family->model_type, model_type) != 0) {
    ++family;
    assert(family < families + sizeof families / sizeof families[0]);
  }
  return family;
}
