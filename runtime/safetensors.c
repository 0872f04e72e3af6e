#include "runtime/safetensors.h"

#include "runtime/json.h"
#include "runtime/read_at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEADER = 100000000 };

typedef struct dtype_name {
  const char *name;
  int dtype, bits;
} dtype_name;

static const dtype_name dtype_names[] = {
    {"F32", BD_RT_F32, 32}, {"BF16", BD_RT_BF16, 16},
    {"F16", BD_RT_F16, 16}, {"F64", BD_RT_F64, 64},
    {"I32", BD_RT_I32, 32}, {"I64", BD_RT_I64, 64},
    {"BOOL", -1, 8},        {"U8", -1, 8},
    {"I8", -1, 8},          {"F8_E5M2", -1, 8},
    {"F8_E4M3", -1, 8},     {"F8_E8M0", -1, 8},
    {"F8_E4M3FNUZ", -1, 8}, {"F8_E5M2FNUZ", -1, 8},
    {"I16", -1, 16},        {"U16", -1, 16},
    {"U32", -1, 32},        {"U64", -1, 64},
    {"C64", -1, 64},        {"F4", -1, 4},
    {"F6_E2M3", -1, 6},     {"F6_E3M2", -1, 6},
};

typedef struct reader {
  bd_rt_json json;
  char *text; // scratch for one string, as long as the header
  bd_rt_file *file;
  int capacity;
  const char *why; // what is wrong
} reader;

static int wrong(reader *r, const char *why) {
  if (!r->why) r->why = why;
  return 0;
}

static int read_metadata(reader *r) {
  size_t length;
  if (!bd_rt_json_take(&r->json, '{')) return wrong(r, "__metadata__ is not an object");
  if (bd_rt_json_take(&r->json, '}')) return 1;
  do {
    if (!bd_rt_json_string(&r->json, r->text, &length) || !bd_rt_json_take(&r->json, ':') ||
        !bd_rt_json_string(&r->json, r->text, &length))
      return wrong(r, "__metadata__ holds something else than text");
  } while (bd_rt_json_take(&r->json, ','));
  return bd_rt_json_take(&r->json, '}') || wrong(r, "malformed __metadata__");
}

static int read_shape(reader *r, bd_rt_tensor *tensor, int64_t *elements) {
  *elements = 1;
  int rank = 0;
  if (!bd_rt_json_take(&r->json, '[')) return wrong(r, "a shape is not an array");
  if (!bd_rt_json_take(&r->json, ']')) {
    do {
      int64_t extent;
      if (!bd_rt_json_whole(&r->json, &extent))
        return wrong(r, "a shape holds something else than whole numbers");
      if (__builtin_mul_overflow(*elements, extent, elements)) return wrong(r, "a shape overflows");
      if (rank < BD_RT_MAX_RANK) tensor->dims[rank] = extent;
      rank++;
    } while (bd_rt_json_take(&r->json, ','));
    if (!bd_rt_json_take(&r->json, ']')) return wrong(r, "a malformed shape");
  }
  tensor->rank = rank <= BD_RT_MAX_RANK ? rank : -1;
  return 1;
}

static int read_offsets(reader *r, bd_rt_tensor *tensor) {
  int64_t end;
  if (!bd_rt_json_take(&r->json, '[') || !bd_rt_json_whole(&r->json, &tensor->begin) ||
      !bd_rt_json_take(&r->json, ',') || !bd_rt_json_whole(&r->json, &end) ||
      !bd_rt_json_take(&r->json, ']') || end < tensor->begin)
    return wrong(r, "malformed data_offsets");
  tensor->bytes = end - tensor->begin;
  return 1;
}

static int read_dtype(reader *r, bd_rt_tensor *tensor, int *bits) {
  size_t length;
  if (!bd_rt_json_string(&r->json, r->text, &length)) return wrong(r, "a dtype is not text");
  for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++)
    if (!strcmp(dtype_names[i].name, r->text)) {
      tensor->dtype = dtype_names[i].dtype;
      *bits = dtype_names[i].bits;
      return 1;
    }
  return wrong(r, "an unknown dtype");
}

