#include "frontend/onnx/reader.h"

static bd_status read_extent(bd_onnx_reader *reader, const char *name, bd_onnx_bytes message,
                             bd_onnx_extent *out_extent) {
  *out_extent = (bd_onnx_extent){.value = -1};
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == 1) {
      BD_TRY(bd_onnx_take_int(reader, &field, "an extent", &out_extent->value));
      if (out_extent->value < 0 || out_extent->value > BD_MAX_ELEMENTS)
        return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                       "\"%s\" has an extent that is negative or more than 2^46", name);
    } else if (field.number == 2) {
      BD_TRY(bd_onnx_take_name(reader, &field, "an extent's symbol", &out_extent->symbol));
    }
  }
  if (out_extent->symbol && out_extent->symbol[0] == '\0') out_extent->symbol = NULL;
  return wire.damage ? bd_onnx_damaged(reader, &wire, "TensorShapeProto.Dimension") : BD_OK;
}

static bd_status read_shape(bd_onnx_reader *reader, const char *name, bd_onnx_bytes message,
                            bd_onnx_declared *declared) {
  int64_t counts[32];
  BD_TRY(bd_onnx_count_fields(reader, message, "TensorShapeProto", counts));
  if (counts[1] > BD_MAX_RANK)
    return bd_fail(reader->ctx, BD_UNSUPPORTED, reader->loc,
                   "\"%s\" has %lld dimensions; braid knows at most %d", name, (long long)counts[1],
                   BD_MAX_RANK);
  bd_onnx_extent *dims = BD_NEW_ARRAY(reader->ctx->arena, bd_onnx_extent, counts[1]);
  declared->dims = dims;
  declared->rank = 0;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes extent = {NULL, 0};
    if (field.number != 1) continue;
    BD_TRY(bd_onnx_take_bytes(reader, &field, "an extent", &extent));
    BD_TRY(read_extent(reader, name, extent, &dims[declared->rank++]));
  }
  return BD_OK;
}

static bd_status read_tensor_type(bd_onnx_reader *reader, const char *name, bd_onnx_bytes message,
                                  bd_onnx_declared *declared) {
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == 1) {
      int64_t dtype;
      BD_TRY(bd_onnx_take_int(reader, &field, "an elem_type", &dtype));
      declared->dtype = dtype >= 0 && dtype < 128 ? (bd_onnx_dtype)dtype : BD_ONNX_UNDEFINED;
    } else if (field.number == 2) {
      bd_onnx_bytes shape = {NULL, 0};
      BD_TRY(bd_onnx_take_bytes(reader, &field, "a shape", &shape));
      BD_TRY(read_shape(reader, name, shape, declared));
    }
  }
  return wire.damage ? bd_onnx_damaged(reader, &wire, "TypeProto.Tensor") : BD_OK;
}

static bd_status read_type(bd_onnx_reader *reader, const char *name, bd_onnx_bytes message,
                           bd_onnx_declared *declared) {
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes type = {NULL, 0};
    if (field.number == 6) continue; // denotation
    BD_TRY(bd_onnx_take_bytes(reader, &field, "a type", &type));
    if (field.number != 1)
      return bd_fail(reader->ctx, BD_UNSUPPORTED, reader->loc,
                     "\"%s\" is no tensor but a sequence, map, optional or sparse tensor; export "
                     "the model with tensors as inputs and outputs",
                     name);
    BD_TRY(read_tensor_type(reader, name, type, declared));
  }
  return wire.damage ? bd_onnx_damaged(reader, &wire, "TypeProto") : BD_OK;
}

bd_status bd_onnx_read_value_info(bd_onnx_reader *reader, bd_onnx_bytes message,
                                  const char **out_name, const bd_onnx_declared **out_declared) {
  bd_onnx_declared *declared = BD_NEW(reader->ctx->arena, bd_onnx_declared);
  bd_onnx_bytes type = {message.data, 0};
  *declared = (bd_onnx_declared){.rank = -1};
  *out_name = "";
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == 1)
      BD_TRY(bd_onnx_take_name(reader, &field, "the name of an input or output", out_name));
    else if (field.number == 2)
      BD_TRY(bd_onnx_take_bytes(reader, &field, "a type", &type));
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "ValueInfoProto");
  *out_declared = declared;
  return read_type(reader, *out_name, type, declared);
}
