// Masks in closed form: values that are made of constants and indices, by element.
#ifndef BD_IR_PASSES_RECOVER_KNOWN_H
#define BD_IR_PASSES_RECOVER_KNOWN_H
#include "ir/module.h"

// The element at indices i is n = base + sum(coefficient[d] * i[d]), or, when it is a choice, `yes`
// where n <= 0 and else `no`.
typedef struct bd_known {
  bool choice;
  double base, coefficient[BD_MAX_RANK];
  double yes, no;
} bd_known;

// False: the value is of no such form, or not known beforehand.
bool bd_known_of(const bd_function *function, bd_id id, bd_known *out);
bool bd_known_uniform(const bd_known *known, double *out);
// Whether a matrix in the last two of `rank` dimensions is `on_and_below` a diagonal, that
// included, and `above` above it; which one: `reach` columns right of the main one.
bool bd_known_triangle(const bd_known *known, int rank, double *reach, double *on_and_below,
                       double *above);
#endif
