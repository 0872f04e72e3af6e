#include "frontend/hf/rope_config.h"
#include <math.h>

// The member `key`, a number for each of `pairs`.
static bd_status read_divisors(bd_ctx *ctx, const bd_json *rope, const char *key, int64_t pairs,
                               const double **out) {
  const bd_json *list = NULL;
  double *values = BD_NEW_ARRAY(ctx->arena, double, pairs);
  BD_TRY(bd_json_array(ctx, rope, key, true, &list));
  if ((int64_t)list->count != pairs)
    return bd_fail(ctx, BD_INVALID, list->loc, "\"%s\" has %zu numbers for %lld pairs that turn",
                   key, list->count, (long long)pairs);
  for (int64_t i = 0; i < pairs; ++i) {
    const bd_json *item = &list->items[i];
    bool number = item->kind == BD_JSON_INT || item->kind == BD_JSON_REAL;
    if (!number || !(item->real >= 1e-6 && item->real <= 1e6))
      return bd_fail(ctx, BD_INVALID, item->loc,
                     "\"%s\": expected numbers from 1e-06 to 1000000, found %s", key,
                     bd_json_describe(ctx, item));
    values[i] = item->real;
  }
  *out = values;
  return BD_OK;
}

// How much longer sequences are than those of the first training: as the configuration's own member
// has these, else as `factor` says.
static bd_status read_factor(bd_ctx *ctx, const bd_json *json, const bd_json *rope,
                             int64_t positions, int64_t first, double *out) {
  bool told = bd_json_given(json, "original_max_position_embeddings") != NULL;
  const bd_json *said = bd_json_given(rope, "factor");
  double ratio = (double)positions / (double)first;
  *out = ratio;
  BD_TRY(bd_json_real(ctx, rope, "factor", false, 1e-6, 1e6, out));
  if (!said || !told || *out == ratio) return BD_OK;
  return bd_fail(ctx, BD_INVALID, said->loc,
                 "\"factor\" is %g, but \"max_position_embeddings\" is %g times "
                 "\"original_max_position_embeddings\"; leave it out",
                 *out, ratio);
}

bd_status bd_hf_longrope_read(bd_ctx *ctx, const bd_json *json, const bd_json *rope,
                              int64_t positions, int64_t turned, bd_rotary *r) {
  static const char first[] = "original_max_position_embeddings";
  double factor = 1;
  r->near_positions = positions;
  BD_TRY(bd_json_int(ctx, json, first, false, 2, BD_MAX_CONFIG_EXTENT, &r->near_positions));
  BD_TRY(bd_json_int(ctx, rope, first, false, 2, BD_MAX_CONFIG_EXTENT, &r->near_positions));
  BD_TRY(read_divisors(ctx, rope, "short_factor", turned / 2, &r->near));
  BD_TRY(read_divisors(ctx, rope, "long_factor", turned / 2, &r->far));
  BD_TRY(read_factor(ctx, json, rope, positions, r->near_positions, &factor));
  r->amplitude = factor <= 1 ? 1 : sqrt(1 + log(factor) / log((double)r->near_positions));
  return bd_json_real(ctx, rope, "attention_factor", false, 1e-6, 1e6, &r->amplitude);
}
