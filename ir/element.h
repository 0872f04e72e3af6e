// Elements of buffers, as the numbers that the interpreter computes with.
#ifndef BD_IR_ELEMENT_H
#define BD_IR_ELEMENT_H
#include "ir/type.h"

// Element `i` of a buffer, which may lie at any address. Integers of more than 53 bits become the
// nearest double.
double bd_element_read(bd_dtype dtype, const void *buffer, int64_t i);
// Writes the number of the type that `value` is rounded to (bd_dtype_round); 2^63 and 2^64 of the
// types that end before them become their last integers.
void bd_element_write(bd_dtype dtype, void *buffer, int64_t i, double value);
#endif
