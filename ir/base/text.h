// Growing text, escapes, and numbers that round-trip.
#ifndef BD_IR_BASE_TEXT_H
#define BD_IR_BASE_TEXT_H
#include "ir/base/arena.h"
#include <stdarg.h>
#include <stdint.h>

typedef struct bd_text {
  bd_arena *arena;
  char *data; // NUL-terminated
  size_t length, capacity;
} bd_text;

bd_text bd_text_init(bd_arena *arena);
void bd_text_add(bd_text *text, const char *string);
void bd_text_add_n(bd_text *text, const char *bytes, size_t count);
void bd_text_addf(bd_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bd_text_addv(bd_text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

// For people: bytes that could steer a terminal or break a line (control and bidirectional
// characters, bytes that are not UTF-8) become \n, \x1b, \u202e; the rest stays as it is.
void bd_text_add_printable(bd_text *text, const char *bytes, size_t count);

// A quoted JSON string (also the string form of the IR grammar): every byte outside printable
// ASCII, and `"` `\`, is escaped; bytes that are not UTF-8 become \u00XX.
void bd_text_add_json_string(bd_text *text, const char *string);

// A quoted C string literal that no name can break out of: octal escapes for everything but
// letters, digits and plain punctuation (no trigraph, no line splice).
void bd_text_add_c_string(bd_text *text, const char *string);

// The shortest decimal that reads back to the same double; "inf", "-inf", "nan" otherwise.
void bd_text_add_double(bd_text *text, double value);
// The same as JSON, which has no infinities: null for them.
void bd_text_add_json_number(bd_text *text, double value);
// A member of a JSON object, `"key": value`; the key is printed as it is.
void bd_text_add_json_member(bd_text *text, const char *key, double value);

// "+1.5 %": by how much `to` is more than `from`, which is positive, for people; "+0.0 %"
// where that rounds to nothing.
void bd_text_add_change(bd_text *text, double from, double to, int decimals);

// What a word for `count` of something ends in: nothing for one, else `ending`, "s" or "es".
static inline const char *bd_plural(int64_t count, const char *ending) {
  return count == 1 ? "" : ending;
}

// "1.50 GiB": for people.
void bd_text_add_bytes(bd_text *text, int64_t bytes);
#endif
