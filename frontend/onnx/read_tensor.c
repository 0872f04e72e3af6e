#include "frontend/onnx/external.h"
#include "frontend/onnx/reader.h"
#include <string.h>
#include <unistd.h>

// Fields of TensorProto.
enum {
  FIELD_DIMS = 1,
  FIELD_DTYPE = 2,
  FIELD_SEGMENT = 3,
  FIELD_FLOATS = 4,
  FIELD_INT32S = 5,
  FIELD_STRINGS = 6,
  FIELD_INT64S = 7,
  FIELD_NAME = 8,
  FIELD_RAW = 9,
  FIELD_DOUBLES = 10,
  FIELD_UINT64S = 11,
  FIELD_EXTERNAL = 13,
  FIELD_LOCATION = 14
};

// What the fields say, before it is held against the shape.
typedef struct draft {
  bd_onnx_tensor *tensor;
  int64_t location; // 1: external
  bool has_offset, has_length;
  uint32_t typed;      // the field that holds elements one by one; 0: none
  int64_t typed_count; // how often it occurs
  size_t typed_bytes;
  bd_onnx_bytes typed_first;
  bool has_raw;
} draft;

static bd_status fail(bd_onnx_reader *reader, const draft *d, bd_status status, const char *why) {
  return bd_fail(reader->ctx, status, reader->loc, "tensor \"%s\": %s", d->tensor->name, why);
}

static bd_status add_dims(bd_onnx_reader *reader, draft *d, bd_onnx_bytes packed) {
  bd_wire wire = bd_wire_begin(packed);
  uint64_t extent;
  while (bd_wire_varint(&wire, &extent)) {
    if (d->tensor->rank == BD_MAX_RANK)
      return fail(reader, d, BD_UNSUPPORTED, "has more than 8 dimensions");
    if (extent > (uint64_t)BD_MAX_ELEMENTS)
      return fail(reader, d, BD_INVALID, "an extent is negative or more than 2^46");
    d->tensor->dims[d->tensor->rank++] = (int64_t)extent;
  }
  return wire.damage ? bd_onnx_damaged(reader, &wire, "TensorProto") : BD_OK;
}

static bd_status read_decimal(bd_onnx_reader *reader, const draft *d, const char *key,
                              const char *text, bool *has, int64_t *out) {
  int64_t value = 0;
  bool good = text[0] != '\0' && !*has;
  for (const char *digit = text; good && *digit; digit++) {
    good = *digit >= '0' && *digit <= '9' && value <= (INT64_MAX - (*digit - '0')) / 10;
    if (good) value = value * 10 + (*digit - '0');
  }
  if (!good)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "tensor \"%s\": the %s \"%s\" of its external data is not a number of bytes, "
                   "given once",
                   d->tensor->name, key, text);
  *has = true;
  *out = value;
  return BD_OK;
}

// One entry of external_data: a key and a value.
static bd_status add_external(bd_onnx_reader *reader, draft *d, bd_onnx_bytes entry) {
  const char *key = "", *value = "";
  bd_wire wire = bd_wire_begin(entry);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == 1) BD_TRY(bd_onnx_take_name(reader, &field, "an entry's key", &key));
    if (field.number == 2) BD_TRY(bd_onnx_take_name(reader, &field, "an entry's value", &value));
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "StringStringEntryProto");
  bd_onnx_tensor *tensor = d->tensor;
  if (strcmp(key, "offset") == 0)
    return read_decimal(reader, d, key, value, &d->has_offset, &tensor->offset_bytes);
  if (strcmp(key, "length") == 0)
    return read_decimal(reader, d, key, value, &d->has_length, &tensor->length_bytes);
  if (strcmp(key, "checksum") == 0) return BD_OK; // of the whole file; nobody writes or checks it
  if (strcmp(key, "location") == 0 && !tensor->location) {
    tensor->location = value;
    return BD_OK;
  }
  return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                 "tensor \"%s\": the key \"%s\" of its external data is unknown or there twice "
                 "(location, offset, length, checksum)",
                 tensor->name, key);
}

