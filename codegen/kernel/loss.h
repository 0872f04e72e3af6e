// What kernels of the cross entropy do with a row of logits.
#ifndef BD_CODEGEN_KERNEL_LOSS_H
#define BD_CODEGEN_KERNEL_LOSS_H
#include "codegen/kernel/rows.h"

enum {
  BD_LOSS_ROW_THREADS = 1024, // of a multiprocessor that sums rows and reads them once more
};

typedef struct bd_loss {
  bd_gen_nest nest;
  int v; // the vocabulary's loop
  bd_access logits, targets, lse, dloss, out;
  int serial_count, serial[BD_MAX_LOOPS], lane_loop; // over rows
  LLVMValueRef sum, max, m;
  LLVMValueRef row_lse, row_target, row_scale;
  LLVMValueRef fetched[BD_GEN_MOST_AHEAD]; // logits that a GPU's thread has on their way
  bool through;    // the gradient's pass over a row stores its loss in the place of `lse`
  bd_gen_body add; // a row's part of the loss to `sum`
} bd_loss;

// Packs along the vocabulary, of `logits` and what lies as they do in `out`.
void bd_loss_pack(bd_gen *g, const bd_loss *l);
// Runs `finish` over a row's logits in groups, which bd_loss_taken has.
void bd_loss_along(bd_gen *g, bd_loss *l, int width, bd_gen_group finish);
LLVMValueRef bd_loss_taken(bd_gen *g, const bd_loss *l, int group);
// e^(x - from), where that is at most about 1.
LLVMValueRef bd_loss_weight(bd_gen *g, LLVMValueRef x, LLVMValueRef from);
// The log-sum-exp of a row, in all threads that share it. A GPU reads rows once where it does not
// add as the host does anyway.
LLVMValueRef bd_loss_lse(bd_gen *g, bd_loss *l);
// One chunk, or block, stores to `out` the sum over all rows, ascending, by lane; `add` adds a
// row's part to `sum`.
void bd_loss_total(bd_gen *g, bd_loss *l, bd_gen_body add);
// GPU: the threads of a block of `xent`.
int bd_loss_threads(const bd_gen *g);
// The kernel of `xent` that makes the gradient as well (bd_kernel).
bd_status bd_gen_xent_with_gradient(bd_gen *g);
#endif
