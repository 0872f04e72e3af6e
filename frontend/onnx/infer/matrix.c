// Products: of matrices, and by Einstein's notation.
#include "frontend/onnx/infer/einsum.h"

static bd_status fail_shapes(const bd_onnx_step *step) {
  const bd_onnx_fact *a = step->in[0], *b = step->in[1];
  return bd_onnx_step_fail(step, BD_INVALID, "its operands' shapes do not agree: %s and %s",
                           bd_onnx_dims_text(step->ctx, a->rank, a->dims),
                           bd_onnx_dims_text(step->ctx, b->rank, b->dims));
}

// As numpy's matmul: stacks of matrices broadcast, a list is a row or a column that goes away.
static bd_status infer_matmul(bd_onnx_step *step) {
  const bd_onnx_fact *a = step->in[0], *b = step->in[1];
  if (a->rank < 1 || b->rank < 1) return fail_shapes(step);
  bd_onnx_number dims[BD_MAX_RANK];
  bd_onnx_number inner = b->rank == 1 ? b->dims[0] : b->dims[b->rank - 2];
  if (!bd_onnx_same(a->dims[a->rank - 1], inner)) return fail_shapes(step);
  bd_onnx_fact stack_a = {.rank = a->rank < 2 ? 0 : a->rank - 2, .dims = a->dims};
  bd_onnx_fact stack_b = {.rank = b->rank < 2 ? 0 : b->rank - 2, .dims = b->dims};
  bd_onnx_fact *stacks[] = {&stack_a, &stack_b};
  bd_onnx_step pair = *step;
  pair.in = stacks;
  int rank = 0;
  BD_TRY(bd_onnx_broadcast(&pair, 0, 2, &rank, dims));
  if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
  return bd_onnx_shape(step, 0, rank, dims);
}

static bd_status infer_gemm(bd_onnx_step *step) {
  const bd_onnx_fact *a = step->in[0], *b = step->in[1], *c = step->in[2];
  if (a->rank != 2 || b->rank != 2) return fail_shapes(step);
  int turn_a = bd_onnx_int(step, "transA", 0) != 0, turn_b = bd_onnx_int(step, "transB", 0) != 0;
  bd_onnx_number dims[2] = {a->dims[turn_a], b->dims[!turn_b]};
  if (!bd_onnx_same(a->dims[!turn_a], b->dims[turn_b])) return fail_shapes(step);
  // Stretched to the product by its last dimensions.
  bool good = !c || c->rank <= 2;
  for (int d = 0; c && good && d < c->rank; d++)
    good = bd_onnx_is(c->dims[d], 1) || bd_onnx_same(c->dims[d], dims[d + 2 - c->rank]);
  if (!good)
    return bd_onnx_step_fail(
        step, BD_INVALID, "its third operand, %s, does not fit a product of %s",
        bd_onnx_dims_text(step->ctx, c->rank, c->dims), bd_onnx_dims_text(step->ctx, 2, dims));
  return bd_onnx_shape(step, 0, 2, dims);
}

static bd_status infer_einsum(bd_onnx_step *step) {
  bd_onnx_einsum sum;
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_einsum_read(step, &sum));
  for (int d = 0; d < sum.out_rank; d++)
    dims[d] = sum.extent[(int)sum.out[d]];
  return bd_onnx_shape(step, 0, sum.out_rank, dims);
}

#define GEMM "alpha:f beta:f transA:i transB:i"
static const bd_onnx_rule rules[] = {
    {"Einsum", 12, "n*=n", "equation:s", 0, infer_einsum, NULL},
    {"Gemm", 6, "nnn=n", GEMM " broadcast:i", 0, infer_gemm, NULL},
    {"Gemm", 7, "nnn=n", GEMM, 0, infer_gemm, NULL},
    {"Gemm", 11, "nnn?=n", GEMM, 0, infer_gemm, NULL},
    {"MatMul", 1, "nn=n", "", 0, infer_matmul, NULL},
};
const bd_onnx_rules bd_onnx_matrix_rules = {sizeof rules / sizeof *rules, rules};
