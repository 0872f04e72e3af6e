// Initial weights from a seed: every logical element is a pure function of (seed, weight, element),
// so each plan starts from the same model. The runtime computes the same bits (docs/numerics.md).
#ifndef BD_IR_INIT_H
#define BD_IR_INIT_H
#include "ir/module.h"

// The logical element `element` (row-major) of weight `index`.
float bd_init_element(const bd_weight *weight, int index, uint64_t seed, int64_t element);

// The logical element that stored element `at` holds, or -1 when it lies outside the weight's
// slice. Elements of a stack's tensors are numbered one tensor after another.
int64_t bd_storage_to_logical(const bd_storage *storage, int64_t at);
#endif
