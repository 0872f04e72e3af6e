// The files of a compiled folder.
#ifndef BRAID_RT_PROGRAM_FILES_H
#define BRAID_RT_PROGRAM_FILES_H
#include <stdio.h>
#include <string.h>

// Whether a compiled folder may have an entry of this name: its plan, its program, what is built
// from that.
static inline int bd_rt_is_program_file(const char *name) {
  static const char *const names[] = {"plan.json",  "main.c",    "Makefile",    "build.log",
                                      "build",      "runtime",   "train",       "kernels.h",
                                      "kernels.ll", "kernels.s", "kernels.ptx", "device_code.s"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return 1;
  int stage, end = 0;
  return sscanf(name, "stage%d.c%n", &stage, &end) == 1 && end > 0 && !name[end];
}
#endif
