// Where the elements of a value come from, through ops that only move or repeat them.
#ifndef BD_IR_PASSES_RECOVER_TRACE_H
#define BD_IR_PASSES_RECOVER_TRACE_H
#include "ir/passes/recover/edit.h"

// A value of e->from by the dimensions of another, the one that tracing began at: dimension d is
// its dimension dim[d], or (-1) stands at index at[d].
typedef struct bd_traced {
  bd_id id;
  int rank;
  int dim[BD_MAX_RANK];
  int64_t at[BD_MAX_RANK];
} bd_traced;

bd_traced bd_trace_begin(const bd_edit *e, bd_id id);
// Operand `i` of the pointwise op that makes the value.
bd_traced bd_trace_operand(const bd_edit *e, const bd_traced *value, int i);
// Goes back through permutations, repetitions, reshapes by extents of 1, slices of one element and
// casts of integers, as far as there are any.
void bd_trace_views(const bd_edit *e, bd_traced *value);

// "Token b, t has chosen expert n with its choice c", as masks say it.
typedef struct bd_traced_choice {
  bd_traced chosen; // the i64 result [.., choices] of a topk
  int64_t expert;
  int expert_dim; // the dimension that numbers the experts; -1: `expert` is the one
} bd_traced_choice;
// Whether the value, true or not 0, is a token's choice of an expert.
bool bd_trace_choice(const bd_edit *e, bd_traced value, bd_traced_choice *out);
// The experts that tokens have chosen, however they are counted. False: it is no result of a topk.
bool bd_trace_chosen(const bd_edit *e, bd_traced *value);
#endif