static int read_tensor(reader *r, bd_rt_tensor *tensor) {
  int seen = 0, bits = 0;
  int64_t elements = 0, size = 0;
  size_t length;
  if (!bd_rt_json_take(&r->json, '{')) return wrong(r, "a tensor is not an object");
  do {
    if (!bd_rt_json_string(&r->json, r->text, &length) || !bd_rt_json_take(&r->json, ':'))
      return wrong(r, "a malformed tensor");
    const int field = !strcmp(r->text, "dtype")          ? 1
                      : !strcmp(r->text, "shape")        ? 2
                      : !strcmp(r->text, "data_offsets") ? 4
                                                         : 0;
    if (!field || seen & field) return wrong(r, "an unknown or repeated field of a tensor");
    seen |= field;
    if (!(field == 1   ? read_dtype(r, tensor, &bits)
          : field == 2 ? read_shape(r, tensor, &elements)
                       : read_offsets(r, tensor)))
      return 0;
  } while (bd_rt_json_take(&r->json, ','));
  if (!bd_rt_json_take(&r->json, '}') || seen != 7)
    return wrong(r, "a tensor without dtype, shape or data_offsets");
  if (__builtin_mul_overflow(elements, (int64_t)bits, &size) || size % 8 ||
      size / 8 != tensor->bytes)
    return wrong(r, "a tensor whose bytes do not match its shape");
  return 1;
}

static int add_tensor(reader *r, size_t length, bd_rt_tensor **out_tensor) {
  bd_rt_file *const file = r->file;
  if (file->count == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 64;
    bd_rt_tensor *const more = realloc(file->tensors, (size_t)r->capacity * sizeof *more);
    if (!more) return wrong(r, "out of memory");
    file->tensors = more;
  }
  bd_rt_tensor *const tensor = &file->tensors[file->count];
  *tensor = (bd_rt_tensor){.length = length, .name = malloc(length + 1)};
  if (!tensor->name) return wrong(r, "out of memory");
  memcpy(tensor->name, r->text, length + 1);
  file->count++;
  *out_tensor = tensor;
  return 1;
}

static int read_header(reader *r) {
  size_t length;
  int metadata = 0;
  if (r->json.at == r->json.end || *r->json.at != '{')
    return wrong(r, "the header does not start with {");
  r->json.at++;
  if (!bd_rt_json_take(&r->json, '}')) {
    do {
      if (!bd_rt_json_string(&r->json, r->text, &length) || !bd_rt_json_take(&r->json, ':'))
        return wrong(r, "a malformed header");
      bd_rt_tensor *tensor;
      if (!strcmp(r->text, "__metadata__")) {
        if (metadata++) return wrong(r, "two __metadata__");
        if (!read_metadata(r)) return 0;
      } else if (!add_tensor(r, length, &tensor) || !read_tensor(r, tensor)) {
        return 0;
      }
    } while (bd_rt_json_take(&r->json, ','));
    if (!bd_rt_json_take(&r->json, '}')) return wrong(r, "a malformed header");
  }
  while (r->json.at < r->json.end && *r->json.at == ' ')
    r->json.at++;
  return r->json.at == r->json.end || wrong(r, "text after the header");
}

static int by_begin(const void *a, const void *b) {
  const bd_rt_tensor *const x = a, *const y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const bd_rt_tensor *)a)->name, ((const bd_rt_tensor *)b)->name);
}

// No holes, no overlap, the file's exact size, no name twice; offsets become those of the file.
static int check_places(reader *r, int64_t data, int64_t file_bytes) {
  bd_rt_file *const file = r->file;
  int64_t at = 0;
  if (file->count) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_begin);
  for (int i = 0; i < file->count; i++) {
    if (file->tensors[i].begin != at) return wrong(r, "tensors overlap or leave holes");
    at += file->tensors[i].bytes;
    file->tensors[i].begin += data;
  }
  if (at != file_bytes - data) return wrong(r, "the file is longer or shorter than its tensors");
  if (file->count) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_name);
  for (int i = 1; i < file->count; i++)
    if (!strcmp(file->tensors[i - 1].name, file->tensors[i].name))
      return wrong(r, "a tensor's name occurs twice");
  return 1;
}

static int open_checked(reader *r) {
  struct stat status;
  unsigned char size[8];
  if (fstat(r->file->fd, &status) || !S_ISREG(status.st_mode))
    return wrong(r, "not a regular file");
  if (status.st_size < 8 || !bd_rt_read_at(r->file->fd, size, 8, 0))
    return wrong(r, "shorter than its header");
  uint64_t header = 0;
  for (int i = 7; i >= 0; i--)
    header = header << 8 | size[i];
  if (header > MOST_HEADER || (int64_t)header > status.st_size - 8)
    return wrong(r, "a header longer than the file or 100 MB");
  char *const text = malloc(header + 1);
  r->text = malloc(header + 1);
  int good = 0;
  if (!text || !r->text)
    wrong(r, "out of memory");
  else if (!bd_rt_read_at(r->file->fd, text, (int64_t)header, 8))
    wrong(r, "cannot be read");
  else {
    r->json = (bd_rt_json){text, text + header};
    good = read_header(r) && check_places(r, (int64_t)header + 8, status.st_size);
  }
  free(text);
  free(r->text);
  return good;
}

