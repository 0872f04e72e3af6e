#include "ir/base/json_scan.h"

#include "ir/base/utf8.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// cJSON reads no more of a number.
enum { LONGEST_NUMBER = 63 };

typedef struct scanner {
  bd_ctx *ctx;
  const char *file, *text;
  size_t bytes, at, line_start;
  int line, depth;
  bd_json_mark *marks;
  size_t mark_count, mark_capacity, member_count, string_bytes;
} scanner;

// Recurses with scan_array and scan_object, at most BD_JSON_MAX_DEPTH deep.
static bd_status scan_value(scanner *s, int key_line, int key_column);

static int column_of(const scanner *s, size_t at) {
  return (int)(at - s->line_start) + 1;
}

static bd_loc place(const scanner *s, size_t at) {
  return (bd_loc){.file = s->file, .line = s->line, .column = column_of(s, at)};
}

// The byte at hand; -1 at the end.
static int peek(const scanner *s) {
  return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1;
}

static void skip_blank(scanner *s) {
  for (; s->at < s->bytes; s->at++) {
    char byte = s->text[s->at];
    if (byte == '\n') {
      s->line++;
      s->line_start = s->at + 1;
    } else if (byte != ' ' && byte != '\t' && byte != '\r') {
      return;
    }
  }
}

static bd_status unexpected(scanner *s, const char *wanted) {
  int found = peek(s);
  bd_loc loc = place(s, s->at);
  if (found < 0) return bd_fail(s->ctx, BD_INVALID, loc, "expected %s, found the end", wanted);
  if (found >= 0x80) {
    return bd_fail(s->ctx, BD_INVALID, loc, "expected %s, found byte 0x%02x", wanted, found);
  }
  return bd_fail(s->ctx, BD_INVALID, loc, "expected %s, found '%c'", wanted, found);
}

static bool is_digit(int byte) {
  return byte >= '0' && byte <= '9';
}

static bd_status scan_hex4(scanner *s, unsigned *out_unit) {
  unsigned unit = 0;
  for (int i = 0; i < 4; ++i, s->at++) {
    int byte = peek(s);
    int letter = byte | 0x20;
    if (is_digit(byte))
      unit = unit * 16 + (unsigned)(byte - '0');
    else if (byte > 0 && letter >= 'a' && letter <= 'f')
      unit = unit * 16 + (unsigned)letter - 'a' + 10;
    else
      return unexpected(s, "a hexadecimal digit");
  }
  *out_unit = unit;
  return BD_OK;
}

// `at` is on the `u` of an escape.
static bd_status scan_unicode_escape(scanner *s) {
  bd_loc loc = place(s, s->at - 1);
  unsigned unit, low;
  s->at++;
  BD_TRY(scan_hex4(s, &unit));
  if (unit == 0) return bd_fail(s->ctx, BD_INVALID, loc, "\\u0000 is not allowed in a string");
  bool is_pair = false;
  if (unit >= 0xd800 && unit <= 0xdbff && s->bytes - s->at >= 6 &&
      memcmp(s->text + s->at, "\\u", 2) == 0) {
    s->at += 2;
    BD_TRY(scan_hex4(s, &low));
    is_pair = low >= 0xdc00 && low <= 0xdfff;
  }
  if (unit >= 0xd800 && unit <= 0xdfff && !is_pair) {
    return bd_fail(s->ctx, BD_INVALID, loc, "half of a surrogate pair");
  }
  return BD_OK;
}

// `at` is on the opening quote.
static bd_status scan_string(scanner *s) {
  size_t start = s->at++;
  for (;;) {
    int byte = peek(s);
    if (byte < 0) return bd_fail(s->ctx, BD_INVALID, place(s, start), "string is not closed");
    if (byte < 0x20) {
      return bd_fail(s->ctx, BD_INVALID, place(s, s->at),
                     "control character 0x%02x in a string (write it as \\u%04x)", byte, byte);
    }
    if (byte == '"') break;
    if (byte == '\\') {
      s->at++;
      int escape = peek(s);
      if (escape == 'u')
        BD_TRY(scan_unicode_escape(s));
      else if (escape > 0 && strchr("\"\\/bfnrt", escape))
        s->at++;
      else
        return unexpected(s, "an escape (one of \" \\ / b f n r t u)");
      continue;
    }
    uint32_t character;
    size_t length = bd_utf8_decode(s->text + s->at, s->bytes - s->at, &character);
    if (length == 0) {
      return bd_fail(s->ctx, BD_INVALID, place(s, s->at), "byte 0x%02x is not valid UTF-8", byte);
    }
    s->at += length;
  }
  s->at++;
  // No escape is shorter than what it stands for; the quotes leave room for the NUL.
  s->string_bytes += s->at - start;
  return BD_OK;
}

static bd_status scan_digits(scanner *s) {
  if (!is_digit(peek(s))) return unexpected(s, "a digit");
  while (is_digit(peek(s)))
    s->at++;
  return BD_OK;
}

static bd_status read_number(scanner *s, size_t start, bool is_whole, bd_json_mark *mark) {
  char digits[LONGEST_NUMBER + 1];
  size_t length = s->at - start;
  if (length > LONGEST_NUMBER) {
    return bd_fail(s->ctx, BD_INVALID, place(s, start), "number has more than %d characters",
                   (int)LONGEST_NUMBER);
  }
  memcpy(digits, s->text + start, length);
  digits[length] = '\0';
  mark->kind = BD_JSON_REAL;
  mark->real = strtod(digits, NULL);
  if (isinf(mark->real)) {
    return bd_fail(s->ctx, BD_INVALID, place(s, start), "number %s is too large", digits);
  }
  if (!is_whole) return BD_OK;
  errno = 0;
  long long integer = strtoll(digits, NULL, 10);
  if (errno != 0) return BD_OK;
  mark->kind = BD_JSON_INT;
  mark->integer = integer;
  return BD_OK;
}

