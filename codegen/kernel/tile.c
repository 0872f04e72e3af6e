#include "codegen/kernel/tile.h"
#include "codegen/kernel/tensor.h"
#include <assert.h>

enum {
  SIDE = 16,               // of the grid of threads
  OWN = BD_TILE / SIDE,    // rows, and columns, of a thread
  STEP = 32,               // of the summed index, per panel of a product
  PANEL_STRIDE = STEP + 4, // so that 8 threads' 16-byte words lie in different banks
  WEIGHT_STRIDE = BD_TILE + 4,
  WIDE = 4, // elements of a load from shared memory
  // On tensor cores:
  TENSOR_STEP = 64,
  TENSOR_STRIDE = TENSOR_STEP + 8, // halves: 8 rows of 4 threads' words lie in different banks
  PAIR = BD_TENSOR_PAIR,
  // Of a strip that is stored: columns that the memory of a product's panels holds in f32.
  STORED = 64,
  STORED_STRIDE = STORED + 8, // 4 rows of 4 threads' pairs lie in different banks
};

_Static_assert(2 * PANEL_STRIDE >= STORED_STRIDE, "what is stored has room");
_Static_assert(2 * TENSOR_STRIDE / 2 >= STORED_STRIDE, "what is stored has room");

bool bd_tiles_suit_tensor_cores(bd_dtype dtype, int64_t width) {
  return (dtype == BD_BF16 || dtype == BD_F16) && width <= BD_TILE_TENSOR_WIDTH;
}

static LLVMValueRef quotient(bd_gen *g, LLVMValueRef a, int64_t by) {
  return LLVMBuildUDiv(g->b, a, bd_gen_long(g, by), "");
}

static LLVMValueRef rest(bd_gen *g, LLVMValueRef a, int64_t by) {
  return LLVMBuildURem(g->b, a, bd_gen_long(g, by), "");
}

static bd_tiles open_tensor(bd_gen *g, bd_dtype dtype) {
  enum { WORDS = 2 * BD_TILE * TENSOR_STRIDE / 2 };
  LLVMValueRef lane = rest(g, g->thread, BD_GEN_LANES), warp = quotient(g, g->thread, BD_GEN_LANES);
  return (bd_tiles){.g = g,
                    .tensor = true,
                    .halves = dtype,
                    .rows = BD_TENSOR_OWN,
                    .columns = BD_TILE / BD_TENSOR_THREADS,
                    .beside = BD_TENSOR_THREADS,
                    .panels = bd_gen_shared(g, "panels", bd_gen_f32(g), WORDS),
                    .y = bd_panel_add(g, bd_panel_times(g, warp, BD_TENSOR_ROWS),
                                      quotient(g, lane, BD_TENSOR_THREADS)),
                    .x = rest(g, lane, BD_TENSOR_THREADS)};
}

bd_tiles bd_tiles_open(bd_gen *g, bd_dtype dtype) {
  if (g->threads == BD_TILE_TENSOR_THREADS) return open_tensor(g, dtype);
  assert(g->threads == SIDE * SIDE);
  return (bd_tiles){.g = g,
                    .rows = OWN,
                    .columns = OWN,
                    .beside = SIDE,
                    .panels = bd_gen_shared(g, "panels", bd_gen_f32(g), 2 * BD_TILE * PANEL_STRIDE),
                    .weights = bd_gen_shared(g, "weights", bd_gen_f32(g), BD_TILE * WEIGHT_STRIDE),
                    .y = quotient(g, g->thread, SIDE),
                    .x = rest(g, g->thread, SIDE)};
}

LLVMValueRef bd_tiles_row(bd_tiles *t, int own) {
  if (t->tensor) return bd_panel_plus(t->g, t->y, (int64_t)own * BD_TENSOR_APART);
  return bd_panel_plus(t->g, bd_panel_times(t->g, t->y, OWN), own);
}

