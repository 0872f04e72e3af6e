// How sums over the rows of a tensor, one for each column, are divided on GPUs: few columns make
// few blocks, so that rows are summed in chunks, which more blocks can do at once, and then the
// chunks' sums. The shape alone decides, so every grid gives the same bits.
#ifndef BD_IR_COLUMNS_H
#define BD_IR_COLUMNS_H
#include "ir/module.h"

#define BD_COLUMN_LINE 8 // threads, of 16 bytes each, that read a line of memory

// Whether an op of an spmd function sums f32 or halves over rows into columns, which lie along its
// first operand's last dimension: a sum, or the gradient of a norm's weights or of sinks.
bool bd_sums_columns(const bd_function *function, const bd_op *op);

// Bytes of a row that each of a block's threads side by side reads at once, if rows are packed: 16
// where rows, and the parts of them that ranks hold, are so even, else 4.
int64_t bd_column_bytes(const bd_module *module, const bd_function *function, const bd_op *op);

// How many of a block's threads lie side by side along a row: as many as read a line of memory,
// where that leaves blocks enough, or chunks make them; else a sector.
int bd_column_threads(const bd_module *module, const bd_function *function, const bd_op *op);

// The most chunks that its rows are summed in, of a module for GPUs; 1: all rows at once, as it is
// for the gradient of a bias that a product may make, too. 0 for other ops.
int64_t bd_column_chunks(const bd_module *module, const bd_function *function, const bd_op *op);

// Bytes of the chunks' sums, f64, of all results: each has the chunks one after another, of a chunk
// the sums as the result's part on a rank. 0 where there is one chunk, or none.
int64_t bd_column_chunk_bytes(const bd_module *module, const bd_function *function,
                              const bd_op *op);
#endif
