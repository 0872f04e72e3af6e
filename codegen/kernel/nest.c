// How work is laid out: items over chunks or warps, lanes along a loop, and sums along lanes.
#include "codegen/kernel/gen.h"
#include <assert.h>

static LLVMValueRef range_entry(bd_gen *g, LLVMValueRef range, int64_t entry) {
  LLVMValueRef at = bd_gen_long(g, entry);
  LLVMValueRef address = LLVMBuildGEP2(g->b, bd_gen_i64(g), range, &at, 1, "");
  return LLVMBuildLoad2(g->b, bd_gen_i64(g), address, "");
}

static LLVMValueRef count_of(bd_gen *g, LLVMValueRef range, const bd_gen_loop *loop) {
  if (!loop->split) return bd_gen_long(g, loop->extent);
  LLVMValueRef count = range_entry(g, range, 2 * loop->slot + 1);
  return LLVMBuildNSWMul(g->b, count, bd_gen_long(g, loop->scale), "");
}

int64_t bd_gen_work(const bd_gen *g, int count, const int *loops) {
  int64_t work = 1;
  for (int i = 0; i < count; i++)
    work *= g->loop[loops[i]].extent;
  return work;
}

static int64_t blocks_of(const bd_gen *g, const bd_gen_nest *nest) {
  if (!nest->block) return 1;
  int64_t extent = g->loop[nest->lane_loop].extent;
  return (extent + nest->block - 1) / nest->block;
}

LLVMValueRef bd_gen_item_count(bd_gen *g, LLVMValueRef range, const bd_gen_nest *nest) {
  LLVMValueRef items = bd_gen_long(g, blocks_of(g, nest));
  for (int i = 0; i < nest->outer_count; i++)
    items = LLVMBuildNSWMul(g->b, items, count_of(g, range, &g->loop[nest->outer[i]]), "");
  return items;
}

static void chunks_function(bd_gen *g, const bd_gen_nest *nest, int64_t per_chunk) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
  const char *name = bd_intern_f(g->ctx, "bdk_%d_chunks", g->number);
  LLVMTypeRef pointer = LLVMPointerTypeInContext(g->llvm, 0);
  LLVMTypeRef type = LLVMFunctionType(bd_gen_i64(g), &pointer, 1, false);
  LLVMValueRef function = LLVMAddFunction(g->set->module, name, type);
  LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, function, "entry"));
  LLVMValueRef items = bd_gen_item_count(g, LLVMGetParam(function, 0), nest);
  items = LLVMBuildNSWAdd(g->b, items, bd_gen_long(g, per_chunk - 1), "");
  LLVMBuildRet(g->b, LLVMBuildSDiv(g->b, items, bd_gen_long(g, per_chunk), ""));
  LLVMPositionBuilderAtEnd(g->b, here);
}

LLVMValueRef bd_gen_smaller(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, a, b, ""), a, b, "");
}

// An item's number by a count of indices, and what is left. `few`: numbers have 31 bits, which GPUs
// divide in fewer instructions.
static LLVMValueRef divided(bd_gen *g, LLVMValueRef *item, LLVMValueRef count, bool few) {
  LLVMValueRef all = *item, rest;
  if (!few) {
    *item = LLVMBuildSDiv(g->b, all, count, "");
    return LLVMBuildSRem(g->b, all, count, "");
  }
  all = LLVMBuildTrunc(g->b, all, bd_gen_i32(g), "");
  count = LLVMBuildTrunc(g->b, count, bd_gen_i32(g), "");
  rest = LLVMBuildURem(g->b, all, count, "");
  *item = LLVMBuildZExt(g->b, LLVMBuildUDiv(g->b, all, count, ""), bd_gen_i64(g), "");
  return LLVMBuildZExt(g->b, rest, bd_gen_i64(g), "");
}

