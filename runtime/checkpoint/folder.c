#include "runtime/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int join(char out_path[BD_RT_PATH], const char *folder, const char *name) {
  return snprintf(out_path, BD_RT_PATH, "%s/%s", folder, name) < BD_RT_PATH;
}

int bd_rt_checkpoint_same(const char *folder, const char *other) {
  struct stat first, second;
  if (!folder || !other) return 0;
  if (!strcmp(folder, other)) return 1;
  return !stat(folder, &first) && !stat(other, &second) && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

int bd_rt_checkpoint_path(const char *folder, int64_t step, char out_path[BD_RT_PATH]) {
  char name[32];
  snprintf(name, sizeof name, "step-%08" PRId64, step);
  return join(out_path, folder, name);
}

int bd_rt_checkpoint_manifest_path(const char *checkpoint, char out_path[BD_RT_PATH]) {
  return join(out_path, checkpoint, "checkpoint.json");
}

int bd_rt_checkpoint_file_path(const char *checkpoint, int rank, char out_path[BD_RT_PATH]) {
  char name[48];
  snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
  return join(out_path, checkpoint, name);
}

// The step that a checkpoint called so is of, or -1.
static int64_t step_of(const char *name) {
  char again[32];
  int64_t step;
  if (sscanf(name, "step-%" SCNd64, &step) != 1 || step < 0) return -1;
  snprintf(again, sizeof again, "step-%08" PRId64, step);
  return strcmp(name, again) ? -1 : step;
}

static int ascending(const void *a, const void *b) {
  const int64_t *const x = a, *const y = b;
  return (*x > *y) - (*x < *y);
}

int bd_rt_checkpoint_list(const char *folder, int64_t **out_steps, int *out_count) {
  DIR *const dir = opendir(folder);
  int capacity = 0, error = 0;
  *out_steps = NULL;
  *out_count = 0;
  if (!dir) return errno == ENOENT ? 0 : errno;
  for (const struct dirent *entry; !error && (entry = readdir(dir));) {
    const int64_t step = step_of(entry->d_name);
    if (step < 0) continue;
    if (*out_count == capacity) {
      capacity = capacity ? 2 * capacity : 16;
      int64_t *const more = realloc(*out_steps, (size_t)capacity * sizeof *more);
      if (!more) error = ENOMEM;
      if (more) *out_steps = more;
    }
    if (!error) (*out_steps)[(*out_count)++] = step;
  }
  closedir(dir);
  if (*out_count) qsort(*out_steps, (size_t)*out_count, sizeof **out_steps, ascending);
  return error;
}

int bd_rt_checkpoint_partial_path(const char *folder, int64_t step, char out_path[BD_RT_PATH]) {
  char name[48];
  snprintf(name, sizeof name, "step-%08" PRId64 ".partial", step);
  return join(out_path, folder, name);
}

// A folder of checkpoints' files, and nothing else that may lie there.
static int remove_checkpoint(const char *path) {
  char file[BD_RT_PATH];
  DIR *const dir = opendir(path);
  if (!dir) return errno == ENOENT ? 0 : errno;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    int rank, end = 0;
    const int is_rank_file = sscanf(entry->d_name, "rank-%d.safetensors%n", &rank, &end) == 1 &&
                             end && !entry->d_name[end];
    if ((is_rank_file || !strcmp(entry->d_name, "checkpoint.json")) &&
        join(file, path, entry->d_name))
      unlink(file);
  }
  closedir(dir);
  return rmdir(path) ? errno : 0;
}

int bd_rt_checkpoint_begin(const char *folder, const char *partial) {
  if (mkdir(folder, 0777) && errno != EEXIST) return errno;
  const int error = remove_checkpoint(partial);
  if (error) return error;
  return mkdir(partial, 0777) ? errno : 0;
}

// What was renamed or made in a folder stays so when the machine stops.
static int sync_folder(const char *path) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = fsync(fd) ? errno : 0;
  close(fd);
  return error;
}

int bd_rt_checkpoint_commit(const char *folder, int64_t step) {
  char path[BD_RT_PATH], partial[BD_RT_PATH];
  if (!bd_rt_checkpoint_partial_path(folder, step, partial) ||
      !bd_rt_checkpoint_path(folder, step, path))
    return ENAMETOOLONG;
  int error = sync_folder(partial);
  if (!error) error = remove_checkpoint(path);
  if (!error && rename(partial, path)) error = errno;
  return error ? error : sync_folder(folder);
}

void bd_rt_checkpoint_abandon(const char *folder, int64_t step) {
  char partial[BD_RT_PATH];
  if (bd_rt_checkpoint_partial_path(folder, step, partial)) remove_checkpoint(partial);
}

void bd_rt_checkpoint_prune(const char *folder, int64_t keep) {
  char path[BD_RT_PATH], partial[BD_RT_PATH];
  int64_t *steps;
  int count;
  if (bd_rt_checkpoint_list(folder, &steps, &count)) count = 0;
  for (int i = 0; i < count - keep; i++)
    if (bd_rt_checkpoint_path(folder, steps[i], path) &&
        bd_rt_checkpoint_partial_path(folder, steps[i], partial) && !rename(path, partial))
      remove_checkpoint(partial);
  free(steps);
}
