#include "tests/record/faults.h"

#include <stdarg.h>
#include <stdio.h>

void record_fault(record_faults *faults, const char *format, ...) {
  va_list arguments;
  if (faults->count++ >= RECORD_MOST_FAULTS) return;
  va_start(arguments, format);
  printf("fault: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}
