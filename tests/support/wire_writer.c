#include "tests/support/wire_writer.h"
#include <stdlib.h>
#include <string.h>

void wire_bytes(wire_writer *out, const void *data, size_t bytes) {
  if (out->bytes + bytes > out->room) {
    out->room = 2 * (out->bytes + bytes) + 64;
    out->data = realloc(out->data, out->room);
    if (!out->data) abort();
  }
  if (bytes > 0) memcpy(out->data + out->bytes, data, bytes);
  out->bytes += bytes;
}

void wire_varint(wire_writer *out, uint64_t bits) {
  do {
    unsigned char byte = (unsigned char)((bits & 0x7f) | (bits > 0x7f ? 0x80 : 0));
    wire_bytes(out, &byte, 1);
    bits >>= 7;
  } while (bits > 0);
}

static void tag(wire_writer *out, int field, int kind) {
  wire_varint(out, (uint64_t)field << 3 | (uint64_t)kind);
}

void wire_int(wire_writer *out, int field, int64_t value) {
  tag(out, field, 0);
  wire_varint(out, (uint64_t)value);
}

void wire_float(wire_writer *out, int field, float value) {
  tag(out, field, 5);
  wire_bytes(out, &value, sizeof value);
}

void wire_block(wire_writer *out, int field, const void *data, size_t bytes) {
  tag(out, field, 2);
  wire_varint(out, bytes);
  wire_bytes(out, data, bytes);
}

void wire_string(wire_writer *out, int field, const char *text) {
  wire_block(out, field, text, strlen(text));
}

void wire_message(wire_writer *out, int field, wire_writer *inner) {
  wire_block(out, field, inner->data, inner->bytes);
  inner->bytes = 0;
}

void wire_free(wire_writer *out) {
  free(out->data);
  *out = (wire_writer){NULL, 0, 0};
}
