// Whole numbers: as people write them (8000000000, 8e9, 8000000000.0), and their divisors.
#ifndef BD_IR_BASE_NUMBER_H
#define BD_IR_BASE_NUMBER_H
#include <stdbool.h>
#include <stdint.h>

// The whole number that `value` is; false when it is none, or so large (2^53) that a double need
// not be the number that was written.
bool bd_whole_of(double value, int64_t *out);

// Reads a whole number, and nothing else, from `text`: digits that fit in 64 bits, or a decimal
// number that bd_whole_of takes.
bool bd_whole_read(const char *text, int64_t *out);

// The greatest common divisor of two numbers of 0 or more; of 0 and a number, that number.
int64_t bd_common_divisor(int64_t a, int64_t b);
#endif
