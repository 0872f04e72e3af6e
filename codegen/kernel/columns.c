#include "codegen/kernel/columns.h"
#include "ir/columns.h"
#include <string.h>

// Rows that a thread has on their way at once. Few columns make few blocks, each of which waits for
// memory as often as its threads do.
enum { AHEAD = 8, WIDE_AHEAD = 4 };
enum { HOST_COLUMNS = 64 }; // of a host chunk

static void add_to_sums(bd_gen *g, const bd_gen_columns *c, const LLVMValueRef *terms) {
  LLVMTypeRef type = bd_gen_type(g, bd_gen_f64(g));
  for (int i = 0; i < c->sums; i++) {
    LLVMValueRef term = terms[i];
    if (LLVMTypeOf(term) != type) term = LLVMBuildFPExt(g->b, term, type, "");
    LLVMValueRef before = LLVMBuildLoad2(g->b, type, c->sum[i], "");
    LLVMBuildStore(g->b, LLVMBuildFAdd(g->b, before, term, ""), c->sum[i]);
  }
}

static void host_row(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMValueRef values[BD_MAX_OPERANDS];
  for (int i = 0; i < c->read_count; i++)
    values[i] = bd_gen_load(g, &c->read[i]);
  LLVMValueRef terms[BD_MAX_RESULTS];
  c->term(g, c->user, values, terms);
  add_to_sums(g, c, terms);
}

static void store_sum(bd_gen *g, const bd_gen_columns *c, int sum, LLVMValueRef value) {
  if (c->out[sum].dtype != BD_F64)
    value = LLVMBuildFPTrunc(g->b, value, bd_gen_type(g, bd_gen_f32(g)), "");
  bd_gen_store(g, &c->out[sum], value);
}

static void host_lanes(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMTypeRef type = bd_gen_type(g, bd_gen_f64(g));
  for (int i = 0; i < c->sums; i++) {
    c->sum[i] = bd_gen_variable(g, type);
    LLVMBuildStore(g->b, LLVMConstNull(type), c->sum[i]);
  }
  bd_gen_serial(g, c->row_count, c->row, host_row, c);
  for (int i = 0; i < c->sums; i++)
    store_sum(g, c, i, LLVMBuildLoad2(g->b, type, c->sum[i], ""));
}

static void host_item(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  bd_gen_lanes(g, c->lane_loop, BD_GEN_POINT_LANES, host_lanes, c);
}

static bd_gen_nest nest_of(const bd_gen_columns *c) {
  bd_gen_nest nest = {.lane_loop = c->lane_loop};
  if (c->chunk_loop >= 0) nest.outer[nest.outer_count++] = c->chunk_loop;
  for (int i = 0; i < c->outer_count; i++)
    nest.outer[nest.outer_count++] = c->outer[i];
  return nest;
}

static void host_columns(bd_gen *g, bd_gen_columns *c) {
  bd_gen_nest nest = nest_of(c);
  nest.block = HOST_COLUMNS;
  nest.work = nest.block * bd_gen_work(g, c->row_count, c->row);
  bd_gen_items(g, &nest, host_item, c);
}

// Sums of a thread's columns, f64.
static LLVMTypeRef sums_type(bd_gen *g, const bd_gen_columns *c) {
  return c->pack > 1 ? LLVMVectorType(bd_gen_f64(g), (unsigned)c->pack) : bd_gen_f64(g);
}

static int shares(const bd_gen *g, const bd_gen_columns *c) {
  return g->threads / c->along;
}

static bool can_merge(const bd_gen *g, const bd_gen_columns *c, int outer, int inner) {
  if (g->loop[inner].split) return false;
  for (int i = 0; i < c->read_count; i++)
    if (c->read[i].stride[outer] != c->read[i].stride[inner] * g->loop[inner].extent) return false;
  return true;
}

