// Cross entropy over a vocabulary that may be split: a part contributes the targets it holds.
#include "codegen/kernel/rows.h"
#include <float.h>

enum {
  SLACK = 4, // by which a weight of a sum may exceed 1, as an exponent of e
  AHEAD = 8, // rows whose losses a thread asks for at once
};

typedef struct loss {
  bd_gen_nest nest;
  int v; // the vocabulary's loop
  bd_access logits, targets, lse, dloss, out;
  int serial_count, serial[BD_MAX_LOOPS], lane_loop; // over rows
  LLVMValueRef sum, max, m;
  LLVMValueRef row_lse, row_target, row_scale;
  LLVMValueRef fetched[BD_GEN_MOST_AHEAD]; // logits that a GPU's thread has on their way
} loss;

static void pack_rows(bd_gen *g, const loss *l) {
  bd_gen_pack(g, l->v, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&l->logits, &l->out});
}

static void fetch(bd_gen *g, void *user, int group) {
  loss *l = user;
  l->fetched[group] = bd_gen_fetch(g, &l->logits);
}

static LLVMValueRef take(bd_gen *g, const loss *l, int group) {
  return bd_gen_fetched(g, &l->logits, l->fetched[group]);
}

static void along_logits(bd_gen *g, loss *l, int width, bd_gen_group finish) {
  bd_gen_ahead groups = {.ahead = BD_GEN_MOST_AHEAD, .fetch = fetch, .finish = finish, .user = l};
  bd_gen_lanes_ahead(g, l->v, width, &groups);
}

static void find_max(bd_gen *g, void *user) {
  loss *l = user;
  bd_gen_max_add(g, l->max, bd_gen_load(g, &l->logits));
}

static LLVMValueRef weight_of(bd_gen *g, LLVMValueRef x, LLVMValueRef from) {
  return bd_gen_exp_weight(g, LLVMBuildFSub(g->b, x, bd_gen_splat(g, from), ""));
}

static void add_weight(bd_gen *g, void *user) {
  loss *l = user;
  bd_gen_sum_add(g, l->sum, weight_of(g, bd_gen_load(g, &l->logits), l->m));
}

static void store_lse(bd_gen *g, const loss *l, LLVMValueRef from) {
  LLVMValueRef total = bd_gen_log(g, bd_gen_to_f32(g, bd_gen_sum_end(g, l->sum)));
  bd_gen_store(g, &l->out, LLVMBuildFAdd(g->b, total, from, ""));
}

static void lse_row(bd_gen *g, void *user) {
  loss *l = user;
  l->max = bd_gen_max_begin(g);
  bd_gen_lanes(g, l->v, BD_GEN_LANES, find_max, l);
  LLVMValueRef m = bd_gen_max_end(g, l->max);
  // A row of nothing, or of -inf only, has no maximum to subtract.
  LLVMValueRef lowest = bd_gen_real_like(m, -1.0 / 0.0);
  LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealOEQ, m, lowest, "");
  l->m = LLVMBuildSelect(g->b, none, bd_gen_real_like(m, 0.0), m, "");
  l->sum = bd_gen_sum_begin(g);
  bd_gen_lanes(g, l->v, BD_GEN_LANES, add_weight, l);
  store_lse(g, l, l->m);
}

// One instruction of a GPU, as bd_gen_larger is not; a NaN is never the larger.
static LLVMValueRef larger(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  return bd_gen_intrinsic(g, "llvm.maxnum", 1, &type, 2, (LLVMValueRef[]){a, b});
}

static LLVMValueRef real_at(bd_gen *g, LLVMValueRef variable) {
  return LLVMBuildLoad2(g->b, bd_gen_f32(g), variable, "");
}

static void scale_sum(bd_gen *g, const loss *l, LLVMValueRef by) {
  LLVMTypeRef wide = bd_gen_f64(g);
  LLVMValueRef sum = LLVMBuildLoad2(g->b, wide, l->sum, "");
  by = LLVMBuildFPExt(g->b, by, wide, "");
  LLVMBuildStore(g->b, LLVMBuildFMul(g->b, sum, by, ""), l->sum);
}

