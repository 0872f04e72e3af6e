#include "codegen/kernel/tensor.h"
#include "codegen/kernel/panel.h"

// The word of a panel at a row and an even column.
static LLVMValueRef word(bd_gen *g, LLVMValueRef panel, int stride, LLVMValueRef row,
                         LLVMValueRef column) {
  LLVMValueRef half = LLVMBuildUDiv(g->b, column, bd_gen_long(g, 2), "");
  LLVMValueRef at = bd_panel_add(g, bd_panel_times(g, row, stride / 2), half);
  return bd_panel_load(g, bd_gen_i32(g), panel, at, 1);
}

// This thread's first row, and column, of a product.
static void find(bd_gen *g, LLVMValueRef *row, LLVMValueRef *column) {
  LLVMValueRef threads = bd_gen_long(g, BD_TENSOR_THREADS);
  LLVMValueRef lane = LLVMBuildURem(g->b, g->thread, bd_gen_long(g, BD_GEN_LANES), "");
  *row = bd_panel_add(g, *row, LLVMBuildUDiv(g->b, lane, threads, ""));
  LLVMValueRef pair = LLVMBuildURem(g->b, lane, threads, "");
  *column = bd_panel_add(g, *column, bd_panel_times(g, pair, BD_TENSOR_PAIR));
}

void bd_tensor_left(bd_gen *g, LLVMValueRef panel, int stride, LLVMValueRef row,
                    LLVMValueRef column, LLVMValueRef out_words[4]) {
  find(g, &row, &column);
  for (int i = 0; i < 4; i++)
    out_words[i] = word(g, panel, stride, bd_panel_plus(g, row, i % 2 * BD_TENSOR_APART),
                        bd_panel_plus(g, column, i / 2 * BD_TENSOR_APART));
}

void bd_tensor_right(bd_gen *g, LLVMValueRef panel, int stride, LLVMValueRef row,
                     LLVMValueRef column, LLVMValueRef out_words[2]) {
  find(g, &row, &column);
  for (int i = 0; i < 2; i++)
    out_words[i] = word(g, panel, stride, row, bd_panel_plus(g, column, i * BD_TENSOR_APART));
}

LLVMValueRef bd_tensor_pair(bd_gen *g, bd_dtype dtype, LLVMValueRef first, LLVMValueRef second) {
  LLVMValueRef both = LLVMGetPoison(LLVMVectorType(bd_gen_f32(g), 2)), each[] = {first, second};
  for (unsigned i = 0; i < 2; i++)
    both = LLVMBuildInsertElement(g->b, both, each[i], LLVMConstInt(bd_gen_i32(g), i, false), "");
  return LLVMBuildBitCast(g->b, bd_gen_narrow(g, dtype, both), bd_gen_i32(g), "");
}

void bd_tensor_multiply(bd_gen *g, bd_dtype dtype, LLVMValueRef left[4], LLVMValueRef right[2],
                        LLVMValueRef sums[4]) {
  const char *name = dtype == BD_BF16 ? "llvm.nvvm.mma.m16n8k16.row.col.bf16"
                                      : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32";
  LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(g->llvm), 2);
  LLVMValueRef arguments[10];
  for (int i = 0; i < 6; i++) {
    LLVMValueRef bits = i < 4 ? left[i] : right[i - 4];
    arguments[i] = dtype == BD_BF16 ? bits : LLVMBuildBitCast(g->b, bits, pair, "");
  }
  for (int i = 0; i < 4; i++)
    arguments[6 + i] = sums[i];
  LLVMValueRef result = bd_gen_intrinsic(g, name, 0, NULL, 10, arguments);
  for (unsigned i = 0; i < 4; i++)
    sums[i] = LLVMBuildExtractValue(g->b, result, i, "");
}
