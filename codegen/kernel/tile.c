#include "codegen/kernel/tile.h"
#include <assert.h>

enum {
  STEP = 32,               // of the summed index, per panel of a product
  PANEL_STRIDE = STEP + 4, // so that 8 threads' 16-byte words lie in different banks
  WEIGHT_STRIDE = BD_TILE + 4,
  WIDE = 4, // elements of a load from memory, where rows allow, and of shared memory
};

bd_tiles bd_tiles_open(bd_gen *g) {
  assert(g->threads == BD_TILE_SIDE * BD_TILE_SIDE);
  LLVMValueRef side = bd_gen_long(g, BD_TILE_SIDE);
  return (bd_tiles){.g = g,
                    .panels = bd_gen_shared(g, "panels", bd_gen_f32(g), 2 * BD_TILE * PANEL_STRIDE),
                    .weights = bd_gen_shared(g, "weights", bd_gen_f32(g), BD_TILE * WEIGHT_STRIDE),
                    .y = LLVMBuildUDiv(g->b, g->thread, side, ""),
                    .x = LLVMBuildURem(g->b, g->thread, side, "")};
}

static LLVMValueRef add(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(g->b, a, b, "");
}

static LLVMValueRef times(bd_gen *g, LLVMValueRef a, int64_t factor) {
  return LLVMBuildNSWMul(g->b, a, bd_gen_long(g, factor), "");
}

static LLVMValueRef plus(bd_gen *g, LLVMValueRef a, int64_t addend) {
  return add(g, a, bd_gen_long(g, addend));
}

LLVMValueRef bd_tiles_row(bd_tiles *t, int own) {
  return plus(t->g, times(t->g, t->y, BD_TILE_OWN), own);
}

LLVMValueRef bd_tiles_column(bd_tiles *t, int own) {
  return plus(t->g, t->x, (int64_t)own * BD_TILE_SIDE);
}

static LLVMTypeRef floats(bd_gen *g, int lanes) {
  return lanes == 1 ? bd_gen_f32(g) : LLVMVectorType(bd_gen_f32(g), (unsigned)lanes);
}

static LLVMValueRef element(bd_gen *g, LLVMValueRef vector, int lane) {
  if (LLVMGetTypeKind(LLVMTypeOf(vector)) != LLVMVectorTypeKind) return vector;
  return LLVMBuildExtractElement(g->b, vector, LLVMConstInt(bd_gen_i32(g), (unsigned)lane, false),
                                 "");
}

static LLVMValueRef spread(bd_gen *g, LLVMValueRef scalar, int lanes) {
  if (lanes == 1) return scalar;
  LLVMValueRef vector = LLVMGetPoison(floats(g, lanes));
  for (int i = 0; i < lanes; i++)
    vector = LLVMBuildInsertElement(g->b, vector, scalar,
                                    LLVMConstInt(bd_gen_i32(g), (unsigned)i, false), "");
  return vector;
}

// Shared memory, at an index in floats that is a multiple of `lanes`.
static LLVMValueRef shared_at(bd_gen *g, LLVMValueRef memory, LLVMValueRef index) {
  return LLVMBuildGEP2(g->b, bd_gen_f32(g), memory, &index, 1, "");
}

static LLVMValueRef shared_load(bd_gen *g, LLVMValueRef memory, LLVMValueRef index, int lanes) {
  LLVMValueRef value = LLVMBuildLoad2(g->b, floats(g, lanes), shared_at(g, memory, index), "");
  LLVMSetAlignment(value, (unsigned)lanes * 4);
  return value;
}

static void shared_store(bd_gen *g, LLVMValueRef memory, LLVMValueRef index, LLVMValueRef value,
                         int lanes) {
  LLVMValueRef store = LLVMBuildStore(g->b, value, shared_at(g, memory, index));
  LLVMSetAlignment(store, (unsigned)lanes * 4);
}

static LLVMTypeRef stored_type(bd_gen *g, const bd_rows *rows, int lanes) {
  LLVMTypeRef scalar = bd_gen_dtype(g, rows->dtype);
  return lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes);
}

