// route: y[b, i.., c..] is the sum over k of the rows x[b, to[b, i.., k], c..], numbered over
// their dimensions in order; who names none adds nothing. `back` names the places that read each
// row, so the gradient is a route back. And search: how many elements of a growing list are at
// most p, for each p. Pooled, rows and p count on from sample to sample.
#include "ir/ops/ops.h"
#include "ir/pool.h"

// Extents of the groups of dimensions.
typedef struct shape {
  int64_t batch, rows, places, named, rest;
} shape;

static shape shape_of(const bd_op *op, const bd_tensor *x, const bd_tensor *to) {
  int rows = (int)bd_op_int(op, "rows", 1);
  shape s = {x->type.dims[0], 1, 1, bd_tensor_last(to), 1};
  for (int d = 1; d < x->type.rank; d++)
    *(d <= rows ? &s.rows : &s.rest) *= x->type.dims[d];
  s.places = bd_tensor_elements(to) / s.batch / s.named;
  return s;
}

BD_EVAL(route) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0], &in[1]);
  bool pooled = bd_op_pools(op);
  int64_t named = pooled ? s.batch * s.rows : s.rows;
  for (int64_t i = 0; i < bd_tensor_elements(out); i++)
    out->data[i] = 0;
  for (int64_t i = 0; i < s.batch * s.places * s.named; i++) {
    int64_t id = (int64_t)in[1].data[i], place = i / s.named;
    if (id < 0 || id >= named) continue;
    int64_t row = pooled ? id : place / s.places * s.rows + id;
    for (int64_t c = 0; c < s.rest; c++)
      out->data[place * s.rest + c] += in[0].data[row * s.rest + c];
  }
}

BD_GRADIENT(route) {
  int places = bd_gradient_operand_type(g, 1)->rank - 2;
  const bd_id in[3] = {g->dout[0], bd_gradient_operand(g, 2), bd_gradient_operand(g, 1)};
  bd_attr attrs[3] = {bd_attr_int(ctx, "rows", places)};
  int count = 1;
  if (!bd_op_int(g->op, "inverse", 0)) attrs[count++] = bd_attr_int(ctx, "inverse", 1);
  if (bd_op_pools(g->op)) attrs[count++] = bd_attr_int(ctx, BD_POOLED_ATTR, 1);
  return bd_build(ctx, g->backward, BD_OP_ROUTE, 3, in, count, attrs, g->op->loc, &g->din[0]);
}

BD_EVAL(search) {
  (void)key, (void)scratch;
  int dim = (int)bd_op_int(op, "dim", 0);
  int64_t places = bd_tensor_last(out), extent = in->type.dims[dim], inner = 1;
  for (int d = dim + 1; d < in->type.rank; d++)
    inner *= in->type.dims[d];
  int64_t all = bd_tensor_elements(out), sample = all / out->type.dims[0];
  for (int64_t i = 0; i < all; i++) {
    int64_t column = i / places, p = i % places, count = 0;
    if (bd_op_pools(op)) p += i / sample * places;
    const double *x = &in->data[column / inner * extent * inner + column % inner];
    while (count < extent && x[count * inner] <= (double)p)
      count++;
    out->data[i] = (double)count;
  }
}
