#include "ir/base/suggest.h"
#include "ir/base/utf8.h"
#include "ir/parse_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void skip_space(bd_parser *p) {
  for (; p->at < p->end; ++p->at) {
    if (*p->at == '\n') {
      ++p->line;
      p->line_start = p->at + 1;
    } else if (*p->at == '/' && p->end - p->at > 1 && p->at[1] == '/') {
      const char *newline = memchr(p->at, '\n', (size_t)(p->end - p->at));
      p->at = (newline ? newline : p->end) - 1;
    } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r') {
      return;
    }
  }
}

bd_loc bd_parser_loc(bd_parser *p) {
  skip_space(p);
  return (bd_loc){p->file, p->line, (int)(p->at - p->line_start) + 1};
}

bool bd_parser_at_end(bd_parser *p) {
  skip_space(p);
  return p->at == p->end;
}

static size_t word_length(const bd_parser *p) {
  const char *each = p->at;
  while (each < p->end && bd_is_identifier_byte(*each))
    ++each;
  return (size_t)(each - p->at);
}

bd_status bd_parser_expected(bd_parser *p, const char *what) {
  enum { SHOWN_BYTES = 40 };
  bd_loc loc = bd_parser_loc(p);
  if (p->at == p->end)
    return bd_fail(p->ctx, BD_INVALID, loc, "expected %s, found the end of the file", what);
  size_t length = word_length(p);
  if (length > SHOWN_BYTES) length = SHOWN_BYTES;
  uint32_t character;
  if (length == 0) length = bd_utf8_decode(p->at, (size_t)(p->end - p->at), &character);
  if (length == 0 || *p->at == '\0')
    return bd_fail(p->ctx, BD_INVALID, loc, "expected %s, found the byte 0x%02x", what,
                   (unsigned char)*p->at);
  return bd_fail(p->ctx, BD_INVALID, loc, "expected %s, found '%.*s'", what, (int)length, p->at);
}

bool bd_parser_peek(bd_parser *p, char byte) {
  skip_space(p);
  return p->at < p->end && *p->at == byte;
}

bool bd_parser_accept(bd_parser *p, char byte) {
  if (!bd_parser_peek(p, byte)) return false;
  ++p->at;
  return true;
}

bool bd_parser_accept_word(bd_parser *p, const char *word) {
  skip_space(p);
  size_t length = word_length(p);
  if (length != strlen(word) || memcmp(p->at, word, length) != 0) return false;
  p->at += length;
  return true;
}

bd_status bd_parser_expect(bd_parser *p, char byte) {
  if (bd_parser_accept(p, byte)) return BD_OK;
  const char what[] = {'\'', byte, '\'', '\0'};
  return bd_parser_expected(p, what);
}

bd_status bd_parser_expect_word(bd_parser *p, const char *word) {
  if (bd_parser_accept_word(p, word)) return BD_OK;
  return bd_parser_expected(p, bd_intern_f(p->ctx, "'%s'", word));
}

bd_status bd_parser_word(bd_parser *p, const char *what, const char **out_word) {
  skip_space(p);
  size_t length = word_length(p);
  if (length == 0) return bd_parser_expected(p, what);
  *out_word = bd_intern(p->ctx, p->at, length);
  p->at += length;
  return BD_OK;
}

// The bytes a number may be made of, as a bounded string; *out_length is 0 when there are none or
// too many to be one.
static void number_text(bd_parser *p, char out_text[64], size_t *out_length) {
  skip_space(p);
  size_t length = 0;
  while (p->at + length < p->end && length < 63 &&
         (bd_is_identifier_byte(p->at[length]) || p->at[length] == '-' || p->at[length] == '+')) {
    out_text[length] = p->at[length];
    ++length;
  }
  out_text[length] = '\0';
  *out_length = length < 63 ? length : 0;
}

