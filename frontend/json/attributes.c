#include "frontend/json/model_json.h"
#include "ir/base/suggest.h"
#include <string.h>

// Every attribute that an op of a graph can have, and the numbers it can take.
typedef struct known_attr {
  const char *name;
  bd_attr_kind kind;
  double min, max; // of integers and reals
} known_attr;

#define LARGEST ((double)BD_MAX_ELEMENTS)

static const known_attr known[] = {
    {"rule", BD_ATTR_STRING, 0, 0},
    {"dtype", BD_ATTR_STRING, 0, 0},
    {"dims", BD_ATTR_INTS, 0, 0},
    {"value", BD_ATTR_REAL, -1e38, 1e38},
    {"values", BD_ATTR_REALS, 0, 0},
    {"fmod", BD_ATTR_INT, 0, 1},
    {"p", BD_ATTR_REAL, 0, 0.9999},
    {"dropout", BD_ATTR_REAL, 0, 0.9999},
    {"eps", BD_ATTR_REAL, 1e-12, 1},
    {"scale", BD_ATTR_REAL, -1e38, 1e38},
    {"softcap", BD_ATTR_REAL, 1e-3, 1e6},
    {"theta", BD_ATTR_REAL, 1, 1e12},
    {"factor", BD_ATTR_REAL, 1, 1e6},
    {"low_freq_factor", BD_ATTR_REAL, 1e-6, 1e6},
    {"high_freq_factor", BD_ATTR_REAL, 1e-6, 1e6},
    {"original_positions", BD_ATTR_INT, 1, LARGEST},
    {"ramp_low", BD_ATTR_REAL, -1e6, 1e6},
    {"ramp_high", BD_ATTR_REAL, -1e6, 1e6},
    {"inverse", BD_ATTR_INT, 0, 1},
    {"turned", BD_ATTR_INT, 2, LARGEST},
    {"last", BD_ATTR_INT, 0, 1},
    {"interleaved", BD_ATTR_INT, 0, 1},
    {"causal", BD_ATTR_INT, 0, 1},
    {"window", BD_ATTR_INT, 1, LARGEST},
    {"site", BD_ATTR_INT, 0, 1 << 20},
    {"dim", BD_ATTR_INT, 0, BD_MAX_RANK - 1},
    {"start", BD_ATTR_INT, 0, LARGEST},
    {"size", BD_ATTR_INT, 1, LARGEST},
    {"step", BD_ATTR_INT, -LARGEST, LARGEST},
    {"exclusive", BD_ATTR_INT, 0, 1},
    {"reverse", BD_ATTR_INT, 0, 1},
    {"constant", BD_ATTR_INT, 0, 1},
    {"batch", BD_ATTR_INT, 0, BD_MAX_RANK - 1},
    {"reduction", BD_ATTR_STRING, 0, 0},
    {"kernel", BD_ATTR_REALS, 0, 0},
    {"strides", BD_ATTR_REALS, 0, 0},
    {"dilations", BD_ATTR_REALS, 0, 0},
    {"pads", BD_ATTR_REALS, 0, 0},
    {"k", BD_ATTR_INT, 1, LARGEST},
    {"rows", BD_ATTR_INT, 1, BD_MAX_RANK - 1},
    {"places", BD_ATTR_INT, 1, LARGEST},
    {"largest", BD_ATTR_INT, 0, 1},
    {"groups", BD_ATTR_INT, 1, 1 << 20},
};
enum { KNOWN_COUNT = sizeof known / sizeof known[0] };

static const known_attr *find(const char *name) {
  for (int i = 0; i < KNOWN_COUNT; ++i) {
    if (strcmp(known[i].name, name) == 0) return &known[i];
  }
  return NULL;
}

static bd_status fail_unknown(bd_ctx *ctx, const char *name, bd_loc loc) {
  const char *names[KNOWN_COUNT + 1] = {0};
  for (int i = 0; i < KNOWN_COUNT; ++i)
    names[i] = known[i].name;
  const char *meant = bd_suggest(name, names);
  if (meant)
    return bd_fail(ctx, BD_INVALID, loc, "unknown attribute \"%s\"; did you mean \"%s\"?", name,
                   meant);
  return bd_fail(ctx, BD_INVALID, loc, "unknown attribute \"%s\"", name);
}