// Makes one loop of summed loops that lie contiguously in all that is read.
static void merge_rows(bd_gen *g, bd_gen_columns *c) {
  int count = 0;
  for (int i = 0; i < c->row_count; i++) {
    int inner = c->row[i], outer = count ? c->row[count - 1] : -1;
    if (outer < 0 || !can_merge(g, c, outer, inner)) {
      c->row[count++] = inner;
      continue;
    }
    bd_gen_merge_loops(g, outer, inner);
    for (int k = 0; k < c->read_count; k++)
      c->read[k].stride[outer] = 0;
    c->row[count - 1] = inner;
  }
  c->row_count = count;
}

static void find_strided_row(bd_gen *g, bd_gen_columns *c) {
  if (!c->row_count) c->row[c->row_count++] = bd_gen_own_loop(g, 1);
  int longest = 0;
  for (int i = 1; i < c->row_count; i++)
    if (g->loop[c->row[i]].extent > g->loop[c->row[longest]].extent) longest = i;
  c->strided_row = c->row[longest];
  c->row[longest] = c->row[--c->row_count];
  int count = 0;
  for (int i = 0; i < c->row_count; i++) {
    const bd_gen_loop *loop = &g->loop[c->row[i]];
    if (loop->extent > 1 || loop->split)
      c->row[count++] = c->row[i];
    else
      g->index[c->row[i]] = bd_gen_long(g, 0);
  }
  c->row_count = count;
}

static int warps_of(const bd_gen *g) {
  return g->threads / BD_GEN_LANES;
}

// Where the sum of a warp's threads for this thread's columns lies.
static LLVMValueRef warp_sum(bd_gen *g, const bd_gen_columns *c, int sum, LLVMValueRef warp) {
  LLVMValueRef columns = bd_gen_long(g, c->along);
  LLVMValueRef column = LLVMBuildURem(g->b, g->thread, columns, "");
  LLVMValueRef at = LLVMBuildNSWMul(g->b, warp, columns, "");
  at = LLVMBuildNSWAdd(g->b, at, column, "");
  at = LLVMBuildNSWAdd(g->b, at, bd_gen_long(g, (int64_t)sum * warps_of(g) * c->along), "");
  return LLVMBuildGEP2(g->b, sums_type(g, c), c->shared, &at, 1, "");
}

static void add_warps(bd_gen *g, bd_gen_columns *c) {
  LLVMTypeRef type = sums_type(g, c);
  for (int i = 0; i < c->sums; i++) {
    LLVMValueRef sum = LLVMBuildLoad2(g->b, type, warp_sum(g, c, i, bd_gen_long(g, 0)), "");
    for (int warp = 1; warp < warps_of(g); warp++) {
      LLVMValueRef at = warp_sum(g, c, i, bd_gen_long(g, warp));
      sum = LLVMBuildFAdd(g->b, sum, LLVMBuildLoad2(g->b, type, at, ""), "");
    }
    store_sum(g, c, i, sum);
  }
}

// Over the threads of a warp that have the same columns.
static LLVMValueRef joined(bd_gen *g, const bd_gen_columns *c, LLVMValueRef sums) {
  for (int i = 0; i < c->pack; i++) {
    LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), (unsigned)i, false);
    LLVMValueRef sum = c->pack > 1 ? LLVMBuildExtractElement(g->b, sums, at, "") : sums;
    for (int distance = c->along; distance < BD_GEN_LANES; distance *= 2)
      sum = bd_gen_plus(g, sum, bd_gen_from_lane(g, sum, distance));
    sums = c->pack > 1 ? LLVMBuildInsertElement(g->b, sums, sum, at, "") : sum;
  }
  return sums;
}

// Adds a row's terms to those of `row` rows before it: two by two, then two of these, and so on.
// `pending[k]` are the terms of 2^k rows.
static void pair_terms(bd_gen *g, const bd_gen_columns *c, int row, LLVMValueRef *terms,
                       LLVMValueRef pending[][BD_MAX_RESULTS]) {
  int level = 0;
  for (; row >> level & 1; level++)
    for (int i = 0; i < c->sums; i++)
      terms[i] = LLVMBuildFAdd(g->b, pending[level][i], terms[i], "");
  memcpy(pending[level], terms, (size_t)c->sums * sizeof *terms);
}