void bd_gen_take_item(bd_gen *g, const bd_gen_nest *nest, LLVMValueRef item) {
  bool few =
      g->cuda && bd_gen_work(g, nest->outer_count, nest->outer) * blocks_of(g, nest) < INT32_MAX;
  if (nest->lane_loop >= 0) {
    LLVMValueRef count = g->loop[nest->lane_loop].count;
    g->lane_from = bd_gen_long(g, 0);
    g->lane_to = count;
    if (nest->block) {
      LLVMValueRef blocks = bd_gen_long(g, blocks_of(g, nest));
      LLVMValueRef size = bd_gen_long(g, nest->block);
      LLVMValueRef number = divided(g, &item, blocks, few);
      g->lane_from = LLVMBuildNSWMul(g->b, number, size, "");
      g->lane_to = bd_gen_smaller(g, LLVMBuildNSWAdd(g->b, g->lane_from, size, ""), count);
    }
  }
  for (int i = nest->outer_count - 1; i >= 0; i--) {
    int loop = nest->outer[i];
    g->index[loop] = i ? divided(g, &item, g->loop[loop].count, few) : item;
  }
}

LLVMValueRef bd_gen_part_warp(bd_gen *g, int threads) {
  LLVMValueRef size = bd_gen_long(g, threads), own = LLVMBuildUDiv(g->b, g->lane, size, "");
  g->lane = LLVMBuildURem(g->b, g->lane, size, "");
  g->lane_count = threads;
  return own;
}

// A warp takes as many items as its threads are enough for, from *from on; returns which of them is
// this thread's.
static LLVMValueRef share_warp(bd_gen *g, int threads, LLVMValueRef *from, LLVMValueRef *step) {
  LLVMValueRef beside = bd_gen_long(g, BD_GEN_LANES / threads);
  *from = LLVMBuildNSWMul(g->b, *from, beside, "");
  *step = LLVMBuildNSWMul(g->b, *step, beside, "");
  return bd_gen_part_warp(g, threads);
}

// Threads that meet all come along: those without an item repeat the first of the warp's.
static LLVMValueRef own_item(bd_gen *g, LLVMValueRef first, LLVMValueRef own, LLVMValueRef items) {
  LLVMValueRef item = LLVMBuildNSWAdd(g->b, first, own, "");
  g->repeats = LLVMBuildICmp(g->b, LLVMIntSGE, item, items, "");
  return LLVMBuildSelect(g->b, g->repeats, first, item, "");
}

void bd_gen_items(bd_gen *g, const bd_gen_nest *nest, bd_gen_body body, void *user) {
  LLVMValueRef items = bd_gen_item_count(g, g->range, nest), from = g->chunk, to = items, step;
  LLVMValueRef own = NULL;
  if (g->cuda && nest->whole_block) {
    from = g->block;
    step = g->blocks;
    g->lane = g->thread;
    g->lane_count = g->threads;
  } else if (g->cuda) {
    step = g->warps;
    if (nest->threads && nest->threads < BD_GEN_LANES)
      own = share_warp(g, nest->threads, &from, &step);
    if (own && !nest->meets) from = LLVMBuildNSWAdd(g->b, from, own, "");
  } else {
    int64_t per_chunk = nest->work < BD_GEN_CHUNK ? BD_GEN_CHUNK / nest->work : 1;
    chunks_function(g, nest, per_chunk);
    step = bd_gen_long(g, 1);
    from = LLVMBuildNSWMul(g->b, g->chunk, bd_gen_long(g, per_chunk), "");
    to = bd_gen_smaller(g, LLVMBuildNSWAdd(g->b, from, bd_gen_long(g, per_chunk), ""), items);
  }
  bd_gen_for loop = bd_gen_for_begin(g, from, to, step);
  bool together = own && nest->meets;
  bd_gen_take_item(g, nest, together ? own_item(g, loop.index, own, items) : loop.index);
  body(g, user);
  g->repeats = NULL;
  g->apart = g->cuda && nest->apart;
  bd_gen_for_end(g, &loop);
}

static void host_tail(bd_gen *g, int loop, LLVMValueRef at, bd_gen_body body, void *user) {
  LLVMValueRef some = LLVMBuildICmp(g->b, LLVMIntSLT, at, g->lane_to, "");
  bd_gen_if branch = bd_gen_if_begin(g, some);
  LLVMValueRef left = LLVMBuildSub(g->b, g->lane_to, at, "");
  left = LLVMBuildTrunc(g->b, left, bd_gen_i32(g), "");
  LLVMValueRef iota[BD_GEN_LANES];
  for (int i = 0; i < g->lanes; i++)
    iota[i] = LLVMConstInt(bd_gen_i32(g), (unsigned long long)i, false);
  LLVMValueRef numbers = LLVMConstVector(iota, (unsigned)g->lanes);
  g->mask = LLVMBuildICmp(g->b, LLVMIntSLT, numbers, bd_gen_splat(g, left), "");
  g->index[loop] = at;
  body(g, user);
  g->mask = NULL;
  bd_gen_if_end(g, &branch);
}

