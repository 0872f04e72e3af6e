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

// Of each head that is turned, and the member that says so.
typedef struct share {
  double value;
  const char *key;
  bd_loc loc;
} share;

static bd_status read_share(bd_ctx *ctx, const bd_json *json, const char *key, share *s) {
  BD_TRY(bd_json_real(ctx, json, key, false, 0, 1, &s->value));
  if (!bd_json_find(json, key)) return BD_OK;
  s->key = key;
  s->loc = bd_hf_place(json, key);
  return BD_OK;
}

// Where rotary positions are told of: `rope_scaling` of transformers 4 (kind under `rope_type`,
// older `type`), `rope_parameters` of 5, or a member of that; NULL where there is none.
typedef struct places {
  const bd_json *older, *newer;
  const char *newer_key;
} places;

static bd_status find_places(bd_ctx *ctx, const bd_json *json, const bd_hf_rotary_family *family,
                             places *out) {
  static const char *const layers[] = {"full_attention", "sliding_attention", NULL};
  *out = (places){.newer_key = "rope_parameters"};
  if (!family->apart) BD_TRY(bd_json_object(ctx, json, "rope_scaling", false, &out->older));
  const bd_json *parameters = NULL;
  BD_TRY(bd_json_object(ctx, json, "rope_parameters", false, &parameters));
  out->newer = parameters;
  if (!family->layers || !parameters) return BD_OK;
  BD_TRY(bd_json_only(ctx, parameters, layers));
  out->newer_key = family->layers;
  out->newer = NULL;
  return bd_json_object(ctx, parameters, family->layers, false, &out->newer);
}

// Where a head may be turned in part, what YaRN multiplies is a part of it.
static bd_status read_stretching(bd_ctx *ctx, const bd_json *rope, const char *key,
                                 const char *kind, const bd_hf_rotary_family *family,
                                 int64_t head_width, bd_rotary *r) {
  // What is dynamic stretches with sequences longer than the model's positions, which are refused.
  if (strcmp(kind, "default") == 0 || strcmp(kind, "dynamic") == 0) return BD_OK;
  // Of what is turned, which is known later.
  if (strcmp(kind, "longrope") == 0) return BD_OK;
  if (strcmp(kind, "linear") == 0) return read_linear(ctx, rope, &r->stretch);
  if (strcmp(kind, "llama3") == 0) return read_stretch(ctx, rope, &r->stretch);
  if (family->whole && strcmp(kind, "yarn") == 0)
    return bd_hf_yarn_read(ctx, rope, family->positions, head_width, r);
  return bd_fail(ctx, BD_UNSUPPORTED, rope->loc,
                 "\"%s\": rotary scaling \"%s\" is not supported (default, linear, dynamic, "
                 "llama3, longrope%s)",
                 key, kind, family->whole ? ", yarn" : "");
}

// `finetuned` says how the weights were made, and nothing of positions.
static const char *const known[] = {"rope_type",        "type",
                                    "rope_theta",       "partial_rotary_factor",
                                    "factor",           "low_freq_factor",
                                    "high_freq_factor", "original_max_position_embeddings",
                                    "beta_fast",        "beta_slow",
                                    "mscale",           "mscale_all_dim",
                                    "attention_factor", "truncate",
                                    "long_factor",      "short_factor",
                                    "finetuned",        NULL};

static bd_status read_one(bd_ctx *ctx, const bd_json *rope, const char *key,
                          const bd_hf_rotary_family *family, int64_t head_width, bd_rotary *r,
                          share *s) {
  if (!rope) return BD_OK;
  const char *kind = "default";
  BD_TRY(bd_json_string(ctx, rope, "type", false, &kind));
  BD_TRY(bd_json_string(ctx, rope, "rope_type", false, &kind));
  BD_TRY(bd_json_real(ctx, rope, "rope_theta", false, 1, 1e12, &r->theta));
  BD_TRY(read_share(ctx, rope, "partial_rotary_factor", s));
  BD_TRY(read_stretching(ctx, rope, key, kind, family, head_width, r));
  return bd_json_only(ctx, rope, known);
}