static bd_status scan_number(scanner *s, bd_json_mark *mark) {
  size_t start = s->at;
  bool is_whole = true;
  if (peek(s) == '-') s->at++;
  if (peek(s) == '0') {
    s->at++;
    if (is_digit(peek(s))) {
      return bd_fail(s->ctx, BD_INVALID, place(s, start), "number has a leading zero");
    }
  } else {
    BD_TRY(scan_digits(s));
  }
  if (peek(s) == '.') {
    is_whole = false;
    s->at++;
    BD_TRY(scan_digits(s));
  }
  if (peek(s) == 'e' || peek(s) == 'E') {
    is_whole = false;
    s->at++;
    if (peek(s) == '+' || peek(s) == '-') s->at++;
    BD_TRY(scan_digits(s));
  }
  return read_number(s, start, is_whole, mark);
}

static bd_status scan_word(scanner *s, const char *word) {
  size_t length = strlen(word);
  if (s->bytes - s->at < length || memcmp(s->text + s->at, word, length) != 0) {
    return unexpected(s, "a value (true, false, null, a number, a string, an array or an object)");
  }
  s->at += length;
  return BD_OK;
}

static bd_status enter(scanner *s) {
  if (++s->depth > BD_JSON_MAX_DEPTH) {
    return bd_fail(s->ctx, BD_INVALID, place(s, s->at), "nested more than %d deep",
                   BD_JSON_MAX_DEPTH);
  }
  s->at++;
  skip_blank(s);
  return BD_OK;
}

// After a member: a comma (another member follows) or `closing`.
static bd_status scan_separator(scanner *s, char closing, bool *out_more) {
  skip_blank(s);
  int byte = peek(s);
  if (byte != ',' && byte != closing) {
    return unexpected(s, closing == ']' ? "',' or ']'" : "',' or '}'");
  }
  s->at++;
  *out_more = byte == ',';
  if (*out_more) skip_blank(s);
  return BD_OK;
}

static bd_status scan_array(scanner *s, size_t *out_count) {
  BD_TRY(enter(s));
  bool more = peek(s) != ']';
  if (!more) s->at++;
  for (; more; ++*out_count) {
    BD_TRY(scan_value(s, 0, 0));
    BD_TRY(scan_separator(s, ']', &more));
  }
  s->depth--;
  return BD_OK;
}

static bd_status scan_object(scanner *s, size_t *out_count) {
  BD_TRY(enter(s));
  bool more = peek(s) != '}';
  if (!more) s->at++;
  for (; more; ++*out_count) {
    if (peek(s) != '"') return unexpected(s, "a key in double quotes");
    int line = s->line, column = column_of(s, s->at);
    BD_TRY(scan_string(s));
    skip_blank(s);
    if (peek(s) != ':') return unexpected(s, "':' after the key");
    s->at++;
    skip_blank(s);
    BD_TRY(scan_value(s, line, column));
    BD_TRY(scan_separator(s, '}', &more));
  }
  s->depth--;
  s->member_count += *out_count;
  return BD_OK;
}

static size_t add_mark(scanner *s) {
  if (s->mark_count == s->mark_capacity) {
    size_t capacity = s->mark_capacity ? s->mark_capacity * 2 : 64;
    s->marks = bd_arena_grow(s->ctx->arena, s->marks, s->mark_count, capacity, sizeof *s->marks);
    s->mark_capacity = capacity;
  }
  return s->mark_count++;
}

static bd_status scan_value(scanner *s, int key_line, int key_column) {
  bd_json_mark mark = {.line = s->line,
                       .column = column_of(s, s->at),
                       .key_line = key_line,
                       .key_column = key_column};
  size_t index = add_mark(s);
  bd_status status;
  switch (peek(s)) {
  case '{':
    mark.kind = BD_JSON_OBJECT;
    status = scan_object(s, &mark.count);
    break;
  case '[':
    mark.kind = BD_JSON_ARRAY;
    status = scan_array(s, &mark.count);
    break;
  case '"':
    mark.kind = BD_JSON_STRING;
    status = scan_string(s);
    break;
  case 't':
    mark.kind = BD_JSON_BOOL;
    status = scan_word(s, "true");
    break;
  case 'f':
    mark.kind = BD_JSON_BOOL;
    status = scan_word(s, "false");
    break;
  default:
    if (peek(s) == '-' || is_digit(peek(s))) {
      status = scan_number(s, &mark);
    } else {
      mark.kind = BD_JSON_NULL;
      status = scan_word(s, "null");
    }
  }
  s->marks[index] = mark;
  return status;
}

bd_status bd_json_scan_text(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                            bd_json_scan *out_scan) {
  scanner s = {.ctx = ctx, .file = file, .text = data, .bytes = bytes, .line = 1};
  if (bytes > INT_MAX) {
    return bd_fail(ctx, BD_INVALID, bd_loc_file(file), "JSON of more than %d bytes", INT_MAX);
  }
  if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
    s.text += 3;
    s.bytes -= 3;
  }
  skip_blank(&s);
  BD_TRY(scan_value(&s, 0, 0));
  skip_blank(&s);
  if (s.at < s.bytes) return unexpected(&s, "the end of the document");
  *out_scan = (bd_json_scan){.text = s.text,
                             .bytes = s.bytes,
                             .marks = s.marks,
                             .mark_count = s.mark_count,
                             .member_count = s.member_count,
                             .string_bytes = s.string_bytes};
  return BD_OK;
}