// The terms of all rows.
static void join_pending(bd_gen *g, const bd_gen_columns *c, int rows,
                         LLVMValueRef pending[][BD_MAX_RESULTS], LLVMValueRef *out_terms) {
  bool any = false;
  for (int level = 0; rows >> level; level++) {
    if (!(rows >> level & 1)) continue;
    for (int i = 0; i < c->sums; i++)
      out_terms[i] =
          any ? LLVMBuildFAdd(g->b, pending[level][i], out_terms[i], "") : pending[level][i];
    any = true;
  }
}

// Adds `count` rows of a thread, from `first` on: all are read before any is added, or few would be
// on their way. Their terms are added to each other as they are, and then in f64 to the sums.
// `end`: where rows end if that may be among these, or NULL; in the place of those behind it the
// first is read, and does not count.
static void add_rows(bd_gen *g, bd_gen_columns *c, int count, LLVMValueRef first,
                     LLVMValueRef end) {
  LLVMValueRef values[AHEAD][BD_MAX_OPERANDS], there[AHEAD] = {NULL};
  for (int j = 0; j < count; j++) {
    LLVMValueRef row = LLVMBuildNSWAdd(g->b, first, bd_gen_long(g, (int64_t)j * shares(g, c)), "");
    if (end && j) {
      there[j] = LLVMBuildICmp(g->b, LLVMIntSLT, row, end, "");
      row = LLVMBuildSelect(g->b, there[j], row, first, "");
    }
    g->index[c->strided_row] = row;
    for (int i = 0; i < c->read_count; i++)
      values[j][i] = bd_gen_fetch(g, &c->read[i]);
  }
  LLVMValueRef pending[AHEAD][BD_MAX_RESULTS], terms[BD_MAX_RESULTS];
  for (int j = 0; j < count; j++) {
    for (int i = 0; i < c->read_count; i++)
      values[j][i] = bd_gen_fetched(g, &c->read[i], values[j][i]);
    c->term(g, c->user, values[j], terms);
    for (int i = 0; there[j] && i < c->sums; i++)
      terms[i] = LLVMBuildSelect(g->b, there[j], terms[i], LLVMConstNull(LLVMTypeOf(terms[i])), "");
    pair_terms(g, c, j, terms, pending);
  }
  join_pending(g, c, count, pending, terms);
  add_to_sums(g, c, terms);
}

// Adds a thread's rows of [*from, end) in groups of `count`; moves `from` behind them. `whole`: as
// long as groups are.
static void add_groups(bd_gen *g, bd_gen_columns *c, int count, bool whole, LLVMValueRef *from,
                       LLVMValueRef end) {
  int64_t reach = (int64_t)(count - 1) * shares(g, c);
  LLVMValueRef to = whole ? LLVMBuildNSWSub(g->b, end, bd_gen_long(g, reach), "") : end;
  bd_gen_for groups = bd_gen_for_begin(g, *from, to, bd_gen_long(g, reach + shares(g, c)));
  add_rows(g, c, count, groups.index, whole ? NULL : end);
  bd_gen_for_end(g, &groups);
  *from = groups.index;
}

// A thread's share of the loop that is shared out. Rows that are left over are read in groups of
// half as many, whose addresses take fewer registers.
static void add_share(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMValueRef share = LLVMBuildUDiv(g->b, g->thread, bd_gen_long(g, c->along), "");
  LLVMValueRef from = bd_gen_long(g, 0), end = g->loop[c->strided_row].count;
  if (c->chunk_loop >= 0) {
    LLVMValueRef rows = bd_gen_long(g, c->chunk_rows);
    from = LLVMBuildNSWMul(g->b, g->index[c->chunk_loop], rows, "");
    LLVMValueRef to = LLVMBuildNSWAdd(g->b, from, rows, "");
    end = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, to, end, ""), to, end, "");
  }
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, g->index[c->lane_loop], g->lane_to, "");
  end = LLVMBuildSelect(g->b, there, end, bd_gen_long(g, 0), "");
  from = LLVMBuildNSWAdd(g->b, from, share, "");
  add_groups(g, c, c->ahead, true, &from, end);
  if (c->ahead > 1) add_groups(g, c, (c->ahead + 1) / 2, false, &from, end);
}

