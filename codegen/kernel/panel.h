// Rows in memory, and panels of them in the shared memory of a GPU's block.
#ifndef BD_CODEGEN_KERNEL_PANEL_H
#define BD_CODEGEN_KERNEL_PANEL_H
#include "codegen/kernel/gen.h"

// Up to 64 rows in memory.
typedef struct bd_rows {
  bd_dtype dtype;
  bool accumulate;       // stores add
  LLVMValueRef base;     // the first
  int64_t stride, width; // elements from row to row, and of a row
  LLVMValueRef count;    // rows that exist, at least 1, i64; those after read as zeros
} bd_rows;

enum { BD_TILE = 64 }; // rows, and columns of a square

// i64: sums and products that do not overflow.
LLVMValueRef bd_panel_add(bd_gen *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef bd_panel_plus(bd_gen *g, LLVMValueRef a, int64_t addend);
LLVMValueRef bd_panel_times(bd_gen *g, LLVMValueRef a, int64_t factor);

// Elements of a load or store that every row allows, of up to `most`.
int bd_rows_lanes(const bd_rows *rows, int most);
// `lanes` elements at a place that exists, as numbers.
LLVMValueRef bd_rows_load(bd_gen *g, const bd_rows *rows, LLVMValueRef at, int lanes);
LLVMValueRef bd_rows_address(bd_gen *g, const bd_rows *rows, LLVMValueRef row, LLVMValueRef column);

// An index in elements of `scalar` into shared memory, and what lies there, `lanes` of it; the
// index is a multiple of `lanes`.
LLVMValueRef bd_panel_at(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index);
LLVMValueRef bd_panel_load(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                           int lanes);
void bd_panel_store(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                    LLVMValueRef value, int lanes);

// Columns [from, from + width) of the 64 rows to shared memory at `panel`, rows `stride` elements
// apart; zeros where rows or columns do not exist. As f32.
void bd_panel_fill(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width, LLVMValueRef panel,
                   int stride);
// The same as memory has them, halves; or turned: a row of the panel is a column of the rows.
void bd_panel_fill_halves(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride);
void bd_panel_fill_turned(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride);
// The reverse: a panel of f32 to columns [from, from + width) of the rows, where there are such.
void bd_panel_empty(bd_gen *g, LLVMValueRef panel, int stride, const bd_rows *rows, int64_t from,
                    int width);
#endif
