// What kernels that work row by row, or that add rows up, share.
#include "codegen/kernel/rows.h"

bd_gen_nest bd_gen_row_nest(const bd_gen *g, int operand) {
  const int8_t *loops = g->map.in[operand];
  int rank = g->kernel->function->values[g->op->in[operand]].type.rank;
  bd_gen_nest nest = {.outer_count = rank - 1, .lane_loop = loops[rank - 1]};
  for (int d = 0; d < rank - 1; d++)
    nest.outer[d] = loops[d];
  nest.work = g->loop[nest.lane_loop].extent;
  nest.whole_block = nest.work >= BD_GEN_LONG_ROW;
  return nest;
}

static void column_rows(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMValueRef values[BD_MAX_RESULTS];
  c->term(g, c->user, values);
  LLVMTypeRef type = bd_gen_type(g, bd_gen_f64(g));
  for (int i = 0; i < c->sums; i++) {
    LLVMValueRef value = LLVMBuildFPExt(g->b, values[i], type, "");
    LLVMValueRef before = LLVMBuildLoad2(g->b, type, c->sum[i], "");
    LLVMBuildStore(g->b, LLVMBuildFAdd(g->b, before, value, ""), c->sum[i]);
  }
}

static void column_lanes(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMTypeRef type = bd_gen_type(g, bd_gen_f64(g));
  for (int i = 0; i < c->sums; i++) {
    c->sum[i] = bd_gen_variable(g, type);
    LLVMBuildStore(g->b, LLVMConstNull(type), c->sum[i]);
  }
  bd_gen_serial(g, c->row_count, c->row, column_rows, c);
  for (int i = 0; i < c->sums; i++) {
    LLVMValueRef sum = LLVMBuildLoad2(g->b, type, c->sum[i], "");
    sum = LLVMBuildFPTrunc(g->b, sum, bd_gen_type(g, bd_gen_f32(g)), "");
    bd_gen_store(g, &c->out[i], sum);
  }
}

static void column_item(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  bd_gen_lanes(g, c->lane_loop, BD_GEN_POINT_LANES, column_lanes, c);
}

static void host_columns(bd_gen *g, bd_gen_columns *c, bd_gen_nest *nest) {
  nest->block = BD_GEN_COLUMNS;
  nest->work = nest->block * bd_gen_work(g, c->row_count, c->row);
  bd_gen_items(g, nest, column_item, c);
}

// A GPU's block takes 8 columns or packs of them, whose threads read a sector of memory together,
// in bytes; of a column's 32 to 128 threads each takes every so manieth index of the longest of the
// summed loops.
enum { ALONG = BD_GEN_ALONG, SECTOR = 32 };
// Rows that a thread has on their way at once. Few columns make few blocks, each of which waits for
// memory as often as its threads do.
enum { AHEAD = 8 };

// Sums of a thread's columns, f64.
static LLVMTypeRef sums_type(bd_gen *g, const bd_gen_columns *c) {
  return c->pack > 1 ? LLVMVectorType(bd_gen_f64(g), (unsigned)c->pack) : bd_gen_f64(g);
}

static void find_strided_row(bd_gen *g, bd_gen_columns *c) {
  if (!c->row_count) {
    c->row[c->row_count++] = g->loops;
    g->loop[g->loops++] = (bd_gen_loop){
        .scale = 1, .extent = 1, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, 1)};
  }
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

static LLVMValueRef share_of(bd_gen *g, const bd_gen_columns *c, int sum, LLVMValueRef share) {
  LLVMValueRef columns = bd_gen_long(g, ALONG);
  LLVMValueRef column = LLVMBuildURem(g->b, g->thread, columns, "");
  LLVMValueRef at = LLVMBuildNSWMul(g->b, share, columns, "");
  at = LLVMBuildNSWAdd(g->b, at, column, "");
  at = LLVMBuildNSWAdd(g->b, at, bd_gen_long(g, (int64_t)sum * g->threads), "");
  return LLVMBuildGEP2(g->b, sums_type(g, c), c->shared, &at, 1, "");
}

