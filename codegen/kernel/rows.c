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

LLVMValueRef bd_gen_to_f32(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildFPTrunc(g->b, x, bd_gen_f32(g), "");
}
