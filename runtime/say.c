// Lines on stderr.
#include "runtime/backend.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

// Bytes of the UTF-8 character at `in`, 0 when it is malformed or cut off.
static int decode(const unsigned char *in, uint32_t *out_character) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const int length = in[0] < 0x80   ? 1
                     : in[0] < 0xC2 ? 0
                     : in[0] < 0xE0 ? 2
                     : in[0] < 0xF0 ? 3
                     : in[0] < 0xF5 ? 4
                                    : 0;
  *out_character = length == 1 ? in[0] : in[0] & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    if ((in[i] & 0xC0) != 0x80) return 0;
    *out_character = *out_character << 6 | (in[i] & 0x3Fu);
  }
  return *out_character < least[length] ? 0 : length;
}

// Controls, separators of lines and paragraphs, and what is not seen or reorders what is.
static int is_harmful(uint32_t character) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0, 0x1F},          {0x7F, 0x9F},          {0xAD, 0xAD},       {0x61C, 0x61C},
                {0x180E, 0x180E},   {0x200B, 0x200F},      {0x2028, 0x202E},   {0x2060, 0x206F},
                {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},      {0x1D173, 0x1D17A}, {0xD800, 0xDFFF},
                {0xE0000, 0xE007F}, {0x110000, UINT32_MAX}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
    if (character >= ranges[i].first && character <= ranges[i].last) return 1;
  return 0;
}

enum { LINE = 2048, ESCAPED = 4 };

// What a file or an argument is called may hold any bytes: those that would do more than show are
// escaped. A line is written at once, so that those of several ranks stay whole.
static void say(const char *format, va_list arguments) {
  char line[LINE] = "", safe[LINE * ESCAPED + 16] = "braid: ";
  char *out = safe + 7;
  uint32_t character;
  vsnprintf(line, sizeof line, format, arguments);
  for (const unsigned char *at = (const unsigned char *)line; *at;) {
    const int length = decode(at, &character), bytes = length ? length : 1;
    const int shown = length && !is_harmful(character);
    for (int i = 0; i < bytes; i++)
      out += snprintf(out, ESCAPED + 1, shown ? "%c" : "\\x%02x", at[i]);
    at += bytes;
  }
  *out++ = '\n';
  fwrite(safe, 1, (size_t)(out - safe), stderr);
  fflush(stderr);
}

void bd_rt_say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void bd_rt_fail(int status, const char *format, ...) {
  va_list arguments;
  bd_rt_claim(status);
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  bd_rt_abort(status);
}
