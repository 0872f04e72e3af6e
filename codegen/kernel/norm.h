// Normalizations and their gradients along rows, in two ways (norm.c, norm_registers.c).
#ifndef BD_CODEGEN_KERNEL_NORM_H
#define BD_CODEGEN_KERNEL_NORM_H
#include "codegen/kernel/pointwise.h"

typedef struct bd_gen_norm {
  bool centered;
  bd_gen_nest nest;
  bd_access x, dy, gain, bias, y, mean, rstd; // `dy`: of gradients
  double base;                                // what the gain is more than its operand says
  LLVMValueRef sum, sum2;                     // accumulators
  LLVMValueRef m, r;                          // this row's mean and 1/deviation, f32
  LLVMValueRef mean_g, mean_gx;
  bd_gen_run *run; // that comes along, or NULL
} bd_gen_norm;

// The gain of what its operand holds.
LLVMValueRef bd_gen_norm_gain(bd_gen *g, const bd_gen_norm *norm, LLVMValueRef held);

// Whether the run makes what the norm reads, rather than reading what it makes.
bool bd_gen_norm_run_leads(const bd_gen *g);

// GPU: a kernel that reads each row once and holds it in registers. False, and nothing is
// generated, where rows are not packed evenly or too long: the norm alone decides, whatever run
// comes along, since sums are of another order.
bool bd_gen_norm_in_registers(bd_gen *g, bd_gen_norm *norm);
#endif