LLVMValueRef bd_tiles_column(bd_tiles *t, int own) {
  if (!t->tensor) return bd_panel_plus(t->g, t->x, (int64_t)own * SIDE);
  return bd_panel_plus(t->g, bd_panel_times(t->g, t->x, PAIR),
                       own / PAIR * BD_TENSOR_COLUMNS + own % PAIR);
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

bd_square bd_square_create(bd_tiles *t) {
  bd_square square = {0};
  for (int i = 0; i < t->rows; i++)
    for (int j = 0; j < t->columns; j++)
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
  LLVMTypeRef f32 = bd_gen_f32(g);
  LLVMValueRef a[OWN], b[OWN];
  for (int i = 0; i < OWN; i++) {
    LLVMValueRef row = bd_panel_add(g, bd_panel_times(g, bd_tiles_row(t, i), PANEL_STRIDE), k);
    LLVMValueRef column =
        bd_panel_add(g, bd_panel_times(g, bd_tiles_column(t, i), PANEL_STRIDE), k);
    a[i] = bd_panel_load(g, f32, t->panels, row, WIDE);
    b[i] = bd_panel_load(g, f32, second, column, WIDE);
  }
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      LLVMValueRef sum = bd_square_get(t, square, i, j);
      for (int e = 0; e < WIDE; e++)
        sum = bd_gen_fma(g, element(g, a[i], e), element(g, b[j], e), sum);
      bd_square_set(t, square, i, j, sum);
    }
}

// The 16 rows of this thread's warp, i64.
static LLVMValueRef warp_row(bd_tiles *t) {
  return bd_panel_times(t->g, quotient(t->g, t->g->thread, BD_GEN_LANES), BD_TENSOR_ROWS);
}

// One step of 16 of the summed index, from both panels of halves.
static void multiply_halves(bd_tiles *t, const bd_square *square, LLVMValueRef second,
                            LLVMValueRef k) {
  bd_gen *g = t->g;
  LLVMValueRef a[4], b[2], sums[4];
  bd_tensor_left(g, t->panels, TENSOR_STRIDE, warp_row(t), k, a);
  for (int j = 0; j < t->columns; j += PAIR) {
    LLVMValueRef row = bd_gen_long(g, (int64_t)j / PAIR * BD_TENSOR_COLUMNS);
    bd_tensor_right(g, second, TENSOR_STRIDE, row, k, b);
    for (int i = 0; i < 4; i++)
      sums[i] = bd_square_get(t, square, i / PAIR, j + i % PAIR);
    bd_tensor_multiply(g, t->halves, a, b, sums);
    for (int i = 0; i < 4; i++)
      bd_square_set(t, square, i / PAIR, j + i % PAIR, sums[i]);
  }
}

void bd_square_product(bd_tiles *t, const bd_square *square, const bd_rows *a, const bd_rows *b) {
  bd_gen *g = t->g;
  assert(a->width == b->width);
  for (int i = 0; i < t->rows; i++)
    for (int j = 0; j < t->columns; j++)
      bd_square_set(t, square, i, j, LLVMConstNull(bd_gen_f32(g)));
  LLVMTypeRef scalar = t->tensor ? LLVMInt16TypeInContext(g->llvm) : bd_gen_f32(g);
  const int stride = t->tensor ? TENSOR_STRIDE : PANEL_STRIDE,
            step = t->tensor ? TENSOR_STEP : STEP, each = t->tensor ? BD_TENSOR_SUMMED : WIDE;
  LLVMValueRef second = bd_panel_at(g, scalar, t->panels, bd_gen_long(g, BD_TILE * stride));
  LLVMValueRef width = bd_gen_long(g, (a->width + each - 1) / each * each);
  bd_gen_for panel = bd_gen_for_begin(g, bd_gen_long(g, 0), width, bd_gen_long(g, step));
  bd_gen_barrier(g);
  void (*fill)(bd_gen *, const bd_rows *, LLVMValueRef, int, LLVMValueRef, int) =
      t->tensor ? bd_panel_fill_halves : bd_panel_fill;
  fill(g, a, panel.index, step, t->panels, stride);
  fill(g, b, panel.index, step, second, stride);
  bd_gen_barrier(g);
  LLVMValueRef left =
      bd_gen_smaller(g, LLVMBuildNSWSub(g->b, width, panel.index, ""), bd_gen_long(g, step));
  bd_gen_for steps = bd_gen_for_begin(g, bd_gen_long(g, 0), left, bd_gen_long(g, each));
  (t->tensor ? multiply_halves : multiply_panels)(t, square, second, steps.index);
  bd_gen_for_end(g, &steps);
  bd_gen_for_end(g, &panel);
}

