// Which losses of a CUDA program make their gradient in the forward pass: the kernel that sums a
// row of logits for its log-sum-exp goes over the row once more while the GPU's second cache has
// it, and leaves the gradient in the place of the logits, where backward wants it. (llm.c's fused
// classifier, github.com/karpathy/llm.c.) Of vocabularies that lie whole on a rank, whose logits
// and log-sum-exp nothing but the loss reads; main's gradient of the loss is known before forward.
#ifndef BD_CODEGEN_FUSED_LOSS_H
#define BD_CODEGEN_FUSED_LOSS_H
#include "codegen/prefetch.h"

typedef struct bd_fused_losses {
  int *lse;    // per step: of an `xent` that makes its gradient the log-sum-exp's step; else -1
  bool *taken; // per step: an `xent` does its work, here or in the forward function
  bool any;    // an `xent` of the function makes its gradient
} bd_fused_losses;

// Of function `function` of an exec module, where `prefetch` is what bd_prefetch_find says of all
// functions.
void bd_fused_loss_find(bd_ctx *ctx, const bd_module *module, int function,
                        const bd_prefetch *prefetch, bd_fused_losses *out_losses);
#endif
