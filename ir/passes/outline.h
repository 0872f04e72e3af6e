// Repeated runs of ops in one function: where they stand, for outline-repeats to cut along.
#ifndef BD_IR_PASSES_OUTLINE_H
#define BD_IR_PASSES_OUTLINE_H
#include "ir/module.h"

// Ops [first, first + count) of the function. Pieces with the same `shape` compute alike on
// different operands; shapes are numbered from 0 by first appearance.
typedef struct bd_piece {
  int first, count;
  int shape;
} bd_piece;

// What a run of ops reads from outside (values, by first use) and makes for outside (by
// definition).
typedef struct bd_border {
  int in_count, out_count;
  bd_id *in, *out;
} bd_border;

// `last_use[v]`: the last op that reads v, op_count for a function's result, -1 for nobody.
const int *bd_outline_last_uses(bd_ctx *ctx, const bd_function *function);
bd_border bd_outline_border(bd_ctx *ctx, const bd_function *function, const int *last_use,
                            int first, int count);
// Whether two runs of `count` ops compute alike and have alike borders.
bool bd_outline_alike(bd_ctx *ctx, const bd_function *function, const int *last_use, int a, int b,
                      int count);

// Cuts the whole function into pieces; one piece when nothing repeats.
int bd_outline_find(bd_ctx *ctx, const bd_function *function, bd_piece **out_pieces);
#endif
