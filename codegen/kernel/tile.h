// Matrix products inside a block of a GPU: what attention's kernels are made of.
//
// The 256 threads of a block form a 16 x 16 grid. A square is a 64 x 64 matrix in their registers:
// thread (y, x) holds rows 4y..4y+3 and columns x, x+16, x+32, x+48. A strip is 64 rows of any
// width, row by row with the same threads: in parts of 64, 32 or 16 columns a thread holds 4, 2 or
// 1 neighbours. Operands are rows in memory; they pass through shared memory in panels. All
// arithmetic is f32 with fused multiply-adds, in ascending order of the summed index.
#ifndef BD_CODEGEN_KERNEL_TILE_H
#define BD_CODEGEN_KERNEL_TILE_H
#include "codegen/kernel/gen.h"

enum {
  BD_TILE = 64,      // rows and columns of a square
  BD_TILE_OWN = 4,   // rows, and columns, of a thread
  BD_TILE_SIDE = 16, // threads
  BD_TILE_MAX_WIDTH = 256,
  BD_TILE_MAX_PARTS = BD_TILE_MAX_WIDTH / BD_TILE,
};

// Up to 64 rows in memory.
typedef struct bd_rows {
  bd_dtype dtype;
  bool accumulate;       // stores add
  LLVMValueRef base;     // the first
  int64_t stride, width; // elements from row to row, and of a row
  LLVMValueRef count;    // rows that exist, at least 1, i64; those after read as zeros
} bd_rows;

// What the functions below need of a kernel: the block's shared memory and this thread's place.
typedef struct bd_tiles {
  bd_gen *g;
  LLVMValueRef panels, weights; // shared
  LLVMValueRef y, x;            // i64
} bd_tiles;

typedef struct bd_square {
  LLVMValueRef at[BD_TILE_OWN][BD_TILE_OWN]; // f32 variables
} bd_square;

typedef struct bd_strip {
  int parts, lanes[BD_TILE_MAX_PARTS];
  int64_t first[BD_TILE_MAX_PARTS];                // column
  LLVMValueRef at[BD_TILE_OWN][BD_TILE_MAX_PARTS]; // variables of `lanes` f32
} bd_strip;

bd_tiles bd_tiles_open(bd_gen *g);
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
// Copies the square to shared memory, the weights of bd_strip_add. The threads must have met since
// the last bd_strip_add.
void bd_square_share(bd_tiles *tiles, const bd_square *square);
// Joins `value` over the 16 threads that hold a row.
LLVMValueRef bd_tiles_join(bd_tiles *tiles, LLVMValueRef value,
                           LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef));

// 64 rows of `width` columns; variables, in the entry block.
bd_strip bd_strip_create(bd_tiles *tiles, int64_t width);
void bd_strip_clear(bd_tiles *tiles, const bd_strip *strip);
void bd_strip_scale(bd_tiles *tiles, const bd_strip *strip, int row, LLVMValueRef factor);
// strip[r] += sum over c of weights[r][c] b[c]; the threads meet first.
void bd_strip_add(bd_tiles *tiles, const bd_strip *strip, const bd_rows *b);
void bd_strip_store(bd_tiles *tiles, const bd_strip *strip, const bd_rows *out);
#endif
