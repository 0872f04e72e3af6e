// Which of transformers' models a folder holds.
#include "frontend/hf/hf.h"
#include <string.h>

static bool is_built(const bd_hf_architectures *known, const char *name) {
  for (int i = 0; i < BD_HF_MOST_BUILT && known->built[i]; ++i)
    if (strcmp(known->built[i], name) == 0) return true;
  return false;
}

static bd_status check_one(bd_ctx *ctx, const bd_json *json, const char *model_type,
                           const bd_hf_architectures *known, const bd_json *item) {
  bool tied = known->tied;
  if (item->kind != BD_JSON_STRING)
    return bd_fail(ctx, BD_INVALID, item->loc, "\"architectures\": expected names of models");
  if (is_built(known, item->string)) return BD_OK;
  if (known->more && strcmp(known->more, item->string) == 0) {
    bd_warn(ctx, item->loc,
            "of a %s braid trains what %s has; its other head is left out and not saved",
            known->more, known->built[0]);
    return BD_OK;
  }
  if (known->body && strcmp(known->body, item->string) == 0) {
    BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &tied));
    if (tied) return BD_OK;
    return bd_fail(ctx, BD_UNSUPPORTED, item->loc,
                   "\"architectures\": a %s has no output matrix; make it \"%s\" and, where the "
                   "weights lack it, \"tie_word_embeddings\" true",
                   known->body, known->built[0]);
  }
  return bd_fail(ctx, BD_UNSUPPORTED, item->loc,
                 "\"architectures\": \"%s\" is not what braid builds of model type \"%s\"; make "
                 "it \"%s\" to train that, or export the model to ONNX (docs/onnx.md)",
                 item->string, model_type, known->built[0]);
}

bd_status bd_hf_check_architectures(bd_ctx *ctx, const bd_json *json, const char *model_type,
                                    const bd_hf_architectures *known) {
  const bd_json *names = NULL;
  BD_TRY(bd_json_array(ctx, json, "architectures", false, &names));
  for (size_t i = 0; names && i < names->count; ++i)
    BD_TRY(check_one(ctx, json, model_type, known, &names->items[i]));
  return BD_OK;
}
