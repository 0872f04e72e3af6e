// Which of transformers' models a folder holds: one body serves many tasks, of which braid builds
// one.
#include "frontend/hf/hf.h"
#include <string.h>

enum { MOST_BUILT = 2 };

typedef struct family {
  const char *model_type;
  const char *built[MOST_BUILT]; // the task that is built, under each of its names
  const char *more;              // has another head beside it, which the loss does not read
  const char *body;              // has no head, which where the output matrix is tied lacks nothing
  bool tied;                     // where the configuration does not say
} family;

static const family families[] = {
    {"gpt2", .built = {"GPT2LMHeadModel"}, .body = "GPT2Model", .tied = true},
    {"llama", .built = {"LlamaForCausalLM"}, .body = "LlamaModel"},
    {"mistral", .built = {"MistralForCausalLM"}, .body = "MistralModel"},
    {"mixtral", .built = {"MixtralForCausalLM"}, .body = "MixtralModel"},
    {"qwen2", .built = {"Qwen2ForCausalLM"}, .body = "Qwen2Model"},
    {"bert", .built = {"BertForMaskedLM"}, .more = "BertForPreTraining"},
    {"t5", .built = {"T5ForConditionalGeneration", "T5WithLMHeadModel"}, .body = "T5Model",
     .tied = true},
    {"vit", .built = {"ViTForImageClassification"}},
};

static const family *find_family(const char *model_type) {
  for (size_t i = 0; i < sizeof families / sizeof families[0]; ++i)
    if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
  return NULL;
}

static bool is_built(const family *f, const char *name) {
  for (int i = 0; i < MOST_BUILT && f->built[i]; ++i)
    if (strcmp(f->built[i], name) == 0) return true;
  return false;
}

static bd_status check_one(bd_ctx *ctx, const bd_json *json, const family *f, const bd_json *item) {
  bool tied = f->tied;
  if (item->kind != BD_JSON_STRING)
    return bd_fail(ctx, BD_INVALID, item->loc, "\"architectures\": expected names of models");
  if (is_built(f, item->string)) return BD_OK;
  if (f->more && strcmp(f->more, item->string) == 0) {
    bd_warn(ctx, item->loc,
            "of a %s braid trains what %s has; its other head is left out and not saved", f->more,
            f->built[0]);
    return BD_OK;
  }
  if (f->body && strcmp(f->body, item->string) == 0) {
    BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &tied));
    if (tied) return BD_OK;
    return bd_fail(ctx, BD_UNSUPPORTED, item->loc,
                   "\"architectures\": a %s has no output matrix; make it \"%s\" and, where the "
                   "weights lack lm_head.weight, \"tie_word_embeddings\" true",
                   f->body, f->built[0]);
  }
  return bd_fail(ctx, BD_UNSUPPORTED, item->loc,
                 "\"architectures\": \"%s\" is not what braid builds of model type \"%s\"; make "
                 "it \"%s\" to train that, or export the model to ONNX (docs/onnx.md)",
                 item->string, f->model_type, f->built[0]);
}

bd_status bd_hf_check_architectures(bd_ctx *ctx, const bd_json *json, const char *model_type) {
  const family *f = find_family(model_type);
  const bd_json *names = NULL;
  BD_TRY(bd_json_array(ctx, json, "architectures", false, &names));
  for (size_t i = 0; f && names && i < names->count; ++i)
    BD_TRY(check_one(ctx, json, f, &names->items[i]));
  return BD_OK;
}