static LLVMValueRef address(bd_gen *g, const bd_rows *rows, LLVMValueRef row, LLVMValueRef column) {
  LLVMValueRef offset = add(g, times(g, row, rows->stride), column);
  return LLVMBuildGEP2(g->b, bd_gen_dtype(g, rows->dtype), rows->base, &offset, 1, "");
}

static LLVMValueRef load(bd_gen *g, const bd_rows *rows, LLVMValueRef at, int lanes) {
  LLVMValueRef value = LLVMBuildLoad2(g->b, stored_type(g, rows, lanes), at, "");
  LLVMSetAlignment(value, (unsigned)(lanes * bd_dtype_bytes(rows->dtype)));
  return bd_gen_widen(g, rows->dtype, value);
}

// Elements from `column` of a row; zeros where there are none, read from the first element instead.
static LLVMValueRef load_or_zero(bd_gen *g, const bd_rows *rows, LLVMValueRef row,
                                 LLVMValueRef column, int lanes) {
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, row, rows->count, "");
  LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntSLT, column, bd_gen_long(g, rows->width), "");
  there = LLVMBuildAnd(g->b, there, inside, "");
  LLVMValueRef at = LLVMBuildSelect(g->b, there, address(g, rows, row, column), rows->base, "");
  LLVMValueRef value = load(g, rows, at, lanes);
  return LLVMBuildSelect(g->b, there, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

static int load_width(const bd_rows *rows) {
  return rows->width % WIDE == 0 && rows->stride % WIDE == 0 ? WIDE : 1;
}

// Columns [from, from + width) of the 64 rows to shared memory at `panel`, f32.
static void fill_panel(bd_tiles *t, const bd_rows *rows, LLVMValueRef from, int width,
                       LLVMValueRef panel, int stride) {
  bd_gen *g = t->g;
  int lanes = load_width(rows), words = width / lanes;
  for (int i = 0; i < BD_TILE * words / g->threads; i++) {
    LLVMValueRef number = plus(g, g->thread, (int64_t)i * g->threads);
    LLVMValueRef row = LLVMBuildUDiv(g->b, number, bd_gen_long(g, words), "");
    LLVMValueRef column = LLVMBuildURem(g->b, number, bd_gen_long(g, words), "");
    column = times(g, column, lanes);
    LLVMValueRef value = load_or_zero(g, rows, row, add(g, from, column), lanes);
    shared_store(g, panel, add(g, times(g, row, stride), column), value, lanes);
  }
}

bd_square bd_square_create(bd_tiles *t) {
  bd_square square;
  for (int i = 0; i < BD_TILE_OWN; i++)
    for (int j = 0; j < BD_TILE_OWN; j++)
      square.at[i][j] = bd_gen_variable(t->g, bd_gen_f32(t->g));
  return square;
}

LLVMValueRef bd_square_get(bd_tiles *t, const bd_square *square, int row, int column) {
  return LLVMBuildLoad2(t->g->b, bd_gen_f32(t->g), square->at[row][column], "");
}

void bd_square_set(bd_tiles *t, const bd_square *square, int row, int column, LLVMValueRef value) {
  LLVMBuildStore(t->g->b, value, square->at[row][column]);
}

// One step of 4 of the summed index, from both panels.
static void multiply_panels(bd_tiles *t, const bd_square *square, LLVMValueRef second,
                            LLVMValueRef k) {
  bd_gen *g = t->g;
  LLVMValueRef a[BD_TILE_OWN], b[BD_TILE_OWN];
  for (int i = 0; i < BD_TILE_OWN; i++) {
    LLVMValueRef row = add(g, times(g, bd_tiles_row(t, i), PANEL_STRIDE), k);
    LLVMValueRef column = add(g, times(g, bd_tiles_column(t, i), PANEL_STRIDE), k);
    a[i] = shared_load(g, t->panels, row, WIDE);
    b[i] = shared_load(g, second, column, WIDE);
  }
  for (int i = 0; i < BD_TILE_OWN; i++)
    for (int j = 0; j < BD_TILE_OWN; j++) {
      LLVMValueRef sum = bd_square_get(t, square, i, j);
      for (int e = 0; e < WIDE; e++)
        sum = bd_gen_fma(g, element(g, a[i], e), element(g, b[j], e), sum);
      bd_square_set(t, square, i, j, sum);
    }
}

void bd_square_product(bd_tiles *t, const bd_square *square, const bd_rows *a, const bd_rows *b) {
  bd_gen *g = t->g;
  assert(a->width == b->width);
  for (int i = 0; i < BD_TILE_OWN; i++)
    for (int j = 0; j < BD_TILE_OWN; j++)
      bd_square_set(t, square, i, j, LLVMConstNull(bd_gen_f32(g)));
  LLVMValueRef second = shared_at(g, t->panels, bd_gen_long(g, BD_TILE * PANEL_STRIDE));
  int64_t width = (a->width + WIDE - 1) / WIDE * WIDE;
  bd_gen_for panel =
      bd_gen_for_begin(g, bd_gen_long(g, 0), bd_gen_long(g, width), bd_gen_long(g, STEP));
  bd_gen_barrier(g);
  fill_panel(t, a, panel.index, STEP, t->panels, PANEL_STRIDE);
  fill_panel(t, b, panel.index, STEP, second, PANEL_STRIDE);
  bd_gen_barrier(g);
  LLVMValueRef left = LLVMBuildNSWSub(g->b, bd_gen_long(g, width), panel.index, "");
  LLVMValueRef full = LLVMBuildICmp(g->b, LLVMIntSGT, left, bd_gen_long(g, STEP), "");
  left = LLVMBuildSelect(g->b, full, bd_gen_long(g, STEP), left, "");
  bd_gen_for step = bd_gen_for_begin(g, bd_gen_long(g, 0), left, bd_gen_long(g, WIDE));
  multiply_panels(t, square, second, step.index);
  bd_gen_for_end(g, &step);
  bd_gen_for_end(g, &panel);
}

void bd_square_share(bd_tiles *t, const bd_square *square) {
  bd_gen *g = t->g;
  for (int i = 0; i < BD_TILE_OWN; i++)
    for (int j = 0; j < BD_TILE_OWN; j++) {
      LLVMValueRef at = times(g, bd_tiles_row(t, i), WEIGHT_STRIDE);
      at = add(g, at, bd_tiles_column(t, j));
      shared_store(g, t->weights, at, bd_square_get(t, square, i, j), 1);
    }
}

LLVMValueRef bd_tiles_join(bd_tiles *t, LLVMValueRef value,
                           LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  for (int distance = BD_TILE_SIDE / 2; distance; distance /= 2)
    value = join(t->g, value, bd_gen_from_lane(t->g, value, distance));
  return value;
}

bd_strip bd_strip_create(bd_tiles *t, int64_t width) {
  bd_strip strip = {0};
  for (int64_t from = 0; from < width; strip.parts++) {
    assert(strip.parts < BD_TILE_MAX_PARTS);
    int64_t left = width - from;
    int lanes = left > 2 * BD_TILE_SIDE ? 4 : left > BD_TILE_SIDE ? 2 : 1;
    strip.lanes[strip.parts] = lanes;
    strip.first[strip.parts] = from;
    for (int i = 0; i < BD_TILE_OWN; i++)
      strip.at[i][strip.parts] = bd_gen_variable(t->g, floats(t->g, lanes));
    from += lanes * BD_TILE_SIDE;
  }
  return strip;
}

static LLVMValueRef strip_get(bd_gen *g, const bd_strip *strip, int row, int part) {
  return LLVMBuildLoad2(g->b, floats(g, strip->lanes[part]), strip->at[row][part], "");
}

void bd_strip_clear(bd_tiles *t, const bd_strip *strip) {
  for (int i = 0; i < BD_TILE_OWN; i++)
    for (int p = 0; p < strip->parts; p++)
      LLVMBuildStore(t->g->b, LLVMConstNull(floats(t->g, strip->lanes[p])), strip->at[i][p]);
}

void bd_strip_scale(bd_tiles *t, const bd_strip *strip, int row, LLVMValueRef factor) {
  bd_gen *g = t->g;
  for (int p = 0; p < strip->parts; p++) {
    LLVMValueRef value = strip_get(g, strip, row, p);
    value = LLVMBuildFMul(g->b, value, spread(g, factor, strip->lanes[p]), "");
    LLVMBuildStore(g->b, value, strip->at[row][p]);
  }
}

// A part's panel: rows of the strip's operand, with room between them against bank conflicts.
static int part_stride(int lanes) {
  return lanes * BD_TILE_SIDE + 4;
}

// One step of 4 of the summed index.
static void add_weighted(bd_tiles *t, const bd_strip *strip, int part, LLVMValueRef c) {
  bd_gen *g = t->g;
  int lanes = strip->lanes[part];
  LLVMValueRef weight[BD_TILE_OWN], x = times(g, t->x, lanes);
  for (int i = 0; i < BD_TILE_OWN; i++)
    weight[i] =
        shared_load(g, t->weights, add(g, times(g, bd_tiles_row(t, i), WEIGHT_STRIDE), c), WIDE);
  for (int e = 0; e < WIDE; e++) {
    LLVMValueRef row = times(g, plus(g, c, e), part_stride(lanes));
    LLVMValueRef b = shared_load(g, t->panels, add(g, row, x), lanes);
    for (int i = 0; i < BD_TILE_OWN; i++) {
      LLVMValueRef sum = strip_get(g, strip, i, part);
      sum = bd_gen_fma(g, spread(g, element(g, weight[i], e), lanes), b, sum);
      LLVMBuildStore(g->b, sum, strip->at[i][part]);
    }
  }
}

void bd_strip_add(bd_tiles *t, const bd_strip *strip, const bd_rows *b) {
  bd_gen *g = t->g;
  for (int p = 0; p < strip->parts; p++) {
    int lanes = strip->lanes[p];
    bd_gen_barrier(g);
    fill_panel(t, b, bd_gen_long(g, strip->first[p]), lanes * BD_TILE_SIDE, t->panels,
               part_stride(lanes));
    bd_gen_barrier(g);
    bd_gen_for step =
        bd_gen_for_begin(g, bd_gen_long(g, 0), bd_gen_long(g, BD_TILE), bd_gen_long(g, WIDE));
    add_weighted(t, strip, p, step.index);
    bd_gen_for_end(g, &step);
  }
}

static void store(bd_gen *g, const bd_rows *out, LLVMValueRef row, LLVMValueRef column,
                  LLVMValueRef value, int lanes) {
  LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntSLT, column, bd_gen_long(g, out->width), "");
  bd_gen_if branch = bd_gen_if_begin(g, inside);
  LLVMValueRef at = address(g, out, row, column);
  if (out->accumulate) value = LLVMBuildFAdd(g->b, load(g, out, at, lanes), value, "");
  LLVMValueRef store = LLVMBuildStore(g->b, bd_gen_narrow(g, out->dtype, value), at);
  LLVMSetAlignment(store, (unsigned)(lanes * bd_dtype_bytes(out->dtype)));
  bd_gen_if_end(g, &branch);
}

void bd_strip_store(bd_tiles *t, const bd_strip *strip, const bd_rows *out) {
  bd_gen *g = t->g;
  for (int i = 0; i < BD_TILE_OWN; i++) {
    LLVMValueRef row = bd_tiles_row(t, i);
    bd_gen_if there = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntSLT, row, out->count, ""));
    for (int p = 0; p < strip->parts; p++) {
      int lanes = strip->lanes[p];
      LLVMValueRef value = strip_get(g, strip, i, p);
      LLVMValueRef column = plus(g, times(g, t->x, lanes), strip->first[p]);
      if (load_width(out) % lanes == 0) {
        store(g, out, row, column, value, lanes);
        continue;
      }
      for (int e = 0; e < lanes; e++)
        store(g, out, row, plus(g, column, e), element(g, value, e), 1);
    }
    bd_gen_if_end(g, &there);
  }
}
