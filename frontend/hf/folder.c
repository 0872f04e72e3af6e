#include "frontend/hf/folder.h"
#include "ir/base/json.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SHARDS = 1000, MOST_LINK = 4096 };

// One member of "weight_map".
typedef struct entry {
  const char *tensor;
  int file;
  bd_loc loc;
} entry;

void bd_hf_folder_close(void *opened) {
  bd_hf_folder *folder = opened;
  for (int i = 0; i < folder->open; ++i)
    bd_map_close(&folder->files[i].map);
  folder->open = 0;
}

static bool is_plain_name(const char *name) {
  return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
         strcmp(name, "..") != 0;
}

// A file of the folder may be a link to a file beside it, or to where Hugging Face's cache keeps
// what the links of its snapshots stand for. Any other would read what the folder does not hold.
static bd_status check_link(bd_ctx *ctx, const char *folder, const char *path) {
  static const char blobs[] = "../../blobs/";
  struct stat about;
  if (lstat(path, &about) != 0 || !S_ISLNK(about.st_mode)) return BD_OK;
  char target[MOST_LINK];
  ssize_t length = readlink(path, target, sizeof target - 1);
  target[length < 0 ? 0 : length] = 0;
  bool cached = strncmp(target, blobs, sizeof blobs - 1) == 0;
  bool inside = is_plain_name(cached ? target + sizeof blobs - 1 : target);
  if (inside && lstat(bd_path_join(ctx, folder, target), &about) == 0 && S_ISREG(about.st_mode))
    return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                 "is a link to no file of its folder; copy the file there");
}

// Links that lead nowhere stand too.
static bool stands(const char *path) {
  struct stat about;
  return lstat(path, &about) == 0;
}

static bd_status open_all(bd_ctx *ctx, const char *folder, bd_hf_folder *f) {
  f->files = BD_NEW_ARRAY(ctx->arena, bd_safetensors, f->count);
  for (; f->open < f->count; ++f->open) {
    BD_TRY(check_link(ctx, folder, f->paths[f->open]));
    BD_TRY(bd_safetensors_open(ctx, f->paths[f->open], &f->files[f->open]));
  }
  return BD_OK;
}

// The number of the file at `path`, which is listed if it is new; -1 past MOST_SHARDS.
static int list_file(bd_hf_folder *f, const char *path) {
  for (int i = f->count - 1; i >= 0; --i) {
    if (strcmp(f->paths[i], path) == 0) return i;
  }
  if (f->count == MOST_SHARDS) return -1;
  f->paths[f->count] = path;
  return f->count++;
}

static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const entry *)a)->tensor, ((const entry *)b)->tensor);
}

// The index and the files say the same: keys of JSON are unique, so no tensor stands twice in it.
static bd_status check_index(bd_ctx *ctx, const bd_hf_folder *f, const entry *entries,
                             size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (bd_safetensors_find(&f->files[entries[i].file], entries[i].tensor)) continue;
    return bd_fail(ctx, BD_INVALID, entries[i].loc,
                   "\"weight_map\": tensor \"%s\" is not in the file it is said to be in",
                   entries[i].tensor);
  }
  for (int file = 0; file < f->count; ++file) {
    for (int i = 0; i < f->files[file].count; ++i) {
      entry wanted = {.tensor = f->files[file].tensors[i].name};
      const entry *found = bsearch(&wanted, entries, count, sizeof *entries, compare_tensors);
      if (!found)
        return bd_fail(ctx, BD_INVALID, bd_loc_file(f->paths[file]),
                       "tensor \"%s\" is not in the index's \"weight_map\"", wanted.tensor);
      if (found->file != file)
        return bd_fail(ctx, BD_INVALID, bd_loc_file(f->paths[file]),
                       "tensor \"%s\" is also in %s, where the index has it", wanted.tensor,
                       f->paths[found->file]);
    }
  }
  return BD_OK;
}

static bd_status read_index(bd_ctx *ctx, const char *folder, const char *index, bd_hf_folder *f) {
  static const char *const keys[] = {"metadata", "weight_map", NULL};
  const bd_json *json = NULL, *map = NULL;
  BD_TRY(bd_json_read(ctx, index, &json));
  BD_TRY(bd_json_object(ctx, json, "weight_map", true, &map));
  BD_TRY(bd_json_only(ctx, json, keys));
  if (map->count == 0) return bd_fail(ctx, BD_INVALID, map->loc, "\"weight_map\" names no tensor");
  f->paths = BD_NEW_ARRAY(ctx->arena, const char *, MOST_SHARDS);
  entry *entries = BD_NEW_ARRAY(ctx->arena, entry, map->count);
  for (size_t i = 0; i < map->count; ++i) {
    const bd_json *file = &map->items[i];
    if (file->kind != BD_JSON_STRING || !is_plain_name(file->string))
      return bd_fail(ctx, BD_INVALID, file->loc,
                     "\"weight_map\": the file of \"%s\" must be a plain file name", map->keys[i]);
    int number = list_file(f, bd_path_join(ctx, folder, file->string));
    if (number < 0)
      return bd_fail(ctx, BD_UNSUPPORTED, file->loc, "\"weight_map\" names more than %d files",
                     MOST_SHARDS);
    entries[i] = (entry){map->keys[i], number, file->loc};
  }
  BD_TRY(open_all(ctx, folder, f));
  qsort(entries, map->count, sizeof *entries, compare_tensors);
  return check_index(ctx, f, entries, map->count);
}

bd_status bd_hf_folder_open(bd_ctx *ctx, const char *folder, bd_hf_folder *out_folder) {
  const char *single = bd_path_join(ctx, folder, "model.safetensors");
  const char *index = bd_path_join(ctx, folder, "model.safetensors.index.json");
  *out_folder = (bd_hf_folder){0};
  if (stands(single)) {
    out_folder->paths = BD_NEW_ARRAY(ctx->arena, const char *, 1);
    out_folder->paths[out_folder->count++] = single;
    return open_all(ctx, folder, out_folder);
  }
  if (!stands(index)) return BD_OK;
  BD_TRY(check_link(ctx, folder, index));
  return read_index(ctx, folder, index, out_folder);
}

const bd_stored_tensor *bd_hf_folder_find(const bd_hf_folder *folder, const char *name,
                                          const bd_safetensors **out_file) {
  for (int i = 0; i < folder->open; ++i) {
    const bd_stored_tensor *tensor = bd_safetensors_find(&folder->files[i], name);
    if (!tensor) continue;
    if (out_file) *out_file = &folder->files[i];
    return tensor;
  }
  return NULL;
}