// Where the last group of `width` elements ends that is whole.
static LLVMValueRef whole_end(bd_gen *g, LLVMValueRef from, int width) {
  LLVMValueRef left = LLVMBuildNSWSub(g->b, g->lane_to, from, "");
  LLVMValueRef full = LLVMBuildSDiv(g->b, left, bd_gen_long(g, width), "");
  full = LLVMBuildNSWMul(g->b, full, bd_gen_long(g, width), "");
  return LLVMBuildNSWAdd(g->b, from, full, "");
}

static void host_lanes(bd_gen *g, int loop, int width, bd_gen_body body, void *user) {
  g->lanes = g->width = width;
  LLVMValueRef end = whole_end(g, g->lane_from, width);
  bd_gen_for each = bd_gen_for_begin(g, g->lane_from, end, bd_gen_long(g, width));
  g->index[loop] = each.index;
  body(g, user);
  bd_gen_for_end(g, &each);
  host_tail(g, loop, end, body, user);
  g->lanes = 1;
}

// Threads take groups of `width` elements in turn, `ahead` of them at once from *from on, which
// moves behind them. Copies of a body for more groups would take the registers of several packs.
static void thread_groups(bd_gen *g, int loop, LLVMValueRef *from, LLVMValueRef to, int width,
                          const bd_gen_ahead *groups, int ahead) {
  bool rolled = g->rolled;
  g->lanes = g->width = width;
  int64_t step = (int64_t)g->lane_count * width;
  if (ahead > 1) to = LLVMBuildNSWSub(g->b, to, bd_gen_long(g, step * (ahead - 1)), "");
  bd_gen_for each = bd_gen_for_begin(g, *from, to, bd_gen_long(g, step * ahead));
  LLVMValueRef at[BD_GEN_MOST_AHEAD];
  for (int i = 0; i < ahead; i++) {
    at[i] = LLVMBuildNSWAdd(g->b, each.index, bd_gen_long(g, step * i), "");
    g->index[loop] = at[i];
    groups->fetch(g, groups->user, i);
  }
  for (int i = 0; i < ahead; i++) {
    g->index[loop] = at[i];
    groups->finish(g, groups->user, i);
  }
  g->rolled = rolled || g->pack > 1;
  bd_gen_for_end(g, &each);
  g->rolled = rolled;
  g->lanes = 1;
  *from = each.index;
}

static void thread_lanes(bd_gen *g, int loop, LLVMValueRef from, LLVMValueRef to, int width,
                         const bd_gen_ahead *groups) {
  LLVMValueRef own = LLVMBuildNSWMul(g->b, g->lane, bd_gen_long(g, width), "");
  from = LLVMBuildNSWAdd(g->b, from, own, "");
  if (width > 1 && groups->ahead > 1)
    thread_groups(g, loop, &from, to, width, groups, groups->ahead);
  thread_groups(g, loop, &from, to, width, groups, 1);
}

// The first place in this item's row from where on packs have addresses that are multiples of them.
static LLVMValueRef first_pack(bd_gen *g, int loop) {
  LLVMValueRef offset = g->lane_from;
  for (int i = 0; i < g->loops; i++) {
    if (i == loop || !g->uneven->stride[i]) continue;
    LLVMValueRef stride = bd_gen_long(g, g->uneven->stride[i]);
    offset = LLVMBuildNSWAdd(g->b, offset, LLVMBuildNSWMul(g->b, g->index[i], stride, ""), "");
  }
  LLVMValueRef over =
      LLVMBuildAnd(g->b, LLVMBuildNeg(g->b, offset, ""), bd_gen_long(g, g->pack - 1), "");
  return bd_gen_smaller(g, LLVMBuildNSWAdd(g->b, g->lane_from, over, ""), g->lane_to);
}

