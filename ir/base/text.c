#include "ir/base/text.h"

#include "ir/base/utf8.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bd_text bd_text_init(bd_arena *arena) {
  enum { FIRST_CAPACITY = 64 };
  return (bd_text){
      .arena = arena, .data = bd_arena_alloc(arena, FIRST_CAPACITY), .capacity = FIRST_CAPACITY};
}

// Room for `count` more bytes and the NUL.
static void reserve(bd_text *text, size_t count) {
  if (count < text->capacity - text->length) return;
  size_t needed, capacity;
  if (__builtin_add_overflow(text->length + 1, count, &needed)) needed = SIZE_MAX;
  if (__builtin_mul_overflow(text->capacity, 2, &capacity)) capacity = SIZE_MAX;
  if (capacity < needed) capacity = needed;
  text->data = bd_arena_grow(text->arena, text->data, text->length + 1, capacity, 1);
  text->capacity = capacity;
}

void bd_text_add_n(bd_text *text, const char *bytes, size_t count) {
  reserve(text, count);
  if (count) memcpy(text->data + text->length, bytes, count);
  text->length += count;
  text->data[text->length] = '\0';
}

void bd_text_add(bd_text *text, const char *string) {
  bd_text_add_n(text, string, strlen(string));
}

void bd_text_addv(bd_text *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  size_t room = text->capacity - text->length;
  int length = vsnprintf(text->data + text->length, room, format, arguments);
  assert(length >= 0);
  if ((size_t)length >= room) {
    text->data[text->length] = '\0';
    reserve(text, (size_t)length);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
  }
  va_end(again);
  text->length += (size_t)length;
}

void bd_text_addf(bd_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  bd_text_addv(text, format, arguments);
  va_end(arguments);
}

// Controls, separators of lines and paragraphs, and what is not seen or reorders what is.
static bool is_harmful(uint32_t character) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
                {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
                {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; ++i)
    if (character >= ranges[i].first && character <= ranges[i].last) return true;
  return false;
}

void bd_text_add_printable(bd_text *text, const char *bytes, size_t count) {
  for (size_t i = 0; i < count;) {
    uint32_t character = 0;
    size_t length = bd_utf8_decode(bytes + i, count - i, &character);
    if (length > 0 && !is_harmful(character))
      bd_text_add_n(text, bytes + i, length);
    else if (length == 1 && character == '\n')
      bd_text_add(text, "\\n");
    else if (length == 1 && character == '\t')
      bd_text_add(text, "\\t");
    else if (length <= 1)
      bd_text_addf(text, "\\x%02x", (unsigned char)bytes[i]);
    else
      bd_text_addf(text, "\\u%04x", (unsigned)character);
    i += length ? length : 1;
  }
}

static void add_json_character(bd_text *text, uint32_t character) {
  if (character == '"' || character == '\\') {
    bd_text_addf(text, "\\%c", (char)character);
  } else if (character >= 0x20 && character < 0x7f) {
    char plain = (char)character;
    bd_text_add_n(text, &plain, 1);
  } else if (character == '\n') {
    bd_text_add(text, "\\n");
  } else if (character == '\t') {
    bd_text_add(text, "\\t");
  } else if (character < 0x10000) {
    bd_text_addf(text, "\\u%04x", (unsigned)character);
  } else {
    uint32_t rest = character - 0x10000;
    bd_text_addf(text, "\\u%04x\\u%04x", 0xd800 + (unsigned)(rest >> 10),
                 0xdc00 + (unsigned)(rest & 0x3ff));
  }
}

void bd_text_add_json_string(bd_text *text, const char *string) {
  size_t count = strlen(string);
  bd_text_add(text, "\"");
  for (size_t i = 0; i < count;) {
    uint32_t character = (unsigned char)string[i];
    size_t length = bd_utf8_decode(string + i, count - i, &character);
    add_json_character(text, character);
    i += length ? length : 1;
  }
  bd_text_add(text, "\"");
}

static bool is_plain_in_c(char byte) {
  if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return true;
  if (byte >= '0' && byte <= '9') return true;
  return byte != '\0' && strchr(" _-+.,:;=()[]{}<>/@", byte) != NULL;
}

void bd_text_add_c_string(bd_text *text, const char *string) {
  bd_text_add(text, "\"");
  for (const char *each = string; *each; ++each) {
    if (is_plain_in_c(*each))
      bd_text_add_n(text, each, 1);
    else
      bd_text_addf(text, "\\%03o", (unsigned char)*each);
  }
  bd_text_add(text, "\"");
}

static bool reads_back(const char *digits, double value) {
  return strtod(digits, NULL) == value;
}

// Adds one to the last of 16 significant digits. Just above a power of two the doubles lie twice as
// far apart as just below, so the nearest 16 digits may miss it where the next ones do not.
static void round_last_digit_up(char *digits) {
  size_t last = strcspn(digits, "e");
  while (last > 0 && (digits[last - 1] < '0' || digits[last - 1] > '9'))
    --last;
  if (last > 0 && digits[last - 1] < '9') digits[last - 1]++;
}

void bd_text_add_double(bd_text *text, double value) {
  if (isnan(value)) {
    bd_text_add(text, "nan");
    return;
  }
  if (isinf(value)) {
    bd_text_add(text, value < 0 ? "-inf" : "inf");
    return;
  }
  char digits[40];
  // Up to 15 digits survive a normal double, so %.15g already finds every shorter form of one.
  for (int precision = isnormal(value) ? 15 : 1; precision <= 17; ++precision) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (reads_back(digits, value)) break;
    if (precision != 16) continue;
    snprintf(digits, sizeof digits, "%#.16g", value);
    round_last_digit_up(digits);
    if (reads_back(digits, value)) break;
  }
  bd_text_add(text, digits);
}

void bd_text_add_json_number(bd_text *text, double value) {
  if (isfinite(value))
    bd_text_add_double(text, value);
  else
    bd_text_add(text, "null");
}

void bd_text_add_json_member(bd_text *text, const char *key, double value) {
  bd_text_addf(text, "\"%s\": ", key);
  bd_text_add_json_number(text, value);
}

void bd_text_add_change(bd_text *text, double from, double to, int decimals) {
  double percent = 100 * (to / from - 1);
  double least = 0.5;
  for (int i = 0; i < decimals; i++)
    least /= 10;
  bool none = fabs(percent) < least;
  bd_text_addf(text, "%+.*f %%", decimals, none ? 0 : percent);
}

void bd_text_add_bytes(bd_text *text, int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) {
    bd_text_addf(text, "%d B", (int)bytes);
    return;
  }
  double value = (double)bytes;
  size_t unit = 0;
  // 1023.995 would print as 1024.00.
  for (; fabs(value) >= 1023.995 && unit + 1 < sizeof units / sizeof *units; ++unit)
    value /= 1024;
  bd_text_addf(text, "%.2f %s", value, units[unit]);
}
