#include "frontend/hf/hf.h"
#include "ir/base/text.h"
#include <string.h>

bd_loc bd_hf_place(const bd_json *json, const char *key) {
  const bd_json *member = bd_json_find(json, key);
  return member ? member->loc : json->loc;
}

bd_status bd_hf_extent(bd_ctx *ctx, const bd_json *json, const char *key, int64_t *out) {
  return bd_json_int(ctx, json, key, false, 1, BD_MAX_CONFIG_EXTENT, out);
}

bd_status bd_hf_probability(bd_ctx *ctx, const bd_json *json, const char *key, double *out) {
  BD_TRY(bd_json_real(ctx, json, key, false, 0, 1, out));
  if (*out < 1) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_json_find(json, key)->loc,
                 "\"%s\": a dropout of 1 leaves nothing", key);
}

bd_status bd_hf_cap(bd_ctx *ctx, const bd_json *json, const char *key, double *out) {
  const bd_json *member = bd_json_find(json, key);
  if (member && member->kind == BD_JSON_NULL) *out = 0;
  return bd_json_real(ctx, json, key, false, 1e-3, 1e6, out);
}

bd_status bd_hf_padding(bd_ctx *ctx, const bd_json *json, int64_t vocabulary, int64_t *out) {
  const bd_json *member = bd_json_find(json, "pad_token_id");
  if (member && member->kind == BD_JSON_NULL) *out = -1;
  return bd_json_int(ctx, json, "pad_token_id", false, 0, vocabulary - 1, out);
}

bool bd_hf_find_activation(const char *name, bd_op_kind *out) {
  static const struct {
    const char *name;
    bd_op_kind kind;
  } known[] = {{"gelu_new", BD_OP_GELU},  {"gelu_pytorch_tanh", BD_OP_GELU},
               {"gelu_fast", BD_OP_GELU}, {"gelu", BD_OP_GELU_ERF},
               {"relu", BD_OP_RELU},      {"silu", BD_OP_SILU},
               {"swish", BD_OP_SILU}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    *out = known[i].kind;
    return true;
  }
  return false;
}

bd_status bd_hf_activation(bd_ctx *ctx, const bd_json *json, const char *key, bd_op_kind *out) {
  const char *name = NULL;
  BD_TRY(bd_json_string(ctx, json, key, false, &name));
  if (!name || bd_hf_find_activation(name, out)) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_json_find(json, key)->loc,
                 "\"%s\": activation \"%s\" is not supported (gelu_new, gelu_pytorch_tanh, "
                 "gelu_fast, gelu, relu, silu, swish)",
                 key, name);
}

bd_status bd_hf_refuse_true(bd_ctx *ctx, const bd_json *json, const char *key) {
  bool set = false;
  BD_TRY(bd_json_bool(ctx, json, key, false, &set));
  if (!set) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_json_find(json, key)->loc, "\"%s\": true is not supported",
                 key);
}

bd_status bd_hf_only_value(bd_ctx *ctx, const bd_json *json, const char *key, const char *only) {
  const bd_json *member = bd_json_given(json, key);
  if (!member || strcmp(bd_json_describe(ctx, member), only) == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, member->loc,
                 "\"%s\": %s is not supported; transformers computes as with %s", key,
                 bd_json_describe(ctx, member), only);
}

void bd_hf_tell_defaults(bd_ctx *ctx, const bd_json *json, const bd_hf_size *sizes) {
  bd_text absent = bd_text_init(ctx->arena);
  for (const bd_hf_size *size = sizes; size->key; size++) {
    if (bd_json_given(json, size->key)) continue;
    bd_text_addf(&absent, "%s\"%s\" (%s%lld)", absent.length ? ", " : "", size->key,
                 bd_json_find(json, size->key) ? "null: " : "", (long long)size->taken);
  }
  if (absent.length)
    bd_warn(ctx, json->loc, "sizes that are left out take the defaults of transformers: %s",
            absent.data);
}

bd_status bd_hf_divides(bd_ctx *ctx, const bd_json *json, const char *key, int64_t size,
                        const char *of_key, int64_t of) {
  if (of % size == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, key),
                 "\"%s\": %lld does not divide \"%s\" %lld", key, (long long)size, of_key,
                 (long long)of);
}