static void block_item(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMValueRef columns = bd_gen_long(g, c->along), sums[BD_MAX_RESULTS];
  LLVMValueRef column = LLVMBuildURem(g->b, g->thread, columns, "");
  column = LLVMBuildNSWMul(g->b, column, bd_gen_long(g, c->pack), "");
  column = LLVMBuildNSWAdd(g->b, g->lane_from, column, "");
  LLVMTypeRef type = sums_type(g, c);
  for (int i = 0; i < c->sums; i++)
    LLVMBuildStore(g->b, LLVMConstNull(type), c->sum[i]);
  g->lane_loop = c->lane_loop;
  g->lanes = g->width = c->pack;
  g->index[c->lane_loop] = column;
  g->rolled = true; // copies of a group would take the registers of several
  bd_gen_serial(g, c->row_count, c->row, add_share, c);
  g->rolled = false;
  for (int i = 0; i < c->sums; i++)
    sums[i] = joined(g, c, LLVMBuildLoad2(g->b, type, c->sum[i], ""));
  LLVMValueRef warp = LLVMBuildUDiv(g->b, g->thread, bd_gen_long(g, BD_GEN_LANES), "");
  LLVMValueRef lane = LLVMBuildURem(g->b, g->thread, bd_gen_long(g, BD_GEN_LANES), "");
  bd_gen_if of_warp = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntULT, lane, columns, ""));
  for (int i = 0; i < c->sums; i++)
    LLVMBuildStore(g->b, sums[i], warp_sum(g, c, i, warp));
  bd_gen_if_end(g, &of_warp);
  bd_gen_barrier(g);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, column, g->lane_to, "");
  LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntULT, g->thread, columns, "");
  bd_gen_if branch = bd_gen_if_begin(g, LLVMBuildAnd(g->b, first, there, ""));
  add_warps(g, c);
  bd_gen_if_end(g, &branch);
  bd_gen_barrier(g); // the sums may be written again
  g->lane_loop = -1;
  g->lanes = 1;
}

bool bd_gen_has_wide_columns(const bd_gen *g) {
  const bd_kernel *k = g->kernel;
  return bd_column_bytes(k->module, k->function, g->op) == BD_GEN_ALIGNED;
}

int bd_gen_column_threads(const bd_gen *g) {
  const bd_kernel *k = g->kernel;
  return bd_column_threads(k->module, k->function, g->op);
}

// Whether a pack holds columns of this rank alone: every rank holds a multiple of it, as parts of a
// split loop begin at multiples of their extent and the last ends with the whole.
static bool fills_packs(const bd_gen *g, int loop) {
  const bd_gen_loop *l = &g->loop[loop];
  int64_t whole = bd_extent(g->map.loop[l->slot].extent, g->kernel->module->micro_batch);
  return !g->uneven && (!l->split || whole % g->pack == 0);
}

// As many columns as make the threads of a row read a sector of memory or a whole line: more would
// leave fewer blocks. Only where every thread has all of its own.
static int pack_columns(bd_gen *g, const bd_gen_columns *c) {
  const bd_access *along[BD_MAX_OPERANDS + BD_MAX_RESULTS];
  int count = 0;
  for (int i = 0; i < c->read_count; i++)
    along[count++] = &c->read[i];
  for (int i = 0; i < c->sums; i++)
    along[count++] = &c->out[i];
  int bytes = (int)bd_column_bytes(g->kernel->module, g->kernel->function, g->op);
  bd_gen_pack(g, c->lane_loop, bytes, count, along);
  return fills_packs(g, c->lane_loop) ? g->pack : 1;
}

