// Cross entropy over a vocabulary that may be split: a part contributes the targets it holds.
#include "codegen/kernel/loss.h"
#include <float.h>

enum {
  SLACK = 4, // by which a weight of a sum may exceed 1, as an exponent of e
  AHEAD = 8, // rows whose losses a thread asks for at once
};

void bd_loss_pack(bd_gen *g, const bd_loss *l) {
  bd_gen_pack(g, l->v, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&l->logits, &l->out});
}

static void fetch(bd_gen *g, void *user, int group) {
  bd_loss *l = user;
  l->fetched[group] = bd_gen_fetch(g, &l->logits);
}

LLVMValueRef bd_loss_taken(bd_gen *g, const bd_loss *l, int group) {
  return bd_gen_fetched(g, &l->logits, l->fetched[group]);
}

void bd_loss_along(bd_gen *g, bd_loss *l, int width, bd_gen_group finish) {
  bd_gen_ahead groups = {.ahead = BD_GEN_MOST_AHEAD, .fetch = fetch, .finish = finish, .user = l};
  bd_gen_lanes_ahead(g, l->v, width, &groups);
}

static void find_max(bd_gen *g, void *user) {
  bd_loss *l = user;
  bd_gen_max_add(g, l->max, bd_gen_load(g, &l->logits));
}

LLVMValueRef bd_loss_weight(bd_gen *g, LLVMValueRef x, LLVMValueRef from) {
  return bd_gen_exp_weight(g, LLVMBuildFSub(g->b, x, bd_gen_splat(g, from), ""));
}

static void add_weight(bd_gen *g, void *user) {
  bd_loss *l = user;
  bd_gen_sum_add(g, l->sum, bd_loss_weight(g, bd_gen_load(g, &l->logits), l->m));
}

static LLVMValueRef log_sum(bd_gen *g, const bd_loss *l, LLVMValueRef from) {
  LLVMValueRef total = bd_gen_log(g, bd_gen_to_f32(g, bd_gen_sum_end(g, l->sum)));
  return LLVMBuildFAdd(g->b, total, from, "");
}

static LLVMValueRef lse_in_two(bd_gen *g, bd_loss *l) {
  l->max = bd_gen_max_begin(g);
  bd_gen_lanes(g, l->v, BD_GEN_LANES, find_max, l);
  LLVMValueRef m = bd_gen_max_end(g, l->max);
  // A row of nothing, or of -inf only, has no maximum to subtract.
  LLVMValueRef lowest = bd_gen_real_like(m, -1.0 / 0.0);
  LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealOEQ, m, lowest, "");
  l->m = LLVMBuildSelect(g->b, none, bd_gen_real_like(m, 0.0), m, "");
  l->sum = bd_gen_sum_begin(g);
  bd_gen_lanes(g, l->v, BD_GEN_LANES, add_weight, l);
  return log_sum(g, l, l->m);
}

// One instruction of a GPU, as bd_gen_larger is not; a NaN is never the larger.
static LLVMValueRef larger(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  return bd_gen_intrinsic(g, "llvm.maxnum", 1, &type, 2, (LLVMValueRef[]){a, b});
}

static LLVMValueRef real_at(bd_gen *g, LLVMValueRef variable) {
  return LLVMBuildLoad2(g->b, bd_gen_f32(g), variable, "");
}

static void scale_sum(bd_gen *g, const bd_loss *l, LLVMValueRef by) {
  LLVMTypeRef wide = bd_gen_f64(g);
  LLVMValueRef sum = LLVMBuildLoad2(g->b, wide, l->sum, "");
  by = LLVMBuildFPExt(g->b, by, wide, "");
  LLVMBuildStore(g->b, LLVMBuildFMul(g->b, sum, by, ""), l->sum);
}