LLVMValueRef bd_square_shared(bd_tiles *t, LLVMValueRef row, LLVMValueRef column) {
  bd_gen *g = t->g;
  LLVMValueRef at = bd_panel_add(g, bd_panel_times(g, row, WEIGHT_STRIDE), column);
  return bd_panel_at(g, bd_gen_f32(g), t->weights, at);
}

// Copies the square to shared memory, as the weights of a strip's rows.
static void share(bd_tiles *t, const bd_square *square) {
  for (int i = 0; i < t->rows; i++)
    for (int j = 0; j < t->columns; j++) {
      LLVMValueRef at = bd_square_shared(t, bd_tiles_row(t, i), bd_tiles_column(t, j));
      LLVMSetAlignment(LLVMBuildStore(t->g->b, bd_square_get(t, square, i, j), at), 4);
    }
}

void bd_square_share(bd_tiles *t, const bd_square *square) {
  if (!t->weights)
    t->weights = bd_gen_shared(t->g, "weights", bd_gen_f32(t->g), BD_TILE * WEIGHT_STRIDE);
  bd_gen_barrier(t->g);
  share(t, square);
  bd_gen_barrier(t->g);
}

LLVMValueRef bd_tiles_join(bd_tiles *t, LLVMValueRef value,
                           LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  for (int distance = t->beside / 2; distance; distance /= 2)
    value = join(t->g, value, bd_gen_from_lane(t->g, value, distance));
  return value;
}

bd_strip bd_strip_create(bd_tiles *t, int64_t width) {
  bd_strip strip = {0};
  for (int64_t from = 0; from < width; strip.parts++) {
    assert(strip.parts < BD_TILE_MAX_PARTS);
    int64_t left = width - from;
    int lanes = t->tensor ? PAIR : left > 2 * SIDE ? 4 : left > SIDE ? 2 : 1;
    strip.lanes[strip.parts] = lanes;
    strip.first[strip.parts] = from;
    for (int i = 0; i < t->rows; i++)
      strip.at[i][strip.parts] = bd_gen_variable(t->g, floats(t->g, lanes));
    from += lanes * t->beside;
  }
  return strip;
}

static LLVMValueRef strip_get(bd_gen *g, const bd_strip *strip, int row, int part) {
  return LLVMBuildLoad2(g->b, floats(g, strip->lanes[part]), strip->at[row][part], "");
}

void bd_strip_clear(bd_tiles *t, const bd_strip *strip) {
  for (int i = 0; i < t->rows; i++)
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
  return lanes * SIDE + 4;
}

// One step of 4 of the summed index.
static void add_weighted(bd_tiles *t, const bd_strip *strip, int part, LLVMValueRef c) {
  bd_gen *g = t->g;
  LLVMTypeRef f32 = bd_gen_f32(g);
  int lanes = strip->lanes[part];
  LLVMValueRef weight[OWN], x = bd_panel_times(g, t->x, lanes);
  for (int i = 0; i < OWN; i++) {
    LLVMValueRef at = bd_panel_add(g, bd_panel_times(g, bd_tiles_row(t, i), WEIGHT_STRIDE), c);
    weight[i] = bd_panel_load(g, f32, t->weights, at, WIDE);
  }
  for (int e = 0; e < WIDE; e++) {
    LLVMValueRef row = bd_panel_times(g, bd_panel_plus(g, c, e), part_stride(lanes));
    LLVMValueRef b = bd_panel_load(g, f32, t->panels, bd_panel_add(g, row, x), lanes);
    for (int i = 0; i < OWN; i++) {
      LLVMValueRef sum = strip_get(g, strip, i, part);
      sum = bd_gen_fma(g, spread(g, element(g, weight[i], e), lanes), b, sum);
      LLVMBuildStore(g->b, sum, strip->at[i][part]);
    }
  }
}

static void add_plain(bd_tiles *t, const bd_strip *strip, const bd_square *square,
                      const bd_rows *b) {
  bd_gen *g = t->g;
  for (int p = 0; p < strip->parts; p++) {
    int lanes = strip->lanes[p];
    bd_gen_barrier(g);
    if (p == 0) share(t, square);
    bd_panel_fill(g, b, bd_gen_long(g, strip->first[p]), lanes * SIDE, t->panels,
                  part_stride(lanes));
    bd_gen_barrier(g);
    bd_gen_for step =
        bd_gen_for_begin(g, bd_gen_long(g, 0), bd_gen_long(g, BD_TILE), bd_gen_long(g, WIDE));
    add_weighted(t, strip, p, step.index);
    bd_gen_for_end(g, &step);
  }
}

