// Products of rows in groups, each of which has a matrix of its own: the rows of all samples are
// numbered on from sample to sample, and one is in group g where ends[0, g - 1] <= row < ends[0,
// g], with 0 before the first. Rows past the last end are in none. Ends are data: each counts as at
// least the one before and at most the rows that there are, and as the next multiple of the grain.
#include "ir/float8.h"
#include "ir/ops/ops.h"

typedef void (*row_product)(const bd_tensor *in, bd_tensor *out, int64_t row, int64_t group);

// Each row that is in a group, in order. A group that has the first row of a grain has them all.
static void for_rows(const bd_op *op, const bd_tensor *in, bd_tensor *out, row_product multiply) {
  const bd_tensor *ends = &in[2];
  int64_t rows = in[0].type.dims[0] * in[0].type.dims[1], groups = ends->type.dims[1], row = 0;
  int64_t grain = bd_op_int(op, "grain", 1);
  for (int64_t g = 0; g < groups; g++)
    for (; row < rows && (double)(row / grain * grain) < ends->data[g]; row++)
      multiply(in, out, row, g);
}

// The factors as the attribute `fp8` has them, where the product fits.
static void round_factors(const bd_op *op, const bd_tensor *in, bd_arena *scratch,
                          bd_tensor factor[3]) {
  const char *formats = bd_op_string(op, "fp8");
  bd_float8 format[2];
  for (int i = 0; i < 3; i++)
    factor[i] = in[i];
  if (!formats || !bd_float8_parse(formats, format) ||
      !bd_float8_takes(op, &in[0].type, &in[1].type))
    return;
  for (int i = 0; i < 2; i++)
    factor[i] = bd_float8_round(scratch, format[i], &in[i]);
}

static void multiply_row(const bd_tensor *in, bd_tensor *out, int64_t row, int64_t group) {
  int64_t terms = bd_tensor_last(&in[0]), columns = bd_tensor_last(out);
  const double *x = in[0].data + row * terms, *w = in[1].data + group * terms * columns;
  for (int64_t c = 0; c < terms; c++)
    for (int64_t f = 0; f < columns; f++)
      out->data[row * columns + f] += x[c] * w[c * columns + f];
}

static void multiply_row_transposed(const bd_tensor *in, bd_tensor *out, int64_t row,
                                    int64_t group) {
  int64_t terms = bd_tensor_last(&in[0]), columns = bd_tensor_last(out);
  const double *y = in[0].data + row * terms, *w = in[1].data + group * terms * columns;
  for (int64_t c = 0; c < columns; c++)
    for (int64_t f = 0; f < terms; f++)
      out->data[row * columns + c] += y[f] * w[c * terms + f];
}

static void multiply_pair(const bd_tensor *in, bd_tensor *out, int64_t row, int64_t group) {
  int64_t lines = bd_tensor_last(&in[0]), columns = bd_tensor_last(&in[1]);
  const double *x = in[0].data + row * lines, *dy = in[1].data + row * columns;
  double *dw = out->data + group * lines * columns;
  for (int64_t c = 0; c < lines; c++)
    for (int64_t f = 0; f < columns; f++)
      dw[c * columns + f] += x[c] * dy[f];
}

BD_EVAL(grouped_contract) {
  bd_tensor factor[3];
  (void)key;
  round_factors(op, in, scratch, factor);
  for_rows(op, factor, out, bd_op_int(op, "transpose", 0) ? multiply_row_transposed : multiply_row);
}

BD_EVAL(grouped_contract_dw) {
  bd_tensor factor[3];
  (void)key;
  round_factors(op, in, scratch, factor);
  for_rows(op, factor, out, multiply_pair);
}

// A transposed product is the gradient of one that is not, with the letters of that.
BD_GRADIENT(grouped_contract) {
  bool transposed = bd_op_int(g->op, "transpose", 0);
  bd_id x = bd_gradient_operand(g, 0), w = bd_gradient_operand(g, 1), dy;
  bd_id ends = bd_gradient_operand(g, 2);
  static const char *const kept[] = {"filled", "grain"};
  int count = 0;
  bd_attr attrs[3];
  for (int i = 0; i < 2; i++)
    if (bd_op_find_attr(g->op, kept[i])) attrs[count++] = *bd_op_find_attr(g->op, kept[i]);
  BD_TRY(bd_gradient_as_operand(ctx, g, 0, g->dout[0], &dy));
  if (g->need[0]) {
    attrs[count] = bd_attr_int(ctx, "transpose", 1);
    BD_TRY(bd_build(ctx, g->backward, BD_OP_GROUPED_CONTRACT, 3, (bd_id[]){dy, w, ends},
                    transposed ? count : count + 1, attrs, g->op->loc, &g->din[0]));
  }
  if (!g->need[1]) return BD_OK;
  const bd_id in[3] = {transposed ? dy : x, transposed ? x : dy, ends};
  return bd_build(ctx, g->backward, BD_OP_GROUPED_CONTRACT_DW, 3, in, count, attrs, g->op->loc,
                  &g->din[1]);
}
