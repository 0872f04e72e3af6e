// Attention written out: products, mask, softmax and product.
#ifndef BD_IR_PASSES_RECOVER_ATTENTION_H
#define BD_IR_PASSES_RECOVER_ATTENTION_H
#include "ir/passes/recover/edit.h"

// Replaces the product of a softmax's probabilities and values by `attention`, where the scores are
// a product of queries and keys, scaled before or after, and masked by nothing or by a triangle
// that lets each position read those up to itself. Key-value heads may be shared.
bd_status bd_recover_attention(bd_edit *e, const void *user);
#endif
