#include "cli/folder.h"
#include "cli/stop.h"
#include "codegen/codegen.h"
#include "ir/base/file.h"
#include "runtime/braid_rt_abi.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE_LIMIT_BYTES ((size_t)64 << 20)

static void close_folder(void *folder) {
  closedir(folder);
}

// What every folder has an entry for: itself, and the one above.
static bool is_dots(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_empty_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return false;
  bool empty = true;
  for (struct dirent *entry; empty && (entry = readdir(folder));)
    empty = is_dots(entry->d_name);
  closedir(folder);
  return empty;
}

// Whether an output folder of braid may hold an entry of this name.
static bool is_output(const char *name) {
  static const char *const names[] = {BD_RT_PROGRAM_FILES};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  int stage, end = 0;
  return sscanf(name, BD_RT_STAGE_FILE "%n", &stage, &end) == 1 && end > 0 && !name[end];
}

// A page of that name may also be the user's.
static bool is_own_page(const char *path) {
  char start[sizeof BD_README_START] = {0};
  struct stat about;
  if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
  FILE *file = fopen(path, "r");
  if (!file) return false;
  size_t length = fread(start, 1, sizeof start - 1, file);
  fclose(file);
  return length == sizeof start - 1 && strcmp(start, BD_README_START) == 0;
}

static bool is_foreign(bd_ctx *ctx, const char *folder, const char *name) {
  if (strcmp(name, "README") == 0) return !is_own_page(bd_path_join(ctx, folder, name));
  return !is_output(name);
}

// An entry of the folder that no output of braid holds, or NULL.
static const char *find_foreign(bd_ctx *ctx, const char *path) {
  DIR *folder = opendir(path);
  const char *found = NULL;
  if (!folder) return NULL;
  for (struct dirent *entry; !found && (entry = readdir(folder));)
    if (!is_dots(entry->d_name) && is_foreign(ctx, path, entry->d_name))
      found = bd_intern_z(ctx, entry->d_name);
  closedir(folder);
  return found;
}

static const char *without_slashes(bd_ctx *ctx, const char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  return bd_intern(ctx, path, length);
}

static bool is_link(const char *path) {
  struct stat about;
  return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

static bool is_current(const char *path) {
  struct stat about, current;
  return stat(path, &about) == 0 && stat(".", &current) == 0 && about.st_dev == current.st_dev &&
         about.st_ino == current.st_ino;
}

// What is filled and replaced: the folder that a link leads to, not the link.
static const char *place_of(bd_ctx *ctx, const char *path) {
  path = without_slashes(ctx, path);
  char *target = is_link(path) ? realpath(path, NULL) : NULL;
  if (target) path = bd_intern_z(ctx, target);
  free(target);
  return path;
}

const char *bd_folder_of(bd_ctx *ctx, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return ".";
  return slash == path ? "/" : without_slashes(ctx, bd_intern(ctx, path, (size_t)(slash - path)));
}

// The nearest folder above `path` that stands.
static const char *standing_above(bd_ctx *ctx, const char *path) {
  do
    path = bd_folder_of(ctx, path);
  while (!bd_file_exists(path) && (errno == ENOENT || errno == ENOTDIR));
  return path;
}

// Makes an empty folder of a new name; false with errno.
static bool make_beside(bd_ctx *ctx, const char *path, const char **out_made) {
  const char *pattern = bd_intern_f(ctx, "%s.partial-XXXXXX", path);
  char *made = bd_arena_copy(ctx->arena, pattern, strlen(pattern) + 1, 1);
  *out_made = made;
  return mkdtemp(made) && chmod(made, 0755) == 0;
}

// Whether what stands at `path` may be replaced.
static bd_status check_standing(bd_ctx *ctx, const char *path) {
  if (is_link(path))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "is a link that leads nowhere; remove it, or name another folder with -o");
  if (is_current(path))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "is the current folder, whose place another would take; start braid in another "
                   "folder, or name another with -o");
  if (bd_file_exists(path) && !bd_is_folder(path))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "stands already and is no folder");
  if (bd_is_folder(path) && !is_empty_folder(path) &&
      !bd_file_exists(bd_path_join(ctx, path, "plan.json")))
    return bd_fail(
        ctx, BD_INVALID, bd_loc_file(path),
        "the folder is not empty and not an earlier output of braid; name another with -o");
  const char *foreign = find_foreign(ctx, path);
  if (foreign)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(bd_path_join(ctx, path, foreign)),
                   "is not of braid and would be lost; move it, or name another folder with -o");
  return BD_OK;
}