// A GPU's block takes 8 columns or packs of them, or 2 packs, whose threads read a line of memory
// or a sector together; of a column's 32 to 256 threads each takes every so manieth index of the
// longest of the summed loops.
static void gpu_columns(bd_gen *g, bd_gen_columns *c) {
  int64_t rows = c->chunk_loop < 0 ? g->loop[c->strided_row].extent : c->chunk_rows;
  int64_t each = (rows + shares(g, c) - 1) / shares(g, c);
  c->ahead = each < c->most_ahead ? (int)each : c->most_ahead;
  c->pack = pack_columns(g, c);
  c->shared = bd_gen_shared(g, "sums", sums_type(g, c), c->sums * warps_of(g) * c->along);
  for (int i = 0; i < c->sums; i++)
    c->sum[i] = bd_gen_variable(g, sums_type(g, c));
  bd_gen_nest nest = nest_of(c);
  nest.block = (int64_t)c->along * c->pack;
  nest.whole_block = true;
  bd_gen_items(g, &nest, block_item, c);
}

// Divides the loop that is shared out into at most so many chunks, of whole groups of rows.
static void cut_rows(bd_gen *g, bd_gen_columns *c, int64_t most) {
  int64_t rows = g->loop[c->strided_row].extent;
  int64_t others = bd_gen_work(g, c->row_count, c->row);
  int64_t group = (c->most_ahead + others - 1) / others * shares(g, c);
  int64_t each = (rows + most - 1) / most;
  c->chunk_rows = (each + group - 1) / group * group;
  c->chunk_loop = bd_gen_own_loop(g, (rows + c->chunk_rows - 1) / c->chunk_rows);
}

// Where the chunks' sums lie, one chunk after another.
static bd_access chunk_sums(bd_gen *g, const bd_gen_columns *c, int sum) {
  bd_access access = {.dtype = BD_F64, .aligned = BD_GEN_ALIGNED};
  access.base = access.valid = bd_gen_buffer(g, g->kernel->in_count + g->kernel->out_count);
  int64_t elements = g->loop[c->lane_loop].extent;
  access.stride[c->lane_loop] = 1;
  for (int i = c->outer_count - 1; i >= 0; i--) {
    access.stride[c->outer[i]] = elements;
    elements *= g->loop[c->outer[i]].extent;
  }
  access.stride[c->chunk_loop] = elements;
  return bd_gen_shifted(g, &access, sum * elements * g->loop[c->chunk_loop].extent);
}

static void sum_itself(bd_gen *g, void *user, const LLVMValueRef *values, LLVMValueRef *out_terms) {
  (void)g;
  for (int i = 0; i < ((bd_gen_columns *)user)->sums; i++)
    out_terms[i] = values[i];
}

// The kernel's two parts: sums of chunks, and sums of these.
static void gpu_chunks(bd_gen *g, bd_gen_columns *c) {
  cut_rows(g, c, bd_column_chunks(g->kernel->module, g->kernel->function, g->op));
  bd_gen_columns joined = *c;
  for (int i = 0; i < c->sums; i++)
    c->out[i] = joined.read[i] = chunk_sums(g, c, i);
  if (g->part == 0) {
    gpu_columns(g, c);
    return;
  }
  joined.strided_row = c->chunk_loop;
  joined.row_count = 0;
  joined.chunk_loop = -1;
  joined.read_count = c->sums;
  joined.term = sum_itself;
  joined.user = &joined;
  gpu_columns(g, &joined);
}

void bd_gen_sum_columns(bd_gen *g, bd_gen_columns *c) {
  c->chunk_loop = -1;
  if (!g->cuda) {
    host_columns(g, c);
    return;
  }
  c->along = bd_gen_column_threads(g);
  c->most_ahead = bd_gen_has_wide_columns(g) ? WIDE_AHEAD : AHEAD;
  merge_rows(g, c);
  find_strided_row(g, c);
  if (g->kernel->parts > 1)
    gpu_chunks(g, c);
  else
    gpu_columns(g, c);
}
