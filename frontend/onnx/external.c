#include "frontend/onnx/external.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_FLAGS = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY };

static const char *refusal_of(const char *location) {
  if (location[0] == '\0') return "is empty";
  if (location[0] == '/') return "is an absolute path; it must be relative to the model's folder";
  for (const char *part = location; part; part = strchr(part, '/')) {
    if (*part == '/') part++;
    size_t length = strcspn(part, "/");
    if (length == 0) return "has an empty part";
    if (length == 2 && strncmp(part, "..", 2) == 0)
      return "leaves the model's folder (\"..\"); the data must lie beneath it";
  }
  return NULL;
}

// Opens a location without ".." part by part, none of which may be a link. `folder`: a descriptor.
// Returns a descriptor, or -1 with errno.
static int walk(int folder, const char *location) {
  int at = folder;
  for (const char *part = location;;) {
    char name[256];
    size_t length = strcspn(part, "/");
    bool last = part[length] == '\0';
    int next = -1;
    errno = ENAMETOOLONG;
    if (length < sizeof name) {
      memcpy(name, part, length);
      name[length] = '\0';
      next = openat(at, name, last ? FILE_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    }
    int error = errno;
    if (at != folder) close(at);
    errno = error;
    if (next < 0 || last) return next;
    at = next;
    part += length + 1;
  }
}

// Returns a descriptor, or -1 with errno.
static int open_beneath(const char *folder, const char *location) {
  int top = open(folder[0] ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) return -1;
  struct open_how how = {.flags = FILE_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  int file = (int)syscall(SYS_openat2, top, location, &how, sizeof how);
  // A kernel without the call, or a sandbox that refuses it.
  if (file < 0 && (errno == ENOSYS || errno == EPERM)) file = walk(top, location);
  int error = errno;
  close(top);
  errno = error;
  return file;
}

static const char *words_of(int error) {
  if (error == ELOOP || error == EXDEV)
    return "is or passes a symbolic link, which is not followed";
  if (error == ENOTDIR) return "passes what is not a folder, or a symbolic link";
  return strerror(error);
}

// What is wrong with the file itself; NULL when nothing is.
static const char *refusal_of_file(int file, int64_t *out_bytes) {
  struct stat about;
  if (fstat(file, &about) != 0) return strerror(errno);
  if (!S_ISREG(about.st_mode)) return "is not a regular file";
  if (about.st_nlink > 1) return "has more than one name (hard links); copy it";
  *out_bytes = about.st_size;
  return NULL;
}

bd_status bd_onnx_external_open(bd_ctx *ctx, const char *path, const char *name, const char *folder,
                                const char *location, int *out_file, int64_t *out_bytes) {
  bd_loc loc = bd_loc_file(path);
  const char *why = refusal_of(location);
  if (why)
    return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\": the location \"%s\" of its data %s", name,
                   location, why);
  int file = open_beneath(folder, location);
  int error = errno;
  why = file < 0 ? words_of(error) : refusal_of_file(file, out_bytes);
  if (!why) {
    *out_file = file;
    return BD_OK;
  }
  if (file >= 0) close(file);
  return bd_fail(ctx, file < 0 && error == EIO ? BD_EXTERNAL : BD_INVALID, loc,
                 "tensor \"%s\": its data \"%s\" beside the model: %s", name, location, why);
}

// Reads until all is there; returns 0, or an errno (ENODATA: the file ends before).
static int read_at(int file, int64_t offset, size_t bytes, char *out) {
  for (size_t done = 0; done < bytes;) {
    ssize_t now = pread(file, out + done, bytes - done, (off_t)(offset + (int64_t)done));
    if (now == 0) return ENODATA;
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return errno;
    done += (size_t)now;
  }
  return 0;
}

bd_status bd_onnx_external_read(bd_ctx *ctx, const char *path, const char *name, const char *folder,
                                const char *location, int64_t offset, size_t bytes, void *out) {
  int file = -1;
  int64_t file_bytes = 0;
  BD_TRY(bd_onnx_external_open(ctx, path, name, folder, location, &file, &file_bytes));
  int error = read_at(file, offset, bytes, out);
  close(file);
  if (!error) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path), "tensor \"%s\": cannot read \"%s\": %s", name,
                 location, error == ENODATA ? "the file has become shorter" : strerror(error));
}
