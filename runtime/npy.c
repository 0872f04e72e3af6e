#include "runtime/npy.h"

#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX = 12, MOST_HEADER = 1 << 16 };

static const struct element_type {
  const char *name;
  int dtype, bytes;
} element_types[] = {
    {"<f4", BD_RT_F32, 4}, {"<f2", BD_RT_F16, 2}, {"<f8", BD_RT_F64, 8},  {"|u1", BD_RT_U8, 1},
    {"|i1", BD_RT_I8, 1},  {"<u2", BD_RT_U16, 2}, {"<i2", BD_RT_I16, 2},  {"<u4", BD_RT_U32, 4},
    {"<i4", BD_RT_I32, 4}, {"<i8", BD_RT_I64, 8}, {"|b1", BD_RT_BOOL, 1},
};
enum { ELEMENT_TYPES = sizeof element_types / sizeof *element_types };

typedef struct reader {
  const char *at, *end;
  bd_rt_tensor *tensor;
  const char *why; // what is wrong
} reader;

static int wrong(reader *r, const char *why) {
  if (!r->why) r->why = why;
  return 0;
}

static int take(reader *r, char c) {
  while (r->at < r->end && *r->at == ' ')
    r->at++;
  if (r->at == r->end || *r->at != c) return 0;
  r->at++;
  return 1;
}

static int take_word(reader *r, const char *word) {
  const size_t length = strlen(word);
  while (r->at < r->end && *r->at == ' ')
    r->at++;
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return 0;
  r->at += length;
  return 1;
}

// 'text' or "text", without escapes.
static int take_text(reader *r, const char **text, size_t *length) {
  const char quote = take(r, '\'') ? '\'' : '"';
  if (quote == '"' && !take(r, '"')) return 0;
  *text = r->at;
  while (r->at < r->end && *r->at != quote && *r->at != '\\')
    r->at++;
  *length = (size_t)(r->at - *text);
  return take(r, quote);
}

static int read_type(reader *r) {
  const char *text;
  size_t length;
  if (!take_text(r, &text, &length)) return wrong(r, "its elements have no plain type");
  for (int i = 0; i < ELEMENT_TYPES; i++)
    if (strlen(element_types[i].name) == length &&
        memcmp(element_types[i].name, text, length) == 0) {
      r->tensor->dtype = element_types[i].dtype;
      return 1;
    }
  return wrong(r, "its elements are no little-endian floats, integers or bools that can be read");
}

static int read_extent(reader *r, int64_t *out) {
  const char *const first = r->at;
  for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if ((*out = *out * 10 + (*r->at - '0')) > INT64_C(1) << 46) return 0;
  return r->at > first;
}

static int read_shape(reader *r) {
  bd_rt_tensor *const t = r->tensor;
  if (!take(r, '(')) return wrong(r, "its shape is no tuple");
  t->rank = 0;
  while (!take(r, ')')) {
    if (t->rank == BD_RT_MAX_RANK) return wrong(r, "it has more than 8 dimensions");
    while (r->at < r->end && *r->at == ' ')
      r->at++;
    if (!read_extent(r, &t->dims[t->rank++])) return wrong(r, "an extent is no number up to 2^46");
    if (!take(r, ',') && (r->at == r->end || *r->at != ')'))
      return wrong(r, "its shape is no tuple");
  }
  return 1;
}

static int read_header(reader *r) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  int seen = 0;
  if (!take(r, '{')) return wrong(r, "its header is no dictionary");
  while (!take(r, '}')) {
    const char *text;
    size_t length;
    int key = 0;
    if (!take_text(r, &text, &length) || !take(r, ':')) return wrong(r, "its header is malformed");
    while (key < 3 && (strlen(keys[key]) != length || memcmp(keys[key], text, length) != 0))
      key++;
    if (key == 3 || (seen >> key & 1)) return wrong(r, "its header has other keys than it should");
    seen |= 1 << key;
    if (key == 0 && !read_type(r)) return 0;
    if (key == 1 && !take_word(r, "False"))
      return wrong(r, "it is not in row-major order (fortran_order is not False)");
    if (key == 2 && !read_shape(r)) return 0;
    if (!take(r, ',') && (r->at == r->end || *r->at != '}'))
      return wrong(r, "its header is malformed");
  }
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
    r->at++;
  if (seen != 7 || r->at < r->end) return wrong(r, "its header has other keys than it should");
  return 1;
}

int64_t bd_rt_npy_bytes(int dtype) {
  for (int i = 0; i < ELEMENT_TYPES; i++)
    if (element_types[i].dtype == dtype) return element_types[i].bytes;
  return 0;
}

// As many bytes as the elements need, and no more.
static int check_size(reader *r, int64_t file_bytes) {
  bd_rt_tensor *const t = r->tensor;
  int64_t bytes = bd_rt_npy_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] > 0 && bytes > file_bytes / t->dims[d])
      return wrong(r, "it is shorter than its shape says");
    bytes *= t->dims[d];
  }
  t->bytes = bytes;
  if (t->begin + bytes > file_bytes) return wrong(r, "it is shorter than its shape says");
  return t->begin + bytes == file_bytes || wrong(r, "it is longer than its shape says");
}

static int read_file(reader *r, int fd) {
  struct stat status;
  unsigned char prefix[PREFIX] = {0};
  static char header[MOST_HEADER];
  if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return wrong(r, "it is not a regular file");
  if (status.st_size < PREFIX || !bd_rt_read_at(fd, prefix, PREFIX, 0) ||
      memcmp(prefix, "\x93NUMPY", 6) != 0 || prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
    return wrong(r, "it does not begin as .npy files of versions 1 to 3 do");
  const int start = prefix[6] == 1 ? 10 : 12;
  int64_t length = prefix[8] | prefix[9] << 8;
  if (start == 12) length |= (int64_t)prefix[10] << 16 | (int64_t)prefix[11] << 24;
  if (length > MOST_HEADER || length > status.st_size - start)
    return wrong(r, "its header is longer than the file or 64 KiB");
  if (!bd_rt_read_at(fd, header, length, start)) return wrong(r, "it cannot be read");
  r->at = header;
  r->end = header + length;
  r->tensor->begin = start + length;
  return read_header(r) && check_size(r, status.st_size);
}

int bd_rt_npy_open(const char *path, int *out_fd, bd_rt_tensor *out_tensor, char *message,
                   size_t message_bytes) {
  *out_tensor = (bd_rt_tensor){.rank = 0};
  *out_fd = open(path, O_RDONLY | O_CLOEXEC);
  if (*out_fd < 0) {
    snprintf(message, message_bytes, "%s: %s", path, strerror(errno));
    return BD_RT_EXIT_DATA;
  }
  reader r = {.tensor = out_tensor};
  if (read_file(&r, *out_fd)) return 0;
  snprintf(message, message_bytes, "%s: not a sound .npy file: %s", path, r.why);
  close(*out_fd);
  *out_fd = -1;
  return BD_RT_EXIT_DATA;
}
