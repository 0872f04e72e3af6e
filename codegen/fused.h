// Steps of a CUDA program that one kernel does together.
#ifndef BD_CODEGEN_FUSED_H
#define BD_CODEGEN_FUSED_H
#include "codegen/fused_loss.h"
#include "codegen/fused_norm.h"

typedef struct bd_fused {
  bd_fused_norms norms;
  bd_fused_losses losses;
} bd_fused;

// Per function of an exec module, where `prefetch` is what bd_prefetch_find says.
const bd_fused *bd_fused_find(bd_ctx *ctx, const bd_module *module, const bd_prefetch *prefetch);

// Whether another step's kernel does the work of a step.
bool bd_fused_takes(const bd_fused *fused, int step);

// bd_kernel_of_step of a step and of what it does besides.
bool bd_fused_kernel(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                     const bd_fusion *fusion, const bd_fused *fused, int step, int number,
                     bd_kernel *out_kernel);

// Whether a function that `stage` calls makes the gradient of a loss: the stage needs main's
// gradient of the loss before forward.
bool bd_fused_makes_gradient(const bd_module *module, const bd_fused *fused, int stage);
#endif
