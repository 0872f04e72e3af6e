// Collectives inside of functions that run beside other steps: the order of the steps, and from
// where to where such a collective goes on. Programs for CPUs do every step by itself, in order.
//
// A collective may begin as soon as what it reads is there and what it writes is free, and must be
// waited for before its result is touched or its operand overwritten. Where that leaves no product
// in between, products for gradients of weights that nothing else in the function waits for are
// done behind its begin, as far as every buffer lies where they still find it: memory is as it was
// planned. Where a product is done in parts (ir/parts.h), the collective that sums it begins inside
// of it: with every part what sums that part. On all ranks of a stage the calls have this one
// order, so that they ask NCCL alike.
#ifndef BD_CODEGEN_BESIDE_H
#define BD_CODEGEN_BESIDE_H
#include "codegen/epilogue.h"
#include "codegen/touch.h"
#include "ir/parts.h"

typedef struct bd_beside {
  int *order; // the function's steps as they are done; collectives where they stand by themselves
  // Per step: the step before which it begins, which may be itself, or -1 where it does not run
  // beside others; and the step before which it is waited for, or the step count: at the end.
  int *begin, *end;
  // Per step: the collective that begins in the parts of this product, which is the step before
  // which `begin` has it, and the parts; or -1.
  int *summed_by;
  bd_parts *parts;
  int slot_count;
  int *step; // per slot (see bd_rt_beside), in the order in which they begin
} bd_beside;

// Of a function of an exec module, with its fusion and epilogues. At most `most_slots` run beside
// others; they begin in the order in which they stand.
void bd_beside_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                    const bd_fusion *fusion, const bd_epilogues *epilogues, int most_slots,
                    bd_beside *out_beside);

// Whether a collective that is waited for just before `step` (the step count: at the end) uses the
// bytes until then.
bool bd_beside_ends(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                    const bd_beside *beside, int step, bd_stretch bytes);
#endif
