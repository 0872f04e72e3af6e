#include "codegen/kernel/panel.h"

enum {
  WIDE = 4,   // elements of a load of f32
  WIDEST = 8, // of halves
};

LLVMValueRef bd_panel_add(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(g->b, a, b, "");
}

LLVMValueRef bd_panel_plus(bd_gen *g, LLVMValueRef a, int64_t addend) {
  return bd_panel_add(g, a, bd_gen_long(g, addend));
}

LLVMValueRef bd_panel_times(bd_gen *g, LLVMValueRef a, int64_t factor) {
  return LLVMBuildNSWMul(g->b, a, bd_gen_long(g, factor), "");
}

static LLVMTypeRef vector_of(LLVMTypeRef scalar, int lanes) {
  return lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes);
}

int bd_rows_lanes(const bd_rows *rows, int most) {
  int lanes = most;
  while (lanes > 1 && (rows->width % lanes || rows->stride % lanes))
    lanes /= 2;
  return lanes;
}

LLVMValueRef bd_rows_address(bd_gen *g, const bd_rows *rows, LLVMValueRef row,
                             LLVMValueRef column) {
  LLVMValueRef offset = bd_panel_add(g, bd_panel_times(g, row, rows->stride), column);
  return LLVMBuildGEP2(g->b, bd_gen_dtype(g, rows->dtype), rows->base, &offset, 1, "");
}

static LLVMValueRef load_as(bd_gen *g, const bd_rows *rows, LLVMTypeRef scalar, LLVMValueRef at,
                            int lanes) {
  LLVMValueRef value = LLVMBuildLoad2(g->b, vector_of(scalar, lanes), at, "");
  LLVMSetAlignment(value, (unsigned)(lanes * bd_dtype_bytes(rows->dtype)));
  return value;
}

LLVMValueRef bd_rows_load(bd_gen *g, const bd_rows *rows, LLVMValueRef at, int lanes) {
  LLVMValueRef value = load_as(g, rows, bd_gen_dtype(g, rows->dtype), at, lanes);
  return bd_gen_widen(g, rows->dtype, value);
}

// Whether an element of a row is there, and its address, or that of the first.
static LLVMValueRef find(bd_gen *g, const bd_rows *rows, LLVMValueRef row, LLVMValueRef column,
                         LLVMValueRef *out_there) {
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, row, rows->count, "");
  LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntSLT, column, bd_gen_long(g, rows->width), "");
  *out_there = there = LLVMBuildAnd(g->b, there, inside, "");
  return LLVMBuildSelect(g->b, there, bd_rows_address(g, rows, row, column), rows->base, "");
}

