#include "planner/select/scan.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, NUMBER_BYTES = 64 };

bd_status bd_scan_fail(const bd_scan *scan, const char *place, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  bd_loc loc = {.file = scan->file, .line = 1, .column = 1};
  for (const char *c = scan->data; c < place; c++) {
    bool line_ends = *c == '\n';
    loc.line += line_ends;
    loc.column = line_ends ? 1 : loc.column + 1;
  }
  return bd_fail(scan->ctx, BD_INVALID, loc, "%s", message);
}

char bd_scan_peek(bd_scan *scan) {
  while (scan->at < scan->end &&
         (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r')) {
    scan->at++;
  }
  return scan->at < scan->end ? *scan->at : '\0';
}

bd_status bd_scan_take(bd_scan *scan, char wanted, const char *what) {
  if (bd_scan_peek(scan) != wanted || scan->at == scan->end) {
    return bd_scan_fail(scan, scan->at, "expected %s%s", what,
                        scan->at == scan->end ? ", not the end of the file" : "");
  }
  scan->at++;
  return BD_OK;
}

bd_status bd_scan_next(bd_scan *scan, char close, bool *more) {
  *more = bd_scan_peek(scan) == ',';
  if (*more) {
    scan->at++;
    return BD_OK;
  }
  return bd_scan_take(scan, close, close == ']' ? "`,` or `]`" : "`,` or `}`");
}

// Numbers with a fraction or an exponent.
static bd_status real_integer(bd_scan *scan, const char *from, int64_t *out) {
  char text[NUMBER_BYTES];
  size_t length = 0;
  while (from + length < scan->end && length < sizeof text - 1 &&
         strchr("+-.0123456789eE", from[length]) && from[length]) {
    text[length] = from[length];
    length++;
  }
  text[length] = '\0';
  char *rest = text;
  double value = strtod(text, &rest);
  if (*rest || length == sizeof text - 1 || !strchr("0123456789", text[length - 1])) {
    return bd_scan_fail(scan, from, "malformed number");
  }
  if (!(fabs(value) < 0x1p63) || value != trunc(value)) {
    return bd_scan_fail(scan, from, "expected an integer of at most 64 bits, not %s", text);
  }
  scan->at = from + length;
  *out = (int64_t)value;
  return BD_OK;
}

bd_status bd_scan_integer(bd_scan *scan, int64_t least, int64_t *out) {
  char first = bd_scan_peek(scan);
  const char *from = scan->at;
  bool negative = first == '-';
  const char *c = from + negative;
  if (c >= scan->end || *c < '0' || *c > '9') {
    return bd_scan_fail(scan, from, "expected an integer");
  }
  if (*c == '0' && c + 1 < scan->end && c[1] >= '0' && c[1] <= '9') {
    return bd_scan_fail(scan, from, "malformed number: a leading zero");
  }
  int64_t value = 0;
  bool large = false;
  for (; c < scan->end && *c >= '0' && *c <= '9'; c++) {
    large = large || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c - '0', &value);
  }
  if (c < scan->end && (*c == '.' || *c == 'e' || *c == 'E')) {
    BD_TRY(real_integer(scan, from, &value));
  } else if (large) {
    return bd_scan_fail(scan, from, "expected an integer of at most 64 bits");
  } else {
    value = negative ? -value : value;
    scan->at = c;
  }
  if (value < least) {
    return bd_scan_fail(scan, from, "%lld is less than %lld", (long long)value, (long long)least);
  }
  *out = value;
  return BD_OK;
}

bd_status bd_scan_string(bd_scan *scan, const char **out_bytes, size_t *out_length) {
  BD_TRY(bd_scan_take(scan, '"', "a string"));
  const char *from = scan->at;
  while (scan->at < scan->end && *scan->at != '"') {
    if ((unsigned char)*scan->at < 0x20) {
      return bd_scan_fail(scan, scan->at, "control character in a string");
    }
    bool escape = *scan->at == '\\' && scan->at + 1 < scan->end;
    scan->at += escape ? 2 : 1;
  }
  if (scan->at >= scan->end) return bd_scan_fail(scan, from - 1, "this string does not end");
  *out_bytes = from;
  *out_length = (size_t)(scan->at - from);
  scan->at++;
  return BD_OK;
}

// A word or number, whose content nobody needs.
static bd_status skip_word(bd_scan *scan) {
  const char *from = scan->at;
  while (scan->at < scan->end && *scan->at &&
         strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *scan->at)) {
    scan->at++;
  }
  return scan->at > from ? BD_OK : bd_scan_fail(scan, from, "expected a value");
}

bd_status bd_scan_skip(bd_scan *scan) {
  char close[MAX_DEPTH];
  int depth = 0;
  const char *ignored;
  size_t length;
  bool more = false;
  do {
    char c = bd_scan_peek(scan);
    if (depth > 0 && close[depth - 1] == '}' && c != '}') {
      BD_TRY(bd_scan_string(scan, &ignored, &length));
      BD_TRY(bd_scan_take(scan, ':', "`:`"));
      c = bd_scan_peek(scan);
    }
    if (c == '[' || c == '{') {
      if (depth == MAX_DEPTH) return bd_scan_fail(scan, scan->at, "nested too deeply");
      close[depth++] = c == '[' ? ']' : '}';
      scan->at++;
      if (bd_scan_peek(scan) != close[depth - 1]) continue;
    } else if (c == '"') {
      BD_TRY(bd_scan_string(scan, &ignored, &length));
    } else if (depth == 0 || c != close[depth - 1]) {
      BD_TRY(skip_word(scan));
    }
    more = false;
    while (depth > 0 && !more) {
      BD_TRY(bd_scan_next(scan, close[depth - 1], &more));
      depth -= !more;
    }
  } while (depth > 0);
  return BD_OK;
}
