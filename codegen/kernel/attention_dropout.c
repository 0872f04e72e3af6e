// Dropout's masks of attention (docs/numerics.md). Queries and keys 8 apart share a block of random
// words. On tensor cores a thread's part of a square, of queries by keys or of keys by queries, is
// made of whole blocks: of 16 columns it has two, neighbours. Plain threads hold no two numbers of
// a block and take a word of each. What is kept of a part is bits of one register, drawn in rounds
// that are not unrolled, so that they take few registers.
#include "codegen/kernel/attention.h"
#include "codegen/kernel/tensor.h"

enum {
  ROUNDS = 4, // of a part: 16 columns on tensor cores, or a row
  PLAIN_COLUMNS = 4,
  WORDS = 4, // of a block
};

// A square whose masks are drawn.
typedef struct draw {
  bd_attention *a;
  bd_gen_site site;
  LLVMValueRef first_row, first_column, sample;
} draw;

// A query and a key of it.
typedef struct score {
  LLVMValueRef query, key;
} score;

// As a number of 31 bits, if those of blocks have so many.
static LLVMValueRef shortened(const bd_attention *a, LLVMValueRef i) {
  return a->few ? LLVMBuildTrunc(a->g->b, i, bd_gen_i32(a->g), "") : i;
}

static score score_of(const draw *d, LLVMValueRef row, LLVMValueRef column) {
  bd_gen *g = d->a->g;
  row = shortened(d->a, LLVMBuildNSWAdd(g->b, d->first_row, row, ""));
  column = shortened(d->a, LLVMBuildNSWAdd(g->b, d->first_column, column, ""));
  return d->a->turned ? (score){column, row} : (score){row, column};
}

// The place among blocks of a query or key: of 16 in a row, the last 8 share those of the first.
static LLVMValueRef place_of(bd_gen *g, LLVMValueRef i) {
  LLVMValueRef sixteens = LLVMBuildLShr(g->b, i, bd_gen_int_like(i, 4), "");
  LLVMValueRef rest = LLVMBuildAnd(g->b, i, bd_gen_int_like(i, 7), "");
  return LLVMBuildOr(g->b, LLVMBuildShl(g->b, sixteens, bd_gen_int_like(i, 3), ""), rest, "");
}

static int64_t places(int64_t count) {
  return (count + 15) / 16 * 8;
}

bool bd_attention_has_few_blocks(int64_t heads, int64_t queries, int64_t keys) {
  return places(queries) * places(keys) <= INT32_MAX / heads;
}

static void draw_block(const draw *d, score of, LLVMValueRef words[WORDS]) {
  bd_attention *a = d->a;
  bd_gen *g = a->g;
  LLVMValueRef head = shortened(a, LLVMBuildNSWAdd(g->b, a->first_head, a->head, ""));
  LLVMValueRef at = LLVMBuildMul(g->b, head, bd_gen_int_like(head, places(a->queries)), "");
  at = LLVMBuildAdd(g->b, at, place_of(g, of.query), "");
  at = LLVMBuildMul(g->b, at, bd_gen_int_like(at, places(a->tk)), "");
  at = LLVMBuildAdd(g->b, at, place_of(g, of.key), "");
  bd_gen_draw(g, &d->site, d->sample, LLVMBuildZExt(g->b, at, bd_gen_i64(g), ""), words);
}

// The number of a score's word in its block.
static LLVMValueRef word_number(bd_gen *g, score of) {
  LLVMValueRef query = LLVMBuildLShr(g->b, of.query, bd_gen_int_like(of.query, 2), "");
  LLVMValueRef key = LLVMBuildLShr(g->b, of.key, bd_gen_int_like(of.key, 3), "");
  query = LLVMBuildAnd(g->b, query, bd_gen_int_like(query, 2), "");
  return LLVMBuildOr(g->b, query, LLVMBuildAnd(g->b, key, bd_gen_int_like(key, 1), ""), "");
}

static LLVMValueRef with_bit(const draw *d, LLVMValueRef bits, int number, LLVMValueRef word) {
  bd_gen *g = d->a->g;
  LLVMValueRef bit = LLVMConstInt(bd_gen_i32(g), 1u << number, false);
  LLVMValueRef drop = bd_gen_drops(g, word, (double)d->a->dropout);
  bit = LLVMBuildSelect(g->b, drop, LLVMConstNull(bd_gen_i32(g)), bit, "");
  return LLVMBuildOr(g->b, bits, bit, "");
}

