// Dropout in lanes. Four elements in a row share a block of random words: lanes in a row draw the
// blocks that they meet, others one each, of which they take a word.
#include "codegen/kernel/pointwise.h"

enum { WORDS = 4 }; // of a block

// Whether a loop's first index on this rank, times a stride, is a multiple of four: parts of a
// split loop begin at multiples of their extent.
static bool begins_even(const bd_gen *g, int loop, int64_t stride) {
  return !g->loop[loop].split || g->loop[loop].extent * stride % WORDS == 0;
}

// Whether lanes in a row begin where a block does. They begin at a multiple of their number in the
// part of the row or, where packs lie unevenly in rows, in what tells where they begin.
static bool begin_with_block(const bd_gen *g, const bd_access *number) {
  bool begin = begins_even(g, g->lane_loop, 1);
  for (int i = 0; i < g->loops; i++) {
    int64_t stride = number->stride[i], along = g->uneven ? g->uneven->stride[i] : 0;
    if (i != g->lane_loop) begin &= (stride - along) % WORDS == 0 && begins_even(g, i, stride);
  }
  return begin;
}

static LLVMValueRef constant(bd_gen *g, int i) {
  return LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
}

static LLVMValueRef first_lane(bd_gen *g, LLVMValueRef lanes) {
  return LLVMBuildExtractElement(g->b, lanes, constant(g, 0), "");
}

// `count` numbers from `first` on.
static LLVMValueRef count_up(bd_gen *g, LLVMValueRef first, int count) {
  LLVMValueRef steps[BD_GEN_LANES];
  for (int i = 0; i < count; i++)
    steps[i] = bd_gen_long(g, i);
  if (count == 1) return first;
  LLVMValueRef all = LLVMConstVector(steps, (unsigned)count);
  return LLVMBuildAdd(g->b, bd_gen_splat_like(g, all, first), all, "");
}

static LLVMValueRef shuffle(bd_gen *g, LLVMValueRef a, LLVMValueRef b, int count, const int *from) {
  LLVMValueRef lanes[BD_GEN_LANES];
  for (int i = 0; i < count; i++)
    lanes[i] = constant(g, from[i]);
  return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(lanes, (unsigned)count), "");
}

// Runs of `run` lanes of a and of b in turn, which have `count` each.
static LLVMValueRef in_turn(bd_gen *g, LLVMValueRef a, LLVMValueRef b, int count, int run) {
  int from[BD_GEN_LANES];
  for (int i = 0; i < 2 * count; i++)
    from[i] = i / (2 * run) * run + i % run + (i / run % 2 ? count : 0);
  return shuffle(g, a, b, 2 * count, from);
}

// The words of `blocks` blocks, each block's side by side.
static LLVMValueRef side_by_side(bd_gen *g, LLVMValueRef words[WORDS], int blocks) {
  if (blocks > 1) {
    LLVMValueRef even = in_turn(g, words[0], words[1], blocks, 1);
    return in_turn(g, even, in_turn(g, words[2], words[3], blocks, 1), 2 * blocks, 2);
  }
  LLVMValueRef all = LLVMGetPoison(LLVMVectorType(bd_gen_i32(g), WORDS));
  for (int i = 0; i < WORDS; i++)
    all = LLVMBuildInsertElement(g->b, all, words[i], constant(g, i), "");
  return all;
}

// As many words as there are lanes, from the word of element `first` on.
static LLVMValueRef from_word(bd_gen *g, LLVMValueRef all, LLVMValueRef first) {
  LLVMValueRef from_each[WORDS];
  for (int i = 0; i < WORDS; i++) {
    int from[BD_GEN_LANES];
    for (int lane = 0; lane < g->lanes; lane++)
      from[lane] = i + lane;
    from_each[i] = shuffle(g, all, LLVMGetPoison(LLVMTypeOf(all)), g->lanes, from);
  }
  return bd_gen_choose_word(g, from_each, first);
}

static LLVMValueRef block_of(bd_gen *g, LLVMValueRef element) {
  return LLVMBuildLShr(g->b, element, bd_gen_int_like(element, 2), "");
}

// Words of lanes in a row.
static LLVMValueRef words_in_row(bd_gen *g, const bd_gen_site *site, const bd_access *number,
                                 LLVMValueRef sample, LLVMValueRef first) {
  bool even = begin_with_block(g, number);
  int blocks = g->lanes / WORDS + !even;
  LLVMValueRef words[WORDS], block = count_up(g, block_of(g, first), blocks);
  bd_gen_draw(g, site, bd_gen_splat_like(g, block, sample), block, words);
  LLVMValueRef all = side_by_side(g, words, blocks);
  return even ? all : from_word(g, all, first);
}

// The random word of each lane's element.
static LLVMValueRef word_of(bd_gen *g, const bd_gen_site *site, const bd_access *number,
                            LLVMValueRef sample, LLVMValueRef element) {
  if (g->lanes % WORDS == 0 && number->stride[g->lane_loop] == 1)
    return words_in_row(g, site, number, first_lane(g, sample), first_lane(g, element));
  LLVMValueRef words[WORDS];
  bd_gen_draw(g, site, sample, block_of(g, element), words);
  return bd_gen_choose_word(g, words, element);
}

LLVMValueRef bd_gen_dropout(bd_gen *g, const bd_gen_run *r, const bd_op *op, LLVMValueRef x) {
  double p = bd_op_real(op, "p", 0.0);
  LLVMValueRef element = bd_gen_splat(g, bd_gen_long(g, 0));
  for (int d = 1; d < r->rank; d++) {
    if (!r->number.stride[d]) continue;
    LLVMValueRef at = bd_gen_logical(g, d);
    at = LLVMBuildMul(g->b, at, bd_gen_int_like(at, r->number.stride[d]), "");
    element = LLVMBuildAdd(g->b, element, at, "");
  }
  LLVMValueRef sample = bd_gen_splat(g, bd_gen_first_sample(g));
  if (r->rank) sample = LLVMBuildAdd(g->b, sample, bd_gen_logical(g, 0), "");
  bd_gen_site site = bd_gen_site_open(g, (uint32_t)bd_op_int(op, "site", 0));
  LLVMValueRef drop = bd_gen_drops(g, word_of(g, &site, &r->number, sample, element), p);
  LLVMValueRef keep = bd_gen_splat_like(g, x, bd_gen_keep(g, 1.0 / (1.0 - p)));
  LLVMValueRef kept = LLVMBuildFMul(g->b, x, keep, "");
  return LLVMBuildSelect(g->b, drop, bd_gen_real(g, 0.0), kept, "");
}