// A thread's sum is relative to a number that is near the largest of what it has seen. It takes
// another only where a pack exceeds it by more than SLACK, which is rare from the second pack on.
static void add_pack(bd_gen *g, void *user, int group) {
  loss *l = user;
  LLVMValueRef x = take(g, l, group), top = bd_gen_join_pack(g, x, larger);
  LLVMValueRef before = real_at(g, l->max);
  LLVMValueRef most = LLVMBuildFAdd(g->b, before, bd_gen_real_like(before, SLACK), "");
  bd_gen_if rises = bd_gen_if_begin(g, LLVMBuildFCmp(g->b, LLVMRealOGT, top, most, ""));
  scale_sum(g, l, bd_gen_exp_weight(g, LLVMBuildFSub(g->b, before, top, "")));
  LLVMBuildStore(g->b, top, l->max);
  bd_gen_if_end(g, &rises);
  LLVMValueRef weights = bd_gen_join_pack(g, weight_of(g, x, real_at(g, l->max)), bd_gen_plus);
  LLVMTypeRef wide = bd_gen_f64(g);
  LLVMValueRef sum = LLVMBuildLoad2(g->b, wide, l->sum, "");
  sum = LLVMBuildFAdd(g->b, LLVMBuildFPExt(g->b, weights, wide, ""), sum, "");
  LLVMBuildStore(g->b, sum, l->sum);
}

// Reads the row once. The lowest number stands for a maximum of nothing, or of -inf only.
static void lse_row_at_once(bd_gen *g, void *user) {
  loss *l = user;
  l->max = bd_gen_variable(g, bd_gen_f32(g));
  LLVMBuildStore(g->b, LLVMConstReal(bd_gen_f32(g), -FLT_MAX), l->max);
  l->sum = bd_gen_sum_begin(g);
  along_logits(g, l, BD_GEN_LANES, add_pack);
  LLVMValueRef own = real_at(g, l->max), all = bd_gen_max_end(g, l->max);
  scale_sum(g, l, bd_gen_exp_weight(g, LLVMBuildFSub(g->b, own, all, "")));
  store_lse(g, l, all);
}

// A GPU reads rows once where it does not add as the host does anyway.
bd_status bd_gen_lse(bd_gen *g) {
  loss l = {.nest = bd_gen_row_nest(g, 0), .logits = bd_gen_in(g, 0), .out = bd_gen_out(g, 0)};
  l.v = l.nest.lane_loop;
  pack_rows(g, &l);
  bool at_once = g->cuda && (g->pack > 1 || l.nest.whole_block);
  bd_gen_items(g, &l.nest, at_once ? lse_row_at_once : lse_row, &l);
  return BD_OK;
}

static void add_losses(bd_gen *g, void *user) {
  loss *l = user;
  LLVMValueRef target = bd_gen_load(g, &l->targets);
  target = bd_gen_index(g, target);
  LLVMValueRef valid = LLVMBuildICmp(g->b, LLVMIntSGE, target, bd_gen_int_like(target, 0), "");
  LLVMValueRef local = LLVMBuildSub(g->b, target, bd_gen_splat(g, g->loop[l->v].start), "");
  LLVMValueRef held =
      LLVMBuildICmp(g->b, LLVMIntULT, local, bd_gen_splat(g, g->loop[l->v].count), "");
  held = LLVMBuildAnd(g->b, held, valid, "");
  LLVMValueRef logit = bd_gen_load_at(g, &l->logits, local, held);
  LLVMValueRef loss_of = LLVMBuildFSub(g->b, bd_gen_load(g, &l->lse), logit, "");
  LLVMValueRef zero = bd_gen_real_like(loss_of, 0.0);
  bd_gen_sum_add(g, l->sum, LLVMBuildSelect(g->b, held, loss_of, zero, ""));
}

static void losses_along(bd_gen *g, void *user) {
  loss *l = user;
  g->lane_from = bd_gen_long(g, 0);
  g->lane_to = g->loop[l->lane_loop].count;
  bd_gen_lanes(g, l->lane_loop, BD_GEN_LANES, add_losses, l);
}

// Each row waits for memory twice: several are on their way at once.
static void losses_across(bd_gen *g, void *user) {
  loss *l = user;
  g->copies = AHEAD; // of the innermost loop
  bd_gen_serial(g, l->serial_count, l->serial, add_losses, l);
}

static void total_loss(bd_gen *g, void *user) {
  loss *l = user;
  l->sum = bd_gen_sum_begin(g);
  if (g->cuda) {
    g->lane_from = bd_gen_long(g, 0);
    g->lane_to = g->loop[l->lane_loop].count;
    bd_gen_lanes(g, l->lane_loop, BD_GEN_LANES, losses_across, l);
  } else {
    bd_gen_serial(g, l->serial_count, l->serial, losses_along, l);
  }
  bd_gen_store(g, &l->out, bd_gen_to_f32(g, bd_gen_sum_end(g, l->sum)));
}

