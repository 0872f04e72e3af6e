#include "ir/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// A failing disk is not the user's input.
static bd_status status_of(int error) {
  bool full = error == EIO || error == ENOSPC || error == EDQUOT || error == EFBIG;
  return full ? BD_EXTERNAL : BD_INVALID;
}

// Opens a regular file for reading. O_NONBLOCK: opening a FIFO must not wait for its writer.
static bd_status open_regular(bd_ctx *ctx, const char *path, int *out_file, size_t *out_bytes) {
  bd_loc loc = bd_loc_file(path);
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return bd_fail(ctx, status_of(errno), loc, "cannot open: %s", strerror(errno));
  struct stat about;
  if (fstat(file, &about) != 0) {
    int error = errno;
    close(file);
    return bd_fail(ctx, status_of(error), loc, "cannot examine: %s", strerror(error));
  }
  if (!S_ISREG(about.st_mode)) {
    close(file);
    return bd_fail(ctx, BD_INVALID, loc, "%s, not a regular file",
                   S_ISDIR(about.st_mode) ? "is a folder" : "is a device, pipe or socket");
  }
  *out_file = file;
  *out_bytes = (size_t)about.st_size;
  return BD_OK;
}

// Reads until `bytes` are there or the file ends; returns 0 or an errno.
static int read_all(int file, char *data, size_t bytes, size_t *out_read) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t now = read(file, data + done, bytes - done);
    if (now == 0) break;
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return errno;
    done += (size_t)now;
  }
  *out_read = done;
  return 0;
}

static void close_file(void *descriptor) {
  close(*(const int *)descriptor);
}

bd_status bd_file_read(bd_ctx *ctx, const char *path, size_t limit_bytes, char **out_data,
                       size_t *out_bytes) {
  int file = -1;
  size_t bytes = 0;
  BD_TRY(open_regular(ctx, path, &file, &bytes));
  if (bytes > limit_bytes) {
    close(file);
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "has %zu bytes, more than the limit of %zu",
                   bytes, limit_bytes);
  }
  bd_owned held;
  bd_own(ctx, &held, close_file, &file);
  char *data = bd_arena_alloc(ctx->arena, bytes + 1);
  bd_disown(ctx, &held);
  size_t done = 0;
  int error = read_all(file, data, bytes, &done);
  close(file);
  if (error) {
    return bd_fail(ctx, status_of(error), bd_loc_file(path), "cannot read: %s", strerror(error));
  }
  data[done] = '\0';
  *out_data = data;
  *out_bytes = done;
  return BD_OK;
}

bd_status bd_map_open(bd_ctx *ctx, const char *path, bd_map *out_map) {
  int file = -1;
  size_t bytes = 0;
  BD_TRY(open_regular(ctx, path, &file, &bytes));
  if (bytes == 0) {
    close(file);
    *out_map = (bd_map){.data = (const unsigned char *)""};
    return BD_OK;
  }
  void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  close(file);
  if (data == MAP_FAILED) {
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path), "cannot map: %s", strerror(error));
  }
  *out_map = (bd_map){.data = data, .bytes = bytes};
  return BD_OK;
}

void bd_map_close(bd_map *map) {
  if (map->bytes > 0) munmap((void *)(uintptr_t)map->data, map->bytes);
  *map = (bd_map){0};
}

// Returns 0 or an errno.
static int write_all(int file, const char *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t now = write(file, data + done, bytes - done);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return errno;
    done += (size_t)now;
  }
  return 0;
}

// Opens a new file beside `path`: `path.tmp`, or with a number where that name is taken, so that
// nobody else's file is overwritten. Returns a descriptor, or -1 with errno.
static int open_beside(bd_ctx *ctx, const char *path, char **out_name) {
  enum { TRIES = 1000 };
  size_t room = strlen(path) + 16;
  char *name = BD_NEW_ARRAY(ctx->arena, char, room);
  *out_name = name;
  snprintf(name, room, "%s.tmp", path);
  for (int i = 1;; ++i) {
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file >= 0 || errno != EEXIST || i == TRIES) return file;
    snprintf(name, room, "%s.tmp%d", path, i);
  }
}

bool bd_file_names_descriptor(const char *path) {
  static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(path, names[i], strlen(names[i])) == 0) return true;
  return false;
}

// Whether what stands at `path` is written in place: renaming over a device, a pipe, or what the
// shell has opened would replace it.
static bool is_written_in_place(const char *path, const struct stat *about) {
  return S_ISCHR(about->st_mode) || S_ISFIFO(about->st_mode) || bd_file_names_descriptor(path);
}

