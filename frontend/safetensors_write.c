#include "frontend/safetensors_write.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 18, LENGTH_BYTES = 8 };

static int64_t elements_of(const bd_stored_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 0; d < tensor->rank; d++)
    elements *= tensor->dims[d];
  return elements;
}

// Names keep their bytes: only what JSON cannot hold is escaped.
static void add_name(bd_text *text, const char *name) {
  bd_text_add(text, "\"");
  for (; *name; name++) {
    unsigned char byte = (unsigned char)*name;
    if (byte == '"' || byte == '\\')
      bd_text_addf(text, "\\%c", byte);
    else if (byte < 0x20)
      bd_text_addf(text, "\\u%04x", byte);
    else
      bd_text_add_n(text, name, 1);
  }
  bd_text_add(text, "\"");
}

// The length word and the header, padded so that the data starts at a multiple of 8.
static bd_text make_header(bd_ctx *ctx, int count, const bd_stored_tensor *tensors) {
  bd_text text = bd_text_init(ctx->arena);
  const char length[LENGTH_BYTES] = {0};
  bd_text_add_n(&text, length, LENGTH_BYTES);
  bd_text_add(&text, "{\"__metadata__\":{\"format\":\"pt\"}");
  int64_t at = 0;
  for (int i = 0; i < count; i++) {
    int64_t bytes = elements_of(&tensors[i]) * (int64_t)sizeof(float);
    bd_text_add(&text, ",");
    add_name(&text, tensors[i].name);
    bd_text_add(&text, ":{\"dtype\":\"F32\",\"shape\":[");
    for (int d = 0; d < tensors[i].rank; d++)
      bd_text_addf(&text, "%s%lld", d ? "," : "", (long long)tensors[i].dims[d]);
    bd_text_addf(&text, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
    at += bytes;
  }
  bd_text_add(&text, "}");
  while (text.length % LENGTH_BYTES)
    bd_text_add(&text, " ");
  for (int i = 0; i < LENGTH_BYTES; i++)
    text.data[i] = (char)((uint64_t)(text.length - LENGTH_BYTES) >> (8 * i));
  return text;
}

// Returns 0 or an errno.
static int write_all(int file, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t now = write(file, (const char *)data + done, bytes - done);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return errno;
    done += (size_t)now;
  }
  return 0;
}

static int write_tensors(int file, int count, const bd_stored_tensor *tensors, bd_tensor_fill fill,
                         void *user, float *piece) {
  int error = 0;
  for (int i = 0; i < count && !error; i++) {
    int64_t elements = elements_of(&tensors[i]);
    for (int64_t first = 0; first < elements && !error; first += PIECE) {
      int64_t part = elements - first < PIECE ? elements - first : PIECE;
      error = fill(user, i, first, part, piece)
                  ? write_all(file, piece, (size_t)part * sizeof(float))
                  : ECANCELED;
    }
  }
  return error;
}

bd_status bd_safetensors_write(bd_ctx *ctx, const char *path, int count,
                               const bd_stored_tensor *tensors, bd_tensor_fill fill, void *user) {
  struct stat about;
  if (bd_file_names_descriptor(path))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "names an open descriptor, which no file can replace");
  if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "stands already and is not a regular file");
  const char *partial = bd_intern_f(ctx, "%s.partial", path);
  bd_text header = make_header(ctx, count, tensors);
  float *piece = BD_NEW_ARRAY(ctx->arena, float, PIECE);
  int file = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "cannot create: %s", strerror(errno));
  int error = write_all(file, header.data, header.length);
  if (!error) error = write_tensors(file, count, tensors, fill, user, piece);
  if (!error && fsync(file) != 0) error = errno;
  if (close(file) != 0 && !error) error = errno;
  if (!error && rename(partial, path) != 0) error = errno;
  if (!error) return BD_OK;
  unlink(partial);
  if (error == ECANCELED) return BD_EXTERNAL;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(path), "cannot write: %s", strerror(error));
}