// What a family, every family, and either object may say.
static bd_status agree(bd_ctx *ctx, const bd_json *json, const bd_hf_rotary_family *own,
                       const places *at) {
  static const char scaling[] = "rope_scaling";
  const bd_json *shared = own->apart ? NULL : json;
  const struct {
    const char *own, *key;
  } numbers[] = {{own->theta, "rope_theta"},
                 {own->share, "partial_rotary_factor"},
                 {"factor", "factor"},
                 {"low_freq_factor", "low_freq_factor"},
                 {"high_freq_factor", "high_freq_factor"},
                 {"original_max_position_embeddings", "original_max_position_embeddings"},
                 {"beta_fast", "beta_fast"},
                 {"beta_slow", "beta_slow"},
                 {"mscale", "mscale"},
                 {"mscale_all_dim", "mscale_all_dim"},
                 {"attention_factor", "attention_factor"},
                 {"truncate", "truncate"}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
    const char *key = numbers[i].key;
    const bd_hf_member said[] = {{json, NULL, numbers[i].own},
                                 {shared, NULL, key},
                                 {at->older, scaling, key},
                                 {at->newer, at->newer_key, key}};
    BD_TRY(bd_hf_agree(ctx, 4, said));
  }
  const bd_hf_member kinds[] = {{at->older, scaling, "rope_type"},
                                {at->older, scaling, "type"},
                                {at->newer, at->newer_key, "rope_type"},
                                {at->newer, at->newer_key, "type"}};
  return bd_hf_agree(ctx, 4, kinds);
}

// What transformers writes a second time, under the names of other families, it reads under its
// own.
static bd_status check_again(bd_ctx *ctx, const bd_json *json, const char *key, const char *own,
                             double value) {
  double again = value;
  BD_TRY(bd_json_real(ctx, json, key, false, 0, 1e12, &again));
  if (again == value) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, key),
                 "\"%s\" is %g, but \"%s\", which counts, is left out and so %g", key, again, own,
                 value);
}

static bd_status count_turned(bd_ctx *ctx, const share *s, int64_t head_width, int64_t *out) {
  *out = (int64_t)((double)head_width * s->value);
  if (*out > 0 && *out % 2 == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, s->loc,
                 "\"%s\": %g of a head of %lld is %lld elements; rotary positions need pairs",
                 s->key, s->value, (long long)head_width, (long long)*out);
}

static bool is_long(const bd_json *rope) {
  const bd_json *kind = rope ? bd_json_given(rope, "rope_type") : NULL;
  if (rope && !kind) kind = bd_json_given(rope, "type");
  return kind && kind->kind == BD_JSON_STRING && strcmp(kind->string, "longrope") == 0;
}

static bd_status read_long(bd_ctx *ctx, const bd_json *json, const places *at, int64_t positions,
                           int64_t turned, bd_rotary *r) {
  bool older = is_long(at->older), newer = is_long(at->newer);
  if (!older && !newer) return BD_OK;
  if (older && newer)
    return bd_fail(ctx, BD_INVALID, at->newer->loc,
                   "\"%s\" and \"rope_scaling\" are both \"longrope\"; leave one of them",
                   at->newer_key);
  return bd_hf_longrope_read(ctx, json, older ? at->older : at->newer, positions, turned, r);
}

bd_status bd_hf_rotary_read(bd_ctx *ctx, const bd_json *json, const bd_hf_rotary_family *family,
                            int64_t head_width, bd_rotary *r) {
  share s = {family->usual_share, family->share, json->loc};
  places at;
  BD_TRY(find_places(ctx, json, family, &at));
  BD_TRY(agree(ctx, json, family, &at));
  BD_TRY(bd_json_real(ctx, json, family->theta, false, 1, 1e12, &r->theta));
  BD_TRY(read_share(ctx, json, family->share, &s));
  BD_TRY(read_one(ctx, at.older, "rope_scaling", family, head_width, r, &s));
  BD_TRY(read_one(ctx, at.newer, at.newer_key, family, head_width, r, &s));
  if (!family->apart) BD_TRY(check_again(ctx, json, "rope_theta", family->theta, r->theta));
  BD_TRY(check_again(ctx, json, "partial_rotary_factor", family->share, s.value));
  if (family->whole && s.value != 1)
    return bd_fail(ctx, BD_UNSUPPORTED, s.loc, "\"%s\": only 1 is supported", s.key);
  int64_t turned = head_width;
  if (!family->whole) {
    BD_TRY(count_turned(ctx, &s, head_width, &turned));
    r->turned = turned;
  }
  return read_long(ctx, json, &at, family->positions, turned, r);
}
