// Rebuilding a function after a pass has decided which ops go and which values stand for others.
#ifndef BD_IR_PASSES_REWRITE_H
#define BD_IR_PASSES_REWRITE_H
#include "ir/module.h"

typedef struct bd_rewrite {
  bd_function *function; // a clone that the pass may edit in place
  bool *drop;            // per op
  bd_id *stands;         // per value: the value that replaces it (itself: none)
  bool *is_result;       // per value: the function returns it
} bd_rewrite;

bd_rewrite bd_rewrite_begin(bd_ctx *ctx, const bd_function *function);
// Lets `by` stand for the single result of op `index`, which goes. A function's results keep their
// own ops, so that none becomes a parameter or another result; then nothing happens and this is
// false.
bool bd_rewrite_replace(bd_rewrite *rewrite, int index, bd_id by);
// The function without the dropped ops and their values. Values keep their names.
bd_function *bd_rewrite_end(bd_ctx *ctx, const bd_rewrite *rewrite);
// The function without ops none of whose results is used: every op of a graph is a function of its
// operands.
bd_function *bd_rewrite_drop_unused(bd_ctx *ctx, const bd_function *function);
#endif
