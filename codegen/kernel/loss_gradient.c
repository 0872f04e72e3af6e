// The gradient of the cross entropy, by itself or in the forward pass, where a row that has been
// summed is still in a GPU's cache.
#include "codegen/kernel/loss.h"

enum {
  TOTAL_THREADS = 512,      // of the block that adds up losses
  LONG_ROW_THREADS = 768,   // with 1024 they have too few registers
  LONGEST_BESIDE = 1 << 17, // bytes of a row that a multiprocessor takes beside another
};

static LLVMValueRef is_target(bd_gen *g, const bd_loss *l) {
  return LLVMBuildICmp(g->b, LLVMIntEQ, bd_gen_logical(g, l->v), bd_gen_splat(g, l->row_target),
                       "");
}

static LLVMValueRef less_target(bd_gen *g, const bd_loss *l, LLVMValueRef p) {
  LLVMValueRef less = LLVMBuildFSub(g->b, p, bd_gen_real_like(p, 1.0), "");
  return LLVMBuildSelect(g->b, is_target(g, l), less, p, "");
}

// By the thread that holds the target's logit, before another number takes its place.
static void store_row_loss(bd_gen *g, const bd_loss *l, LLVMValueRef logit) {
  int lanes = g->lanes;
  g->lanes = 1;
  bd_gen_store(g, &l->lse, LLVMBuildFSub(g->b, l->row_lse, logit, ""));
  g->lanes = lanes;
}

static LLVMValueRef target_of_pack(bd_gen *g, const bd_loss *l, LLVMValueRef x) {
  LLVMValueRef none = bd_gen_real_like(x, 0.0);
  return bd_gen_join_pack(g, LLVMBuildSelect(g->b, is_target(g, l), x, none, ""), bd_gen_plus);
}

// One pack of a row holds the target: the others only ask for that.
static LLVMValueRef less_target_of_pack(bd_gen *g, const bd_loss *l, LLVMValueRef x,
                                        LLVMValueRef p) {
  LLVMTypeRef type = LLVMTypeOf(p);
  LLVMValueRef variable = bd_gen_variable(g, type);
  LLVMBuildStore(g->b, p, variable);
  LLVMValueRef first = LLVMBuildNSWAdd(g->b, g->index[l->v], g->loop[l->v].start, "");
  LLVMValueRef within = LLVMBuildSub(g->b, l->row_target, first, "");
  LLVMValueRef pack = bd_gen_long(g, g->lanes);
  bd_gen_if held = bd_gen_if_begin(g, LLVMBuildICmp(g->b, LLVMIntULT, within, pack, ""));
  LLVMBuildStore(g->b, less_target(g, l, p), variable);
  if (l->through) store_row_loss(g, l, target_of_pack(g, l, x));
  bd_gen_if_end(g, &held);
  return LLVMBuildLoad2(g->b, type, variable, "");
}

static LLVMValueRef less_target_of_one(bd_gen *g, const bd_loss *l, LLVMValueRef x,
                                       LLVMValueRef p) {
  if (l->through) {
    bd_gen_if held = bd_gen_if_begin(g, is_target(g, l));
    store_row_loss(g, l, x);
    bd_gen_if_end(g, &held);
  }
  return less_target(g, l, p);
}

static void gradient_lanes(bd_gen *g, void *user, int group) {
  bd_loss *l = user;
  LLVMValueRef x = bd_loss_taken(g, l, group), p = bd_loss_weight(g, x, l->row_lse);
  p = g->cuda && g->lanes > 1 ? less_target_of_pack(g, l, x, p) : less_target_of_one(g, l, x, p);
  bd_gen_store(g, &l->out, LLVMBuildFMul(g->b, p, bd_gen_splat(g, l->row_scale), ""));
}

static void zero_lanes(bd_gen *g, void *user) {
  bd_loss *l = user;
  bd_gen_store(g, &l->out, bd_gen_real(g, 0.0));
}

