// gather: rows of x[batch.., lead.., v, rest..] by ids[batch.., i..], a row being the elements of
// an index of v; its gradient; and scatter, which writes rows. An index that is none of v's is
// passed over: it reads zeros and writes nothing.
#include "ir/ops/pointwise.h"
#include <math.h>
#include <string.h>

// Extents of the groups of dimensions.
typedef struct shape {
  int64_t batch, lead, rows, rest, ids;
} shape;

static shape shape_of(const bd_op *op, const bd_type *x, const bd_type *ids) {
  int dim = (int)bd_op_int(op, "dim", 0), batch = (int)bd_op_int(op, "batch", 0);
  shape s = {1, 1, x->dims[dim], 1, 1};
  for (int d = 0; d < x->rank; d++)
    *(d < batch ? &s.batch : d < dim ? &s.lead : d > dim ? &s.rest : &(int64_t){1}) *= x->dims[d];
  for (int d = batch; d < ids->rank; d++)
    s.ids *= ids->dims[d];
  return s;
}

// What is done with element `row` of x and `looked_up` of what is looked up.
typedef void (*visit)(const bd_op *op, double *row, double *looked_up, bd_dtype dtype);

static void walk(const bd_op *op, const shape *s, bd_dtype dtype, double *x, const double *ids,
                 double *looked_up, visit visit) {
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t l = 0; l < s->lead; l++)
      for (int64_t i = 0; i < s->ids; i++) {
        int64_t id = (int64_t)ids[b * s->ids + i], outer = b * s->lead + l;
        if (id < 0 || id >= s->rows) continue;
        for (int64_t r = 0; r < s->rest; r++)
          visit(op, &x[(outer * s->rows + id) * s->rest + r],
                &looked_up[(outer * s->ids + i) * s->rest + r], dtype);
      }
}

static void read_row(const bd_op *op, double *row, double *looked_up, bd_dtype dtype) {
  (void)op, (void)dtype;
  *looked_up = *row;
}

static void add_row(const bd_op *op, double *row, double *looked_up, bd_dtype dtype) {
  (void)op, (void)dtype;
  *row += *looked_up;
}

static double product(bd_dtype dtype, double a, double b) {
  if (bd_dtype_is_float(dtype)) return a * b;
  return bd_whole_of(dtype, bd_whole_bits(a) * bd_whole_bits(b));
}

static double sum(bd_dtype dtype, double a, double b) {
  if (bd_dtype_is_float(dtype)) return a + b;
  return bd_whole_of(dtype, bd_whole_bits(a) + bd_whole_bits(b));
}

static void write_row(const bd_op *op, double *row, double *looked_up, bd_dtype dtype) {
  const char *how = bd_op_string(op, "reduction");
  double a = *row, b = *looked_up;
  *row = !how || strcmp(how, "none") == 0 ? b
         : strcmp(how, "add") == 0        ? sum(dtype, a, b)
         : strcmp(how, "mul") == 0        ? product(dtype, a, b)
         : strcmp(how, "max") == 0        ? (b > a || isnan(b) ? b : a)
                                          : (b < a || isnan(b) ? b : a);
}

BD_EVAL(gather) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &in[1].type);
  walk(op, &s, out->type.dtype, in[0].data, in[1].data, out->data, read_row);
}

BD_EVAL(gather_dx) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &out->type, &in[1].type);
  walk(op, &s, out->type.dtype, out->data, in[1].data, in[0].data, add_row);
}

BD_EVAL(scatter) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &in[1].type);
  memcpy(out->data, in[0].data, (size_t)bd_tensor_elements(out) * sizeof(double));
  walk(op, &s, out->type.dtype, out->data, in[1].data, in[2].data, write_row);
}

// `dim` and `batch` of the forward op, and `more` attributes.
static bd_status like_op(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, int in_count,
                         const bd_id *in, const bd_attr *more, bd_id *out) {
  bd_attr attrs[3] = {bd_attr_int(ctx, "dim", bd_op_int(g->op, "dim", 0)),
                      bd_attr_int(ctx, "batch", bd_op_int(g->op, "batch", 0))};
  if (more) attrs[2] = *more;
  return bd_build(ctx, g->backward, kind, in_count, in, more ? 3 : 2, attrs, g->op->loc, out);
}

BD_GRADIENT(gather) {
  int64_t dim = bd_op_int(g->op, "dim", 0);
  bd_attr rows = bd_attr_int(ctx, "rows", bd_gradient_operand_type(g, 0)->dims[dim]);
  const bd_id in[2] = {g->dout[0], bd_gradient_operand(g, 1)};
  bd_id dx;
  BD_TRY(like_op(ctx, g, BD_OP_GATHER_DX, 2, in, &rows, &dx));
  return bd_gradient_as_operand(ctx, g, 0, dx, &g->din[0]);
}

// What is overwritten has no gradient.
static bd_status kept_rows(bd_ctx *ctx, bd_gradient *g, bd_id *out) {
  bd_id zeros;
  BD_TRY(bd_gradient_fill(ctx, g, bd_gradient_operand_type(g, 2), 0, &zeros));
  const bd_id in[3] = {g->dout[0], bd_gradient_operand(g, 1), zeros};
  return like_op(ctx, g, BD_OP_SCATTER, 3, in, NULL, out);
}

BD_GRADIENT(scatter) {
  const char *how = bd_op_string(g->op, "reduction");
  bool none = !how || strcmp(how, "none") == 0;
  if (!none && strcmp(how, "add") != 0)
    return bd_fail(ctx, BD_UNSUPPORTED, g->op->loc,
                   "scatter has a gradient with the reductions none and add, not %s", how);
  if (g->need[0] && none) BD_TRY(kept_rows(ctx, g, &g->din[0]));
  if (g->need[0] && !none) g->din[0] = g->dout[0];
  if (!g->need[2]) return BD_OK;
  const bd_id in[2] = {g->dout[0], bd_gradient_operand(g, 1)};
  return like_op(ctx, g, BD_OP_GATHER, 2, in, NULL, &g->din[2]);
}
