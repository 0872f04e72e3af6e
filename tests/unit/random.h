// The random numbers of trials, the same on every machine.
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H
#include <stdint.h>

// Begins the sequence of `seed`; a program begins with that of 1. The first numbers of
// neighbouring seeds are much alike.
void random_begin(uint64_t seed);

// The next number, from 0 to `limit` - 1.
unsigned random_below(unsigned limit);
#endif
