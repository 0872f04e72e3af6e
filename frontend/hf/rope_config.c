// How rotary positions are turned.
#include "frontend/hf/llama_config.h"
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

bd_status bd_hf_rope(bd_ctx *ctx, const bd_json *json, const char *key, bd_llama_config *c) {
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
