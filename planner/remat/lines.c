#include "planner/remat/lines.h"
#include "ir/base/number.h"
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 64

bd_lines bd_lines_init(bd_ctx *ctx, const char *file, const char *data, size_t bytes) {
  return (bd_lines){.ctx = ctx, .file = file, .data = data, .bytes = bytes};
}

static bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static void split(bd_lines *lines, size_t from, size_t end) {
  lines->words = 0;
  for (size_t at = from; at < end;) {
    if (blank(lines->data[at])) {
      at++;
      continue;
    }
    if (lines->data[at] == '#') return;
    size_t first = at;
    while (at < end && !blank(lines->data[at]))
      at++;
    if (lines->words < BD_LINE_WORDS) {
      size_t length = at - first;
      lines->word[lines->words] = lines->data + first;
      lines->length[lines->words] = length > INT32_MAX ? INT32_MAX : (int)length;
      lines->column[lines->words] = first - from >= INT32_MAX ? 0 : (int)(first - from) + 1;
    }
    lines->words++;
  }
}

bool bd_lines_next(bd_lines *lines) {
  while (lines->at < lines->bytes) {
    size_t from = lines->at;
    const char *newline = memchr(lines->data + from, '\n', lines->bytes - from);
    size_t end = newline ? (size_t)(newline - lines->data) : lines->bytes;
    lines->at = newline ? end + 1 : end;
    lines->line++;
    split(lines, from, end);
    if (lines->words) return true;
  }
  lines->words = 0;
  return false;
}

bool bd_lines_is(const bd_lines *lines, int index, const char *text) {
  return index < lines->words && (size_t)lines->length[index] == strlen(text) &&
         memcmp(lines->word[index], text, strlen(text)) == 0;
}

bd_loc bd_lines_loc(const bd_lines *lines, int index) {
  int kept = lines->words < BD_LINE_WORDS ? lines->words : BD_LINE_WORDS, column = 0;
  if (index < kept)
    column = lines->column[index];
  else if (kept)
    column = lines->column[kept - 1] + lines->length[kept - 1];
  return (bd_loc){lines->file, lines->line, column};
}

bd_status bd_lines_count(const bd_lines *lines, int words, const char *form) {
  if (lines->words == words) return BD_OK;
  return bd_fail(lines->ctx, BD_INVALID,
                 bd_lines_loc(lines, lines->words < words ? lines->words : words),
                 "the line has %d words, not the %d of '%s'", lines->words, words, form);
}

static bd_status wrong_number(const bd_lines *lines, int index, const char *what, const char *kind,
                              double min, double max) {
  bd_text word = bd_text_init(lines->ctx->arena);
  int length = lines->length[index];
  bd_text_add_printable(&word, lines->word[index],
                        (size_t)(length < NUMBER_BYTES ? length : NUMBER_BYTES));
  return bd_fail(lines->ctx, BD_INVALID, bd_lines_loc(lines, index),
                 "%s wants a %s from %.16g to %.16g, not '%s'", what, kind, min, max, word.data);
}

// The word as a C string, which the number readers of the library want; false when it is too long.
static bool copy(const bd_lines *lines, int index, char out[NUMBER_BYTES]) {
  if (lines->length[index] >= NUMBER_BYTES) return false;
  memcpy(out, lines->word[index], (size_t)lines->length[index]);
  out[lines->length[index]] = '\0';
  return strlen(out) == (size_t)lines->length[index];
}

bd_status bd_lines_int(const bd_lines *lines, int index, const char *what, int64_t min, int64_t max,
                       int64_t *out) {
  char text[NUMBER_BYTES];
  int64_t value;
  if (!copy(lines, index, text) || !bd_whole_read(text, &value) || value < min || value > max)
    return wrong_number(lines, index, what, "whole number", (double)min, (double)max);
  *out = value;
  return BD_OK;
}

bd_status bd_lines_real(const bd_lines *lines, int index, const char *what, double *out) {
  char text[NUMBER_BYTES], *end = text;
  double value = copy(lines, index, text) ? strtod(text, &end) : 0;
  if (end == text || *end || !(value >= 0 && value <= 1e15))
    return wrong_number(lines, index, what, "number", 0, 1e15);
  *out = value;
  return BD_OK;
}

bool bd_lines_begin(const char *data, size_t bytes, const char *first) {
  bd_lines lines = {.data = data, .bytes = bytes < 65536 ? bytes : 65536};
  return bd_lines_next(&lines) && bd_lines_is(&lines, 0, first);
}
