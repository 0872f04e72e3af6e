#include "frontend/hf/hf.h"
#include "frontend/safetensors.h"
#include <string.h>

// The safetensors files of a folder: one, or the shards that an index names.
typedef struct shards {
  int count;
  const char **paths;
  bd_safetensors *files; // `open` of them are open
  int open;
} shards;

static void close_all(void *opened) {
  shards *s = opened;
  for (int i = 0; i < s->open; ++i)
    bd_map_close(&s->files[i].map);
  s->open = 0;
}

static bd_status open_all(bd_ctx *ctx, shards *s) {
  s->files = BD_NEW_ARRAY(ctx->arena, bd_safetensors, s->count);
  for (; s->open < s->count; ++s->open) {
    bd_status status = bd_safetensors_open(ctx, s->paths[s->open], &s->files[s->open]);
    if (status != BD_OK) return status;
  }
  return BD_OK;
}

// A shard's name must stay inside the folder.
static bool is_plain_name(const char *name) {
  return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
         strcmp(name, "..") != 0;
}

static bool is_listed(const shards *s, const char *path) {
  for (int i = 0; i < s->count; ++i) {
    if (strcmp(s->paths[i], path) == 0) return true;
  }
  return false;
}

static bd_status list_shards(bd_ctx *ctx, const char *folder, const char *index, shards *s) {
  const bd_json *json = NULL, *map = NULL;
  BD_TRY(bd_json_read(ctx, index, &json));
  BD_TRY(bd_json_object(ctx, json, "weight_map", true, &map));
  s->paths = BD_NEW_ARRAY(ctx->arena, const char *, map->count);
  for (size_t i = 0; i < map->count; ++i) {
    const bd_json *file = &map->items[i];
    if (file->kind != BD_JSON_STRING || !is_plain_name(file->string))
      return bd_fail(ctx, BD_INVALID, file->loc,
                     "\"weight_map\": the file of \"%s\" must be a plain file name", map->keys[i]);
    const char *path = bd_path_join(ctx, folder, file->string);
    if (!is_listed(s, path)) s->paths[s->count++] = path;
  }
  return BD_OK;
}

// The caller closes `s`, whatever comes of it.
static bd_status open_folder(bd_ctx *ctx, const char *folder, shards *s) {
  const char *single = bd_path_join(ctx, folder, "model.safetensors");
  const char *index = bd_path_join(ctx, folder, "model.safetensors.index.json");
  if (bd_file_exists(single)) {
    s->paths = BD_NEW_ARRAY(ctx->arena, const char *, 1);
    s->paths[s->count++] = single;
  } else if (bd_file_exists(index)) {
    BD_TRY(list_shards(ctx, folder, index, s));
  }
  return open_all(ctx, s);
}

static const bd_stored_tensor *find(const shards *s, const char *name) {
  for (int i = 0; i < s->count; ++i) {
    const bd_stored_tensor *tensor = bd_safetensors_find(&s->files[i], name);
    if (tensor) return tensor;
  }
  return NULL;
}

bd_status bd_hf_stored_prefix(bd_ctx *ctx, const char *folder, const char *probe,
                              const char *prefix, const char **out_prefix) {
  shards s = {0};
  bd_owned held;
  bd_own(ctx, &held, close_all, &s);
  bd_status status = open_folder(ctx, folder, &s);
  bool prefixed =
      status == BD_OK && !find(&s, probe) && find(&s, bd_intern_f(ctx, "%s%s", prefix, probe));
  *out_prefix = prefixed ? prefix : "";
  bd_disown(ctx, &held);
  close_all(&s);
  return status;
}

static void add_shape(bd_text *text, int rank, const int64_t *dims) {
  bd_text_add(text, "[");
  for (int d = 0; d < rank; ++d)
    bd_text_addf(text, "%s%lld", d > 0 ? ", " : "", (long long)dims[d]);
  bd_text_add(text, "]");
}

static bool is_float_name(const char *dtype) {
  static const char *const names[] = {"F32", "BF16", "F16", "F64"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (strcmp(names[i], dtype) == 0) return true;
  }
  return false;
}

static bd_status check_weight(bd_ctx *ctx, const shards *s, const bd_storage *storage) {
  bd_loc loc = bd_loc_file(s->paths[0]);
  const bd_stored_tensor *tensor = find(s, storage->name);
  if (!tensor)
    return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\" of the model is missing", storage->name);
  if (!is_float_name(tensor->dtype))
    return bd_fail(ctx, BD_UNSUPPORTED, loc,
                   "tensor \"%s\": weights of dtype %s are not supported (F32, BF16, F16, F64)",
                   storage->name, tensor->dtype);
  bool same = tensor->rank == storage->rank;
  for (int d = 0; same && d < tensor->rank; ++d)
    same = tensor->dims[d] == storage->dims[d];
  if (same) return BD_OK;
  bd_text shapes = bd_text_init(ctx->arena);
  add_shape(&shapes, tensor->rank, tensor->dims);
  bd_text_add(&shapes, ", but config.json makes it ");
  add_shape(&shapes, storage->rank, storage->dims);
  return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\" has shape %s", storage->name, shapes.data);
}

bd_status bd_hf_check_weights(bd_ctx *ctx, const char *folder, const bd_module *graph) {
  shards s = {0};
  bd_owned held;
  bd_own(ctx, &held, close_all, &s);
  bd_status status = open_folder(ctx, folder, &s);
  for (int i = 0; s.count > 0 && status == BD_OK && i < graph->weight_count; ++i)
    status = check_weight(ctx, &s, &graph->weights[i].storage);
  bd_disown(ctx, &held);
  close_all(&s);
  return status;
}
