// Normalizations and the runs that they take along, as functions of two or three steps: together in
// one kernel, and apart.
#ifndef SUPPORT_FUSED_NORMS_H
#define SUPPORT_FUSED_NORMS_H
#include "codegen/fused_norm.h"
#include "tests/unit/codegen/support_gpu.h"

enum { FUSED_MAX_RUNS = 88, FUSED_SPLIT_ROWS = 7 };

// Forward: x, bias, r, gain (and beta) -> sum = dropout(x + bias) + r, and its norm. Gradient: dy,
// x, gain, statistics, r -> sum = r + dx, dropout(sum), and after dx the gradients of the weights.
// Forward that is followed: x, gain (and beta), r -> the norm y, sum = y + r, dropout(sum); y is a
// result of layernorm alone. Gradient that is led: r, bias, x, gain, statistics -> sum = r + bias,
// dy = dropout(sum), dx, and the gradients of the weights.
typedef struct fused_function {
  bd_op_kind norm;
  bool gradient, led, followed;
  const bd_module *module; // of this function alone, for GPUs
  bd_function *function;
  bd_id x, bias, r, gain, dy; // BD_NO_ID: not there
  bd_id sum, y, mean, rstd, dropped, dx;
} fused_function;

// Rows of [rows, .., columns]; cut by rows over three ranks where that is asked for.
typedef struct fused_case {
  int rank;
  int64_t dims[3];
  bool split;
} fused_case;

void fused_function_make(bd_ctx *ctx, const fused_case *from, bd_op_kind norm, bool other_side,
                         bd_dtype real, fused_function *out);
// Finds the one pair of the function; false: it has none. `out_place`: the step that does both.
bool fused_function_find(bd_ctx *ctx, const fused_function *f, int *out_place,
                         bd_kernel *out_kernel);

typedef struct fused_run {
  const fused_case *from;
  fused_function f;
  bd_dtype real;
  bd_kernel apart[2], together; // in the order of the steps
} fused_run;

// Every norm and its gradient on rows of many lengths and types, as one kernel set. Halves of f16
// are packed as those of bf16 are: they are there for rows of one length.
typedef struct fused_set {
  bd_ctx *ctx;
  int count, kernels;
  fused_run runs[FUSED_MAX_RUNS];
  bd_kernel_set *set;
  const char *folder, *stem;
} fused_set;

// `apart`: with the kernels of the norms and runs by themselves.
void fused_set_open(fused_set *set, bool apart);
void fused_set_close(fused_set *set);
#endif
