#include "tests/runtime/halves.h"
#include "runtime/half.h"

#include <stdlib.h>

uint16_t *to_halves(int dtype, const float *x, int64_t count) {
  uint16_t *const halves = malloc((size_t)count * sizeof *halves + 1);
  if (!halves) abort();
  for (int64_t i = 0; i < count; i++)
    halves[i] = bd_rt_to_half(dtype, x[i]);
  return halves;
}

void from_halves(int dtype, const uint16_t *halves, int64_t count, float *x) {
  for (int64_t i = 0; i < count; i++)
    x[i] = bd_rt_from_half(dtype, halves[i]);
}

double rounding_of(int dtype) {
  return dtype == BD_RT_BF16 ? 1.0 / 256 : 1.0 / 2048;
}
