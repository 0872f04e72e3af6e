// Matrices that are alike along their diagonals, as numbers and masks of relative positions: made
// of how far an element is from the diagonal.
#ifndef BD_FRONTEND_ONNX_LOWER_DIAGONALS_H
#define BD_FRONTEND_ONNX_LOWER_DIAGONALS_H
#include "frontend/onnx/lower/lowering.h"

// Whether a matrix that is known beforehand is such a one, by every element, of a form that can be
// made; `fact->diagonals` then.
BD_NODISCARD bd_status bd_onnx_find_diagonals(bd_onnx_lowering *l, bd_onnx_fact *fact,
                                              bool *out_found);
// The ops that make it, as `dtype`.
BD_NODISCARD bd_status bd_onnx_emit_diagonals(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                                              bd_dtype dtype, bd_id *out);
// The same in two steps, for lookups: integers of diagonals, i32[n], in *out_places, and for each
// element of the matrix, i32[rows, columns], which of them it is. *out_done false: there are more
// of them than a table holds.
BD_NODISCARD bd_status bd_onnx_emit_places(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                                           bool *out_done, bd_id *out_places, bd_id *out_index);
#endif
