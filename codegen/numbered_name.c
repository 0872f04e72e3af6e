#include "codegen/numbered_name.h"
#include <string.h>

#define MOST_DIGITS 15 // so that no sum overflows

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads a number as it would be printed: without leading zeros.
static bool read_number(const char *at, int64_t *out, const char **out_rest) {
  int64_t value = 0;
  int digits = 0;
  for (; is_digit(at[digits]) && digits < MOST_DIGITS; ++digits)
    value = value * 10 + (at[digits] - '0');
  *out = value;
  *out_rest = at + digits;
  return digits > 0 && !is_digit(at[digits]) && (digits == 1 || at[0] != '0');
}

bool bd_numbered_name_find(const char *first, const char *second, bd_numbered_name *out) {
  *out = (bd_numbered_name){.prefix_bytes = strlen(first)};
  if (strcmp(first, second) == 0) return true;
  size_t same = 0;
  while (first[same] && first[same] == second[same])
    ++same;
  while (same > 0 && is_digit(first[same - 1]))
    --same;
  int64_t next;
  const char *rest;
  out->prefix_bytes = same;
  if (!read_number(first + same, &out->number, &out->rest) ||
      !read_number(second + same, &next, &rest))
    return false;
  out->step = next - out->number;
  return strcmp(out->rest, rest) == 0;
}

bool bd_numbered_name_matches(const bd_numbered_name *pattern, const char *first, int layer,
                              const char *name) {
  if (!pattern->rest) return strcmp(first, name) == 0;
  int64_t number;
  const char *rest;
  return strncmp(first, name, pattern->prefix_bytes) == 0 &&
         read_number(name + pattern->prefix_bytes, &number, &rest) &&
         number == pattern->number + layer * pattern->step && strcmp(rest, pattern->rest) == 0;
}
