#include "ir/base/number.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool bd_whole_of(double value, int64_t *out) {
  if (!(value > -0x1p53 && value < 0x1p53) || value != (double)(int64_t)value) return false;
  *out = (int64_t)value;
  return true;
}

bool bd_whole_read(const char *text, int64_t *out) {
  char *end;
  // strtod also takes blanks, hexadecimal numbers and words.
  if (!*text || strspn(text, "0123456789.eE+-") != strlen(text)) return false;
  errno = 0;
  long long digits = strtoll(text, &end, 10);
  if (!*end) {
    *out = digits;
    return errno == 0;
  }
  double value = strtod(text, &end);
  return !*end && bd_whole_of(value, out);
}

int64_t bd_common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
