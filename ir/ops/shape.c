// reshape, slice and pad: elements keep their values and change their places.
#include "ir/ops/ops.h"
#include <string.h>

BD_EVAL(reshape) {
  BD_IGNORE(op, key, scratch);
  memcpy(out->data, in[0].data, (size_t)bd_tensor_elements(out) * sizeof(double));
}

BD_GRADIENT(reshape) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  bd_attr dims = bd_attr_ints(ctx, "dims", type->rank, type->dims);
  return bd_build(ctx, g->backward, BD_OP_RESHAPE, 1, &g->dout[0], 1, &dims, g->op->loc,
                  &g->din[0]);
}

// Copies between `whole` and its part of `part_extent` indices from `start` along `dim`.
static void copy_part(const bd_op *op, const bd_type *whole, int64_t part_extent,
                      const double *from, double *to, bool to_whole) {
  int dim = (int)bd_op_int(op, "dim", 0);
  int64_t start = bd_op_int(op, "start", 0), outer = 1, inner = 1;
  for (int d = 0; d < dim; d++)
    outer *= whole->dims[d];
  for (int d = dim + 1; d < whole->rank; d++)
    inner *= whole->dims[d];
  for (int64_t i = 0; i < outer; i++) {
    int64_t in_whole = (i * whole->dims[dim] + start) * inner, in_part = i * part_extent * inner;
    memcpy(to + (to_whole ? in_whole : in_part), from + (to_whole ? in_part : in_whole),
           (size_t)(part_extent * inner) * sizeof(double));
  }
}

BD_EVAL(slice) {
  (void)key, (void)scratch;
  copy_part(op, &in[0].type, bd_op_int(op, "size", 0), in[0].data, out->data, false);
}

BD_EVAL(pad) {
  (void)key, (void)scratch;
  int64_t extent = in[0].type.dims[bd_op_int(op, "dim", 0)];
  copy_part(op, &out->type, extent, in[0].data, out->data, true);
}

// slice and pad undo each other: each one's gradient is the other, `size` being the operand's
// extent.
static bd_status undo(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind) {
  int64_t dim = bd_op_int(g->op, "dim", 0);
  const bd_attr attrs[3] = {
      bd_attr_int(ctx, "dim", dim),
      bd_attr_int(ctx, "start", bd_op_int(g->op, "start", 0)),
      bd_attr_int(ctx, "size", bd_gradient_operand_type(g, 0)->dims[dim]),
  };
  return bd_build(ctx, g->backward, kind, 1, &g->dout[0], 3, attrs, g->op->loc, &g->din[0]);
}

BD_GRADIENT(slice) {
  return undo(ctx, g, BD_OP_PAD);
}

BD_GRADIENT(pad) {
  return undo(ctx, g, BD_OP_SLICE);
}