// Numbers of a list come packed or each in a field of its own.
static bool holds_numbers(const bd_wire_field *field) {
  if (field->kind == BD_WIRE_BYTES) return true;
  if (field->number == FIELD_FLOATS) return field->kind == BD_WIRE_FIXED32;
  if (field->number == FIELD_DOUBLES) return field->kind == BD_WIRE_FIXED64;
  return field->kind == BD_WIRE_VARINT;
}

static bd_status add_elements(bd_onnx_reader *reader, draft *d, const bd_wire_field *field) {
  if (!holds_numbers(field)) return fail(reader, d, BD_INVALID, "has elements of a bad wire type");
  if (d->typed != 0 && d->typed != field->number)
    return fail(reader, d, BD_INVALID, "has elements in two fields");
  if (d->typed_count++ == 0) d->typed_first = field->bytes;
  d->typed = field->number;
  d->typed_bytes += field->bytes.bytes;
  return BD_OK;
}

static bd_status add_field(bd_onnx_reader *reader, draft *d, const bd_wire_field *field) {
  int64_t number;
  switch (field->number) {
  case FIELD_DIMS:
    if (!holds_numbers(field)) return fail(reader, d, BD_INVALID, "has dims of a bad wire type");
    return add_dims(reader, d, field->bytes);
  case FIELD_DTYPE:
    BD_TRY(bd_onnx_take_int(reader, field, "a tensor's data_type", &number));
    d->tensor->dtype = number >= 0 && number < 128 ? (bd_onnx_dtype)number : BD_ONNX_UNDEFINED;
    return BD_OK;
  case FIELD_SEGMENT:
    return fail(reader, d, BD_UNSUPPORTED, "is a segment of a tensor");
  case FIELD_NAME:
    return bd_onnx_take_name(reader, field, "a tensor's name", &d->tensor->name);
  case FIELD_RAW:
    if (d->has_raw) return fail(reader, d, BD_INVALID, "has raw_data twice");
    d->has_raw = true;
    return bd_onnx_take_bytes(reader, field, "a tensor's raw_data", &d->tensor->data);
  case FIELD_EXTERNAL: {
    bd_onnx_bytes entry = {NULL, 0};
    BD_TRY(bd_onnx_take_bytes(reader, field, "a tensor's external_data", &entry));
    return add_external(reader, d, entry);
  }
  case FIELD_LOCATION:
    return bd_onnx_take_int(reader, field, "a tensor's data_location", &d->location);
  case FIELD_FLOATS:
  case FIELD_INT32S:
  case FIELD_STRINGS:
  case FIELD_INT64S:
  case FIELD_DOUBLES:
  case FIELD_UINT64S:
    return add_elements(reader, d, field);
  default:
    return BD_OK;
  }
}

// The field that holds elements of a type one by one.
static uint32_t typed_field(bd_onnx_dtype dtype) {
  switch (dtype) {
  case BD_ONNX_FLOAT:
    return FIELD_FLOATS;
  case BD_ONNX_DOUBLE:
    return FIELD_DOUBLES;
  case BD_ONNX_INT64:
    return FIELD_INT64S;
  case BD_ONNX_UINT32:
  case BD_ONNX_UINT64:
    return FIELD_UINT64S;
  default:
    return FIELD_INT32S;
  }
}

// One run of the elements as they stand in the file; where the writer gave each element a field of
// its own, a copy without the tags between them.
static bd_status join_elements(bd_onnx_reader *reader, draft *d, bd_onnx_bytes message) {
  d->tensor->data = d->typed_first;
  if (d->typed_count <= 1) return BD_OK;
  unsigned char *joined = bd_arena_alloc(reader->ctx->arena, d->typed_bytes);
  size_t at = 0;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number != d->typed) continue;
    memcpy(joined + at, field.bytes.data, field.bytes.bytes);
    at += field.bytes.bytes;
  }
  d->tensor->data = (bd_onnx_bytes){joined, at};
  return BD_OK;
}

static bd_status check_size(bd_onnx_reader *reader, const draft *d, int64_t bytes) {
  const bd_onnx_tensor *tensor = d->tensor;
  int64_t wanted = tensor->elements * bd_onnx_dtype_bytes(tensor->dtype);
  if (bytes == wanted) return BD_OK;
  return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                 "tensor \"%s\": its shape and type make %lld bytes, its data has %lld",
                 tensor->name, (long long)wanted, (long long)bytes);
}

