// A contraction as matrix products: which loops each product runs over, and which stay outside.
#ifndef BD_CODEGEN_CONTRACT_H
#define BD_CODEGEN_CONTRACT_H
#include "ir/module.h"

#define BD_CONTRACT_LETTERS 26

// One loop of a contraction: its extents and its stride, in elements, in each tensor that has it.
typedef struct bd_contract_letter {
  char letter;
  int64_t padded; // extent of the buffers
  bool full;      // every index is valid on every rank
  bool looped;    // no product runs over it, unless it numbers products
  bool in[3];     // whether a, b and out have it
  int64_t stride[3];
  int tensor, dim; // the last tensor that has it, and which of its dimensions it is
} bd_contract_letter;

typedef enum bd_contract_group_kind {
  BD_CONTRACT_BATCH, // in all three
  BD_CONTRACT_M,     // in a and out
  BD_CONTRACT_N,     // in b and out
  BD_CONTRACT_K,     // in a and b: summed
  BD_CONTRACT_GROUPS,
} bd_contract_group_kind;

// Letters that act as one loop: their strides collapse. Only the slowest may be partly valid.
typedef struct bd_contract_group {
  int count;                       // of letters; 0: the loop has extent 1
  int letter[BD_CONTRACT_LETTERS]; // indices, slowest first
  int64_t stride[3];
} bd_contract_group;

// How to run the contraction: for all combinations of the `outer` letters, one batched product.
// Outer letters that are summed come last (innermost), so that an element's terms are added in a
// row.
typedef struct bd_contract {
  int letter_count;
  bd_contract_letter letter[BD_CONTRACT_LETTERS];
  bool swapped; // the product's first operand is b: m and n have traded places already
  bd_contract_group group[BD_CONTRACT_GROUPS];
  int outer_count;
  int outer[BD_CONTRACT_LETTERS];
} bd_contract;

// `letters` describe the rule; chooses the largest products whose strides a matrix product can
// take.
void bd_contract_plan(int letter_count, const bd_contract_letter *letters,
                      bd_contract *out_contract);

// The same of a `contract` op of an spmd function, from its rule ("bt,tc->bc") and the local shapes
// of its operands and result.
void bd_contract_read(const bd_module *module, const bd_function *function, const bd_op *op,
                      bd_contract *out_contract);
// Whether it is one product without a batch, whose m are the first `dims` dimensions of the result.
bool bd_contract_has_rows(const bd_module *module, const bd_function *function, const bd_op *op,
                          int dims);
// A loop of one valid iteration, which changes no address.
bool bd_contract_is_trivial(const bd_contract_letter *letter);

// The strides of a product, in the order of bd_rt_gemm, made legal where a loop has extent 1.
typedef struct bd_contract_strides {
  int64_t a_m, a_k, a_batch, b_k, b_n, b_batch, out_m, out_batch;
} bd_contract_strides;
bd_contract_strides bd_contract_get_strides(const bd_contract *contract);
#endif