// Both blocks of 16 columns.
static LLVMValueRef draw_pair(const draw *d, LLVMValueRef round) {
  bd_gen *g = d->a->g;
  LLVMValueRef row = bd_tiles_row(&d->a->tiles, 0), words[WORDS];
  LLVMValueRef first = LLVMBuildNSWMul(g->b, round, bd_gen_long(g, 2 * BD_TENSOR_COLUMNS), "");
  LLVMValueRef bits = LLVMConstNull(bd_gen_i32(g));
  for (int i = 0; i < BD_TENSOR_PAIR; i++) {
    LLVMValueRef column = LLVMBuildNSWAdd(g->b, first, bd_tiles_column(&d->a->tiles, i), "");
    draw_block(d, score_of(d, row, column), words);
    for (int k = 0; k < WORDS; k++)
      bits = with_bit(d, bits, i * WORDS + k, words[k]);
  }
  return bits;
}

// A row of a plain thread.
static LLVMValueRef draw_row(const draw *d, LLVMValueRef round) {
  bd_gen *g = d->a->g;
  LLVMValueRef row = LLVMBuildNSWAdd(g->b, bd_tiles_row(&d->a->tiles, 0), round, "");
  LLVMValueRef bits = LLVMConstNull(bd_gen_i32(g)), words[WORDS];
  for (int i = 0; i < PLAIN_COLUMNS; i++) {
    score of = score_of(d, row, bd_tiles_column(&d->a->tiles, i));
    draw_block(d, of, words);
    bits = with_bit(d, bits, i, bd_gen_choose_word(g, words, word_number(g, of)));
  }
  return bits;
}

void bd_attention_draw(bd_attention *a, LLVMValueRef query, LLVMValueRef key, bool turned) {
  bd_gen *g = a->g;
  a->turned = turned;
  LLVMValueRef place = bd_attention_place(a, query);
  const int bits = a->tiles.tensor ? BD_TENSOR_PAIR * WORDS : PLAIN_COLUMNS;
  draw d = {.a = a,
            .site = bd_gen_site_open(g, a->site),
            .first_row = turned ? key : place,
            .first_column = turned ? place : key,
            .sample = LLVMBuildNSWAdd(g->b, a->first_sample, a->batch, "")};
  LLVMBuildStore(g->b, LLVMConstNull(bd_gen_i32(g)), a->kept);
  bd_gen_for rounds =
      bd_gen_for_begin(g, bd_gen_long(g, 0), bd_gen_long(g, ROUNDS), bd_gen_long(g, 1));
  LLVMValueRef kept = (a->tiles.tensor ? draw_pair : draw_row)(&d, rounds.index);
  LLVMValueRef shift = LLVMBuildTrunc(g->b, rounds.index, bd_gen_i32(g), "");
  kept = LLVMBuildShl(g->b, kept, LLVMBuildMul(g->b, shift, bd_gen_int_like(shift, bits), ""), "");
  LLVMValueRef before = LLVMBuildLoad2(g->b, bd_gen_i32(g), a->kept, "");
  LLVMBuildStore(g->b, LLVMBuildOr(g->b, before, kept, ""), a->kept);
  bool rolled = g->rolled;
  g->rolled = true;
  bd_gen_for_end(g, &rounds);
  g->rolled = rolled;
}

// The number of the bit.
static int bit_of(const bd_attention *a, int row, int column) {
  if (!a->tiles.tensor) return row * PLAIN_COLUMNS + column;
  int pair = column / (2 * BD_TENSOR_PAIR), other = column / BD_TENSOR_PAIR % 2;
  int word = a->turned ? other * 2 + row : row * 2 + other;
  return (pair * BD_TENSOR_PAIR + column % BD_TENSOR_PAIR) * WORDS + word;
}

LLVMValueRef bd_attention_kept(bd_attention *a, int row, int column) {
  bd_gen *g = a->g;
  LLVMValueRef kept = LLVMBuildLoad2(g->b, bd_gen_i32(g), a->kept, "");
  LLVMValueRef bit = LLVMConstInt(bd_gen_i32(g), 1u << bit_of(a, row, column), false);
  bit = LLVMBuildAnd(g->b, kept, bit, "");
  bit = LLVMBuildICmp(g->b, LLVMIntNE, bit, LLVMConstNull(bd_gen_i32(g)), "");
  return LLVMBuildSelect(g->b, bit, a->keep, bd_gen_real(g, 0.0), "");
}
