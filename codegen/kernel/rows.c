// What kernels that work row by row, or that add rows up, share.
#include "codegen/kernel/rows.h"

bd_gen_nest bd_gen_row_nest(const bd_gen *g, int operand) {
  const int8_t *loops = g->map.in[operand];
  int rank = g->kernel->function->values[g->op->in[operand]].type.rank;
  bd_gen_nest nest = {.outer_count = rank - 1, .lane_loop = loops[rank - 1]};
  for (int d = 0; d < rank - 1; d++)
    nest.outer[d] = loops[d];
  nest.work = g->loop[nest.lane_loop].extent;
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

void bd_gen_sum_columns(bd_gen *g, bd_gen_columns *c) {
  bd_gen_nest nest = {.outer_count = c->outer_count, .lane_loop = c->lane_loop};
  for (int i = 0; i < c->outer_count; i++)
    nest.outer[i] = c->outer[i];
  nest.block = g->cuda ? BD_GEN_LANES : BD_GEN_COLUMNS;
  nest.work = nest.block * bd_gen_work(g, c->row_count, c->row);
  bd_gen_items(g, &nest, column_item, c);
}

LLVMValueRef bd_gen_to_f32(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildFPTrunc(g->b, x, bd_gen_f32(g), "");
}
