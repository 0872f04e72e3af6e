// JSON documents with hostile text in one place.
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tests/hostile/hostile.h"
#include <string.h>

typedef struct site_list {
  bd_hostile *test;
  bd_site *sites;
  int count, capacity;
} site_list;

// Elements of an array are of one kind, so that the keys of the way say what a site is.
static void add_site(site_list *list, const bd_json *value, int key, const char *way) {
  for (int i = 0; i < list->count; i++)
    if ((list->sites[i].key < 0) == (key < 0) && strcmp(list->sites[i].place, way) == 0) return;
  if (list->count == list->capacity) {
    const int more = 2 * list->capacity + 16;
    list->sites = bd_arena_grow(list->test->ctx->arena, list->sites, (size_t)list->count,
                                (size_t)more, sizeof *list->sites);
    list->capacity = more;
  }
  list->sites[list->count++] = (bd_site){value, key, way};
}

static void find_sites(site_list *list, const bd_json *value, const char *way) {
  if (value->kind == BD_JSON_STRING) add_site(list, value, -1, way);
  for (size_t i = 0; i < value->count; i++) {
    const char *inner = way;
    if (value->kind == BD_JSON_OBJECT) {
      add_site(list, value, (int)i, way);
      inner = bd_intern_f(list->test->ctx, "%s/%s", way, value->keys[i]);
    }
    find_sites(list, &value->items[i], inner);
  }
}

int bd_hostile_sites(bd_hostile *test, const bd_json *document, const bd_site **out_sites) {
  site_list list = {.test = test};
  find_sites(&list, document, "");
  if (list.count == 0) bd_hostile_fail(test, "a document without names", "");
  *out_sites = list.sites;
  return list.count;
}

typedef struct change {
  int count;
  const bd_site *sites;
  const char *text;
} change;

// What stands at a place: the hostile text if it is one of the sites, or `original`.
static const char *text_at(const change *change, const bd_json *value, int key,
                           const char *original) {
  for (int i = 0; i < change->count; i++)
    if (change->sites[i].value == value && change->sites[i].key == key) return change->text;
  return original;
}

static void add_json(bd_text *out, const bd_json *value, const change *change) {
  switch (value->kind) {
  case BD_JSON_NULL:
    bd_text_add(out, "null");
    return;
  case BD_JSON_BOOL:
    bd_text_add(out, value->boolean ? "true" : "false");
    return;
  case BD_JSON_INT:
    bd_text_addf(out, "%lld", (long long)value->integer);
    return;
  case BD_JSON_REAL:
    bd_text_add_double(out, value->real);
    return;
  case BD_JSON_STRING:
    bd_text_add_json_string(out, text_at(change, value, -1, value->string));
    return;
  case BD_JSON_ARRAY:
  case BD_JSON_OBJECT:
    break;
  }
  const bool keyed = value->kind == BD_JSON_OBJECT;
  bd_text_add(out, keyed ? "{" : "[");
  for (size_t i = 0; i < value->count; i++) {
    if (i) bd_text_add(out, ", ");
    if (keyed) {
      bd_text_add_json_string(out, text_at(change, value, (int)i, value->keys[i]));
      bd_text_add(out, ": ");
    }
    add_json(out, &value->items[i], change);
  }
  bd_text_add(out, keyed ? "}" : "]");
}

void bd_hostile_write_json(bd_hostile *test, const char *path, const bd_json *document, int count,
                           const bd_site *sites, const char *text) {
  const change change = {count, sites, text};
  bd_text out = bd_text_init(test->ctx->arena);
  add_json(&out, document, &change);
  bd_hostile_write(test, path, out.data);
}

const bd_json *bd_hostile_read(bd_hostile *test, const char *name) {
  const bool here = strncmp(name, "./", 2) == 0;
  const char *path = here ? name : bd_path_join(test->ctx, test->folder, name);
  const bd_json *document;
  if (bd_json_read(test->ctx, path, &document) != BD_OK)
    bd_hostile_fail(test, "a document cannot be read", path);
  return document;
}