static LLVMValueRef or_zero(bd_gen *g, LLVMValueRef there, LLVMValueRef value) {
  return LLVMBuildSelect(g->b, there, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

// Bits of `lanes` halves from `column` of a row on.
static LLVMValueRef load_bits(bd_gen *g, const bd_rows *rows, LLVMValueRef row, LLVMValueRef column,
                              int lanes) {
  LLVMValueRef there, at = find(g, rows, row, column, &there);
  return or_zero(g, there, load_as(g, rows, LLVMInt16TypeInContext(g->llvm), at, lanes));
}

LLVMValueRef bd_panel_at(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index) {
  return LLVMBuildGEP2(g->b, scalar, memory, &index, 1, "");
}

static unsigned bytes_of(LLVMTypeRef scalar) {
  return LLVMGetTypeKind(scalar) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(scalar) / 8 : 4;
}

LLVMValueRef bd_panel_load(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                           int lanes) {
  LLVMValueRef at = bd_panel_at(g, scalar, memory, index);
  LLVMValueRef value = LLVMBuildLoad2(g->b, vector_of(scalar, lanes), at, "");
  LLVMSetAlignment(value, (unsigned)lanes * bytes_of(scalar));
  return value;
}

static void panel_store(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                        LLVMValueRef value, int lanes) {
  LLVMValueRef store = LLVMBuildStore(g->b, value, bd_panel_at(g, scalar, memory, index));
  LLVMSetAlignment(store, (unsigned)lanes * bytes_of(scalar));
}

// Word number `number` of a panel whose rows have `words`.
static LLVMValueRef split(bd_gen *g, LLVMValueRef number, int words, LLVMValueRef *out_rest) {
  *out_rest = LLVMBuildURem(g->b, number, bd_gen_long(g, words), "");
  return LLVMBuildUDiv(g->b, number, bd_gen_long(g, words), "");
}

void bd_panel_fill(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width, LLVMValueRef panel,
                   int stride) {
  int lanes = bd_rows_lanes(rows, WIDE) == WIDE ? WIDE : 1, words = width / lanes;
  for (int i = 0; i < BD_TILE * words / g->threads; i++) {
    LLVMValueRef number = bd_panel_plus(g, g->thread, (int64_t)i * g->threads), column, there;
    LLVMValueRef row = split(g, number, words, &column);
    column = bd_panel_times(g, column, lanes);
    LLVMValueRef at = find(g, rows, row, bd_panel_add(g, from, column), &there);
    LLVMValueRef value = or_zero(g, there, bd_rows_load(g, rows, at, lanes));
    panel_store(g, bd_gen_f32(g), panel, bd_panel_add(g, bd_panel_times(g, row, stride), column),
                value, lanes);
  }
}

void bd_panel_fill_halves(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride) {
  LLVMTypeRef half = LLVMInt16TypeInContext(g->llvm);
  int lanes = bd_rows_lanes(rows, WIDEST), words = width / lanes;
  for (int i = 0; i < BD_TILE * words / g->threads; i++) {
    LLVMValueRef number = bd_panel_plus(g, g->thread, (int64_t)i * g->threads), column;
    LLVMValueRef row = split(g, number, words, &column);
    column = bd_panel_times(g, column, lanes);
    LLVMValueRef value = load_bits(g, rows, row, bd_panel_add(g, from, column), lanes);
    panel_store(g, half, panel, bd_panel_add(g, bd_panel_times(g, row, stride), column), value,
                lanes);
  }
}

static LLVMValueRef bits_at(bd_gen *g, LLVMValueRef bits, int lane) {
  if (LLVMGetTypeKind(LLVMTypeOf(bits)) == LLVMVectorTypeKind)
    bits =
        LLVMBuildExtractElement(g->b, bits, LLVMConstInt(bd_gen_i32(g), (unsigned)lane, false), "");
  return LLVMBuildZExt(g->b, bits, bd_gen_i32(g), "");
}

// A thread takes two rows, so that it stores whole words, beside those of its neighbours.
void bd_panel_fill_turned(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride) {
  enum { PAIRS = BD_TILE / 2 };
  int lanes = bd_rows_lanes(rows, WIDEST);
  for (int i = 0; i < PAIRS * width / lanes / g->threads; i++) {
    LLVMValueRef number = bd_panel_plus(g, g->thread, (int64_t)i * g->threads), pair;
    LLVMValueRef column = bd_panel_times(g, split(g, number, PAIRS, &pair), lanes),
                 row = bd_panel_times(g, pair, 2);
    LLVMValueRef bits[2];
    for (int k = 0; k < 2; k++)
      bits[k] = load_bits(g, rows, bd_panel_plus(g, row, k), bd_panel_add(g, from, column), lanes);
    for (int e = 0; e < lanes; e++) {
      LLVMValueRef upper = bits_at(g, bits[1], e);
      upper = LLVMBuildShl(g->b, upper, bd_gen_int_like(upper, 16), "");
      LLVMValueRef word = LLVMBuildOr(g->b, bits_at(g, bits[0], e), upper, "");
      LLVMValueRef at = bd_panel_times(g, bd_panel_plus(g, column, e), stride / 2);
      panel_store(g, bd_gen_i32(g), panel, bd_panel_add(g, at, pair), word, 1);
    }
  }
}