// Takes row_lse.
static void store_gradient(bd_gen *g, bd_loss *l) {
  l->row_scale = bd_gen_load(g, &l->dloss);
  LLVMValueRef none = bd_gen_long(g, 0);
  LLVMValueRef ignored = LLVMBuildICmp(g->b, LLVMIntSLT, l->row_target, none, "");
  bd_gen_if without = bd_gen_if_begin(g, ignored);
  bd_gen_lanes(g, l->v, BD_GEN_POINT_LANES, zero_lanes, l);
  bd_gen_if_end(g, &without);
  bd_gen_if with = bd_gen_if_begin(g, LLVMBuildNot(g->b, ignored, ""));
  bd_loss_along(g, l, BD_GEN_POINT_LANES, gradient_lanes);
  bd_gen_if_end(g, &with);
}

static void load_target(bd_gen *g, bd_loss *l) {
  l->row_target = bd_gen_index(g, bd_gen_load(g, &l->targets));
}

static void gradient_row(bd_gen *g, void *user) {
  bd_loss *l = user;
  load_target(g, l);
  l->row_lse = bd_gen_load(g, &l->lse);
  store_gradient(g, l);
}

bd_status bd_gen_xent_grad(bd_gen *g) {
  bd_loss l = {.nest = bd_gen_row_nest(g, 0),
               .logits = bd_gen_in(g, 0),
               .targets = bd_gen_in(g, 1),
               .lse = bd_gen_in(g, 2),
               .dloss = bd_gen_in(g, 3),
               .out = bd_gen_out(g, 0)};
  l.v = l.nest.lane_loop;
  bd_loss_pack(g, &l);
  bd_gen_items(g, &l.nest, gradient_row, &l);
  return BD_OK;
}

// Rows without a target, or with one that is none of the vocabulary, have no loss.
static void row_through(bd_gen *g, void *user) {
  bd_loss *l = user;
  load_target(g, l);
  l->row_lse = bd_loss_lse(g, l);
  LLVMValueRef outside = LLVMBuildICmp(g->b, LLVMIntUGE, l->row_target, g->loop[l->v].count, "");
  bd_gen_if without = bd_gen_if_begin(g, outside);
  bd_gen_store(g, &l->lse, bd_gen_real(g, 0.0));
  bd_gen_if_end(g, &without);
  store_gradient(g, l);
}

static void add_row_loss(bd_gen *g, void *user) {
  bd_loss *l = user;
  bd_gen_sum_add(g, l->sum, bd_gen_load(g, &l->lse));
}

// Rows that are read a second time are to be found in the second cache, for which few of them may
// be on their way at once; of two blocks one goes on reading while the other's threads wait for
// each other.
int bd_loss_threads(const bd_gen *g) {
  if (!g->kernel->with_gradient || g->part > 0) return TOTAL_THREADS;
  const bd_value *logits = &g->kernel->function->values[g->op->in[0]];
  int64_t row = logits->type.dims[logits->type.rank - 1];
  if (row < BD_GEN_LONG_ROW) return BD_GEN_THREADS;
  int64_t bytes = row * bd_dtype_bytes(logits->type.dtype);
  return bytes > LONGEST_BESIDE ? LONG_ROW_THREADS : BD_LOSS_ROW_THREADS / 2;
}

// Part 0 takes rows, part 1 adds up what they have left in the place of their log-sum-exps, in the
// order of `xent` by itself.
bd_status bd_gen_xent_with_gradient(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  LLVMValueRef scale = bd_gen_buffer(g, k->in_count + k->out_count);
  bd_loss l = {.nest = bd_gen_row_nest(g, 0),
               .logits = bd_gen_in(g, 0),
               .targets = bd_gen_in(g, 1),
               .lse = bd_gen_in(g, 2),
               .dloss = {.dtype = BD_F32, .base = scale, .valid = scale},
               .out = bd_gen_in(g, 0),
               .through = true};
  l.v = l.nest.lane_loop;
  if (g->part == 0) {
    bd_loss_pack(g, &l);
    bd_gen_items(g, &l.nest, row_through, &l);
  } else {
    l.out = bd_gen_out(g, 0);
    bd_loss_total(g, &l, add_row_loss);
  }
  return BD_OK;
}
