#include "tests/device/fake/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void bd_fake_fault(const char *call, const char *format, ...) {
  char message[1024];
  const char *const rank = getenv("BD_FAKE_RANK");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "fake device of rank %s: %s: %s\n", rank ? rank : "?", call, message);
  _exit(BD_FAKE_EXIT);
}

long long bd_fake_setting(const char *name, long long otherwise) {
  const char *const text = getenv(name);
  return text && *text ? strtoll(text, NULL, 10) : otherwise;
}
