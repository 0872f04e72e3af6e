// A safetensors file is a little-endian u64 with the header's length, a JSON header, and the data.
#include "frontend/safetensors.h"
#include "ir/base/json.h"
#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT_BYTES ((uint64_t)100000000)
enum { LENGTH_BYTES = 8 };

static const struct {
  const char *name;
  int bits;
} dtypes[] = {{"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
              {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
              {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
              {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
              {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
              {"I64", 64},    {"U64", 64}};

static int dtype_bits(const char *name) {
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
    if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].bits;
  }
  return 0;
}

static bd_status read_shape(bd_ctx *ctx, const bd_json *entry, bd_stored_tensor *tensor,
                            uint64_t *out_elements) {
  const bd_json *shape = NULL;
  BD_TRY(bd_json_array(ctx, entry, "shape", true, &shape));
  if (shape->count > BD_MAX_RANK)
    return bd_fail(ctx, BD_UNSUPPORTED, shape->loc,
                   "tensor \"%s\" has %zu dimensions, more than %d", tensor->name, shape->count,
                   BD_MAX_RANK);
  tensor->rank = (int)shape->count;
  uint64_t elements = 1;
  for (int d = 0; d < tensor->rank; ++d) {
    const bd_json *extent = &shape->items[d];
    if (extent->kind != BD_JSON_INT || extent->integer < 0)
      return bd_fail(ctx, BD_INVALID, extent->loc,
                     "tensor \"%s\": an extent must be an integer of at least 0", tensor->name);
    tensor->dims[d] = extent->integer;
    if (__builtin_mul_overflow(elements, (uint64_t)extent->integer, &elements))
      return bd_fail(ctx, BD_INVALID, shape->loc, "tensor \"%s\": its shape overflows",
                     tensor->name);
  }
  *out_elements = elements;
  return BD_OK;
}

static bd_status read_offsets(bd_ctx *ctx, const bd_json *entry, bd_stored_tensor *tensor) {
  const bd_json *offsets = NULL;
  BD_TRY(bd_json_array(ctx, entry, "data_offsets", true, &offsets));
  bool good = offsets->count == 2;
  for (size_t i = 0; good && i < 2; ++i)
    good = offsets->items[i].kind == BD_JSON_INT && offsets->items[i].integer >= 0;
  if (!good || offsets->items[0].integer > offsets->items[1].integer)
    return bd_fail(ctx, BD_INVALID, offsets->loc,
                   "tensor \"%s\": \"data_offsets\" must be two ascending integers", tensor->name);
  tensor->begin_bytes = (size_t)offsets->items[0].integer;
  tensor->end_bytes = (size_t)offsets->items[1].integer;
  return BD_OK;
}

static bd_status read_tensor(bd_ctx *ctx, const char *name, const bd_json *entry,
                             bd_stored_tensor *tensor) {
  static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
  BD_TRY(bd_json_only(ctx, entry, keys));
  tensor->name = bd_intern_z(ctx, name);
  const char *dtype = NULL;
  BD_TRY(bd_json_string(ctx, entry, "dtype", true, &dtype));
  int bits = dtype_bits(dtype);
  if (bits == 0)
    return bd_fail(ctx, BD_INVALID, bd_json_find(entry, "dtype")->loc,
                   "tensor \"%s\": unknown dtype \"%s\"", name, dtype);
  tensor->dtype = bd_intern_z(ctx, dtype);
  uint64_t elements = 0, size_bits = 0;
  BD_TRY(read_shape(ctx, entry, tensor, &elements));
  BD_TRY(read_offsets(ctx, entry, tensor));
  if (__builtin_mul_overflow(elements, (uint64_t)bits, &size_bits))
    return bd_fail(ctx, BD_INVALID, entry->loc, "tensor \"%s\": its size overflows", name);
  if (size_bits % 8 != 0)
    return bd_fail(ctx, BD_INVALID, entry->loc, "tensor \"%s\" does not end on a byte", name);
  if (tensor->end_bytes - tensor->begin_bytes != size_bits / 8)
    return bd_fail(ctx, BD_INVALID, entry->loc,
                   "tensor \"%s\" spans %zu bytes, but its shape takes %llu", name,
                   tensor->end_bytes - tensor->begin_bytes, (unsigned long long)(size_bits / 8));
  return BD_OK;
}

static bd_status check_metadata(bd_ctx *ctx, const bd_json *metadata) {
  if (metadata->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, metadata->loc, "\"__metadata__\" must be an object");
  for (size_t i = 0; i < metadata->count; ++i) {
    if (metadata->items[i].kind != BD_JSON_STRING)
      return bd_fail(ctx, BD_INVALID, metadata->items[i].loc,
                     "\"__metadata__\": the value of \"%s\" must be a string", metadata->keys[i]);
  }
  return BD_OK;
}

// Empty tensors share an offset with a neighbour, so ends break ties.
static int compare_offsets(const void *left, const void *right) {
  const bd_stored_tensor *a = *(bd_stored_tensor *const *)left;
  const bd_stored_tensor *b = *(bd_stored_tensor *const *)right;
  if (a->begin_bytes != b->begin_bytes) return a->begin_bytes < b->begin_bytes ? -1 : 1;
  if (a->end_bytes != b->end_bytes) return a->end_bytes < b->end_bytes ? -1 : 1;
  return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right) {
  return strcmp(((const bd_stored_tensor *)left)->name, ((const bd_stored_tensor *)right)->name);
}

// The tensors must tile the data section.
static bd_status check_tiling(bd_ctx *ctx, bd_loc loc, const bd_safetensors *file,
                              size_t data_bytes) {
  bd_stored_tensor **order = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor *, file->count);
  for (int i = 0; i < file->count; ++i)
    order[i] = &file->tensors[i];
  qsort(order, (size_t)file->count, sizeof *order, compare_offsets);
  size_t next = 0;
  for (int i = 0; i < file->count; ++i) {
    if (order[i]->begin_bytes < next)
      return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\" overlaps tensor \"%s\"", order[i]->name,
                     order[i - 1]->name);
    if (order[i]->begin_bytes > next)
      return bd_fail(ctx, BD_INVALID, loc, "a hole of %zu bytes before tensor \"%s\"",
                     order[i]->begin_bytes - next, order[i]->name);
    next = order[i]->end_bytes;
  }
  if (next > data_bytes)
    return bd_fail(ctx, BD_INVALID, loc, "truncated: the data takes %zu bytes, the file has %zu",
                   next, data_bytes);
  if (next < data_bytes)
    return bd_fail(ctx, BD_INVALID, loc, "%zu bytes follow the last tensor", data_bytes - next);
  return BD_OK;
}

static bd_status read_header(bd_ctx *ctx, const char *path, bd_safetensors *file,
                             uint64_t header_bytes) {
  const bd_json *json = NULL;
  const char *text = (const char *)file->map.data + LENGTH_BYTES;
  BD_TRY(bd_json_parse(ctx, path, text, (size_t)header_bytes, &json));
  if (json->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, json->loc, "the header must be an object");
  file->tensors = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor, json->count);
  for (size_t i = 0; i < json->count; ++i) {
    if (strcmp(json->keys[i], "__metadata__") == 0) {
      BD_TRY(check_metadata(ctx, &json->items[i]));
      continue;
    }
    BD_TRY(read_tensor(ctx, json->keys[i], &json->items[i], &file->tensors[file->count]));
    ++file->count;
  }
  file->data = file->map.data + LENGTH_BYTES + header_bytes;
  size_t data_bytes = file->map.bytes - LENGTH_BYTES - (size_t)header_bytes;
  BD_TRY(check_tiling(ctx, bd_loc_file(path), file, data_bytes));
  qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_names);
  return BD_OK;
}

