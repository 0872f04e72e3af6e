// Which normalizations of a CUDA program take a run of pointwise ops into their kernel: the run
// that makes their operand (a residual addition, with the bias and dropout before it), or else a
// run that reads their result (a ReLU); and the run that alone reads their gradient, or else makes
// what their gradient is computed from (the gradient of that ReLU). All give the same bits as
// apart. Every buffer stays where memory planning has put it.
#ifndef BD_CODEGEN_FUSED_NORM_H
#define BD_CODEGEN_FUSED_NORM_H
#include "codegen/epilogue.h"
#include "codegen/kernel/kernel.h"
#include "codegen/prefetch.h"

typedef struct bd_fused_norm {
  int norm, run; // steps, one of which is the step that does the work of both; -1: a step by itself
  bool keeps;    // what the run reads of the norm is also written
} bd_fused_norm;

typedef struct bd_fused_norms {
  bd_fused_norm *of; // per step
  bool *taken;       // per step: another one does its work
} bd_fused_norms;

// Of function `function` of an exec module, where `prefetch` is what bd_prefetch_find says of all
// functions.
void bd_fused_norm_find(bd_ctx *ctx, const bd_module *module, int function,
                        const bd_prefetch *prefetch, bd_fused_norms *out_norms);

// bd_kernel_of_step of a step and what it does besides.
bool bd_fused_norm_kernel(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                          const bd_fusion *fusion, const bd_fused_norm *fused, int step, int number,
                          bd_kernel *out_kernel);

// What the norm makes that only lives in registers, or BD_NO_ID.
bd_id bd_fused_norm_inner(const bd_function *function, const bd_fusion *fusion,
                          const bd_fused_norm *fused);
#endif
