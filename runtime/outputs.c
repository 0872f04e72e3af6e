#include "runtime/outputs.h"
#include "runtime/braid_rt_abi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_one(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static const char *base_of(const char *path) {
  const char *const slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int find_folder_of(const char *path, struct stat *out_info) {
  char folder[4096];
  const int length = (int)(base_of(path) - path);
  snprintf(folder, sizeof folder, "%.*s", length ? length : 1, length ? path : ".");
  return stat(folder, out_info) == 0;
}

// Whether an output and another file are one, or would be, or the output is one of a folder's that
// is read.
static int same_file(const char *output, const char *other) {
  struct stat first, second, folder, other_folder;
  if (strcmp(output, other) == 0) return 1;
  const int stands = stat(output, &first) == 0, other_stands = stat(other, &second) == 0;
  const int named = find_folder_of(output, &folder);
  if (stands && !S_ISREG(first.st_mode)) return 0;
  if (stands && other_stands)
    return is_one(&first, &second) ||
           (S_ISDIR(second.st_mode) && named && is_one(&folder, &second));
  return !stands && !other_stands && strcmp(base_of(output), base_of(other)) == 0 && named &&
         find_folder_of(other, &other_folder) && is_one(&folder, &other_folder);
}

static int is_program_file(const char *name) {
  static const char *const names[] = {BD_RT_PROGRAM_FILES};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return 1;
  int stage, end = 0;
  return sscanf(name, BD_RT_STAGE_FILE "%n", &stage, &end) == 1 && end > 0 && !name[end];
}

// Whether an output is a file of the folder that the program itself lies in.
static int is_own(const char *output) {
  static const char self[] = "/proc/self/exe";
  char program[4096];
  struct stat file, folder, own;
  const ssize_t length = readlink(self, program, sizeof program - 1);
  if (length <= 0 || stat(output, &file) != 0 || !S_ISREG(file.st_mode)) return 0;
  program[length] = 0;
  return is_program_file(base_of(output)) && find_folder_of(output, &folder) &&
         find_folder_of(program, &own) && is_one(&folder, &own);
}

// Why what stands at `path` is not to be renamed over; NULL: it is.
static const char *not_replaced(const char *path, const struct stat *info) {
  static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(path, names[i], strlen(names[i])) == 0)
      return "names an open descriptor, which no file can replace";
  return S_ISREG(info->st_mode) ? NULL : "stands already and is not a regular file";
}

// Whether what is written first could have its name: else errno says why.
static int can_be_named(const char *path, bd_rt_writing writing) {
  char beside[4096];
  struct stat info;
  if (writing == BD_RT_IN_PLACE) return stat(path, &info) == 0 || errno == ENOENT;
  errno = ENAMETOOLONG;
  return snprintf(beside, sizeof beside, "%s.partial", path) < (int)sizeof beside &&
         (lstat(beside, &info) == 0 || errno == ENOENT);
}

int bd_rt_outputs_writable(const char *path, bd_rt_writing writing, char *message, size_t size) {
  char folder[4096];
  struct stat info;
  const int nameable = can_be_named(path, writing), reason = errno;
  const int stands = stat(path, &info) == 0;
  const char *const kept = stands && writing == BD_RT_REPLACED ? not_replaced(path, &info) : NULL;
  if (stands && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
  } else if (kept) {
    snprintf(message, size, "%s: cannot be written: %s", path, kept);
    return 0;
  } else if (!nameable) {
    errno = reason;
  } else if (stands && !S_ISREG(info.st_mode)) {
    if (access(path, W_OK) == 0) return 1;
  } else {
    const char *const slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + (slash == path) : 1;
    snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
    if (access(folder, W_OK | X_OK) == 0 && (!stands || access(path, W_OK) == 0)) return 1;
  }
  snprintf(message, size, "%s: cannot be written: %s", path, strerror(errno));
  return 0;
}

// Where the folder is not there its parents are, and it can be made: saving makes it, so that a run
// that ends before leaves none.
int bd_rt_outputs_folder_writable(const char *path, char *message, size_t size) {
  const int made = mkdir(path, 0777) == 0;
  const int good = (made || errno == EEXIST) && access(path, W_OK | X_OK) == 0;
  if (!good) snprintf(message, size, "%s: cannot be written: %s", path, strerror(errno));
  if (made) rmdir(path);
  return good;
}

int bd_rt_outputs_check(const bd_rt_options *options, char *message, size_t size) {
  char weights_path[4096];
  const char *save = options->save;
  if (save && bd_rt_options_name_folder(save)) {
    snprintf(weights_path, sizeof weights_path, "%smodel.safetensors", save);
    save = weights_path;
  }
  const char *const path[] = {options->metrics, options->report, options->profile, save,
                              options->tune,    options->data,   options->eval,    options->init};
  static const char *const name[] = {"--metrics", "--report", "--profile", "--save",
                                     "--tune",    "--data",   "--eval",    "--init"};
  enum { SAVE = 3, WRITTEN, INIT = 7, FILES };
  for (int i = 0; i < WRITTEN; i++)
    for (int k = i + 1; k < FILES; k++)
      // Weights that were read are replaced by trained ones as a whole, at the end.
      if (path[i] && path[k] && !(i == SAVE && k == INIT) && same_file(path[i], path[k])) {
        snprintf(message, size, "%s and %s name the same file, %s", name[i], name[k], path[i]);
        return BD_RT_EXIT_USAGE;
      }
  for (int i = 0; i < WRITTEN; i++) {
    if (!path[i]) continue;
    if (is_own(path[i])) {
      snprintf(message, size, "%s would overwrite '%s', a file of this program; write to another",
               name[i], path[i]);
      return BD_RT_EXIT_USAGE;
    }
    const int weights = i == SAVE;
    const bd_rt_writing writing = weights ? BD_RT_REPLACED : BD_RT_IN_PLACE;
    const int good = weights && save != options->save
                         ? bd_rt_outputs_folder_writable(options->save, message, size)
                         : bd_rt_outputs_writable(path[i], writing, message, size);
    if (!good) return BD_RT_EXIT_EXTERNAL;
  }
  return 0;
}
