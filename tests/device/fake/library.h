// The generated kernels of a program, lowered for this machine (tests/emulator). The table is
// written for each program by kernels.awk from its PTX.
#ifndef BD_TESTS_DEVICE_LIBRARY_H
#define BD_TESTS_DEVICE_LIBRARY_H
#include "tests/emulator/emulator.h"

enum { BD_FAKE_PARAMETERS = 3 };

typedef struct bd_fake_kernel {
  const char *name;
  emulate_kernel function;
  int threads; // of a block
  int parameters, bytes[BD_FAKE_PARAMETERS];
} bd_fake_kernel;

extern const bd_fake_kernel bd_fake_kernels[];
extern const int bd_fake_kernel_count;
#endif
