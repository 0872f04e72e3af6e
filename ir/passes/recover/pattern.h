// Patterns of ops, as text.
//
//   pattern = op ["[" number "]"] "(" [pattern ("," pattern)*] ")"   an op of this kind
//           | "rows" "(" pattern ")"      repeated over a new last dimension
//           | "sum" | "mean" | "most" "(" pattern ")"   of the last dimension; the mean in any way
//           to scale | "{" pattern ("|" pattern)* "}"            one of them | "?" letter [":"
//           pattern]    any value, which must be the same wherever the letter stands | number a
//           value whose elements are all this known number
//   number  = real | "#" letter           any known number, which is kept
//
// "scale[0.5](?x)" is the op scale whose attribute `value` is 0.5, up to rounding to f32. Operands
// of commutative ops match in either order. A pattern's operands are matched from the left, so a
// letter's own pattern stands at its first place.
#ifndef BD_IR_PASSES_RECOVER_PATTERN_H
#define BD_IR_PASSES_RECOVER_PATTERN_H
#include "ir/module.h"

enum { BD_PATTERN_LETTERS = 26, BD_PATTERN_MAX_OPS = 64 };

typedef struct bd_pattern bd_pattern;

typedef struct bd_match {
  bd_id value[BD_PATTERN_LETTERS]; // per letter, BD_NO_ID: none
  double number[BD_PATTERN_LETTERS];
  int op_count;
  int ops[BD_PATTERN_MAX_OPS]; // that the pattern spells out, some more than once
} bd_match;

// `text` is the program's own: asserts that it is a pattern. Lives in ctx->arena.
const bd_pattern *bd_pattern_read(bd_ctx *ctx, const char *text);
bool bd_pattern_match(const bd_pattern *pattern, const bd_function *function, bd_id value,
                      bd_match *out_match);

// Whether every element is one number that is known.
bool bd_uniform_number(const bd_function *function, bd_id id, double *out);
#endif
