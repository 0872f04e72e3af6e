// Arrays of halves, of either kind by dtype.
#ifndef BD_TESTS_RUNTIME_HALVES_H
#define BD_TESTS_RUNTIME_HALVES_H
#include <stdint.h>

// The halves nearest to `x`; the caller frees them.
uint16_t *to_halves(int dtype, const float *x, int64_t count);
void from_halves(int dtype, const uint16_t *halves, int64_t count, float *x);

// The most that one rounding changes, relatively.
double rounding_of(int dtype);
#endif
