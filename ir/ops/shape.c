// reshape, slice, pad, concat and chunks: elements keep their values and change their places.
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

// Elements around and inside dimension `dim`.
static int64_t product_of(const bd_type *type, int from, int to) {
  int64_t product = 1;
  for (int d = from; d < to; d++)
    product *= type->dims[d];
  return product;
}

// Copies between `whole` and its part of `part_extent` indices, from `start` on, `step` apart along
// `dim`.
typedef struct cut {
  int dim;
  int64_t start, step;
} cut;
static void copy_part(cut at, const bd_type *whole, int64_t part_extent, const double *from,
                      double *to, bool to_whole) {
  int64_t outer = product_of(whole, 0, at.dim);
  int64_t inner = product_of(whole, at.dim + 1, whole->rank);
  for (int64_t i = 0; i < outer * part_extent; i++) {
    int64_t index = at.start + i % part_extent * at.step;
    int64_t in_whole = (i / part_extent * whole->dims[at.dim] + index) * inner, in_part = i * inner;
    memcpy(to + (to_whole ? in_whole : in_part), from + (to_whole ? in_part : in_whole),
           (size_t)inner * sizeof(double));
  }
}

static cut cut_of(const bd_op *op) {
  return (cut){(int)bd_op_int(op, "dim", 0), bd_op_int(op, "start", 0), bd_op_int(op, "step", 1)};
}

BD_EVAL(slice) {
  (void)key, (void)scratch;
  copy_part(cut_of(op), &in[0].type, bd_op_int(op, "size", 0), in[0].data, out->data, false);
}

BD_EVAL(pad) {
  (void)key, (void)scratch;
  cut at = cut_of(op);
  double value = bd_op_real(op, "value", 0);
  for (int64_t i = 0; i < bd_tensor_elements(out); i++)
    out->data[i] = bd_dtype_round(out->type.dtype, value);
  copy_part(at, &out->type, in[0].type.dims[at.dim], in[0].data, out->data, true);
}

BD_EVAL(concat) {
  (void)key, (void)scratch;
  cut at = {.dim = (int)bd_op_int(op, "dim", 0), .step = 1};
  for (int i = 0; i < op->in_count; i++) {
    int64_t extent = in[i].type.dims[at.dim];
    copy_part(at, &out->type, extent, in[i].data, out->data, true);
    at.start += extent;
  }
}

// Every other run of `chunk` indices along `dim` of `whole`, from the first (`half` 0) or the
// second one on.
static void copy_chunks(const bd_op *op, int64_t half, const bd_type *whole, const double *from,
                        double *to, bool to_whole) {
  int dim = (int)bd_op_int(op, "dim", 0);
  int64_t inner = product_of(whole, dim + 1, whole->rank), run = bd_op_int(op, "chunk", 1) * inner;
  int64_t runs = product_of(whole, 0, whole->rank) / (2 * run);
  for (int64_t i = 0; i < runs; i++) {
    int64_t in_whole = (2 * i + half) * run, in_half = i * run;
    memcpy(to + (to_whole ? in_whole : in_half), from + (to_whole ? in_half : in_whole),
           (size_t)run * sizeof(double));
  }
}

BD_EVAL(alternate) {
  (void)key, (void)scratch;
  copy_chunks(op, bd_op_int(op, "half", 0), &in[0].type, in[0].data, out->data, false);
}

BD_EVAL(interleave) {
  (void)key, (void)scratch;
  for (int half = 0; half < 2; half++)
    copy_chunks(op, half, &out->type, in[half].data, out->data, true);
}

BD_GRADIENT(concat) {
  int64_t dim = bd_op_int(g->op, "dim", 0), start = 0;
  for (int i = 0; i < g->op->in_count; i++) {
    int64_t extent = bd_gradient_operand_type(g, i)->dims[dim];
    const bd_attr attrs[3] = {bd_attr_int(ctx, "dim", dim), bd_attr_int(ctx, "start", start),
                              bd_attr_int(ctx, "size", extent)};
    start += extent;
    if (g->need[i])
      BD_TRY(bd_build(ctx, g->backward, BD_OP_SLICE, 1, &g->dout[0], 3, attrs, g->op->loc,
                      &g->din[i]));
  }
  return BD_OK;
}

// slice and pad undo each other: each one's gradient is the other, `size` being the operand's
// extent.
static bd_status undo(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind) {
  int64_t dim = bd_op_int(g->op, "dim", 0);
  int64_t step = bd_op_int(g->op, "step", 1);
  const bd_attr attrs[4] = {
      bd_attr_int(ctx, "dim", dim),
      bd_attr_int(ctx, "start", bd_op_int(g->op, "start", 0)),
      bd_attr_int(ctx, "size", bd_gradient_operand_type(g, 0)->dims[dim]),
      bd_attr_int(ctx, "step", step),
  };
  return bd_build(ctx, g->backward, kind, 1, &g->dout[0], step == 1 ? 3 : 4, attrs, g->op->loc,
                  &g->din[0]);
}

BD_GRADIENT(slice) {
  return undo(ctx, g, BD_OP_PAD);
}

BD_GRADIENT(pad) {
  return undo(ctx, g, BD_OP_SLICE);
}
