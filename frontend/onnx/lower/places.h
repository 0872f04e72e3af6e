// Indices of the places that a mask selects: what exporters make of NonZero. They are followed by
// column, and what is looked up or put back by them is a permutation, a repetition or a sum of
// values that have a row for every place of the mask, selected or not.
#ifndef BD_FRONTEND_ONNX_LOWER_PLACES_H
#define BD_FRONTEND_ONNX_LOWER_PLACES_H
#include "frontend/onnx/lower/layout.h"

// One number for each place: the sum over the mask's dimensions of `by` times the place's index.
typedef struct bd_onnx_column {
  bd_onnx_number by[BD_MAX_RANK];
} bd_onnx_column;

// A value of the model that holds columns: along dimension `axis` (-1: there is one, and the value
// has it for each element of other dimensions), with the places along `rows`.
typedef struct bd_onnx_places {
  int selection; // as of bd_onnx_number
  int rows, axis, count;
  bd_onnx_column columns[BD_MAX_RANK];
} bd_onnx_places;

// Per value of the model, or NULL. In ctx->arena.
const bd_onnx_places **bd_onnx_find_places(bd_onnx_lowering *l, const bool *running);

// Lookups, and sums of rows, by places. *out_done false: operand 1 is none.
BD_NODISCARD bd_status bd_onnx_pick_rows(bd_onnx_lowering *l, const bd_onnx_step *step, int axis,
                                         bool *out_done);
BD_NODISCARD bd_status bd_onnx_return_rows(bd_onnx_lowering *l, const bd_onnx_step *step, int axis,
                                           bool *out_done);
#endif
