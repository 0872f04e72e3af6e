// Writes the wire format of protocol buffers: fields into messages that nest.
#ifndef BD_TESTS_SUPPORT_WIRE_WRITER_H
#define BD_TESTS_SUPPORT_WIRE_WRITER_H
#include <stddef.h>
#include <stdint.h>

typedef struct wire_writer {
  unsigned char *data;
  size_t bytes, room;
} wire_writer;

void wire_bytes(wire_writer *out, const void *data, size_t bytes);
void wire_varint(wire_writer *out, uint64_t bits);
void wire_int(wire_writer *out, int field, int64_t value);
void wire_float(wire_writer *out, int field, float value);
void wire_string(wire_writer *out, int field, const char *text);
void wire_block(wire_writer *out, int field, const void *data, size_t bytes);
// Adds `inner` as a field and empties it.
void wire_message(wire_writer *out, int field, wire_writer *inner);
void wire_free(wire_writer *out);
#endif