// Opens the file that is renamed to `path` in the end.
static bd_status open_new(bd_ctx *ctx, const char *path, char **out_name, int *out_file) {
  bd_loc loc = bd_loc_file(path);
  struct stat about;
  if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
    return bd_fail(ctx, BD_INVALID, loc, "cannot write: stands already and is not a regular file");
  }
  char *name = NULL;
  int file = open_beside(ctx, path, &name);
  if (file < 0) return bd_fail(ctx, status_of(errno), loc, "cannot create: %s", strerror(errno));
  *out_name = name;
  *out_file = file;
  return BD_OK;
}

// Appends, as a shell may have sent other output to the same place.
static bd_status write_in_place(bd_ctx *ctx, const char *path, const void *data, size_t bytes) {
  bd_loc loc = bd_loc_file(path);
  int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return bd_fail(ctx, status_of(errno), loc, "cannot open: %s", strerror(errno));
  int error = write_all(file, data, bytes);
  if (close(file) != 0 && !error) error = errno;
  if (!error) return BD_OK;
  return bd_fail(ctx, status_of(error), loc, "cannot write: %s", strerror(error));
}

bd_status bd_file_check_place(bd_ctx *ctx, const char *path) {
  struct stat about;
  char *name;
  int file;
  // Opening a pipe would let its reader see the end when it is closed again.
  if (stat(path, &about) == 0 && is_written_in_place(path, &about)) {
    if (access(path, W_OK) == 0) return BD_OK;
    return bd_fail(ctx, status_of(errno), bd_loc_file(path), "cannot open: %s", strerror(errno));
  }
  BD_TRY(open_new(ctx, path, &name, &file));
  close(file);
  unlink(name);
  return BD_OK;
}

static bd_status write_whole(bd_ctx *ctx, const char *path, const void *data, size_t bytes,
                             bool synced) {
  bd_loc loc = bd_loc_file(path);
  struct stat about;
  char *name;
  int file;
  if (stat(path, &about) == 0 && is_written_in_place(path, &about))
    return write_in_place(ctx, path, data, bytes);
  BD_TRY(open_new(ctx, path, &name, &file));
  int error = write_all(file, data, bytes);
  if (!error && synced && fsync(file) != 0) error = errno;
  if (close(file) != 0 && !error) error = errno;
  if (!error && rename(name, path) != 0) error = errno;
  if (!error) return BD_OK;
  unlink(name);
  return bd_fail(ctx, status_of(error), loc, "cannot write: %s", strerror(error));
}

bd_status bd_file_write(bd_ctx *ctx, const char *path, const void *data, size_t bytes) {
  return write_whole(ctx, path, data, bytes, true);
}

bd_status bd_file_write_unsynced(bd_ctx *ctx, const char *path, const void *data, size_t bytes) {
  return write_whole(ctx, path, data, bytes, false);
}

// Returns 0 or an errno.
static int make_one(const char *path) {
  if (mkdir(path, 0777) == 0) return 0;
  int error = errno;
  return bd_is_folder(path) ? 0 : error;
}

bd_status bd_folder_make(bd_ctx *ctx, const char *path) {
  size_t length = strlen(path);
  char *prefix = BD_NEW_ARRAY(ctx->arena, char, length + 1);
  int error = length == 0 ? ENOENT : 0;
  for (size_t i = 0; i < length && !error; ++i) {
    prefix[i] = path[i];
    bool ends_name = path[i] != '/' && (path[i + 1] == '/' || path[i + 1] == '\0');
    if (ends_name) error = make_one(prefix);
  }
  if (!error) return BD_OK;
  return bd_fail(ctx, status_of(error), bd_loc_file(path), "cannot make the folder: %s",
                 strerror(error));
}

bool bd_file_is_one(const char *a, const char *b) {
  struct stat x, y;
  if (stat(a, &x) != 0 || stat(b, &y) != 0) return strcmp(a, b) == 0;
  return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool bd_file_exists(const char *path) {
  struct stat about;
  return stat(path, &about) == 0;
}

bool bd_is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

const char *bd_path_join(bd_ctx *ctx, const char *folder, const char *name) {
  size_t length = strlen(folder);
  size_t room = length + strlen(name) + 2;
  char *path = BD_NEW_ARRAY(ctx->arena, char, room);
  const char *slash = length > 0 && folder[length - 1] != '/' ? "/" : "";
  snprintf(path, room, "%s%s%s", folder, slash, name);
  return path;
}