static void packed_lanes(bd_gen *g, int loop, const bd_gen_ahead *groups) {
  LLVMValueRef from = g->lane_from, end = g->lane_to;
  bool ends_within = g->uneven || g->loop[loop].split;
  if (g->uneven) {
    from = first_pack(g, loop);
    thread_lanes(g, loop, g->lane_from, from, 1, groups);
  }
  if (ends_within) end = whole_end(g, from, g->pack);
  thread_lanes(g, loop, from, end, g->pack, groups);
  if (ends_within) thread_lanes(g, loop, end, g->lane_to, 1, groups);
}

static void group_body(bd_gen *g, void *user) {
  const bd_gen_ahead *groups = user;
  groups->fetch(g, groups->user, 0);
  groups->finish(g, groups->user, 0);
}

void bd_gen_lanes_ahead(bd_gen *g, int loop, int width, const bd_gen_ahead *groups) {
  bd_gen_ahead all = *groups;
  g->lane_loop = loop;
  if (!g->cuda)
    host_lanes(g, loop, width, group_body, &all);
  else if (g->pack > 1)
    packed_lanes(g, loop, &all);
  else
    thread_lanes(g, loop, g->lane_from, g->lane_to, 1, &all);
  g->lane_loop = -1;
}

typedef struct plain_body {
  bd_gen_body body;
  void *user;
} plain_body;

static void fetch_nothing(bd_gen *g, void *user, int group) {
  (void)g, (void)user, (void)group;
}

static void run_plain(bd_gen *g, void *user, int group) {
  const plain_body *plain = user;
  (void)group;
  plain->body(g, plain->user);
}

void bd_gen_lanes(bd_gen *g, int loop, int width, bd_gen_body body, void *user) {
  plain_body plain = {body, user};
  bd_gen_lanes_ahead(g, loop, width, &(bd_gen_ahead){1, fetch_nothing, run_plain, &plain});
}

void bd_gen_serial(bd_gen *g, int count, const int *loops, bd_gen_body body, void *user) {
  if (!count) {
    body(g, user);
    return;
  }
  bd_gen_for each =
      bd_gen_for_begin(g, bd_gen_long(g, 0), g->loop[loops[0]].count, bd_gen_long(g, 1));
  g->index[loops[0]] = each.index;
  bd_gen_serial(g, count - 1, loops + 1, body, user);
  bd_gen_for_end(g, &each);
}

LLVMValueRef bd_gen_logical(bd_gen *g, int loop) {
  LLVMValueRef first = LLVMBuildNSWAdd(g->b, g->index[loop], g->loop[loop].start, "");
  if (g->lanes == 1) return first;
  first = bd_gen_splat(g, first);
  if (loop != g->lane_loop) return first;
  LLVMValueRef iota[BD_GEN_LANES];
  for (int i = 0; i < g->lanes; i++)
    iota[i] = bd_gen_long(g, i);
  return LLVMBuildNSWAdd(g->b, first, LLVMConstVector(iota, (unsigned)g->lanes), "");
}

// Accumulators. On the host a vector of the 32 lanes, on a GPU this thread's lane.
static LLVMTypeRef row_type(bd_gen *g, LLVMTypeRef scalar) {
  return g->cuda ? scalar : LLVMVectorType(scalar, BD_GEN_LANES);
}

static LLVMValueRef row_constant(bd_gen *g, LLVMTypeRef scalar, double value) {
  LLVMValueRef like = LLVMGetPoison(row_type(g, scalar));
  return bd_gen_real_like(like, value);
}

static LLVMValueRef begin(bd_gen *g, LLVMTypeRef scalar, double value) {
  LLVMValueRef variable = bd_gen_variable(g, row_type(g, scalar));
  LLVMBuildStore(g->b, row_constant(g, scalar, value), variable);
  return variable;
}

LLVMValueRef bd_gen_sum_begin(bd_gen *g) {
  return begin(g, bd_gen_f64(g), 0.0);
}
LLVMValueRef bd_gen_max_begin(bd_gen *g) {
  return begin(g, bd_gen_f32(g), -1.0 / 0.0);
}

// Joins to a variable what it has a lane for: on a GPU each element of a pack, in order.
static void join_to(bd_gen *g, LLVMValueRef variable, LLVMTypeRef type, LLVMValueRef value,
                    LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  LLVMValueRef joined = LLVMBuildLoad2(g->b, type, variable, "");
  if (!g->cuda || g->lanes == 1) joined = join(g, value, joined);
  for (int i = 0; g->cuda && g->lanes > 1 && i < g->lanes; i++) {
    LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
    joined = join(g, LLVMBuildExtractElement(g->b, value, at, ""), joined);
  }
  LLVMBuildStore(g->b, joined, variable);
}