// A decimal integer of the whole text.
static bool read_integer(const char *text, int64_t *out_value) {
  const char *digits = text + (*text == '-');
  if (!*digits || strspn(digits, "0123456789") != strlen(digits)) return false;
  errno = 0;
  long long value = strtoll(text, NULL, 10);
  if (errno == ERANGE) return false;
  *out_value = value;
  return true;
}

static bool read_real(const char *text, double *out_value) {
  const char *body = text + (*text == '-');
  bool word = strcmp(body, "inf") == 0 || strcmp(text, "nan") == 0;
  if (!word && (*body < '0' || *body > '9')) return false;
  if (!word && strspn(body, "0123456789.e+-") != strlen(body)) return false;
  char *rest = NULL;
  *out_value = strtod(text, &rest);
  return *rest == '\0';
}

// The sign of an offset stands apart from its number: digits only.
bd_status bd_parser_int(bd_parser *p, const char *what, int64_t min, int64_t max,
                        int64_t *out_value) {
  bd_loc loc = bd_parser_loc(p);
  size_t length = p->at < p->end && *p->at == '-';
  while (p->at + length < p->end && p->at[length] >= '0' && p->at[length] <= '9')
    ++length;
  char text[24] = "";
  if (length >= sizeof text) return bd_fail(p->ctx, BD_INVALID, loc, "%s is out of range", what);
  memcpy(text, p->at, length);
  const char *after = p->at + length;
  if (strcmp(text, "-") == 0 || !*text || (after < p->end && bd_is_identifier_byte(*after)))
    return bd_parser_expected(p, what);
  if (!read_integer(text, out_value) || *out_value < min || *out_value > max)
    return bd_fail(p->ctx, BD_INVALID, loc, "%s must lie between %lld and %lld, found %s", what,
                   (long long)min, (long long)max, text);
  p->at = after;
  return BD_OK;
}

bd_status bd_parser_small(bd_parser *p, const char *what, int min, int max, int *out) {
  int64_t value = 0;
  BD_TRY(bd_parser_int(p, what, min, max, &value));
  *out = (int)value;
  return BD_OK;
}

bd_status bd_parser_number(bd_parser *p, const char *what, bool *out_is_real, int64_t *out_integer,
                           double *out_real) {
  char text[64];
  size_t length;
  number_text(p, text, &length);
  if (length > 0 && read_integer(text, out_integer)) {
    *out_is_real = false;
    *out_real = (double)*out_integer;
  } else if (length > 0 && strpbrk(text, ".ein") && read_real(text, out_real)) {
    *out_is_real = true;
  } else {
    return bd_parser_expected(p, what);
  }
  p->at += length;
  return BD_OK;
}

bd_status bd_parser_symbol(bd_parser *p, const char *what, const char **out_name) {
  if (!bd_parser_accept(p, '@')) return bd_parser_expected(p, what);
  if (p->at < p->end && *p->at == '"') return bd_parser_string(p, what, out_name);
  if (word_length(p) == 0) return bd_parser_expected(p, "a name after '@'");
  return bd_parser_word(p, what, out_name);
}

bd_status bd_parser_value(bd_parser *p, const char **out_name) {
  if (!bd_parser_accept(p, '%')) return bd_parser_expected(p, "a value (%name)");
  if (word_length(p) == 0) return bd_parser_expected(p, "a name after '%'");
  return bd_parser_word(p, "a value name", out_name);
}

bd_status bd_parser_choice(bd_parser *p, const char *what, const char *const *names, int count,
                           int *out) {
  bd_loc loc = bd_parser_loc(p);
  const char *word;
  BD_TRY(bd_parser_word(p, what, &word));
  for (int i = 0; i < count; ++i) {
    if (strcmp(names[i], word) != 0) continue;
    *out = i;
    return BD_OK;
  }
  const char **list = BD_NEW_ARRAY(p->ctx->arena, const char *, count + 1);
  for (int i = 0; i < count; ++i)
    list[i] = names[i];
  const char *near = bd_suggest(word, list);
  return bd_fail(p->ctx, BD_INVALID, loc, "expected %s, found '%s'%s%s%s", what, word,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
