// The wire format of protocol buffers over bytes in memory
// (protobuf.dev/programming-guides/encoding): fields one after another, nothing copied, nothing
// allocated, nothing nested by itself.
#ifndef BD_FRONTEND_ONNX_WIRE_H
#define BD_FRONTEND_ONNX_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A part of the file; borrowed.
typedef struct bd_onnx_bytes {
  const unsigned char *data;
  size_t bytes;
} bd_onnx_bytes;

typedef enum bd_wire_kind {
  BD_WIRE_VARINT = 0,
  BD_WIRE_FIXED64 = 1,
  BD_WIRE_BYTES = 2,
  BD_WIRE_FIXED32 = 5
} bd_wire_kind;

typedef struct bd_wire_field {
  uint32_t number;
  bd_wire_kind kind;
  uint64_t bits;       // a varint or fixed number
  bd_onnx_bytes bytes; // BD_WIRE_BYTES: the contents. Numbers: as they stand in the file
} bd_wire_field;

typedef struct bd_wire {
  const unsigned char *at, *end;
  const char *damage; // what is wrong at `at`; NULL while all is well
} bd_wire;

static inline bd_wire bd_wire_begin(bd_onnx_bytes message) {
  return (bd_wire){message.data, message.data + message.bytes, NULL};
}

// The next field. False at the end, and where the bytes are no field: `damage` is set then.
bool bd_wire_next(bd_wire *wire, bd_wire_field *out_field);

// A varint of packed numbers. False at the end and on damage.
bool bd_wire_varint(bd_wire *wire, uint64_t *out_bits);

// Varints in `packed`; -1 when the bytes are not varints to their end.
int64_t bd_wire_count_varints(bd_onnx_bytes packed);
#endif
