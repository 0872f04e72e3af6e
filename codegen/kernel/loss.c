// Cross entropy over a vocabulary that may be split: a part contributes the targets it holds.
#include "codegen/kernel/rows.h"

typedef struct loss {
  bd_gen_nest nest;
  int v; // the vocabulary's loop
  bd_access logits, targets, lse, dloss, out;
  int serial_count, serial[BD_MAX_LOOPS], lane_loop; // over rows
  LLVMValueRef sum, max, m;
  LLVMValueRef row_lse, row_target, row_scale;
} loss;

static void pack_rows(bd_gen *g, const loss *l) {
  bd_gen_pack(g, l->v, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&l->logits, &l->out});
}

static void find_max(bd_gen *g, void *user) {
  loss *l = user;
  bd_gen_max_add(g, l->max, bd_gen_load(g, &l->logits));
}

static void add_exp(bd_gen *g, void *user) {
  loss *l = user;
  LLVMValueRef x = bd_gen_load(g, &l->logits);
  x = bd_gen_exp(g, LLVMBuildFSub(g->b, x, bd_gen_splat(g, l->m), ""));
  bd_gen_sum_add(g, l->sum, x);
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
  bd_gen_lanes(g, l->v, BD_GEN_LANES, add_exp, l);
  LLVMValueRef total = bd_gen_log(g, bd_gen_to_f32(g, bd_gen_sum_end(g, l->sum)));
  bd_gen_store(g, &l->out, LLVMBuildFAdd(g->b, total, l->m, ""));
}

bd_status bd_gen_lse(bd_gen *g) {
  loss l = {.nest = bd_gen_row_nest(g, 0), .logits = bd_gen_in(g, 0), .out = bd_gen_out(g, 0)};
  l.v = l.nest.lane_loop;
  pack_rows(g, &l);
  bd_gen_items(g, &l.nest, lse_row, &l);
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

static void total_loss(bd_gen *g, void *user) {
  loss *l = user;
  l->sum = bd_gen_sum_begin(g);
  bd_gen_serial(g, l->serial_count, l->serial, losses_along, l);
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
  if (!rows.outer_count) {
    rows.outer[rows.outer_count++] = g->loops;
    g->loop[g->loops++] = (bd_gen_loop){
        .scale = 1, .extent = 1, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, 1)};
  }
  l.serial_count = rows.outer_count - 1;
  for (int i = 0; i < l.serial_count; i++)
    l.serial[i] = rows.outer[i];
  l.lane_loop = rows.outer[l.serial_count];
  bd_gen_items(g, &one, total_loss, &l);
  return BD_OK;
}

static void gradient_lanes(bd_gen *g, void *user) {
  loss *l = user;
  LLVMValueRef x = bd_gen_load(g, &l->logits);
  LLVMValueRef p = bd_gen_exp(g, LLVMBuildFSub(g->b, x, bd_gen_splat(g, l->row_lse), ""));
  LLVMValueRef hit =
      LLVMBuildICmp(g->b, LLVMIntEQ, bd_gen_logical(g, l->v), bd_gen_splat(g, l->row_target), "");
  LLVMValueRef less = LLVMBuildFSub(g->b, p, bd_gen_real_like(p, 1.0), "");
  p = LLVMBuildSelect(g->b, hit, less, p, "");
  p = LLVMBuildFMul(g->b, p, bd_gen_splat(g, l->row_scale), "");
  LLVMValueRef ignored = LLVMBuildICmp(g->b, LLVMIntSLT, l->row_target, bd_gen_long(g, 0), "");
  bd_gen_store(g, &l->out, LLVMBuildSelect(g->b, ignored, bd_gen_real_like(p, 0.0), p, ""));
}

static void gradient_row(bd_gen *g, void *user) {
  loss *l = user;
  l->row_target = bd_gen_index(g, bd_gen_load(g, &l->targets));
  l->row_lse = bd_gen_load(g, &l->lse);
  l->row_scale = bd_gen_load(g, &l->dloss);
  bd_gen_lanes(g, l->v, BD_GEN_POINT_LANES, gradient_lanes, l);
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
