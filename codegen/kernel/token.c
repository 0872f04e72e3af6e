// embed and rope.
#include "codegen/kernel/gen.h"
#include "ir/rope.h"

typedef struct lookup {
  bd_gen_nest nest;
  int rows; // the loop over the table's rows
  bd_access table, row, ids, out;
  LLVMValueRef held; // whether this part of the table has the row
} lookup;

static void copy_lanes(bd_gen *g, void *user) {
  lookup *l = user;
  LLVMValueRef value = bd_gen_load(g, &l->row);
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(value));
  bd_gen_store(g, &l->out, LLVMBuildSelect(g->b, l->held, value, zero, ""));
}

static void lookup_row(bd_gen *g, void *user) {
  lookup *l = user;
  const bd_gen_loop *rows = &g->loop[l->rows];
  LLVMValueRef id = bd_gen_index(g, bd_gen_load(g, &l->ids));
  LLVMValueRef local = LLVMBuildSub(g->b, id, rows->start, "");
  l->held = LLVMBuildICmp(g->b, LLVMIntULT, local, rows->count, "");
  local = LLVMBuildSelect(g->b, l->held, local, bd_gen_long(g, 0), "");
  LLVMValueRef offset = LLVMBuildNSWMul(g->b, local, bd_gen_long(g, l->table.stride[l->rows]), "");
  l->row = l->table;
  l->row.stride[l->rows] = 0;
  l->row.base = LLVMBuildGEP2(g->b, bd_gen_dtype(g, l->table.dtype), l->table.base, &offset, 1, "");
  bd_gen_lanes(g, l->nest.lane_loop, BD_GEN_POINT_LANES, copy_lanes, l);
}

bd_status bd_gen_embed(bd_gen *g) {
  int rank = g->kernel->function->values[g->op->out[0]].type.rank;
  lookup l = {.rows = g->map.in[0][0],
              .table = bd_gen_in(g, 0),
              .ids = bd_gen_in(g, 1),
              .out = bd_gen_out(g, 0)};
  l.nest = (bd_gen_nest){.outer_count = rank - 1, .lane_loop = g->map.out[0][rank - 1]};
  for (int d = 0; d < rank - 1; d++)
    l.nest.outer[d] = g->map.out[0][d];
  l.nest.work = g->loop[l.nest.lane_loop].extent;
  bd_gen_pack(g, l.nest.lane_loop, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&l.table, &l.out});
  l.nest.threads = bd_gen_row_threads(g, l.nest.lane_loop);
  bd_gen_items(g, &l.nest, lookup_row, &l);
  return BD_OK;
}

typedef struct rope {
  bd_gen_nest nest;
  int t, h, half;                     // loops
  bd_access in[2], out[2], frequency; // first and second numbers of the pairs of a head
  int rest;                           // loop over what is not; -1: all is
  bd_access rest_in, rest_out;
  LLVMValueRef sine, cosine;
  LLVMValueRef first; // head of this thread
  int beside;         // heads that a warp takes side by side
} rope;

static LLVMValueRef frequency_table(bd_gen *g, int64_t half) {
  LLVMValueRef *values = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, half);
  double sign = bd_op_int(g->op, "inverse", 0) ? -1 : 1;
  for (int64_t i = 0; i < half; i++)
    values[i] = LLVMConstReal(bd_gen_f64(g), sign * bd_rope_frequency(g->op, i, 2 * half));
  LLVMValueRef data = LLVMConstArray2(bd_gen_f64(g), values, (uint64_t)half);
  LLVMValueRef table = LLVMAddGlobal(g->set->module, LLVMTypeOf(data),
                                     bd_intern_f(g->ctx, "bdk_%d_frequency", g->number));
  LLVMSetInitializer(table, data);
  LLVMSetGlobalConstant(table, true);
  LLVMSetLinkage(table, LLVMInternalLinkage);
  LLVMSetAlignment(table, BD_GEN_ALIGNED);
  return table;
}

static void turn_head(bd_gen *g, const rope *r) {
  LLVMValueRef a = bd_gen_load(g, &r->in[0]), b = bd_gen_load(g, &r->in[1]);
  LLVMValueRef y = LLVMBuildFMul(g->b, b, r->sine, "");
  y = LLVMBuildFSub(g->b, LLVMBuildFMul(g->b, a, r->cosine, ""), y, "");
  LLVMValueRef z = LLVMBuildFMul(g->b, a, r->sine, "");
  z = LLVMBuildFAdd(g->b, LLVMBuildFMul(g->b, b, r->cosine, ""), z, "");
  bd_gen_store(g, &r->out[0], y);
  bd_gen_store(g, &r->out[1], z);
}

