#include "frontend/hf/hf.h"
#include <string.h>

static const bd_json *find(const bd_hf_member *member) {
  return member->object ? bd_json_given(member->object, member->key) : NULL;
}

static bool is_number(const bd_json *value) {
  return value->kind == BD_JSON_INT || value->kind == BD_JSON_REAL;
}

// What is no number, string, true or false is refused where it is read.
static bool is_same(const bd_json *a, const bd_json *b) {
  if (is_number(a) && is_number(b)) return a->real == b->real;
  if (a->kind != b->kind) return false;
  if (a->kind == BD_JSON_STRING) return strcmp(a->string, b->string) == 0;
  return a->kind != BD_JSON_BOOL || a->boolean == b->boolean;
}

static const char *name(bd_ctx *ctx, const bd_hf_member *member) {
  return member->within ? bd_intern_f(ctx, "\"%s\" of \"%s\"", member->key, member->within)
                        : bd_intern_f(ctx, "\"%s\"", member->key);
}

bd_status bd_hf_agree(bd_ctx *ctx, int count, const bd_hf_member *members) {
  const bd_hf_member *first = NULL;
  for (const bd_hf_member *m = members; m < members + count; ++m) {
    const bd_json *value = find(m);
    if (!value) continue;
    if (!first) first = m;
    if (is_same(find(first), value)) continue;
    return bd_fail(ctx, BD_INVALID, value->loc,
                   "%s is %s, but %s, which says the same, is %s; leave one of them", name(ctx, m),
                   bd_json_describe(ctx, value), name(ctx, first),
                   bd_json_describe(ctx, find(first)));
  }
  return BD_OK;
}

bd_status bd_hf_agree_keys(bd_ctx *ctx, const bd_json *json, const char *key, const char *other) {
  bd_hf_member members[] = {{json, NULL, key}, {json, NULL, other}};
  return bd_hf_agree(ctx, 2, members);
}