// A thread's sum is relative to a number that is near the largest of what it has seen. It takes
// another only where a pack exceeds it by more than SLACK, which is rare from the second pack on.
static void add_pack(bd_gen *g, void *user, int group) {
  bd_loss *l = user;
  LLVMValueRef x = bd_loss_taken(g, l, group), top = bd_gen_join_pack(g, x, larger);
  LLVMValueRef before = real_at(g, l->max);
  LLVMValueRef most = LLVMBuildFAdd(g->b, before, bd_gen_real_like(before, SLACK), "");
  bd_gen_if rises = bd_gen_if_begin(g, LLVMBuildFCmp(g->b, LLVMRealOGT, top, most, ""));
  scale_sum(g, l, bd_gen_exp_weight(g, LLVMBuildFSub(g->b, before, top, "")));
  LLVMBuildStore(g->b, top, l->max);
  bd_gen_if_end(g, &rises);
  LLVMValueRef weights = bd_gen_join_pack(g, bd_loss_weight(g, x, real_at(g, l->max)), bd_gen_plus);
  LLVMTypeRef wide = bd_gen_f64(g);
  LLVMValueRef sum = LLVMBuildLoad2(g->b, wide, l->sum, "");
  sum = LLVMBuildFAdd(g->b, LLVMBuildFPExt(g->b, weights, wide, ""), sum, "");
  LLVMBuildStore(g->b, sum, l->sum);
}

// Reads the row once. The lowest number stands for a maximum of nothing, or of -inf only.
static LLVMValueRef lse_at_once(bd_gen *g, bd_loss *l) {
  l->max = bd_gen_variable(g, bd_gen_f32(g));
  LLVMBuildStore(g->b, LLVMConstReal(bd_gen_f32(g), -FLT_MAX), l->max);
  l->sum = bd_gen_sum_begin(g);
  bd_loss_along(g, l, BD_GEN_LANES, add_pack);
  LLVMValueRef own = real_at(g, l->max), all = bd_gen_max_end(g, l->max);
  scale_sum(g, l, bd_gen_exp_weight(g, LLVMBuildFSub(g->b, own, all, "")));
  return log_sum(g, l, all);
}

LLVMValueRef bd_loss_lse(bd_gen *g, bd_loss *l) {
  bool at_once = g->cuda && (g->pack > 1 || l->nest.whole_block);
  return at_once ? lse_at_once(g, l) : lse_in_two(g, l);
}

static void lse_row(bd_gen *g, void *user) {
  bd_loss *l = user;
  bd_gen_store(g, &l->out, bd_loss_lse(g, l));
}

bd_status bd_gen_lse(bd_gen *g) {
  bd_loss l = {.nest = bd_gen_row_nest(g, 0), .logits = bd_gen_in(g, 0), .out = bd_gen_out(g, 0)};
  l.v = l.nest.lane_loop;
  bd_loss_pack(g, &l);
  bd_gen_items(g, &l.nest, lse_row, &l);
  return BD_OK;
}

static void add_losses(bd_gen *g, void *user) {
  bd_loss *l = user;
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
  bd_loss *l = user;
  g->lane_from = bd_gen_long(g, 0);
  g->lane_to = g->loop[l->lane_loop].count;
  bd_gen_lanes(g, l->lane_loop, BD_GEN_LANES, l->add, l);
}

// Each row waits for memory twice: several are on their way at once.
static void losses_across(bd_gen *g, void *user) {
  bd_loss *l = user;
  g->copies = AHEAD; // of the innermost loop
  bd_gen_serial(g, l->serial_count, l->serial, l->add, l);
}

static void total_loss(bd_gen *g, void *user) {
  bd_loss *l = user;
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

void bd_loss_total(bd_gen *g, bd_loss *l, bd_gen_body add) {
  bd_gen_nest rows = bd_gen_row_nest(g, 0),
              one = {.lane_loop = -1, .work = BD_GEN_CHUNK, .whole_block = true};
  if (!rows.outer_count) rows.outer[rows.outer_count++] = bd_gen_own_loop(g, 1);
  l->add = add;
  l->serial_count = rows.outer_count - 1;
  for (int i = 0; i < l->serial_count; i++)
    l->serial[i] = rows.outer[i];
  l->lane_loop = rows.outer[l->serial_count];
  bd_gen_items(g, &one, total_loss, l);
}

bd_status bd_gen_xent(bd_gen *g) {
  if (g->kernel->with_gradient) return bd_gen_xent_with_gradient(g);
  bd_loss l = {.v = bd_gen_row_nest(g, 0).lane_loop,
               .logits = bd_gen_in(g, 0),
               .targets = bd_gen_in(g, 1),
               .lse = bd_gen_in(g, 2),
               .out = bd_gen_out(g, 0)};
  l.logits.stride[l.v] = 0; // the target is the index
  bd_loss_total(g, &l, add_losses);
  return BD_OK;
}
