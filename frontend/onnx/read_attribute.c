#include "frontend/onnx/reader.h"
#include <string.h>

// Fields of AttributeProto.
enum {
  FIELD_NAME = 1,
  FIELD_F = 2,
  FIELD_I = 3,
  FIELD_S = 4,
  FIELD_T = 5,
  FIELD_G = 6,
  FIELD_FLOATS = 7,
  FIELD_INTS = 8,
  FIELD_STRINGS = 9,
  FIELD_TENSORS = 10,
  FIELD_GRAPHS = 11,
  FIELD_KIND = 20,
  FIELD_REFERENCE = 21,
  FIELD_SPARSE = 22
};

// The kind whose contents a field holds; old writers leave the kind out.
static bd_onnx_attribute_kind kind_of(uint32_t number) {
  static const bd_onnx_attribute_kind kinds[] = {
      [FIELD_F] = BD_ONNX_ATTRIBUTE_FLOAT,         [FIELD_I] = BD_ONNX_ATTRIBUTE_INT,
      [FIELD_S] = BD_ONNX_ATTRIBUTE_STRING,        [FIELD_T] = BD_ONNX_ATTRIBUTE_TENSOR,
      [FIELD_G] = BD_ONNX_ATTRIBUTE_GRAPH,         [FIELD_FLOATS] = BD_ONNX_ATTRIBUTE_FLOATS,
      [FIELD_INTS] = BD_ONNX_ATTRIBUTE_INTS,       [FIELD_STRINGS] = BD_ONNX_ATTRIBUTE_STRINGS,
      [FIELD_TENSORS] = BD_ONNX_ATTRIBUTE_TENSORS, [FIELD_GRAPHS] = BD_ONNX_ATTRIBUTE_GRAPHS,
      [FIELD_SPARSE] = BD_ONNX_ATTRIBUTE_SPARSE};
  return number < sizeof kinds / sizeof *kinds ? kinds[number] : BD_ONNX_ATTRIBUTE_NONE;
}

static float float_of(const unsigned char *bytes) {
  float value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

static bd_status fail(bd_onnx_reader *reader, const bd_onnx_attribute *attribute, bd_status status,
                      const char *why) {
  return bd_fail(reader->ctx, status, reader->loc, "attribute \"%s\" %s", attribute->name, why);
}

// Members of the list that one field holds: several when they are packed; -1 for a bad wire type.
static int64_t members_of(const bd_wire_field *field, bd_onnx_attribute_kind kind) {
  bool packed = field->kind == BD_WIRE_BYTES;
  if (kind == BD_ONNX_ATTRIBUTE_INTS)
    return packed ? bd_wire_count_varints(field->bytes) : field->kind == BD_WIRE_VARINT ? 1 : -1;
  if (kind != BD_ONNX_ATTRIBUTE_FLOATS) return packed ? 1 : -1;
  if (packed) return field->bytes.bytes % 4 == 0 ? (int64_t)(field->bytes.bytes / 4) : -1;
  return field->kind == BD_WIRE_FIXED32 ? 1 : -1;
}

// Counts the list of `attribute`, whose kind is known.
static bd_status count_list(bd_onnx_reader *reader, bd_onnx_bytes message,
                            bd_onnx_attribute *attribute) {
  int64_t total = 0;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (kind_of(field.number) != attribute->kind) continue;
    int64_t members = members_of(&field, attribute->kind);
    if (members < 0) return fail(reader, attribute, BD_INVALID, "has a damaged list");
    total += members;
    if (total > BD_ONNX_MOST_LIST)
      return fail(reader, attribute, BD_INVALID, "has more than 2^20 members");
  }
  attribute->count = (int)total;
  return BD_OK;
}

static void fill_integers(bd_onnx_reader *reader, bd_onnx_bytes message,
                          bd_onnx_attribute *attribute) {
  int64_t *out = BD_NEW_ARRAY(reader->ctx->arena, int64_t, attribute->count);
  attribute->integers = out;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number != FIELD_INTS) continue;
    bd_wire list = bd_wire_begin(field.bytes);
    uint64_t bits;
    while (bd_wire_varint(&list, &bits))
      *out++ = (int64_t)bits;
  }
}

static void fill_reals(bd_onnx_reader *reader, bd_onnx_bytes message,
                       bd_onnx_attribute *attribute) {
  float *out = BD_NEW_ARRAY(reader->ctx->arena, float, attribute->count);
  attribute->reals = out;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    for (size_t i = 0; field.number == FIELD_FLOATS && i < field.bytes.bytes; i += 4)
      *out++ = float_of(field.bytes.data + i);
  }
}