// A list of integers or, where one of them is a real, of reals.
static bd_status read_list(bd_ctx *ctx, const bd_json *object, const char *name,
                           bd_attr *out_attr) {
  const bd_json *array = NULL;
  BD_TRY(bd_json_array(ctx, object, name, true, &array));
  int64_t *ints = BD_NEW_ARRAY(ctx->arena, int64_t, array->count);
  double *reals = BD_NEW_ARRAY(ctx->arena, double, array->count);
  bool whole = true;
  for (size_t i = 0; i < array->count; ++i) {
    const bd_json *item = &array->items[i];
    if (item->kind != BD_JSON_INT && item->kind != BD_JSON_REAL)
      return bd_fail(ctx, BD_INVALID, item->loc, "\"%s\": a value is a number", name);
    whole &= item->kind == BD_JSON_INT;
    ints[i] = item->integer;
    reals[i] = item->real;
  }
  *out_attr = whole ? bd_attr_ints(ctx, name, (int)array->count, ints)
                    : bd_attr_reals(ctx, name, (int)array->count, reals);
  return BD_OK;
}

static bd_status read_attr(bd_ctx *ctx, const bd_json *object, const known_attr *k,
                           bd_attr *out_attr) {
  int64_t integer = 0, dims[BD_MAX_RANK];
  double real = 0;
  const char *string = NULL;
  int rank = 0;
  switch (k->kind) {
  case BD_ATTR_INT:
    BD_TRY(bd_json_int(ctx, object, k->name, true, (int64_t)k->min, (int64_t)k->max, &integer));
    *out_attr = bd_attr_int(ctx, k->name, integer);
    return BD_OK;
  case BD_ATTR_REAL:
    BD_TRY(bd_json_real(ctx, object, k->name, true, k->min, k->max, &real));
    *out_attr = bd_attr_real(ctx, k->name, real);
    return BD_OK;
  case BD_ATTR_STRING:
    BD_TRY(bd_json_string(ctx, object, k->name, true, &string));
    *out_attr = bd_attr_string(ctx, k->name, string);
    return BD_OK;
  case BD_ATTR_INTS:
    BD_TRY(bd_model_json_dims(ctx, object, k->name, &rank, dims));
    *out_attr = bd_attr_ints(ctx, k->name, rank, dims);
    return BD_OK;
  case BD_ATTR_REALS:
    return read_list(ctx, object, k->name, out_attr);
  }
  return BD_OK;
}

bd_status bd_model_json_attrs(bd_ctx *ctx, const bd_json *json, bd_attr **out_attrs,
                              int *out_count) {
  bd_attr *attrs = BD_NEW_ARRAY(ctx->arena, bd_attr, json->count);
  for (size_t i = 0; i < json->count; ++i) {
    const known_attr *k = find(json->keys[i]);
    if (!k) return fail_unknown(ctx, json->keys[i], json->items[i].loc);
    BD_TRY(read_attr(ctx, json, k, &attrs[i]));
  }
  *out_attrs = attrs;
  *out_count = (int)json->count;
  return BD_OK;
}

bd_status bd_model_json_dims(bd_ctx *ctx, const bd_json *object, const char *key, int *out_rank,
                             int64_t dims[BD_MAX_RANK]) {
  const bd_json *array = NULL;
  BD_TRY(bd_json_array(ctx, object, key, true, &array));
  if (array->count > BD_MAX_RANK)
    return bd_fail(ctx, BD_INVALID, array->loc, "\"%s\": more than %d dimensions", key,
                   BD_MAX_RANK);
  for (size_t d = 0; d < array->count; ++d) {
    const bd_json *extent = &array->items[d];
    bool is_batch = extent->kind == BD_JSON_STRING && strcmp(extent->string, "B") == 0;
    int64_t size;
    bool is_extent = bd_json_whole(extent, 1, BD_MAX_ELEMENTS, &size);
    if (is_batch && d > 0)
      return bd_fail(ctx, BD_INVALID, extent->loc, "\"%s\": \"B\" can only come first", key);
    if (!is_batch && !is_extent)
      return bd_fail(ctx, BD_INVALID, extent->loc,
                     "\"%s\": an extent is an integer from 1 to 2^46, or \"B\" for the batch", key);
    dims[d] = is_batch ? BD_DIM_BATCH : size;
  }
  *out_rank = (int)array->count;
  return BD_OK;
}
