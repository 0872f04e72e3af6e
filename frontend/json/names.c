#include "frontend/json/reader.h"
#include "ir/base/suggest.h"
#include <string.h>

enum { LONGEST_NAME = 200 };

bd_status bd_model_json_check_name(bd_ctx *ctx, const bd_json *value) {
  if (value->kind != BD_JSON_STRING) return bd_fail(ctx, BD_INVALID, value->loc, "expected a name");
  if (strlen(value->string) > LONGEST_NAME)
    return bd_fail(ctx, BD_INVALID, value->loc, "a name has at most %d bytes", LONGEST_NAME);
  if (bd_is_identifier(value->string)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, value->loc,
                 "\"%s\" is no name: names are made of letters, digits, \"_\" and \".\"",
                 value->string);
}

bd_status bd_model_json_name(bd_ctx *ctx, const bd_json *object, const char *key,
                             const char **out_name) {
  const char *name = NULL;
  BD_TRY(bd_json_string(ctx, object, key, true, &name));
  BD_TRY(bd_model_json_check_name(ctx, bd_json_find(object, key)));
  *out_name = bd_intern_z(ctx, name);
  return BD_OK;
}

// The names of a map, NULL-terminated, for did-you-mean.
static const char **list_names(bd_ctx *ctx, const bd_name_map *map) {
  const char **names = BD_NEW_ARRAY(ctx->arena, const char *, map->count + 1);
  size_t count = 0;
  for (size_t i = 0; i < map->capacity; ++i) {
    if (map->names[i]) names[count++] = map->names[i];
  }
  return names;
}

bd_status bd_model_json_uses(bd_ctx *ctx, const bd_json *object, const char *key,
                             const bd_name_map *values, int *out_count, bd_id **out_ids) {
  const bd_json *array = NULL;
  BD_TRY(bd_json_array(ctx, object, key, true, &array));
  bd_id *ids = BD_NEW_ARRAY(ctx->arena, bd_id, array->count);
  for (size_t i = 0; i < array->count; ++i) {
    const bd_json *name = &array->items[i];
    BD_TRY(bd_model_json_check_name(ctx, name));
    ids[i] = bd_name_map_find(values, name->string);
    if (ids[i] >= 0) continue;
    const char *meant = bd_suggest(name->string, list_names(ctx, values));
    if (meant)
      return bd_fail(ctx, BD_INVALID, name->loc,
                     "\"%s\" is not defined before this place; did you mean \"%s\"?", name->string,
                     meant);
    return bd_fail(ctx, BD_INVALID, name->loc, "\"%s\" is not defined before this place",
                   name->string);
  }
  *out_count = (int)array->count;
  *out_ids = ids;
  return BD_OK;
}

bd_status bd_model_json_results(bd_ctx *ctx, const bd_json *object, const char *key, int min,
                                int max, int *out_count, const char **out_names) {
  const bd_json *member = bd_json_find(object, key);
  if (!member)
    return bd_fail(ctx, BD_INVALID, object->loc, "\"%s\" (a name, or an array of them) is missing",
                   key);
  const bd_json *names = member->kind == BD_JSON_ARRAY ? member->items : member;
  size_t count = member->kind == BD_JSON_ARRAY ? member->count : 1;
  if (count < (size_t)min || count > (size_t)max)
    return bd_fail(ctx, BD_INVALID, member->loc, "\"%s\": %zu names for %d results", key, count,
                   max);
  for (size_t i = 0; i < count; ++i) {
    BD_TRY(bd_model_json_check_name(ctx, &names[i]));
    out_names[i] = bd_intern_z(ctx, names[i].string);
  }
  *out_count = (int)count;
  return BD_OK;
}
