// emulate-lower KERNELS.LL KERNELS.O: for programs on the fake device.
#include "tests/emulator/lower.h"

#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: emulate-lower KERNELS.LL KERNELS.O\n");
    return 2;
  }
  char *message = emulate_lower(argv[1], argv[2]);
  if (!message) return 0;
  fprintf(stderr, "emulate-lower: %s\n", message);
  emulate_forget(message);
  return 1;
}