static bd_status settle_typed(bd_onnx_reader *reader, draft *d, bd_onnx_bytes message) {
  bd_onnx_tensor *tensor = d->tensor;
  if (d->typed == 0) return check_size(reader, d, 0);
  if (d->typed != typed_field(tensor->dtype))
    return fail(reader, d, BD_INVALID, "its elements are not in the field of its data_type");
  BD_TRY(join_elements(reader, d, message));
  if (d->typed == FIELD_FLOATS || d->typed == FIELD_DOUBLES)
    return check_size(reader, d, (int64_t)tensor->data.bytes);
  tensor->encoding = BD_ONNX_VARINTS;
  if (bd_wire_count_varints(tensor->data) == tensor->elements) return BD_OK;
  return fail(reader, d, BD_INVALID, "has another number of elements than its shape says");
}

// That the other file is there and holds every byte.
static bd_status settle_external(bd_onnx_reader *reader, draft *d) {
  bd_onnx_tensor *tensor = d->tensor;
  if (d->has_raw || d->typed != 0)
    return fail(reader, d, BD_INVALID, "has data in the model and in another file");
  if (!tensor->location) return fail(reader, d, BD_INVALID, "its external data has no location");
  int64_t wanted = tensor->elements * bd_onnx_dtype_bytes(tensor->dtype);
  if (!d->has_length) tensor->length_bytes = wanted;
  BD_TRY(check_size(reader, d, tensor->length_bytes));
  if (!reader->external || strcmp(reader->external, tensor->location) != 0) {
    int file = -1;
    BD_TRY(bd_onnx_external_open(reader->ctx, reader->model->path, tensor->name,
                                 reader->model->folder, tensor->location, &file,
                                 &reader->external_bytes));
    close(file);
    reader->external = tensor->location;
  }
  tensor->encoding = BD_ONNX_EXTERNAL;
  if (tensor->offset_bytes <= reader->external_bytes - wanted) return BD_OK;
  return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                 "tensor \"%s\": its data ends past the end of \"%s\", which has %lld bytes",
                 tensor->name, tensor->location, (long long)reader->external_bytes);
}

static bd_status settle(bd_onnx_reader *reader, draft *d, bd_onnx_bytes message) {
  bd_onnx_tensor *tensor = d->tensor;
  if (bd_onnx_dtype_bytes(tensor->dtype) == 0)
    return bd_fail(reader->ctx, BD_UNSUPPORTED, reader->loc,
                   "tensor \"%s\" has elements of %s (data_type %d), which braid does not read",
                   tensor->name, bd_onnx_dtype_name(tensor->dtype), (int)tensor->dtype);
  tensor->elements = 1;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->elements > 0 && tensor->dims[i] > BD_MAX_ELEMENTS / tensor->elements)
      return fail(reader, d, BD_INVALID, "has more than 2^46 elements");
    tensor->elements *= tensor->dims[i];
  }
  if (d->location == 1) return settle_external(reader, d);
  if (d->location != 0) return fail(reader, d, BD_INVALID, "has an unknown data_location");
  if (!d->has_raw) return settle_typed(reader, d, message);
  if (d->typed != 0) return fail(reader, d, BD_INVALID, "has raw_data and elements one by one");
  return check_size(reader, d, (int64_t)tensor->data.bytes);
}

bd_status bd_onnx_read_tensor_message(bd_onnx_reader *reader, bd_onnx_bytes message,
                                      bd_onnx_tensor *out_tensor) {
  *out_tensor = (bd_onnx_tensor){.name = ""};
  draft d = {.tensor = out_tensor};
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  // The name first: it stands after the data, and every complaint names the tensor.
  while (bd_wire_next(&wire, &field))
    if (field.number == FIELD_NAME) BD_TRY(add_field(reader, &d, &field));
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "TensorProto");
  wire = bd_wire_begin(message);
  while (bd_wire_next(&wire, &field))
    BD_TRY(add_field(reader, &d, &field));
  return settle(reader, &d, message);
}
