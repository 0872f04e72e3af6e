#include "frontend/hf/hf.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include <string.h>

typedef bd_status (*family_load)(bd_ctx *ctx, const char *folder, const bd_json *json,
                                 const bd_model_options *options, bd_module **out_graph);

// What stored names begin with: one of two, by whether a tensor is called so.
static bd_status choose_prefix(bd_ctx *ctx, const char *folder, const char *tensor,
                               const char *then, const char *otherwise, const char **out) {
  bool stored = false;
  BD_TRY(bd_hf_is_stored(ctx, folder, tensor, &stored));
  *out = stored ? then : otherwise;
  return BD_OK;
}

static bd_status load_gpt2(bd_ctx *ctx, const char *folder, const bd_json *json,
                           const bd_model_options *options, bd_module **out_graph) {
  bd_gpt2_config config;
  BD_TRY(bd_hf_gpt2_config(ctx, json, &config));
  BD_TRY(choose_prefix(ctx, folder, "transformer.wte.weight", "transformer.", config.stored_prefix,
                       &config.stored_prefix));
  return bd_gpt2_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_llama(bd_ctx *ctx, const char *folder, const bd_json *json,
                            const bd_model_options *options, bd_module **out_graph) {
  bd_llama_config config;
  BD_TRY(bd_hf_llama_config(ctx, json, bd_json_find(json, "model_type")->string, &config));
  BD_TRY(choose_prefix(ctx, folder, "embed_tokens.weight", "", "model.", &config.stored_prefix));
  return bd_llama_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_neox(bd_ctx *ctx, const char *folder, const bd_json *json,
                           const bd_model_options *options, bd_module **out_graph) {
  bd_neox_config config;
  BD_TRY(bd_hf_neox_config(ctx, json, &config));
  BD_TRY(choose_prefix(ctx, folder, "embed_in.weight", "", "gpt_neox.", &config.stored_prefix));
  return bd_neox_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_opt(bd_ctx *ctx, const char *folder, const bd_json *json,
                          const bd_model_options *options, bd_module **out_graph) {
  bd_opt_config config;
  BD_TRY(bd_hf_opt_config(ctx, json, &config));
  BD_TRY(choose_prefix(ctx, folder, "decoder.embed_tokens.weight", "decoder.", "model.decoder.",
                       &config.stored_prefix));
  return bd_opt_build(ctx, folder, &config, options, json->loc, out_graph);
}

// Older files call the gains and shifts of layer norms gamma and beta.
static bd_status load_bert(bd_ctx *ctx, const char *folder, const bd_json *json,
                           const bd_model_options *options, bd_module **out_graph) {
  bd_bert_config config;
  bool older = false;
  BD_TRY(bd_hf_bert_config(ctx, json, &config));
  BD_TRY(bd_hf_is_stored(ctx, folder, "bert.embeddings.LayerNorm.gamma", &older));
  if (older) {
    config.stored_gain = "gamma";
    config.stored_shift = "beta";
  }
  return bd_bert_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_roberta(bd_ctx *ctx, const char *folder, const bd_json *json,
                              const bd_model_options *options, bd_module **out_graph) {
  bd_bert_config config;
  BD_TRY(bd_hf_roberta_config(ctx, json, bd_json_find(json, "model_type")->string, &config));
  return bd_bert_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_distilbert(bd_ctx *ctx, const char *folder, const bd_json *json,
                                 const bd_model_options *options, bd_module **out_graph) {
  bd_bert_config config;
  BD_TRY(bd_hf_distilbert_config(ctx, json, &config));
  return bd_bert_build(ctx, folder, &config, options, json->loc, out_graph);
}

static bd_status load_vit(bd_ctx *ctx, const char *folder, const bd_json *json,
                          const bd_model_options *options, bd_module **out_graph) {
  bd_vit_config config;
  BD_TRY(bd_hf_vit_config(ctx, json, &config));
  return bd_vit_build(ctx, folder, &config, options, json->loc, out_graph);
}

// transformers 5 calls every T5 tied, and ties what it reads unless it differs; what it saves says
// whether outputs are scaled, which transformers 4 does not.
static bd_status untie_t5(bd_ctx *ctx, const char *folder, const bd_json *json,
                          bd_t5_config *config) {
  bool apart = false;
  if (!config->tied || !bd_json_given(json, "scale_decoder_outputs")) return BD_OK;
  BD_TRY(bd_hf_are_apart(ctx, folder, "lm_head.weight", "shared.weight", &apart));
  config->tied = !apart;
  return BD_OK;
}

static bd_status load_t5(bd_ctx *ctx, const char *folder, const bd_json *json,
                         const bd_model_options *options, bd_module **out_graph) {
  bd_t5_config config;
  BD_TRY(bd_hf_t5_config(ctx, json, &config));
  BD_TRY(untie_t5(ctx, folder, json, &config));
  return bd_t5_build(ctx, folder, &config, options, json->loc, out_graph);
}

static const struct {
  const char *model_type;
  family_load load;
  bd_hf_architectures architectures;
} families[] = {
    {"gpt2", load_gpt2, {.built = {"GPT2LMHeadModel"}, .body = "GPT2Model", .tied = true}},
    {"llama", load_llama, {.built = {"LlamaForCausalLM"}, .body = "LlamaModel"}},
    {"mistral", load_llama, {.built = {"MistralForCausalLM"}, .body = "MistralModel"}},
    {"mixtral", load_llama, {.built = {"MixtralForCausalLM"}, .body = "MixtralModel"}},
    {"qwen2", load_llama, {.built = {"Qwen2ForCausalLM"}, .body = "Qwen2Model"}},
    {"qwen3", load_llama, {.built = {"Qwen3ForCausalLM"}, .body = "Qwen3Model"}},
    {"qwen3_moe", load_llama, {.built = {"Qwen3MoeForCausalLM"}, .body = "Qwen3MoeModel"}},
    {"gpt_oss", load_llama, {.built = {"GptOssForCausalLM"}, .body = "GptOssModel"}},
    {"phi3", load_llama, {.built = {"Phi3ForCausalLM"}, .body = "Phi3Model"}},
    {"gemma", load_llama, {.built = {"GemmaForCausalLM"}, .body = "GemmaModel", .tied = true}},
    {"granite", load_llama, {.built = {"GraniteForCausalLM"}, .body = "GraniteModel"}},
    {"smollm3",
     load_llama,
     {.built = {"SmolLM3ForCausalLM"}, .body = "SmolLM3Model", .tied = true}},
    {"starcoder2",
     load_llama,
     {.built = {"Starcoder2ForCausalLM"}, .body = "Starcoder2Model", .tied = true}},
    {"stablelm", load_llama, {.built = {"StableLmForCausalLM"}, .body = "StableLmModel"}},
    {"gemma2", load_llama, {.built = {"Gemma2ForCausalLM"}, .body = "Gemma2Model", .tied = true}},
    {"gemma3_text",
     load_llama,
     {.built = {"Gemma3ForCausalLM"}, .body = "Gemma3TextModel", .tied = true}},
    {"gpt_neox", load_neox, {.built = {"GPTNeoXForCausalLM"}, .body = "GPTNeoXModel"}},
    {"opt", load_opt, {.built = {"OPTForCausalLM"}, .body = "OPTModel", .tied = true}},
    {"olmo2", load_llama, {.built = {"Olmo2ForCausalLM"}, .body = "Olmo2Model"}},
    {"glm", load_llama, {.built = {"GlmForCausalLM"}, .body = "GlmModel"}},
    {"glm4", load_llama, {.built = {"Glm4ForCausalLM"}, .body = "Glm4Model"}},
    {"deepseek_v2", load_llama, {.built = {"DeepseekV2ForCausalLM"}, .body = "DeepseekV2Model"}},
    {"deepseek_v3", load_llama, {.built = {"DeepseekV3ForCausalLM"}, .body = "DeepseekV3Model"}},
    {"bert", load_bert, {.built = {"BertForMaskedLM"}, .more = "BertForPreTraining"}},
    {"roberta", load_roberta, {.built = {"RobertaForMaskedLM"}}},
    {"xlm-roberta", load_roberta, {.built = {"XLMRobertaForMaskedLM"}}},
    {"camembert", load_roberta, {.built = {"CamembertForMaskedLM"}}},
    {"distilbert", load_distilbert, {.built = {"DistilBertForMaskedLM"}}},
    {"t5",
     load_t5,
     {.built = {"T5ForConditionalGeneration", "T5WithLMHeadModel"},
      .body = "T5Model",
      .tied = true}},
    {"vit", load_vit, {.built = {"ViTForImageClassification"}}},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static bd_status fail_unknown(bd_ctx *ctx, const bd_json *model_type) {
  if (strcmp(model_type->string, "gemma3") == 0)
    return bd_fail(ctx, BD_UNSUPPORTED, model_type->loc,
                   "a model of type \"gemma3\" also reads images, which is not supported; save "
                   "its text model as a folder of its own, of type \"gemma3_text\" (transformers' "
                   "Gemma3ForCausalLM)");
  bd_text names = bd_text_init(ctx->arena);
  for (int i = 0; i < FAMILIES; ++i)
    bd_text_addf(&names, "%s%s", i > 0 ? ", " : "", families[i].model_type);
  return bd_fail(ctx, BD_UNSUPPORTED, model_type->loc, "model type \"%s\" is not supported (%s)",
                 model_type->string, names.data);
}

// The folder's own name, without the path to it.
static const char *folder_name(bd_ctx *ctx, const char *folder) {
  size_t end = strlen(folder);
  while (end > 1 && folder[end - 1] == '/')
    --end;
  size_t start = end;
  while (start > 0 && folder[start - 1] != '/')
    --start;
  return bd_intern(ctx, folder + start, end - start);
}

bd_status bd_hf_load(bd_ctx *ctx, const char *folder, const bd_model_options *options,
                     bd_module **out_graph) {
  const char *path = bd_path_join(ctx, folder, "config.json");
  const bd_json *json = NULL;
  BD_TRY(bd_json_read(ctx, path, &json));
  const char *model_type = NULL;
  BD_TRY(bd_json_string(ctx, json, "model_type", true, &model_type));
  BD_TRY(bd_hf_check_quantized(ctx, folder, json, model_type));
  for (int i = 0; i < FAMILIES; ++i) {
    if (strcmp(families[i].model_type, model_type) != 0) continue;
    bd_module *graph = NULL;
    BD_TRY(bd_hf_check_architectures(ctx, json, model_type, &families[i].architectures));
    BD_TRY(families[i].load(ctx, folder, json, options, &graph));
    graph->name = folder_name(ctx, folder);
    if (options->vocabulary == 0) BD_TRY(bd_hf_check_weights(ctx, folder, graph));
    *out_graph = graph;
    return BD_OK;
  }
  return fail_unknown(ctx, bd_json_find(json, "model_type"));
}