int bd_rt_file_open(const char *path, bd_rt_file *out_file, char *message, size_t message_bytes) {
  *out_file = (bd_rt_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
  if (out_file->fd < 0) {
    snprintf(message, message_bytes, "%s: %s", path, strerror(errno));
    return BD_RT_EXIT_DATA;
  }
  reader r = {.file = out_file};
  if (open_checked(&r)) return 0;
  snprintf(message, message_bytes, "%s: not a sound safetensors file: %s", path, r.why);
  bd_rt_file_close(out_file);
  return BD_RT_EXIT_DATA;
}

void bd_rt_file_close(bd_rt_file *file) {
  for (int i = 0; i < file->count; i++)
    free(file->tensors[i].name);
  free(file->tensors);
  close(file->fd);
  *file = (bd_rt_file){.fd = -1};
}

const bd_rt_tensor *bd_rt_file_named(const bd_rt_file *file, const char *name) {
  const bd_rt_tensor wanted = {.name = (char *)name};
  return file->count ? bsearch(&wanted, file->tensors, (size_t)file->count, sizeof wanted, by_name)
                     : NULL;
}

// The tensor called `name`, or the only one whose name ends in `.name`.
static const bd_rt_tensor *find_tensor(const bd_rt_file *files, int count, const char *name,
                                       int *out_file) {
  const size_t length = strlen(name);
  const bd_rt_tensor *found = NULL;
  int endings = 0;
  for (int f = 0; f < count; f++) {
    const bd_rt_tensor *const tensor = bd_rt_file_named(&files[f], name);
    *out_file = f;
    if (tensor) return tensor;
  }
  for (int f = 0; f < count; f++)
    for (int i = 0; i < files[f].count; i++) {
      const bd_rt_tensor *const tensor = &files[f].tensors[i];
      if (tensor->length <= length || tensor->name[tensor->length - length - 1] != '.' ||
          strcmp(tensor->name + tensor->length - length, name))
        continue;
      found = tensor;
      *out_file = f;
      endings++;
    }
  return endings == 1 ? found : NULL;
}

const bd_rt_tensor *bd_rt_files_find(const bd_rt_file *files, int count, const char *name,
                                     int *out_file) {
  static const char *const prefixes[] = {"transformer.", "model."};
  const bd_rt_tensor *found = find_tensor(files, count, name, out_file);
  for (size_t i = 0; !found && i < sizeof prefixes / sizeof prefixes[0]; i++) {
    const size_t length = strlen(prefixes[i]);
    if (!strncmp(name, prefixes[i], length))
      found = find_tensor(files, count, name + length, out_file);
  }
  return found;
}

const bd_rt_tensor *bd_rt_file_find(const bd_rt_file *file, const char *name) {
  int number;
  return bd_rt_files_find(file, 1, name, &number);
}

int64_t bd_rt_dtype_bytes(int dtype) {
  return dtype == BD_RT_F32 ? 4 : dtype == BD_RT_BF16 || dtype == BD_RT_F16 ? 2 : 0;
}

static float from_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
  const uint32_t mantissa = half & 0x3FF;
  if (exponent == 0) {
    const float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t bits =
      sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | mantissa << 13;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

int bd_rt_file_read(const bd_rt_file *file, const bd_rt_tensor *tensor, int64_t first,
                    int64_t count, void *raw, float *out) {
  const int64_t bytes = bd_rt_dtype_bytes(tensor->dtype);
  if (!bytes || !bd_rt_read_at(file->fd, raw, count * bytes, tensor->begin + first * bytes))
    return BD_RT_EXIT_EXTERNAL;
  if (bytes == 4) {
    memcpy(out, raw, (size_t)count * 4);
    return 0;
  }
  for (int64_t i = 0; i < count; i++) {
    uint16_t half;
    memcpy(&half, (const char *)raw + 2 * i, 2);
    const uint32_t bits = (uint32_t)half << 16;
    if (tensor->dtype == BD_RT_F16)
      out[i] = from_half(half);
    else
      memcpy(&out[i], &bits, 4);
  }
  return 0;
}