static void add_shares(bd_gen *g, bd_gen_columns *c) {
  LLVMTypeRef type = sums_type(g, c);
  for (int i = 0; i < c->sums; i++) {
    LLVMValueRef sum = LLVMBuildLoad2(g->b, type, share_of(g, c, i, bd_gen_long(g, 0)), "");
    for (int share = 1; share < g->threads / ALONG; share++) {
      LLVMValueRef at = share_of(g, c, i, bd_gen_long(g, share));
      sum = LLVMBuildFAdd(g->b, sum, LLVMBuildLoad2(g->b, type, at, ""), "");
    }
    sum = LLVMBuildFPTrunc(g->b, sum, bd_gen_type(g, bd_gen_f32(g)), "");
    bd_gen_store(g, &c->out[i], sum);
  }
}

static void block_item(bd_gen *g, void *user) {
  bd_gen_columns *c = user;
  LLVMValueRef columns = bd_gen_long(g, ALONG);
  LLVMValueRef share = LLVMBuildUDiv(g->b, g->thread, columns, "");
  LLVMValueRef column = LLVMBuildURem(g->b, g->thread, columns, "");
  column = LLVMBuildNSWMul(g->b, column, bd_gen_long(g, c->pack), "");
  column = LLVMBuildNSWAdd(g->b, g->lane_from, column, "");
  LLVMTypeRef type = sums_type(g, c);
  for (int i = 0; i < c->sums; i++)
    LLVMBuildStore(g->b, LLVMConstNull(type), c->sum[i]);
  g->lane_loop = c->lane_loop;
  g->lanes = g->width = c->pack;
  g->index[c->lane_loop] = column;
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, column, g->lane_to, "");
  LLVMValueRef none = bd_gen_long(g, 0), all = g->loop[c->strided_row].count;
  all = LLVMBuildSelect(g->b, there, all, none, "");
  bd_gen_for rows = bd_gen_for_begin(g, share, all, bd_gen_long(g, g->threads / ALONG));
  g->index[c->strided_row] = rows.index;
  g->copies = AHEAD; // of the innermost loop
  bd_gen_serial(g, c->row_count, c->row, column_rows, c);
  bd_gen_for_end(g, &rows);
  for (int i = 0; i < c->sums; i++)
    LLVMBuildStore(g->b, LLVMBuildLoad2(g->b, type, c->sum[i], ""), share_of(g, c, i, share));
  bd_gen_barrier(g);
  LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, share, none, "");
  bd_gen_if branch = bd_gen_if_begin(g, LLVMBuildAnd(g->b, first, there, ""));
  add_shares(g, c);
  bd_gen_if_end(g, &branch);
  bd_gen_barrier(g); // the shares may be written again
  g->lane_loop = -1;
  g->lanes = 1;
}

// As many columns as make the threads of a row read a sector of memory: more would leave fewer
// blocks. Only where every thread has all of its own.
static int pack_columns(bd_gen *g, const bd_gen_columns *c) {
  const bd_access *along[BD_MAX_OPERANDS + BD_MAX_RESULTS];
  int count = 0;
  for (int i = 0; i < c->along_count; i++)
    along[count++] = c->along[i];
  for (int i = 0; i < c->sums; i++)
    along[count++] = &c->out[i];
  bd_gen_pack(g, c->lane_loop, SECTOR / ALONG, count, along);
  return g->uneven || g->loop[c->lane_loop].split ? 1 : g->pack;
}

static void gpu_columns(bd_gen *g, bd_gen_columns *c, bd_gen_nest *nest) {
  find_strided_row(g, c);
  c->pack = pack_columns(g, c);
  c->shared = bd_gen_shared(g, "shares", sums_type(g, c), c->sums * g->threads);
  for (int i = 0; i < c->sums; i++)
    c->sum[i] = bd_gen_variable(g, sums_type(g, c));
  nest->block = (int64_t)ALONG * c->pack;
  nest->whole_block = true;
  bd_gen_items(g, nest, block_item, c);
}

void bd_gen_sum_columns(bd_gen *g, bd_gen_columns *c) {
  bd_gen_nest nest = {.outer_count = c->outer_count, .lane_loop = c->lane_loop};
  for (int i = 0; i < c->outer_count; i++)
    nest.outer[i] = c->outer[i];
  if (g->cuda)
    gpu_columns(g, c, &nest);
  else
    host_columns(g, c, &nest);
}

LLVMValueRef bd_gen_to_f32(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildFPTrunc(g->b, x, bd_gen_f32(g), "");
}
