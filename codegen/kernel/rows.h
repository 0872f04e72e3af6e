// Row and column patterns of reductions.
#ifndef BD_CODEGEN_KERNEL_ROWS_H
#define BD_CODEGEN_KERNEL_ROWS_H
#include "codegen/kernel/gen.h"

#define BD_GEN_COLUMNS 64        // of a host chunk of column sums
#define BD_GEN_ALONG 8           // threads of a GPU's block that lie along columns
#define BD_GEN_MOST_THREADS 1024 // of a block that sums columns

// Items are the rows of an operand: its leading dimensions; lanes run along the last one.
bd_gen_nest bd_gen_row_nest(const bd_gen *g, int operand);

// Sums over rows for each column, kept in double. Lanes run along columns; on the host rows ascend.
typedef struct bd_gen_columns {
  int outer_count, outer[BD_MAX_LOOPS]; // loops of the result beside the columns
  int lane_loop;
  int row_count, row[BD_MAX_LOOPS]; // loops that are summed, slowest first
  int sums;
  bd_access out[BD_MAX_RESULTS];
  LLVMValueRef sum[BD_MAX_RESULTS];
  int strided_row;     // GPU: the loop that is shared out, no longer in `row`
  int pack;            // GPU: columns that a thread takes at once
  LLVMValueRef shared; // GPU: the shares of a block's sums
  int along_count;     // what `term` loads along columns
  const bd_access *along[BD_MAX_OPERANDS];
  void (*term)(bd_gen *g, void *user, LLVMValueRef *out_values); // f32 in lanes, one per sum
  void *user;
} bd_gen_columns;
void bd_gen_sum_columns(bd_gen *g, bd_gen_columns *columns);

// A scalar f64 rounded to f32.
LLVMValueRef bd_gen_to_f32(bd_gen *g, LLVMValueRef scalar);
#endif