void bd_gen_sum_add(bd_gen *g, LLVMValueRef sum, LLVMValueRef value) {
  assert(g->cuda || g->lanes == BD_GEN_LANES);
  if (bd_gen_scalar_of(value) != bd_gen_f64(g))
    value = LLVMBuildFPExt(g->b, value, bd_gen_type_like(value, bd_gen_f64(g)), "");
  if (g->mask) value = LLVMBuildSelect(g->b, g->mask, value, bd_gen_real_like(value, 0.0), "");
  join_to(g, sum, row_type(g, bd_gen_f64(g)), value, bd_gen_plus);
}

LLVMValueRef bd_gen_larger(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, LLVMRealOGT, a, b, ""), a, b, "");
}

void bd_gen_max_add(bd_gen *g, LLVMValueRef max, LLVMValueRef value) {
  if (g->mask)
    value = LLVMBuildSelect(g->b, g->mask, value, bd_gen_real_like(value, -1.0 / 0.0), "");
  join_to(g, max, row_type(g, bd_gen_f32(g)), value, bd_gen_larger);
}

LLVMValueRef bd_gen_plus(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFAdd(g->b, a, b, "");
}

LLVMValueRef bd_gen_join_pack(bd_gen *g, LLVMValueRef pack,
                              LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  LLVMValueRef part[BD_GEN_LANES] = {pack};
  for (int i = 0; g->lanes > 1 && i < g->lanes; i++) {
    LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
    part[i] = LLVMBuildExtractElement(g->b, pack, at, "");
  }
  for (int count = g->lanes; count > 1; count /= 2)
    for (int i = 0; i < count / 2; i++)
      part[i] = join(g, part[2 * i], part[2 * i + 1]);
  return part[0];
}

static LLVMValueRef shuffle_word(bd_gen *g, LLVMValueRef word, int distance) {
  LLVMValueRef arguments[] = {LLVMConstInt(bd_gen_i32(g), 0xffffffff, false), word,
                              LLVMConstInt(bd_gen_i32(g), (unsigned)distance, false),
                              LLVMConstInt(bd_gen_i32(g), 31, false)};
  return bd_gen_intrinsic(g, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, arguments);
}

LLVMValueRef bd_gen_from_lane(bd_gen *g, LLVMValueRef value, int distance) {
  if (LLVMTypeOf(value) == bd_gen_f32(g)) {
    LLVMValueRef word = LLVMBuildBitCast(g->b, value, bd_gen_i32(g), "");
    return LLVMBuildBitCast(g->b, shuffle_word(g, word, distance), bd_gen_f32(g), "");
  }
  LLVMValueRef bits = LLVMBuildBitCast(g->b, value, bd_gen_i64(g), "");
  LLVMValueRef shift = bd_gen_long(g, 32);
  LLVMValueRef high = LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, bits, shift, ""), bd_gen_i32(g), "");
  LLVMValueRef low = shuffle_word(g, LLVMBuildTrunc(g->b, bits, bd_gen_i32(g), ""), distance);
  high = LLVMBuildZExt(g->b, shuffle_word(g, high, distance), bd_gen_i64(g), "");
  bits = LLVMBuildOr(g->b, LLVMBuildShl(g->b, high, shift, ""),
                     LLVMBuildZExt(g->b, low, bd_gen_i64(g), ""), "");
  return LLVMBuildBitCast(g->b, bits, bd_gen_f64(g), "");
}

