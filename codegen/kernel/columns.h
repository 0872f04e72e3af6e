// Sums over rows, one for each column.
#ifndef BD_CODEGEN_KERNEL_COLUMNS_H
#define BD_CODEGEN_KERNEL_COLUMNS_H
#include "codegen/kernel/gen.h"

#define BD_GEN_COLUMN_LANES 1024 // threads of a multiprocessor that sums columns, at most a block's
#define BD_GEN_WIDE_LANES 512    // the same where a thread has 8 columns, whose sums take registers

// GPU: whether a thread of this kernel has 16 bytes of a row.
bool bd_gen_has_wide_columns(const bd_gen *g);
// How many lie side by side along a row.
int bd_gen_column_threads(const bd_gen *g);

// Sums over rows for each column, kept in double. Lanes run along columns; on the host rows ascend.
// On a GPU a kernel of two parts (ir/columns.h) sums chunks of rows into its scratch, then those.
typedef struct bd_gen_columns {
  int outer_count, outer[BD_MAX_LOOPS]; // loops of the result beside the columns
  int lane_loop;
  int row_count, row[BD_MAX_LOOPS]; // loops that are summed, slowest first
  int sums;
  bd_access out[BD_MAX_RESULTS];
  int read_count; // what terms are made of
  bd_access read[BD_MAX_OPERANDS];
  // From what was read at a point, in lanes, a value for each sum: f32, or f64.
  void (*term)(bd_gen *g, void *user, const LLVMValueRef *values, LLVMValueRef *out_terms);
  void *user;
  LLVMValueRef sum[BD_MAX_RESULTS];
  // GPU:
  int along; // threads side by side along a row
  int pack;  // columns that each takes at once
  int most_ahead;
  LLVMValueRef shared; // the sums of a block's warps
  int strided_row;     // the loop that is shared out, no longer in `row`
  int ahead;           // of it, indices that a thread reads at once
  int chunk_loop;      // of its chunks, if they are summed by themselves, or -1
  int64_t chunk_rows;  // of it, indices of a chunk
} bd_gen_columns;
void bd_gen_sum_columns(bd_gen *g, bd_gen_columns *columns);
#endif
