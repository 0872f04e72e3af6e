#include "frontend/hf/rope_config.h"
#include <string.h>

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

static bd_status read_share(bd_ctx *ctx, const bd_json *json, const char *key, bd_hf_rotary *r) {
  BD_TRY(bd_json_real(ctx, json, key, false, 0, 1, &r->share));
  if (!bd_json_find(json, key)) return BD_OK;
  r->share_key = key;
  r->share_loc = bd_hf_place(json, key);
  return BD_OK;
}

// `rope_scaling` of transformers 4 (kind under `rope_type`, older `type`), `rope_parameters` of 5.
static bd_status read_one(bd_ctx *ctx, const bd_json *json, const char *key, bd_hf_rotary *r) {
  const bd_json *rope = NULL;
  BD_TRY(bd_json_object(ctx, json, key, false, &rope));
  if (!rope) return BD_OK;
  const char *kind = "default";
  BD_TRY(bd_json_string(ctx, rope, "type", false, &kind));
  BD_TRY(bd_json_string(ctx, rope, "rope_type", false, &kind));
  BD_TRY(bd_json_real(ctx, rope, "rope_theta", false, 1, 1e12, &r->theta));
  BD_TRY(read_share(ctx, rope, "partial_rotary_factor", r));
  // What is dynamic stretches with sequences longer than the model's positions, which are refused.
  if (strcmp(kind, "default") == 0 || strcmp(kind, "dynamic") == 0) return BD_OK;
  if (strcmp(kind, "linear") == 0) return read_linear(ctx, rope, &r->stretch);
  if (strcmp(kind, "llama3") == 0) return read_stretch(ctx, rope, &r->stretch);
  return bd_fail(
      ctx, BD_UNSUPPORTED, rope->loc,
      "\"%s\": rotary scaling \"%s\" is not supported (default, linear, dynamic, llama3)", key,
      kind);
}

bd_status bd_hf_rotary_read(bd_ctx *ctx, const bd_json *json, const bd_hf_rotary_keys *keys,
                            bd_hf_rotary *r) {
  BD_TRY(bd_json_real(ctx, json, keys->theta, false, 1, 1e12, &r->theta));
  BD_TRY(read_share(ctx, json, keys->share, r));
  BD_TRY(read_one(ctx, json, "rope_scaling", r));
  return read_one(ctx, json, "rope_parameters", r);
}

bd_status bd_hf_rotary_turned(bd_ctx *ctx, const bd_hf_rotary *r, int64_t head_width,
                              int64_t *out_turned) {
  *out_turned = (int64_t)((double)head_width * r->share);
  if (*out_turned > 0 && *out_turned % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, r->share_loc,
                 "\"%s\": %g of a head of %lld is %lld elements; rotary positions need pairs",
                 r->share_key, r->share, (long long)head_width, (long long)*out_turned);
}

bd_status bd_hf_rotary_whole(bd_ctx *ctx, const bd_hf_rotary *r) {
  if (r->share == 1) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, r->share_loc, "\"%s\": only 1 is supported", r->share_key);
}
