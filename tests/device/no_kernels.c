// For programs that have no generated kernels.
#include "tests/device/fake/library.h"

const bd_fake_kernel bd_fake_kernels[1];
const int bd_fake_kernel_count = 0;
