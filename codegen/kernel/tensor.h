// Products of halves inside a warp, on a GPU's tensor cores: m16n8k16 of PTX's mma, with sums in
// f32 (PTX ISA 8.5, section 9.7.14.5.8, has the layouts). A warp holds 16 rows; a thread of it two
// of them, 8 apart, and of each 8 columns two neighbours.
#ifndef BD_CODEGEN_KERNEL_TENSOR_H
#define BD_CODEGEN_KERNEL_TENSOR_H
#include "codegen/kernel/gen.h"

enum {
  BD_TENSOR_ROWS = 16,   // of the first operand and the sums
  BD_TENSOR_COLUMNS = 8, // of the sums
  BD_TENSOR_SUMMED = 16, // numbers of each in a product
  BD_TENSOR_THREADS = 4, // that hold a row
  BD_TENSOR_OWN = 2,     // rows of a thread
  BD_TENSOR_PAIR = 2,    // neighbouring columns of a thread
  BD_TENSOR_APART = 8,   // from a thread's row, and its pair of summed numbers, to its next
};

// This thread's words of the first operand: 16 rows of a panel from `row` on, columns from
// `column` on. Panels are halves, rows `stride` apart, and both are i64.
void bd_tensor_left(bd_gen *g, LLVMValueRef panel, int stride, LLVMValueRef row,
                    LLVMValueRef column, LLVMValueRef out_words[4]);
// Of the second operand, of which a panel has the columns as rows: 8 of them from `row` on.
void bd_tensor_right(bd_gen *g, LLVMValueRef panel, int stride, LLVMValueRef row,
                     LLVMValueRef column, LLVMValueRef out_words[2]);
// Two numbers as halves in a word.
LLVMValueRef bd_tensor_pair(bd_gen *g, bd_dtype dtype, LLVMValueRef first, LLVMValueRef second);
// sums += left right: numbers of the thread's first row, then of its second.
void bd_tensor_multiply(bd_gen *g, bd_dtype dtype, LLVMValueRef left[4], LLVMValueRef right[2],
                        LLVMValueRef sums[4]);
#endif
