// Mutates messages of protocol buffers as messages: a field, however deep, is changed, left out,
// repeated or put elsewhere, and the lengths of all that holds it stay right. So the fuzzer gets
// past the wire format.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 4096, MOST_BYTES = 1 << 16, MOST_DEPTH = 16 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

// Where a field stands: from its tag, its contents, to its end. Lengths are within the contents of
// none.
typedef struct field {
  size_t tag, contents, end;
  int parent; // the field whose contents it is part of; -1: none
  int kind;   // of the wire
} field;

static field fields[MOST_FIELDS];
static int field_count;
static unsigned dice;

static unsigned roll(unsigned sides) {
  dice = dice * 1664525u + 1013904223u;
  return (dice >> 8) % sides;
}

static bool read_varint(const uint8_t *data, size_t *at, size_t end, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    const uint8_t byte = data[(*at)++];
    *out |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return true;
  }
  return false;
}

static size_t write_varint(uint8_t *out, uint64_t value) {
  size_t bytes = 0;
  for (; value > 127; value >>= 7)
    out[bytes++] = (uint8_t)(value | 128);
  out[bytes++] = (uint8_t)value;
  return bytes;
}

static bool read_field(const uint8_t *data, size_t *at, size_t end, field *out) {
  uint64_t tag, value;
  out->tag = *at;
  if (!read_varint(data, at, end, &tag) || tag < 8 || tag >> 3 > 63) return false;
  out->kind = (int)(tag & 7);
  out->contents = *at;
  if (out->kind == 0) {
    if (!read_varint(data, at, end, &value)) return false;
  } else if (out->kind == 2) {
    if (!read_varint(data, at, end, &value) || value > end - *at) return false;
    out->contents = *at;
    *at += value;
  } else if (out->kind == 1 || out->kind == 5) {
    const size_t bytes = out->kind == 1 ? 8 : 4;
    if (bytes > end - *at) return false;
    *at += bytes;
  } else {
    return false;
  }
  out->end = *at;
  return true;
}

// Lists the fields of [at, end), and of what in it looks like messages, unless it is none itself.
static bool list(const uint8_t *data, size_t at, size_t end, int parent, int depth) {
  const int before = field_count;
  while (at < end) {
    if (field_count == MOST_FIELDS || !read_field(data, &at, end, &fields[field_count])) {
      field_count = before;
      return false;
    }
    fields[field_count++].parent = parent;
  }
  const int after = field_count;
  for (int i = before; i < after && depth < MOST_DEPTH; i++)
    if (fields[i].kind == 2 && fields[i].end - fields[i].contents > 1)
      list(data, fields[i].contents, fields[i].end, i, depth + 1);
  return true;
}

typedef struct piece {
  uint8_t data[2 * MOST_BYTES];
  size_t bytes;
} piece;

static void add(piece *out, const uint8_t *data, size_t bytes) {
  if (bytes > sizeof out->data - out->bytes) bytes = sizeof out->data - out->bytes;
  memcpy(out->data + out->bytes, data, bytes);
  out->bytes += bytes;
}

// [from, to), which lies within the contents of `holder`, becomes `now`; lengths follow.
static void replace(const uint8_t *data, size_t size, int holder, size_t from, size_t to,
                    piece *now) {
  static piece next;
  for (;; holder = fields[holder].parent) {
    const size_t begin = holder < 0 ? 0 : fields[holder].contents;
    const size_t end = holder < 0 ? size : fields[holder].end;
    next.bytes = 0;
    add(&next, data + begin, from - begin);
    add(&next, now->data, now->bytes);
    add(&next, data + to, end - to);
    now->bytes = 0;
    if (holder >= 0) {
      uint8_t head[20];
      size_t at = fields[holder].tag;
      uint64_t tag;
      read_varint(data, &at, size, &tag);
      const size_t tag_bytes = write_varint(head, tag);
      add(now, head, tag_bytes + write_varint(head + tag_bytes, next.bytes));
    }
    add(now, next.data, next.bytes);
    if (holder < 0) return;
    from = fields[holder].tag;
    to = fields[holder].end;
  }
}

static uint64_t odd_number(uint64_t old) {
  static const uint64_t numbers[] = {0,          1,          2,          7,          8,
                                     UINT64_MAX, 1ull << 31, 1ull << 46, 1ull << 62, 1ull << 63,
                                     INT64_MAX,  UINT32_MAX, 1ull << 20, 4096,       16};
  const unsigned choice = roll(20);
  if (choice < 15) return numbers[choice];
  return choice == 15 ? old + 1 : choice == 16 ? old - 1 : choice == 17 ? -old : roll(64);
}

// Another field's contents, such as the name of another value.
static const field *like(const field *one) {
  for (int tries = 0; tries < 32; tries++) {
    const field *other = &fields[roll((unsigned)field_count)];
    if (other != one && other->kind == one->kind) return other;
  }
  return one;
}

static void change(const uint8_t *data, const field *chosen, piece *now) {
  uint8_t head[20];
  size_t at = chosen->tag;
  uint64_t tag, value;
  read_varint(data, &at, chosen->end, &tag);
  const size_t tag_bytes = write_varint(head, roll(12) ? tag : (tag & 7) | roll(31) << 3 | 8);
  add(now, head, tag_bytes);
  if (chosen->kind == 0) {
    read_varint(data, &at, chosen->end, &value);
    add(now, head, write_varint(head, odd_number(value)));
    return;
  }
  static uint8_t contents[MOST_BYTES];
  const field *from = roll(2) ? like(chosen) : chosen;
  size_t bytes = from->end - from->contents;
  memcpy(contents, data + from->contents, bytes);
  if (from == chosen && bytes > 0)
    bytes = LLVMFuzzerMutate(contents, bytes, chosen->kind == 2 ? bytes + 16 : bytes);
  if (chosen->kind == 2) add(now, head, write_varint(head, bytes));
  while (chosen->kind != 2 && bytes < chosen->end - chosen->contents)
    contents[bytes++] = 0;
  add(now, contents, bytes);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static piece now;
  dice = seed;
  field_count = 0;
  if (size > MOST_BYTES - 64 || roll(16) == 0 || !list(data, 0, size, -1, 0) || field_count == 0)
    return LLVMFuzzerMutate(data, size, most);
  const field *chosen = &fields[roll((unsigned)field_count)];
  const field *other = &fields[roll((unsigned)field_count)];
  now.bytes = 0;
  switch (roll(8)) {
  case 0: // left out
    replace(data, size, chosen->parent, chosen->tag, chosen->end, &now);
    break;
  case 1: // repeated
    add(&now, data + chosen->tag, chosen->end - chosen->tag);
    replace(data, size, chosen->parent, chosen->end, chosen->end, &now);
    break;
  case 2: // put elsewhere
    add(&now, data + other->tag, other->end - other->tag);
    replace(data, size, chosen->parent, chosen->tag, roll(2) ? chosen->tag : chosen->end, &now);
    break;
  default:
    change(data, chosen, &now);
    replace(data, size, chosen->parent, chosen->tag, chosen->end, &now);
  }
  if (now.bytes > most) return LLVMFuzzerMutate(data, size, most);
  memcpy(data, now.data, now.bytes);
  return now.bytes;
}
