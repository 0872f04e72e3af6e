// Biases of attention's scores by relative position, and their gradient: the sums over all samples
// and queries of the gradients of scores at each place.
#ifndef BD_CODEGEN_KERNEL_ATTENTION_BIAS_H
#define BD_CODEGEN_KERNEL_ATTENTION_BIAS_H
#include "codegen/kernel/attention.h"

// What a tile of queries adds up, in shared memory, but for the first and the last place, whose
// many scores each thread adds up for itself.
typedef struct bd_place_sums {
  LLVMValueRef places;         // f32, shared
  LLVMValueRef before, behind; // f32 variables
  LLVMValueRef edges;          // of each warp's threads together, f32, shared
  LLVMValueRef to;             // in the scratch, from there on
} bd_place_sums;

// Finds the biases, operand `operand`.
void bd_attention_open_biases(bd_attention *a, int operand);
// Of the head in work, to shared memory. What follows makes the threads meet before they read the
// biases, and after they have read those of an earlier head: bd_square_product and bd_strip_add do.
// Nothing where there are none.
void bd_attention_load_biases(bd_attention *a);
// The bias of a query and a key added to their score; the score where there are none.
LLVMValueRef bd_attention_biased(bd_attention *a, LLVMValueRef score, LLVMValueRef query,
                                 LLVMValueRef key);

// `to`: where the sums of tiles of queries lie, [batch, head, tile, place].
bd_place_sums bd_place_sums_create(bd_attention *a, LLVMValueRef to);
void bd_place_sums_clear(bd_attention *a, const bd_place_sums *sums);
// Adds a square of queries from `first_query` on by keys from `first_key` on.
void bd_place_sums_add(bd_attention *a, const bd_place_sums *sums, const bd_square *slopes,
                       LLVMValueRef first_query, LLVMValueRef first_key);
// Of the tile in work, from `first_query` on.
void bd_place_sums_store(bd_attention *a, const bd_place_sums *sums, LLVMValueRef first_query);
// The kernel that adds up what lies at `from` to result `result`.
void bd_place_sums_join(bd_attention *a, LLVMValueRef from, int result);
#endif
