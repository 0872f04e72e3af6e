#include "ir/base/json.h"
#include "ir/base/number.h"
#include "ir/base/suggest.h"
#include "ir/base/text.h"
#include <string.h>

const char *bd_json_describe(bd_ctx *ctx, const bd_json *value) {
  enum { LONGEST_SHOWN = 40 };
  bd_text text = bd_text_init(ctx->arena);
  switch (value->kind) {
  case BD_JSON_NULL:
    return "null";
  case BD_JSON_BOOL:
    return value->boolean ? "true" : "false";
  case BD_JSON_INT:
    bd_text_addf(&text, "%lld", (long long)value->integer);
    break;
  case BD_JSON_REAL:
    bd_text_add_double(&text, value->real);
    break;
  case BD_JSON_STRING:
    if (strlen(value->string) > LONGEST_SHOWN) return "a string";
    bd_text_addf(&text, "\"%s\"", value->string);
    break;
  case BD_JSON_ARRAY:
    return "an array";
  case BD_JSON_OBJECT:
    return "an object";
  }
  return text.data;
}

static bd_status wrong(bd_ctx *ctx, const bd_json *value, const char *key, const char *wanted) {
  return bd_fail(ctx, BD_INVALID, value->loc, "\"%s\": expected %s, found %s", key, wanted,
                 bd_json_describe(ctx, value));
}

static bd_status check_object(bd_ctx *ctx, const bd_json *object) {
  if (object->kind == BD_JSON_OBJECT) return BD_OK;
  return bd_fail(ctx, BD_INVALID, object->loc, "expected an object, found %s",
                 bd_json_describe(ctx, object));
}

const bd_json *bd_json_given(const bd_json *object, const char *key) {
  const bd_json *member = bd_json_find(object, key);
  return member && member->kind != BD_JSON_NULL ? member : NULL;
}

// The member; NULL when it is absent or null and need not be there.
static bd_status get(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                     const char *wanted, const bd_json **out_member) {
  BD_TRY(check_object(ctx, object));
  const bd_json *member = bd_json_find(object, key);
  if (!member && required) {
    return bd_fail(ctx, BD_INVALID, object->loc, "\"%s\" (%s) is missing", key, wanted);
  }
  if (member && member->kind == BD_JSON_NULL) {
    if (required) return wrong(ctx, member, key, wanted);
    member = NULL;
  }
  *out_member = member;
  return BD_OK;
}

static bd_status get_kind(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                          bd_json_kind kind, const char *wanted, const bd_json **out_member) {
  const bd_json *member = NULL;
  BD_TRY(get(ctx, object, key, required, wanted, &member));
  if (member && member->kind != kind) return wrong(ctx, member, key, wanted);
  *out_member = member;
  return BD_OK;
}

static bool whole(const bd_json *value, int64_t *out) {
  *out = value->integer;
  return value->kind == BD_JSON_INT ||
         (value->kind == BD_JSON_REAL && bd_whole_of(value->real, out));
}

bool bd_json_whole(const bd_json *value, int64_t min, int64_t max, int64_t *out) {
  return whole(value, out) && *out >= min && *out <= max;
}

bd_status bd_json_int(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                      int64_t min, int64_t max, int64_t *out) {
  const bd_json *member = NULL;
  BD_TRY(get(ctx, object, key, required, "an integer", &member));
  if (!member) return BD_OK;
  int64_t value;
  if (!whole(member, &value) || value < min || value > max)
    return wrong(ctx, member, key,
                 bd_intern_f(ctx, "an integer from %lld to %lld", (long long)min, (long long)max));
  *out = value;
  return BD_OK;
}

bd_status bd_json_real(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                       double min, double max, double *out) {
  const bd_json *member = NULL;
  BD_TRY(get(ctx, object, key, required, "a number", &member));
  if (!member) return BD_OK;
  if (member->kind != BD_JSON_INT && member->kind != BD_JSON_REAL) {
    return wrong(ctx, member, key, "a number");
  }
  if (!(member->real >= min && member->real <= max)) {
    bd_text range = bd_text_init(ctx->arena);
    bd_text_add(&range, "a number from ");
    bd_text_add_double(&range, min);
    bd_text_add(&range, " to ");
    bd_text_add_double(&range, max);
    return wrong(ctx, member, key, range.data);
  }
  *out = member->real;
  return BD_OK;
}

bd_status bd_json_bool(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                       bool *out) {
  const bd_json *member = NULL;
  BD_TRY(get_kind(ctx, object, key, required, BD_JSON_BOOL, "true or false", &member));
  if (member) *out = member->boolean;
  return BD_OK;
}

bd_status bd_json_string(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                         const char **out) {
  const bd_json *member = NULL;
  BD_TRY(get_kind(ctx, object, key, required, BD_JSON_STRING, "a string", &member));
  if (member) *out = member->string;
  return BD_OK;
}

bd_status bd_json_array(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                        const bd_json **out) {
  const bd_json *member = NULL;
  BD_TRY(get_kind(ctx, object, key, required, BD_JSON_ARRAY, "an array", &member));
  if (member) *out = member;
  return BD_OK;
}

bd_status bd_json_object(bd_ctx *ctx, const bd_json *object, const char *key, bool required,
                         const bd_json **out) {
  const bd_json *member = NULL;
  BD_TRY(get_kind(ctx, object, key, required, BD_JSON_OBJECT, "an object", &member));
  if (member) *out = member;
  return BD_OK;
}

static bool is_among(const char *key, const char *const *keys) {
  for (; *keys; ++keys) {
    if (strcmp(key, *keys) == 0) return true;
  }
  return false;
}

bd_status bd_json_only(bd_ctx *ctx, const bd_json *object, const char *const *keys) {
  BD_TRY(check_object(ctx, object));
  for (size_t i = 0; i < object->count; ++i) {
    const char *key = object->keys[i];
    if (is_among(key, keys)) continue;
    bd_loc loc = object->items[i].key_loc;
    const char *meant = bd_suggest(key, keys);
    if (!meant) return bd_fail(ctx, BD_INVALID, loc, "unknown key \"%s\"", key);
    return bd_fail(ctx, BD_INVALID, loc, "unknown key \"%s\"; did you mean \"%s\"?", key, meant);
  }
  return BD_OK;
}
