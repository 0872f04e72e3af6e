#include "codegen/kernel/panel.h"

enum {
  WIDE = 4,        // elements of a load of f32
  WIDEST = 8,      // of halves
  MOST_COPIES = 8, // of a load in a row: more would take many registers
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

static LLVMValueRef load_bits(bd_gen *g, const bd_rows *rows, LLVMValueRef at, int lanes) {
  return load_as(g, rows, LLVMInt16TypeInContext(g->llvm), at, lanes);
}

typedef LLVMValueRef (*loader)(bd_gen *g, const bd_rows *rows, LLVMValueRef at, int lanes);

// `lanes` elements from `column` of a row on; zeros where there are none, read from the first
// instead.
static LLVMValueRef load_or_zero(bd_gen *g, const bd_rows *rows, loader load, LLVMValueRef row,
                                 LLVMValueRef column, int lanes) {
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, row, rows->count, "");
  LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntSLT, column, bd_gen_long(g, rows->width), "");
  there = LLVMBuildAnd(g->b, there, inside, "");
  LLVMValueRef at = bd_rows_address(g, rows, row, column);
  LLVMValueRef value = load(g, rows, LLVMBuildSelect(g->b, there, at, rows->base, ""), lanes);
  return LLVMBuildSelect(g->b, there, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

LLVMValueRef bd_panel_at(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index) {
  return LLVMBuildGEP2(g->b, scalar, memory, &index, 1, "");
}

static unsigned alignment_of(LLVMTypeRef scalar, int lanes) {
  bool whole = LLVMGetTypeKind(scalar) == LLVMIntegerTypeKind;
  unsigned bytes = (unsigned)lanes * (whole ? LLVMGetIntTypeWidth(scalar) / 8 : 4);
  return bytes < BD_GEN_ALIGNED ? bytes : BD_GEN_ALIGNED;
}

LLVMValueRef bd_panel_load(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                           int lanes) {
  LLVMValueRef at = bd_panel_at(g, scalar, memory, index);
  LLVMValueRef value = LLVMBuildLoad2(g->b, vector_of(scalar, lanes), at, "");
  LLVMSetAlignment(value, alignment_of(scalar, lanes));
  return value;
}

void bd_panel_store(bd_gen *g, LLVMTypeRef scalar, LLVMValueRef memory, LLVMValueRef index,
                    LLVMValueRef value, int lanes) {
  LLVMValueRef store = LLVMBuildStore(g->b, value, bd_panel_at(g, scalar, memory, index));
  LLVMSetAlignment(store, alignment_of(scalar, lanes));
}

// Word number `number` of a panel whose rows have `words`.
static LLVMValueRef split(bd_gen *g, LLVMValueRef number, int words, LLVMValueRef *out_rest) {
  *out_rest = LLVMBuildURem(g->b, number, bd_gen_long(g, words), "");
  return LLVMBuildUDiv(g->b, number, bd_gen_long(g, words), "");
}

// A panel of `scalar` that is filled or emptied: words of `lanes` elements.
typedef struct filling {
  const bd_rows *rows;
  loader load; // filled
  LLVMTypeRef scalar;
  LLVMValueRef from, panel;
  int words_of_row, lanes, stride;
} filling;

// Runs `body` for each of the panel's words, which the block's threads take in turn.
static void each_word(bd_gen *g, const filling *f, int words,
                      void (*body)(bd_gen *, const filling *, LLVMValueRef number)) {
  if (words % g->threads == 0 && words <= MOST_COPIES * g->threads) {
    for (int i = 0; i < words / g->threads; i++)
      body(g, f, bd_panel_plus(g, g->thread, (int64_t)i * g->threads));
    return;
  }
  bool rolled = g->rolled;
  bd_gen_for each =
      bd_gen_for_begin(g, g->thread, bd_gen_long(g, words), bd_gen_long(g, g->threads));
  body(g, f, each.index);
  g->rolled = true;
  bd_gen_for_end(g, &each);
  g->rolled = rolled;
}

static void put(bd_gen *g, const filling *f, LLVMValueRef number) {
  LLVMValueRef column, row = split(g, number, f->words_of_row, &column);
  column = bd_panel_times(g, column, f->lanes);
  LLVMValueRef from = bd_panel_add(g, f->from, column);
  LLVMValueRef value = load_or_zero(g, f->rows, f->load, row, from, f->lanes);
  LLVMValueRef to = bd_panel_add(g, bd_panel_times(g, row, f->stride), column);
  bd_panel_store(g, f->scalar, f->panel, to, value, f->lanes);
}

void bd_panel_fill(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width, LLVMValueRef panel,
                   int stride) {
  int lanes = bd_rows_lanes(rows, WIDE) == WIDE ? WIDE : 1;
  filling f = {rows, bd_rows_load, bd_gen_f32(g), from, panel, width / lanes, lanes, stride};
  each_word(g, &f, BD_TILE * f.words_of_row, put);
}

void bd_panel_fill_halves(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride) {
  LLVMTypeRef half = LLVMInt16TypeInContext(g->llvm);
  int lanes = bd_rows_lanes(rows, WIDEST);
  filling f = {rows, load_bits, half, from, panel, width / lanes, lanes, stride};
  each_word(g, &f, BD_TILE * f.words_of_row, put);
}

static LLVMValueRef bits_at(bd_gen *g, LLVMValueRef bits, int lane) {
  if (LLVMGetTypeKind(LLVMTypeOf(bits)) == LLVMVectorTypeKind)
    bits =
        LLVMBuildExtractElement(g->b, bits, LLVMConstInt(bd_gen_i32(g), (unsigned)lane, false), "");
  return LLVMBuildZExt(g->b, bits, bd_gen_i32(g), "");
}

enum { PAIRS = BD_TILE / 2 }; // of rows

// A thread takes two rows, so that it stores whole words, beside those of its neighbours.
static void put_turned(bd_gen *g, const filling *f, LLVMValueRef number) {
  LLVMValueRef pair, column = bd_panel_times(g, split(g, number, PAIRS, &pair), f->lanes);
  LLVMValueRef row = bd_panel_times(g, pair, 2), bits[2];
  for (int k = 0; k < 2; k++)
    bits[k] = load_or_zero(g, f->rows, f->load, bd_panel_plus(g, row, k),
                           bd_panel_add(g, f->from, column), f->lanes);
  for (int e = 0; e < f->lanes; e++) {
    LLVMValueRef upper = bits_at(g, bits[1], e);
    upper = LLVMBuildShl(g->b, upper, bd_gen_int_like(upper, 16), "");
    LLVMValueRef word = LLVMBuildOr(g->b, bits_at(g, bits[0], e), upper, "");
    LLVMValueRef at = bd_panel_times(g, bd_panel_plus(g, column, e), f->stride / 2);
    bd_panel_store(g, f->scalar, f->panel, bd_panel_add(g, at, pair), word, 1);
  }
}

void bd_panel_fill_turned(bd_gen *g, const bd_rows *rows, LLVMValueRef from, int width,
                          LLVMValueRef panel, int stride) {
  int lanes = bd_rows_lanes(rows, WIDEST);
  filling f = {rows, load_bits, bd_gen_i32(g), from, panel, width / lanes, lanes, stride};
  each_word(g, &f, PAIRS * f.words_of_row, put_turned);
}

static void take(bd_gen *g, const filling *f, LLVMValueRef number) {
  const bd_rows *rows = f->rows;
  LLVMValueRef column, row = split(g, number, f->words_of_row, &column);
  column = bd_panel_times(g, column, f->lanes);
  LLVMValueRef to = bd_panel_add(g, f->from, column);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, row, rows->count, "");
  LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntSLT, to, bd_gen_long(g, rows->width), "");
  bd_gen_if branch = bd_gen_if_begin(g, LLVMBuildAnd(g->b, there, inside, ""));
  LLVMValueRef at = bd_panel_add(g, bd_panel_times(g, row, f->stride), column);
  LLVMValueRef value = bd_panel_load(g, f->scalar, f->panel, at, f->lanes);
  to = bd_rows_address(g, rows, row, to);
  if (rows->accumulate) value = bd_gen_plus(g, bd_rows_load(g, rows, to, f->lanes), value);
  LLVMValueRef store = LLVMBuildStore(g->b, bd_gen_narrow(g, rows->dtype, value), to);
  LLVMSetAlignment(store, (unsigned)(f->lanes * bd_dtype_bytes(rows->dtype)));
  bd_gen_if_end(g, &branch);
}

void bd_panel_empty(bd_gen *g, LLVMValueRef panel, int stride, const bd_rows *rows, int64_t from,
                    int width) {
  int lanes = bd_rows_lanes(rows, (int)(BD_GEN_ALIGNED / bd_dtype_bytes(rows->dtype)));
  int words = width / lanes;
  filling f = {rows, NULL, bd_gen_f32(g), bd_gen_long(g, from), panel, words, lanes, stride};
  each_word(g, &f, BD_TILE * words, take);
}