static bd_status read_file(bd_ctx *ctx, const char *path, bd_safetensors *file) {
  bd_loc loc = bd_loc_file(path);
  if (file->map.bytes < LENGTH_BYTES)
    return bd_fail(ctx, BD_INVALID, loc, "too short for a safetensors file");
  uint64_t header_bytes = 0;
  for (int i = 0; i < LENGTH_BYTES; ++i)
    header_bytes |= (uint64_t)file->map.data[i] << (8 * i);
  if (header_bytes > HEADER_LIMIT_BYTES)
    return bd_fail(ctx, BD_INVALID, loc, "a header of %llu bytes is larger than the limit of %llu",
                   (unsigned long long)header_bytes, (unsigned long long)HEADER_LIMIT_BYTES);
  if (header_bytes > file->map.bytes - LENGTH_BYTES)
    return bd_fail(ctx, BD_INVALID, loc, "truncated: the header takes %llu bytes, the file has %zu",
                   (unsigned long long)header_bytes, file->map.bytes - LENGTH_BYTES);
  if (header_bytes == 0 || file->map.data[LENGTH_BYTES] != '{')
    return bd_fail(ctx, BD_INVALID, loc, "the header does not start with \"{\"");
  return read_header(ctx, path, file, header_bytes);
}

bd_status bd_safetensors_open(bd_ctx *ctx, const char *path, bd_safetensors *out_file) {
  bd_safetensors file = {0};
  path = bd_intern_z(ctx, path);
  BD_TRY(bd_map_open(ctx, path, &file.map));
  bd_status status = read_file(ctx, path, &file);
  if (status != BD_OK) {
    bd_map_close(&file.map);
    return status;
  }
  *out_file = file;
  return BD_OK;
}

const bd_stored_tensor *bd_safetensors_find(const bd_safetensors *file, const char *name) {
  int low = 0, high = file->count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    int order = strcmp(name, file->tensors[middle].name);
    if (order == 0) return &file->tensors[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}
