// Matrix products inside a block of a GPU: what attention's kernels are made of. A square is a
// 64 x 64 matrix in the registers of the block's threads, a strip 64 rows of any width. Operands
// are rows in memory; they pass through shared memory in panels. Sums are f32.
//
// Plain: 256 threads form a 16 x 16 grid. Thread (y, x) holds rows 4y..4y+3 of a square and columns
// x, x+16, x+32, x+48; of a strip's parts of 64, 32 or 16 columns it holds 4, 2 or 1 neighbours.
// All arithmetic is f32 with fused multiply-adds, in ascending order of the summed index.
//
// On tensor cores (tensor.h), of halves: each of 4 warps holds 16 rows; thread (y, x) of (64, 4)
// holds two rows, 8 apart, and of each 8 columns two neighbours. A square that is a product's first
// operand is rounded to halves (as FlashAttention-2 does, Dao 2023, section 3).
#ifndef BD_CODEGEN_KERNEL_TILE_H
#define BD_CODEGEN_KERNEL_TILE_H
#include "codegen/kernel/panel.h"
#include "ir/memory.h"

enum {
  BD_TILE_MOST_ROWS = 4, // of a thread
  BD_TILE_MOST_COLUMNS = 16,
  BD_TILE_MAX_WIDTH = 256,
  BD_TILE_TENSOR_WIDTH = BD_ATTENTION_TENSOR_WIDTH, // a few registers spill
  BD_TILE_TENSOR_THREADS = 128,
  BD_TILE_MAX_PARTS = 16,
};

// What the functions below need of a kernel: the block's shared memory and this thread's place.
typedef struct bd_tiles {
  bd_gen *g;
  bool tensor;
  bd_dtype halves;              // of tensor cores' operands
  int rows, columns;            // of a square, that a thread holds
  int beside;                   // threads that hold a row
  LLVMValueRef panels, weights; // shared; weights: plain, or once a square is shared
  LLVMValueRef y, x;            // i64
} bd_tiles;

typedef struct bd_square {
  LLVMValueRef at[BD_TILE_MOST_ROWS][BD_TILE_MOST_COLUMNS]; // f32 variables
} bd_square;

typedef struct bd_strip {
  int parts, lanes[BD_TILE_MAX_PARTS];
  int64_t first[BD_TILE_MAX_PARTS];                      // column
  LLVMValueRef at[BD_TILE_MOST_ROWS][BD_TILE_MAX_PARTS]; // variables of `lanes` f32
} bd_strip;

// On tensor cores where the block has as many threads as they take; operands are `dtype` then.
bd_tiles bd_tiles_open(bd_gen *g, bd_dtype dtype);
// Whether tensor cores can multiply operands of such rows.
bool bd_tiles_suit_tensor_cores(bd_dtype dtype, int64_t width);
// Number of a row (0..63) that this thread holds, and of a column of a square, i64.
LLVMValueRef bd_tiles_row(bd_tiles *tiles, int own);
LLVMValueRef bd_tiles_column(bd_tiles *tiles, int own);

bd_square bd_square_create(bd_tiles *tiles); // variables, in the entry block
// square[r][c] = sum over i of a[r][i] b[c][i].
void bd_square_product(bd_tiles *tiles, const bd_square *square, const bd_rows *a,
                       const bd_rows *b);
LLVMValueRef bd_square_get(bd_tiles *tiles, const bd_square *square, int row, int column);
void bd_square_set(bd_tiles *tiles, const bd_square *square, int row, int column,
                   LLVMValueRef value);
// Lets all threads read the square's numbers at bd_square_shared, until a strip is added to. The
// threads meet before and after.
void bd_square_share(bd_tiles *tiles, const bd_square *square);
LLVMValueRef bd_square_shared(bd_tiles *tiles, LLVMValueRef row, LLVMValueRef column);
// Joins `value` over the threads that hold a row.
LLVMValueRef bd_tiles_join(bd_tiles *tiles, LLVMValueRef value,
                           LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef));

// 64 rows of `width` columns; variables, in the entry block.
bd_strip bd_strip_create(bd_tiles *tiles, int64_t width);
void bd_strip_clear(bd_tiles *tiles, const bd_strip *strip);
void bd_strip_scale(bd_tiles *tiles, const bd_strip *strip, int row, LLVMValueRef factor);
// strip[r] += sum over c of square[r][c] b[c]; the threads meet first.
void bd_strip_add(bd_tiles *tiles, const bd_strip *strip, const bd_square *square,
                  const bd_rows *b);
void bd_strip_store(bd_tiles *tiles, const bd_strip *strip, const bd_rows *out);
#endif