// Of a square's 16 columns from `first` on, which lie in registers as the first operand of a
// product does.
static void square_words(bd_tiles *t, const bd_square *square, int first, LLVMValueRef words[4]) {
  for (int i = 0; i < 4; i++) {
    int column = first / BD_TENSOR_THREADS + i / 2 * PAIR;
    LLVMValueRef one = bd_square_get(t, square, i % 2, column);
    LLVMValueRef other = bd_square_get(t, square, i % 2, column + 1);
    words[i] = bd_tensor_pair(t->g, t->halves, one, other);
  }
}

static void add_halves(bd_tiles *t, const bd_strip *strip, int part, LLVMValueRef words[4],
                       int first, int64_t column) {
  bd_gen *g = t->g;
  LLVMTypeRef f32 = bd_gen_f32(g);
  LLVMValueRef b[2], sums[4];
  bd_tensor_right(g, t->panels, TENSOR_STRIDE, bd_gen_long(g, column), bd_gen_long(g, first), b);
  for (int i = 0; i < 4; i++)
    sums[i] = element(g, strip_get(g, strip, i / PAIR, part), i % PAIR);
  bd_tensor_multiply(g, t->halves, words, b, sums);
  for (int i = 0; i < PAIR; i++) {
    LLVMValueRef both = LLVMGetPoison(LLVMVectorType(f32, PAIR));
    for (unsigned e = 0; e < PAIR; e++)
      both = LLVMBuildInsertElement(g->b, both, sums[i * PAIR + (int)e],
                                    LLVMConstInt(bd_gen_i32(g), e, false), "");
    LLVMBuildStore(g->b, both, strip->at[i][part]);
  }
}

static void add_on_tensor_cores(bd_tiles *t, const bd_strip *strip, const bd_square *square,
                                const bd_rows *b) {
  enum { PARTS = TENSOR_STEP / BD_TENSOR_COLUMNS }; // of a panel
  bd_gen *g = t->g;
  for (int from = 0; from < strip->parts; from += PARTS) {
    bd_gen_barrier(g);
    bd_panel_fill_turned(g, b, bd_gen_long(g, strip->first[from]), TENSOR_STEP, t->panels,
                         TENSOR_STRIDE);
    bd_gen_barrier(g);
    for (int first = 0; first < BD_TILE; first += BD_TENSOR_SUMMED) {
      LLVMValueRef words[4];
      square_words(t, square, first, words);
      for (int p = from; p < strip->parts && p < from + PARTS; p++)
        add_halves(t, strip, p, words, first, strip->first[p] - strip->first[from]);
    }
  }
}

void bd_strip_add(bd_tiles *t, const bd_strip *strip, const bd_square *square, const bd_rows *b) {
  (t->tensor ? add_on_tensor_cores : add_plain)(t, strip, square, b);
}

// What this thread holds of parts [first, last) to shared memory, whose rows begin with the first.
static void share_parts(bd_tiles *t, const bd_strip *strip, int first, int last) {
  bd_gen *g = t->g;
  for (int i = 0; i < t->rows; i++)
    for (int p = first; p < last; p++) {
      int lanes = strip->lanes[p];
      LLVMValueRef at = bd_panel_times(g, bd_tiles_row(t, i), STORED_STRIDE);
      at = bd_panel_add(g, at, bd_panel_times(g, t->x, lanes));
      at = bd_panel_plus(g, at, strip->first[p] - strip->first[first]);
      bd_panel_store(g, bd_gen_f32(g), t->panels, at, strip_get(g, strip, i, p), lanes);
    }
}

void bd_strip_store(bd_tiles *t, const bd_strip *strip, const bd_rows *out) {
  bd_gen *g = t->g;
  for (int first = 0, last; first < strip->parts; first = last) {
    int width = 0;
    for (last = first; last < strip->parts; last++) {
      int more = strip->lanes[last] * t->beside;
      if (width + more > STORED) break;
      width += more;
    }
    bd_gen_barrier(g);
    share_parts(t, strip, first, last);
    bd_gen_barrier(g);
    bd_panel_empty(g, t->panels, STORED_STRIDE, out, strip->first[first], width);
  }
}
