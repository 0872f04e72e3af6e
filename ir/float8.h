// Numbers of 8 bits, as factors of matrix products: the formats of the OCP 8-bit Floating Point
// Specification (OFP8, revision 1.0, section 5). E4M3 has no infinity and reaches 448, E5M2 57344.
//
// A tensor is scaled by a power of two that brings its largest number just within the format, so
// that scaling itself rounds nothing (current scaling; Micikevicius et al., "FP8 Formats for Deep
// Learning", 2022, section 3).
#ifndef BD_IR_FLOAT8_H
#define BD_IR_FLOAT8_H
#include "ir/op_semantics.h"

typedef enum bd_float8 { BD_E4M3, BD_E5M2, BD_FLOAT8_COUNT } bd_float8;

// Dimensions of a product in 8 bits are multiples of it; other products stay in halves.
enum { BD_FLOAT8_GRAIN = 16 };

const char *bd_float8_name(bd_float8 format);
// The formats of a product's two factors, as its attribute `fp8` says: "e4m3,e5m2". False: `text`
// is something else, or two E5M2.
bool bd_float8_parse(const char *text, bd_float8 out_formats[2]);

// Whether the product of `a` and `b` by a contraction's rule is one of matrices whose rows, columns
// and terms are multiples of the grain, or many of such; the extent B counts as one. Of many, a
// matrix is what lies behind the letters that number them.
bool bd_float8_fits(const char *rule, const bd_type *a, const bd_type *b);
// The same of the products that an op makes of its first two operands, of these types. Of rows in
// groups, all that a group begins at, features and rows are multiples of the grain.
bool bd_float8_takes(const bd_op *op, const bd_type *a, const bd_type *b);

// A copy of `tensor` in `arena`, rounded to the format under the tensor's scale, and scaled back.
// What is not finite becomes NaN.
bd_tensor bd_float8_round(bd_arena *arena, bd_float8 format, const bd_tensor *tensor);
#endif
