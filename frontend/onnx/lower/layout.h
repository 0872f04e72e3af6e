// Dimensions of the model as products of dimensions of the graph.
#ifndef BD_FRONTEND_ONNX_LOWER_LAYOUT_H
#define BD_FRONTEND_ONNX_LOWER_LAYOUT_H
#include "frontend/onnx/lower/lowering.h"

// Extents whose product one dimension of the model is; BD_DIM_BATCH among them for a multiple of B.
typedef struct bd_onnx_factors {
  int count;
  int64_t list[BD_MAX_RANK];
} bd_onnx_factors;

bd_onnx_factors bd_onnx_factors_of(const bd_onnx_lowering *l, const bd_onnx_part *part, int d);

// The coarsest factors that both lists can be parted or joined to. False: the batch stands in
// different places, or there are more than 8.
bool bd_onnx_factors_meet(const bd_onnx_factors *a, const bd_onnx_factors *b, bd_onnx_factors *out);

// The same elements with `rank` dimensions of these factors; a reshape where they are others.
BD_NODISCARD bd_status bd_onnx_refit(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                                     const bd_onnx_factors *factors, bd_onnx_part *part);
// Makes each dimension in the bits of `axes` one dimension of the graph.
BD_NODISCARD bd_status bd_onnx_join(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                                    unsigned axes, bd_onnx_part *part);
// Makes dimension `axis`, of this extent, one dimension of the graph, also where it is 1. *out_dim:
// which.
BD_NODISCARD bd_status bd_onnx_one_dim(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                                       int axis, bd_onnx_number extent, bd_onnx_part *part,
                                       int *out_dim);
// Elements `start`, `start + by`, .. of dimension `axis`, which becomes one of `size`.
BD_NODISCARD bd_status bd_onnx_cut(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                                   int axis, int64_t start, int64_t by, int64_t size,
                                   bd_onnx_part *part);
// Joins `count` parts of `rank` dimensions along `axis`, of these extents there, none the batch.
// Changes `parts`.
BD_NODISCARD bd_status bd_onnx_concat(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                                      const int64_t *extents, int rank, int axis,
                                      bd_onnx_part *parts, bd_onnx_part *out);
// Moves dimension `from` of a value of the graph to the end, or (`back`) the last one there.
BD_NODISCARD bd_status bd_onnx_turn(bd_onnx_lowering *l, int from, bool back, bd_id x, bd_id *out);
// The same elements in another shape of the model.
BD_NODISCARD bd_status bd_onnx_regroup(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                                       const bd_onnx_number *dims, bd_onnx_part *part);

// Makes operands of ranks `ranks` fit a pointwise op whose result has `rank` dimensions: equal
// factors, and dimensions that are the result's last ones. *out: the result's layout, without an
// id.
BD_NODISCARD bd_status bd_onnx_align(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                                     const int *ranks, bd_onnx_part *parts, int rank,
                                     bd_onnx_part *out);
// Repeats `part`, of `rank` dimensions, over those of `dims` where it has 1.
BD_NODISCARD bd_status bd_onnx_spread(bd_onnx_lowering *l, const bd_onnx_step *step, int from_rank,
                                      bd_onnx_part *part, int rank, const bd_onnx_number *dims);
// Reduces the dimensions in `axes`; the model's stay, with extent 1, so that `rank` is the
// operand's.
BD_NODISCARD bd_status bd_onnx_reduce(bd_onnx_lowering *l, bd_op_kind kind, int rank, unsigned axes,
                                      bd_onnx_part *part);
// A dimension of the model as factors: none for 1, c and B for c * B; of selected places, all that
// the mask has.
bd_onnx_factors bd_onnx_factors_plain(const bd_onnx_lowering *l, bd_onnx_number extent);
// Repeats x, which has the dimensions of `dims` in the bits of `has`, over the others; there are
// BD_MAX_RANK at most.
BD_NODISCARD bd_status bd_onnx_repeat(bd_onnx_lowering *l, bd_id x, int rank, const int64_t *dims,
                                      unsigned has, bd_id *out);
// That the graph cannot have such dimensions. BD_UNSUPPORTED.
bd_status bd_onnx_layout_fail(const bd_onnx_step *step);
#endif
