#include "frontend/onnx/wire.h"

enum { MOST_VARINT_BYTES = 10, MOST_FIELD = (1 << 29) - 1 };

static bool damaged(bd_wire *wire, const char *what) {
  wire->damage = what;
  return false;
}

bool bd_wire_varint(bd_wire *wire, uint64_t *out_bits) {
  if (wire->damage || wire->at == wire->end) return false;
  const unsigned char *at = wire->at;
  uint64_t bits = 0;
  for (int i = 0; i < MOST_VARINT_BYTES; i++) {
    if (at == wire->end) return damaged(wire, "a number is cut short");
    unsigned char byte = *at++;
    if (i == MOST_VARINT_BYTES - 1 && byte > 1)
      return damaged(wire, "a number has more than 64 bits");
    bits |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte & 0x80) continue;
    wire->at = at;
    *out_bits = bits;
    return true;
  }
  return damaged(wire, "a number has more than 64 bits");
}

static bool take_fixed(bd_wire *wire, size_t bytes, bd_wire_field *field) {
  if ((size_t)(wire->end - wire->at) < bytes) return damaged(wire, "a number is cut short");
  field->bytes = (bd_onnx_bytes){wire->at, bytes};
  for (size_t i = 0; i < bytes; i++)
    field->bits |= (uint64_t)wire->at[i] << (8 * i);
  wire->at += bytes;
  return true;
}

static bool take_bytes(bd_wire *wire, bd_wire_field *field) {
  uint64_t length;
  if (!bd_wire_varint(wire, &length))
    return wire->damage ? false : damaged(wire, "a field is cut short");
  if (length > (uint64_t)(wire->end - wire->at))
    return damaged(wire, "a field reaches past the end of what holds it");
  field->bytes = (bd_onnx_bytes){wire->at, (size_t)length};
  wire->at += length;
  return true;
}

static bool take_varint(bd_wire *wire, bd_wire_field *field) {
  const unsigned char *begin = wire->at;
  if (!bd_wire_varint(wire, &field->bits))
    return wire->damage ? false : damaged(wire, "a field is cut short");
  field->bytes = (bd_onnx_bytes){begin, (size_t)(wire->at - begin)};
  return true;
}

bool bd_wire_next(bd_wire *wire, bd_wire_field *out_field) {
  uint64_t tag;
  if (!bd_wire_varint(wire, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > MOST_FIELD) return damaged(wire, "a field has a bad number");
  *out_field = (bd_wire_field){.number = (uint32_t)(tag >> 3), .kind = (bd_wire_kind)(tag & 7)};
  switch (tag & 7) {
  case BD_WIRE_VARINT:
    return take_varint(wire, out_field);
  case BD_WIRE_FIXED64:
    return take_fixed(wire, 8, out_field);
  case BD_WIRE_BYTES:
    return take_bytes(wire, out_field);
  case BD_WIRE_FIXED32:
    return take_fixed(wire, 4, out_field);
  default:
    return damaged(wire, "a field has a wire type that ONNX does not use");
  }
}

int64_t bd_wire_count_varints(bd_onnx_bytes packed) {
  bd_wire wire = bd_wire_begin(packed);
  int64_t count = 0;
  uint64_t bits;
  while (bd_wire_varint(&wire, &bits))
    count++;
  return wire.damage ? -1 : count;
}