bd_status bd_folder_check(bd_ctx *ctx, const char *path) {
  path = place_of(ctx, path);
  BD_TRY(check_standing(ctx, path));
  const char *above = standing_above(ctx, path), *trial;
  bool beside = strcmp(above, bd_folder_of(ctx, path)) == 0;
  sigset_t mask;
  bd_stop_hold(&mask);
  bool made = make_beside(ctx, beside ? path : bd_path_join(ctx, above, "braid"), &trial) &&
              rmdir(trial) == 0;
  int error = errno;
  bd_stop_release(&mask);
  if (made) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "cannot make the output folder in %s: %s",
                 above, strerror(error));
}

bd_status bd_folder_begin(bd_ctx *ctx, const char *path, const char **out_partial) {
  path = place_of(ctx, path);
  BD_TRY(check_standing(ctx, path));
  BD_TRY(bd_folder_make(ctx, bd_folder_of(ctx, path)));
  if (make_beside(ctx, path, out_partial)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "cannot make the output folder: %s",
                 strerror(errno));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  return remove(path);
}

void bd_folder_remove(const char *path) {
  nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

bd_status bd_folder_commit(bd_ctx *ctx, const char *partial, const char *path) {
  path = place_of(ctx, path);
  const char *old = NULL;
  if (bd_is_folder(path)) {
    old = bd_intern_f(ctx, "%s.old", partial);
    if (rename(path, old) != 0)
      return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path), "cannot be replaced: %s",
                     strerror(errno));
  }
  if (rename(partial, path) != 0) {
    int error = errno;
    if (old && rename(old, path) != 0) bd_note(ctx, bd_loc_file(old), "the earlier output is here");
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path), "cannot be written: %s", strerror(error));
  }
  if (old) bd_folder_remove(old);
  return BD_OK;
}

static bool has_ending(const char *name, const char *const *endings) {
  size_t length = strlen(name);
  for (; *endings; endings++) {
    size_t ending = strlen(*endings);
    if (length > ending && strcmp(name + length - ending, *endings) == 0) return true;
  }
  return false;
}

static int wanted_name_order(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bd_status bd_folder_copy(bd_ctx *ctx, const char *from, const char *to,
                         const char *const *endings) {
  DIR *folder = opendir(from);
  if (!folder)
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(from), "cannot be read: %s", strerror(errno));
  bd_owned held;
  bd_own(ctx, &held, close_folder, folder);
  int count = 0, capacity = 0;
  const char **names = NULL;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!has_ending(entry->d_name, endings)) continue;
    if (count == capacity) {
      int wanted = capacity ? 2 * capacity : 32;
      names = bd_arena_grow(ctx->arena, names, (size_t)count, (size_t)wanted, sizeof *names);
      capacity = wanted;
    }
    names[count++] = bd_intern_z(ctx, entry->d_name);
  }
  bd_disown(ctx, &held);
  closedir(folder);
  if (count) qsort(names, (size_t)count, sizeof *names, wanted_name_order);
  BD_TRY(bd_folder_make(ctx, to));
  for (int i = 0; i < count; i++) {
    char *data;
    size_t bytes;
    BD_TRY(bd_file_read(ctx, bd_path_join(ctx, from, names[i]), SOURCE_LIMIT_BYTES, &data, &bytes));
    BD_TRY(bd_file_write_unsynced(ctx, bd_path_join(ctx, to, names[i]), data, bytes));
  }
  return BD_OK;
}

typedef bool (*is_wanted)(const char *name);

static bool is_any(const char *name) {
  (void)name;
  return true;
}

static bool is_of_model(const char *name) {
  static const char *const endings[] = {".safetensors", ".safetensors.index.json", NULL};
  return strcmp(name, "config.json") == 0 || has_ending(name, endings);
}

// Of the wanted entries, of which folders are braid's as a whole.
static const char *find(bd_ctx *ctx, const char *path, const char *file, is_wanted wanted) {
  DIR *folder = opendir(path);
  const char *found = NULL;
  if (!folder) return NULL;
  bd_owned held;
  bd_own(ctx, &held, close_folder, folder);
  for (struct dirent *entry; !found && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.' || !wanted(entry->d_name)) continue;
    const char *inner = bd_path_join(ctx, path, entry->d_name);
    if (entry->d_type == DT_DIR)
      found = find(ctx, inner, file, is_any);
    else if (bd_file_is_one(inner, file))
      found = inner;
  }
  bd_disown(ctx, &held);
  closedir(folder);
  return found;
}

bool bd_folder_has_program(bd_ctx *ctx, const char *folder) {
  return bd_file_exists(bd_path_join(ctx, folder, "plan.json")) &&
         bd_file_exists(bd_path_join(ctx, folder, "main.c"));
}

const char *bd_folder_find(bd_ctx *ctx, const char *folder, const char *file) {
  bool model = bd_file_exists(bd_path_join(ctx, folder, "config.json"));
  return find(ctx, folder, file, model ? is_of_model : is_output);
}
