// Lines on stderr.
#include "runtime/backend.h"

#include <stdarg.h>
#include <stdio.h>

static void say(const char *format, va_list arguments) {
  char line[2048];
  int length = vsnprintf(line, sizeof line, format, arguments);
  length = length < (int)sizeof line ? length : (int)sizeof line - 1;
  for (int i = 0; i < length; i++)
    if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F) line[i] = '?';
  fprintf(stderr, "braid: %s\n", line);
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
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  bd_rt_abort(status);
}
