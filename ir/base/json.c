#include "ir/base/json.h"

#include "ir/base/file.h"
#include "ir/base/json_scan.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

// All room is taken before cJSON runs: a builder allocates nothing, so running out of memory
// cannot leave a cJSON tree behind.
typedef struct builder {
  const char *file;
  const bd_json_mark *marks;
  size_t mark_count, next_mark;
  bd_json *nodes; // the root, then each container's members side by side
  size_t next_node;
  const char **keys;
  size_t next_key;
  char *strings;
  size_t string_bytes, next_byte;
  bool disagrees; // cJSON saw another document than the scan
} builder;

static const char *keep_string(builder *b, const char *string) {
  size_t room = string ? strlen(string) + 1 : 0;
  if (room == 0 || room > b->string_bytes - b->next_byte) {
    b->disagrees = true;
    return "";
  }
  char *kept = memcpy(b->strings + b->next_byte, string, room);
  b->next_byte += room;
  return kept;
}

static bool same_kind(const cJSON *seen, bd_json_kind kind) {
  switch (kind) {
  case BD_JSON_NULL:
    return cJSON_IsNull(seen);
  case BD_JSON_BOOL:
    return cJSON_IsBool(seen);
  case BD_JSON_INT:
  case BD_JSON_REAL:
    return cJSON_IsNumber(seen);
  case BD_JSON_STRING:
    return cJSON_IsString(seen);
  case BD_JSON_ARRAY:
    return cJSON_IsArray(seen);
  case BD_JSON_OBJECT:
    return cJSON_IsObject(seen);
  }
  return false;
}

// Fills `node` from the next mark and from what cJSON saw there. As deep as the scan allowed.
static void build(builder *b, const cJSON *seen, bd_json *node) {
  if (b->next_mark == b->mark_count || !same_kind(seen, b->marks[b->next_mark].kind)) {
    b->disagrees = true;
    return;
  }
  const bd_json_mark *mark = &b->marks[b->next_mark++];
  *node =
      (bd_json){.kind = mark->kind,
                .loc = {.file = b->file, .line = mark->line, .column = mark->column},
                .key_loc = {.file = b->file, .line = mark->key_line, .column = mark->key_column},
                .boolean = cJSON_IsTrue(seen),
                .integer = mark->integer,
                .real = mark->real,
                .count = mark->count};
  if (mark->kind == BD_JSON_STRING) node->string = keep_string(b, seen->valuestring);
  if (mark->kind != BD_JSON_ARRAY && mark->kind != BD_JSON_OBJECT) return;
  bd_json *items = b->nodes + b->next_node;
  b->next_node += mark->count;
  node->items = items;
  if (mark->kind == BD_JSON_OBJECT) {
    node->keys = b->keys + b->next_key;
    b->next_key += mark->count;
  }
  const cJSON *member = seen->child;
  for (size_t i = 0; i < mark->count && !b->disagrees; ++i, member = member->next) {
    if (!member || b->next_mark == b->mark_count) {
      b->disagrees = true;
      return;
    }
    if (node->keys) node->keys[i] = keep_string(b, member->string);
    build(b, member, &items[i]);
  }
  if (member) b->disagrees = true;
}

typedef struct member_key {
  const char *text;
  size_t index;
} member_key;

static int compare_keys(const void *left, const void *right) {
  const member_key *a = left, *b = right;
  int order = strcmp(a->text, b->text);
  return order ? order : (a->index > b->index) - (a->index < b->index);
}

static bd_status refuse_duplicates(bd_ctx *ctx, const bd_json *object, member_key *scratch) {
  for (size_t i = 0; i < object->count; ++i) {
    scratch[i] = (member_key){.text = object->keys[i], .index = i};
  }
  qsort(scratch, object->count, sizeof *scratch, compare_keys);
  size_t first = SIZE_MAX;
  for (size_t i = 1; i < object->count; ++i) {
    bool is_again = strcmp(scratch[i - 1].text, scratch[i].text) == 0;
    if (is_again && scratch[i].index < first) first = scratch[i].index;
  }
  if (first == SIZE_MAX) return BD_OK;
  return bd_fail(ctx, BD_INVALID, object->items[first].key_loc,
                 "key \"%s\" stands twice in one object", object->keys[first]);
}

bd_status bd_json_parse(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                        const bd_json **out_json) {
  bd_json_scan scan = {0};
  file = bd_intern_z(ctx, file ? file : "<json>");
  BD_TRY(bd_json_scan_text(ctx, file, data, bytes, &scan));
  builder b = {.file = file,
               .marks = scan.marks,
               .mark_count = scan.mark_count,
               .nodes = BD_NEW_ARRAY(ctx->arena, bd_json, scan.mark_count),
               .next_node = 1,
               .keys = BD_NEW_ARRAY(ctx->arena, const char *, scan.member_count),
               .strings = bd_arena_alloc(ctx->arena, scan.string_bytes),
               .string_bytes = scan.string_bytes};
  member_key *scratch = BD_NEW_ARRAY(ctx->arena, member_key, scan.member_count);
  cJSON *tree = cJSON_ParseWithLength(scan.text, scan.bytes);
  if (!tree) return bd_fail(ctx, BD_EXHAUSTED, bd_loc_file(file), "out of memory reading JSON");
  build(&b, tree, &b.nodes[0]);
  cJSON_Delete(tree);
  if (b.disagrees || b.next_mark != b.mark_count) {
    return bd_fail(ctx, BD_INTERNAL, bd_loc_file(file), "cJSON read this file differently");
  }
  for (size_t i = 0; i < b.mark_count; ++i) {
    if (b.nodes[i].kind != BD_JSON_OBJECT) continue;
    BD_TRY(refuse_duplicates(ctx, &b.nodes[i], scratch));
  }
  *out_json = &b.nodes[0];
  return BD_OK;
}

bd_status bd_json_read(bd_ctx *ctx, const char *path, const bd_json **out_json) {
  static const size_t limit_bytes = (size_t)256 << 20;
  char *data = NULL;
  size_t bytes = 0;
  BD_TRY(bd_file_read(ctx, path, limit_bytes, &data, &bytes));
  return bd_json_parse(ctx, path, data, bytes, out_json);
}

const bd_json *bd_json_find(const bd_json *object, const char *key) {
  if (object->kind != BD_JSON_OBJECT) return NULL;
  for (size_t i = 0; i < object->count; ++i) {
    if (strcmp(object->keys[i], key) == 0) return &object->items[i];
  }
  return NULL;
}