static bd_status fill_strings(bd_onnx_reader *reader, bd_onnx_bytes message,
                              bd_onnx_attribute *attribute) {
  const char **out = BD_NEW_ARRAY(reader->ctx->arena, const char *, attribute->count);
  attribute->strings = out;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field))
    if (field.number == FIELD_STRINGS)
      BD_TRY(bd_onnx_take_name(reader, &field, "an attribute's string", out++));
  return BD_OK;
}

static bd_status read_tensor(bd_onnx_reader *reader, const bd_wire_field *field,
                             bd_onnx_attribute *attribute) {
  bd_onnx_bytes bytes = {NULL, 0};
  bd_onnx_tensor *tensor = BD_NEW(reader->ctx->arena, bd_onnx_tensor);
  BD_TRY(bd_onnx_take_bytes(reader, field, "an attribute's tensor", &bytes));
  BD_TRY(bd_onnx_read_tensor_message(reader, bytes, tensor));
  attribute->tensor = tensor;
  return BD_OK;
}

// A field that holds the one thing of a kind that is no list.
static bd_status read_single(bd_onnx_reader *reader, const bd_wire_field *field,
                             bd_onnx_attribute *attribute) {
  switch (field->number) {
  case FIELD_F:
    if (field->kind != BD_WIRE_FIXED32) return fail(reader, attribute, BD_INVALID, "is damaged");
    attribute->real = float_of(field->bytes.data);
    return BD_OK;
  case FIELD_I:
    return bd_onnx_take_int(reader, field, "an attribute's integer", &attribute->integer);
  case FIELD_S:
    return bd_onnx_take_name(reader, field, "an attribute's string", &attribute->string);
  case FIELD_G:
    return bd_onnx_take_bytes(reader, field, "an attribute's graph", &attribute->graph);
  default:
    return read_tensor(reader, field, attribute);
  }
}

static bd_status read_contents(bd_onnx_reader *reader, bd_onnx_bytes message,
                               bd_onnx_attribute *attribute) {
  switch (attribute->kind) {
  case BD_ONNX_ATTRIBUTE_INTS:
    BD_TRY(count_list(reader, message, attribute));
    fill_integers(reader, message, attribute);
    return BD_OK;
  case BD_ONNX_ATTRIBUTE_FLOATS:
    BD_TRY(count_list(reader, message, attribute));
    fill_reals(reader, message, attribute);
    return BD_OK;
  case BD_ONNX_ATTRIBUTE_STRINGS:
    BD_TRY(count_list(reader, message, attribute));
    return fill_strings(reader, message, attribute);
  case BD_ONNX_ATTRIBUTE_FLOAT:
  case BD_ONNX_ATTRIBUTE_INT:
  case BD_ONNX_ATTRIBUTE_STRING:
  case BD_ONNX_ATTRIBUTE_GRAPH:
  case BD_ONNX_ATTRIBUTE_TENSOR: {
    bd_wire wire = bd_wire_begin(message);
    bd_wire_field field;
    while (bd_wire_next(&wire, &field))
      if (kind_of(field.number) == attribute->kind) BD_TRY(read_single(reader, &field, attribute));
    return BD_OK;
  }
  default: // no op that braid knows has one
    return BD_OK;
  }
}

bd_status bd_onnx_read_attribute(bd_onnx_reader *reader, bd_onnx_bytes message,
                                 bd_onnx_attribute *out_attribute) {
  int64_t kind = 0;
  bd_onnx_attribute_kind implied = BD_ONNX_ATTRIBUTE_NONE;
  *out_attribute = (bd_onnx_attribute){.name = "", .string = ""};
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == FIELD_NAME)
      BD_TRY(bd_onnx_take_name(reader, &field, "an attribute's name", &out_attribute->name));
    else if (field.number == FIELD_KIND)
      BD_TRY(bd_onnx_take_int(reader, &field, "an attribute's type", &kind));
    else if (field.number == FIELD_REFERENCE)
      BD_TRY(bd_onnx_take_name(reader, &field, "a reference", &out_attribute->reference));
    else if (implied == BD_ONNX_ATTRIBUTE_NONE)
      implied = kind_of(field.number);
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "AttributeProto");
  if (kind < 0 || kind >= BD_ONNX_ATTRIBUTE_KINDS)
    return fail(reader, out_attribute, BD_INVALID, "has an unknown type");
  out_attribute->kind = kind ? (bd_onnx_attribute_kind)kind : implied;
  bool is_reference = out_attribute->reference && out_attribute->reference[0];
  if (!is_reference) out_attribute->reference = NULL;
  if (implied != BD_ONNX_ATTRIBUTE_NONE && implied != out_attribute->kind)
    return fail(reader, out_attribute, BD_INVALID, "holds something else than its type says");
  return is_reference ? BD_OK : read_contents(reader, message, out_attribute);
}
