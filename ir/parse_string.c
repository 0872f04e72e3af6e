#include "ir/base/utf8.h"
#include "ir/parse_internal.h"

static bool read_hex4(const char *at, const char *end, uint32_t *out_unit) {
  if (end - at < 4) return false;
  uint32_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    char byte = at[i];
    uint32_t digit;
    if (byte >= '0' && byte <= '9')
      digit = (uint32_t)(byte - '0');
    else if (byte >= 'a' && byte <= 'f')
      digit = (uint32_t)(byte - 'a') + 10;
    else if (byte >= 'A' && byte <= 'F')
      digit = (uint32_t)(byte - 'A') + 10;
    else
      return false;
    unit = unit * 16 + digit;
  }
  *out_unit = unit;
  return true;
}

static void add_utf8(bd_text *text, uint32_t character) {
  char bytes[4];
  size_t count = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
  for (size_t i = count; i-- > 1; character >>= 6)
    bytes[i] = (char)(0x80 | (character & 0x3f));
  bytes[0] = (char)(lead[count] | character);
  bd_text_add_n(text, bytes, count);
}

// `\uXXXX` or a pair of them; p->at is past the `u`. NUL and lone surrogates are refused.
static bool read_unicode(bd_parser *p, bd_text *text) {
  uint32_t unit, low;
  if (!read_hex4(p->at, p->end, &unit)) return false;
  p->at += 4;
  if (unit >= 0xd800 && unit < 0xdc00) {
    if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u') return false;
    if (!read_hex4(p->at + 2, p->end, &low) || low < 0xdc00 || low > 0xdfff) return false;
    p->at += 6;
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  } else if (unit == 0 || (unit >= 0xdc00 && unit < 0xe000)) {
    return false;
  }
  add_utf8(text, unit);
  return true;
}

// p->at is past the backslash.
static bool read_escape(bd_parser *p, bd_text *text) {
  static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  if (p->at == p->end) return false;
  char byte = *p->at++;
  if (byte == 'u') return read_unicode(p, text);
  for (const char *each = escapes; *each; each += 2) {
    if (*each != byte) continue;
    bd_text_add_n(text, each + 1, 1);
    return true;
  }
  return false;
}

bd_status bd_parser_string(bd_parser *p, const char *what, const char **out_string) {
  bd_loc open = bd_parser_loc(p);
  if (!bd_parser_accept(p, '"')) return bd_parser_expected(p, what);
  bd_text text = bd_text_init(p->ctx->arena);
  while (p->at < p->end && *p->at != '"') {
    bd_loc loc = {p->file, p->line, (int)(p->at - p->line_start) + 1};
    uint32_t character;
    size_t length = bd_utf8_decode(p->at, (size_t)(p->end - p->at), &character);
    if (length == 0) return bd_fail(p->ctx, BD_INVALID, loc, "this string is not UTF-8 here");
    if (character < 0x20 || character == 0x7f)
      return bd_fail(p->ctx, BD_INVALID, loc, "a control byte in a string must be escaped");
    p->at += length;
    if (character != '\\')
      bd_text_add_n(&text, p->at - length, length);
    else if (!read_escape(p, &text))
      return bd_fail(p->ctx, BD_INVALID, loc, "this escape is not one of JSON, or stands for NUL");
  }
  if (p->at == p->end) return bd_fail(p->ctx, BD_INVALID, open, "this string does not end");
  ++p->at;
  *out_string = bd_intern(p->ctx, text.data, text.length);
  return BD_OK;
}