// One chunk, or block: rows are added in ascending order, by lane.
bd_status bd_gen_xent(bd_gen *g) {
  bd_gen_nest rows = bd_gen_row_nest(g, 0),
              one = {.lane_loop = -1, .work = BD_GEN_CHUNK, .whole_block = true};
  loss l = {.v = rows.lane_loop,
            .logits = bd_gen_in(g, 0),
            .targets = bd_gen_in(g, 1),
            .lse = bd_gen_in(g, 2),
            .out = bd_gen_out(g, 0)};
  l.logits.stride[l.v] = 0; // the target is the index
  if (!rows.outer_count) rows.outer[rows.outer_count++] = bd_gen_own_loop(g, 1);
  l.serial_count = rows.outer_count - 1;
  for (int i = 0; i < l.serial_count; i++)
    l.serial[i] = rows.outer[i];
  l.lane_loop = rows.outer[l.serial_count];
  bd_gen_items(g, &one, total_loss, &l);
  return BD_OK;
}

static LLVMValueRef less_target(bd_gen *g, const loss *l, LLVMValueRef p) {
  LLVMValueRef hit =
      LLVMBuildICmp(g->b, LLVMIntEQ, bd_gen_logical(g, l->v), bd_gen_splat(g, l->row_target), "");
  LLVMValueRef less = LLVMBuildFSub(g->b, p, bd_gen_real_like(p, 1.0), "");
  return LLVMBuildSelect(g->b, hit, less, p, "");
}

// One pack of a row holds the target: the others only ask for that.
static LLVMValueRef less_target_of_pack(bd_gen *g, const loss *l, LLVMValueRef p) {
  LLVMTypeRef type = LLVMTypeOf(p);
  LLVMValueRef variable = bd_gen_variable(g, type);
  LLVMBuildStore(g->b, p, variable);
  LLVMValueRef first = LLVMBuildNSWAdd(g->b, g->index[l->v], g->loop[l->v].start, "");
  LLVMValueRef within = LLVMBuildSub(g->b, l->row_target, first, "");
  LLVMValueRef pack = bd_gen_long(g, g->lanes);
  bd_gen_if held = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntULT, within, pack, ""));
  LLVMBuildStore(g->b, less_target(g, l, p), variable);
  bd_gen_if_end(g, &held);
  return LLVMBuildLoad2(g->b, type, variable, "");
}

static void gradient_lanes(bd_gen *g, void *user, int group) {
  loss *l = user;
  LLVMValueRef p = weight_of(g, take(g, l, group), l->row_lse);
  p = g->cuda && g->lanes > 1 ? less_target_of_pack(g, l, p) : less_target(g, l, p);
  bd_gen_store(g, &l->out, LLVMBuildFMul(g->b, p, bd_gen_splat(g, l->row_scale), ""));
}

static void zero_lanes(bd_gen *g, void *user) {
  loss *l = user;
  bd_gen_store(g, &l->out, bd_gen_real(g, 0.0));
}

static void gradient_row(bd_gen *g, void *user) {
  loss *l = user;
  l->row_target = bd_gen_index(g, bd_gen_load(g, &l->targets));
  l->row_lse = bd_gen_load(g, &l->lse);
  l->row_scale = bd_gen_load(g, &l->dloss);
  LLVMValueRef none = bd_gen_long(g, 0);
  LLVMValueRef ignored = LLVMBuildICmp(g->b, LLVMIntSLT, l->row_target, none, "");
  bd_gen_if without = bd_gen_if_begin(g, ignored);
  bd_gen_lanes(g, l->v, BD_GEN_POINT_LANES, zero_lanes, l);
  bd_gen_if_end(g, &without);
  bd_gen_if with = bd_gen_if_begin(g, LLVMBuildNot(g->b, ignored, ""));
  along_logits(g, l, BD_GEN_POINT_LANES, gradient_lanes);
  bd_gen_if_end(g, &with);
}

bd_status bd_gen_xent_grad(bd_gen *g) {
  loss l = {.nest = bd_gen_row_nest(g, 0),
            .logits = bd_gen_in(g, 0),
            .targets = bd_gen_in(g, 1),
            .lse = bd_gen_in(g, 2),
            .dloss = bd_gen_in(g, 3),
            .out = bd_gen_out(g, 0)};
  l.v = l.nest.lane_loop;
  pack_rows(g, &l);
  bd_gen_items(g, &l.nest, gradient_row, &l);
  return BD_OK;
}