static void turn_lanes(bd_gen *g, void *user) {
  rope *r = user;
  LLVMValueRef position = bd_gen_logical(g, r->t);
  position = LLVMBuildSIToFP(g->b, position, bd_gen_type(g, bd_gen_f64(g)), "");
  LLVMValueRef angle = LLVMBuildFMul(g->b, position, bd_gen_load(g, &r->frequency), "");
  bd_gen_turn(g, angle, &r->sine, &r->cosine);
  double amplitude = bd_rope_amplitude(g->op);
  if (amplitude != 1) {
    LLVMValueRef by = bd_gen_real_like(r->sine, amplitude);
    r->sine = LLVMBuildFMul(g->b, r->sine, by, "");
    r->cosine = LLVMBuildFMul(g->b, r->cosine, by, "");
  }
  bd_gen_for each = bd_gen_for_begin(g, r->first, g->loop[r->h].count, bd_gen_long(g, r->beside));
  g->index[r->h] = each.index;
  turn_head(g, r);
  bd_gen_for_end(g, &each);
}

static void copy_rest(bd_gen *g, void *user) {
  rope *r = user;
  bd_gen_for each = bd_gen_for_begin(g, r->first, g->loop[r->h].count, bd_gen_long(g, r->beside));
  g->index[r->h] = each.index;
  bd_gen_store(g, &r->rest_out, bd_gen_load(g, &r->rest_in));
  bd_gen_for_end(g, &each);
}

static void turn_position(bd_gen *g, void *user) {
  rope *r = user;
  bd_gen_lanes(g, r->half, BD_GEN_POINT_LANES, turn_lanes, r);
  if (r->rest < 0) return;
  g->lane_to = g->loop[r->rest].count;
  bd_gen_lanes(g, r->rest, BD_GEN_POINT_LANES, copy_rest, r);
}

// Heads shorter than a warp lie side by side in it.
static void share_warp(bd_gen *g, rope *r) {
  int threads = bd_gen_row_threads(g, r->half);
  r->first = bd_gen_long(g, 0);
  r->beside = 1;
  if (!g->cuda) return;
  g->room = BD_GEN_AHEAD_BLOCKS;
  if (threads >= BD_GEN_LANES || g->uneven) return;
  r->beside = BD_GEN_LANES / threads;
  r->first = bd_gen_part_warp(g, threads);
}

// A loop over some numbers of a head.
static int add_loop(bd_gen *g, int64_t extent) {
  g->loop[g->loops] = (bd_gen_loop){
      .scale = 1, .extent = extent, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, extent)};
  return g->loops++;
}

// Packs for both loops, which rows of either are whole numbers of.
static void pack_halves(bd_gen *g, const rope *r) {
  bd_gen_pack(
      g, r->half, BD_GEN_ALIGNED, 5,
      (const bd_access *const[]){&r->in[0], &r->in[1], &r->out[0], &r->out[1], &r->frequency});
  if (r->rest < 0) return;
  int pack = g->uneven ? 1 : g->pack;
  bd_gen_pack(g, r->rest, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&r->rest_in, &r->rest_out});
  if (g->uneven || pack < g->pack) g->pack = g->uneven ? 1 : pack;
  g->uneven = NULL;
}

bd_status bd_gen_rope(bd_gen *g) {
  const int8_t *loops = g->map.in[0];
  int64_t width = g->loop[loops[3]].extent, turned = bd_rope_turned(g->op, width);
  int64_t half = turned / 2;
  rope r = {.t = loops[1], .h = loops[2], .half = add_loop(g, half), .rest = -1};
  if (turned < width) r.rest = add_loop(g, width - turned);
  r.frequency = (bd_access){.dtype = BD_F64, .aligned = BD_GEN_ALIGNED};
  r.frequency.base = r.frequency.valid = frequency_table(g, half);
  r.frequency.stride[r.half] = 1;
  for (int side = 0; side < 2; side++) {
    bd_access *access = side ? r.out : r.in;
    access[0] = side ? bd_gen_out(g, 0) : bd_gen_in(g, 0);
    access[0].stride[loops[3]] = 0;
    const bd_access head = access[0];
    access[0] = bd_gen_shifted(g, &head, bd_rope_first(g->op, width));
    access[0].stride[r.half] = bd_rope_step(g->op);
    access[1] = bd_gen_shifted(g, &access[0], bd_rope_apart(g->op, turned));
    if (r.rest < 0) continue;
    bd_access *rest = side ? &r.rest_out : &r.rest_in;
    *rest = bd_gen_shifted(g, &head, bd_rope_first(g->op, width) > 0 ? 0 : turned);
    rest->stride[r.rest] = 1;
  }
  // Frequencies, in f64, are read again for each position: in registers they would cost a block.
  r.nest = (bd_gen_nest){
      .outer_count = 2, .outer = {loops[0], loops[1]}, .lane_loop = r.half, .apart = true};
  r.nest.work = g->loop[loops[2]].extent * width;
  pack_halves(g, &r);
  share_warp(g, &r);
  bd_gen_items(g, &r.nest, turn_position, &r);
  return BD_OK;
}