void bd_gen_join_blocks(bd_gen *g, int count, LLVMValueRef *values, const char *memory,
                        bool written_again) {
  LLVMTypeRef type = LLVMTypeOf(values[0]);
  int warps = g->threads / BD_GEN_LANES;
  LLVMValueRef size = bd_gen_long(g, BD_GEN_LANES);
  LLVMValueRef shared = bd_gen_shared(g, memory, type, count * warps);
  LLVMValueRef warp = LLVMBuildUDiv(g->b, g->thread, size, "");
  LLVMValueRef lane = LLVMBuildURem(g->b, g->thread, size, "");
  bd_gen_if first = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntEQ, lane, bd_gen_long(g, 0), ""));
  for (int k = 0; k < count; k++) {
    LLVMValueRef at = LLVMBuildNSWAdd(g->b, warp, bd_gen_long(g, (int64_t)k * warps), "");
    LLVMBuildStore(g->b, values[k], LLVMBuildGEP2(g->b, type, shared, &at, 1, ""));
  }
  bd_gen_if_end(g, &first);
  bd_gen_barrier(g);
  for (int k = 0; k < count; k++)
    for (int i = 0; i < warps; i++) {
      LLVMValueRef at = bd_gen_long(g, (int64_t)k * warps + i);
      at = LLVMBuildGEP2(g->b, type, shared, &at, 1, "");
      LLVMValueRef value = LLVMBuildLoad2(g->b, type, at, "");
      values[k] = i ? bd_gen_plus(g, values[k], value) : value;
    }
  if (written_again) bd_gen_barrier(g);
}

// Joins what the warps of a block hold, in order.
static LLVMValueRef join_warps(bd_gen *g, LLVMValueRef value,
                               LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  LLVMTypeRef type = LLVMTypeOf(value);
  int warps = g->threads / BD_GEN_LANES;
  LLVMValueRef size = bd_gen_long(g, BD_GEN_LANES);
  LLVMValueRef shared = bd_gen_shared(g, "warps", type, warps), at[BD_GEN_LANES];
  LLVMValueRef warp = LLVMBuildUDiv(g->b, g->thread, size, "");
  LLVMValueRef lane = LLVMBuildURem(g->b, g->thread, size, "");
  for (int i = 0; i <= warps; i++) {
    LLVMValueRef index = i < warps ? bd_gen_long(g, i) : warp;
    at[i] = LLVMBuildGEP2(g->b, type, shared, &index, 1, "");
  }
  bd_gen_if first = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntEQ, lane, bd_gen_long(g, 0), ""));
  LLVMBuildStore(g->b, value, at[warps]);
  bd_gen_if_end(g, &first);
  bd_gen_barrier(g);
  value = LLVMBuildLoad2(g->b, type, at[0], "");
  for (int i = 1; i < warps; i++)
    value = join(g, value, LLVMBuildLoad2(g->b, type, at[i], ""));
  bd_gen_barrier(g); // the memory may be written again
  return value;
}

// Lane i joins lane i + distance for distance 16, 8, 4, 2, 1, or from half of those on that share a
// row.
static LLVMValueRef end(bd_gen *g, LLVMValueRef variable, LLVMTypeRef scalar,
                        LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef)) {
  LLVMValueRef value = LLVMBuildLoad2(g->b, row_type(g, scalar), variable, "");
  int lanes = g->cuda && g->lane_count < BD_GEN_LANES ? g->lane_count : BD_GEN_LANES;
  for (int distance = lanes / 2; distance; distance /= 2) {
    if (g->cuda) {
      value = join(g, value, bd_gen_from_lane(g, value, distance));
      continue;
    }
    LLVMValueRef low[BD_GEN_LANES], high[BD_GEN_LANES];
    for (int i = 0; i < distance; i++) {
      low[i] = LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
      high[i] = LLVMConstInt(bd_gen_i32(g), (unsigned)(i + distance), false);
    }
    LLVMValueRef poison = LLVMGetPoison(LLVMTypeOf(value));
    LLVMValueRef a =
        LLVMBuildShuffleVector(g->b, value, poison, LLVMConstVector(low, (unsigned)distance), "");
    LLVMValueRef b =
        LLVMBuildShuffleVector(g->b, value, poison, LLVMConstVector(high, (unsigned)distance), "");
    value = join(g, a, b);
  }
  if (g->cuda) return g->lane_count > BD_GEN_LANES ? join_warps(g, value, join) : value;
  return LLVMBuildExtractElement(g->b, value, LLVMConstInt(bd_gen_i32(g), 0, false), "");
}

LLVMValueRef bd_gen_sum_end(bd_gen *g, LLVMValueRef sum) {
  return end(g, sum, bd_gen_f64(g), bd_gen_plus);
}
LLVMValueRef bd_gen_max_end(bd_gen *g, LLVMValueRef max) {
  return end(g, max, bd_gen_f32(g), bd_gen_larger);
}
