// The kernels of programs: those generated, lowered for this machine (tests/emulator), of which
// kernels.awk writes the table for each program from its PTX; and the runtime's own (kernels.cpp).
#ifndef BD_TESTS_DEVICE_LIBRARY_H
#define BD_TESTS_DEVICE_LIBRARY_H
#include "tests/emulator/emulator.h"

#include <cuda_runtime_api.h>

enum { BD_FAKE_PARAMETERS = 3 };

typedef struct bd_fake_kernel {
  const char *name;
  emulate_kernel function;
  int threads; // of a block
  int parameters, bytes[BD_FAKE_PARAMETERS];
} bd_fake_kernel;

extern const bd_fake_kernel bd_fake_kernels[];
extern const int bd_fake_kernel_count;

typedef struct bd_fake_own_kernel {
  const char *name; // NULL ends a table
  void (*function)(void);
  // Checks the arguments, copies them and has the function run later.
  void (*start)(const struct bd_fake_own_kernel *own, int blocks, int threads, cudaStream_t stream,
                void **args);
} bd_fake_own_kernel;

// What stands where a library's code is.
enum { BD_FAKE_OWN_CODE = 0x0C0DE };
typedef struct bd_fake_own_code {
  int magic;
  const bd_fake_own_kernel *kernels;
} bd_fake_own_code;
#endif
