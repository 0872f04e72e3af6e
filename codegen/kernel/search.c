// search: how many elements of a growing list are at most the place's number; pooled, places count
// on from sample to sample. A thread halves what is left of the list.
#include "codegen/kernel/gen.h"
#include "ir/pool.h"

typedef struct hunt {
  bd_access x, out; // x without the loop over the list
  bd_gen_list list;
  int place, sample; // loops; sample -1: places begin anew in each
} hunt;

// `position` moves on by `step` where all before it and so many more are at most p.
static LLVMValueRef step_on(bd_gen *g, const bd_gen_list *list, LLVMValueRef position, int64_t step,
                            LLVMValueRef p) {
  LLVMValueRef next = LLVMBuildAdd(g->b, position, bd_gen_int_like(position, step), "");
  LLVMValueRef extent = bd_gen_int_like(position, list->extent);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntULE, next, extent, "");
  LLVMValueRef last = LLVMBuildSub(g->b, next, bd_gen_int_like(next, 1), "");
  last = LLVMBuildSelect(g->b, there, last, bd_gen_int_like(last, 0), "");
  LLVMValueRef offset = LLVMBuildMul(g->b, last, bd_gen_int_like(last, list->apart), "");
  if (list->offset) offset = LLVMBuildAdd(g->b, offset, list->offset, "");
  LLVMValueRef x = bd_gen_index(g, bd_gen_load_at(g, list->x, offset, there));
  LLVMValueRef most = LLVMBuildICmp(g->b, LLVMIntSLE, x, p, "");
  return LLVMBuildSelect(g->b, LLVMBuildAnd(g->b, there, most, ""), next, position, "");
}

LLVMValueRef bd_gen_count_at_most(bd_gen *g, const bd_gen_list *list, LLVMValueRef p) {
  LLVMValueRef position = bd_gen_int_like(p, 0);
  int64_t step = 1;
  while (step <= list->extent / 2)
    step *= 2;
  for (; step > 0; step /= 2)
    position = step_on(g, list, position, step, p);
  return position;
}

LLVMValueRef bd_gen_pooled(bd_gen *g, int sample, int loop) {
  LLVMValueRef number = bd_gen_logical(g, loop);
  LLVMValueRef extent = bd_gen_long(g, g->map.loop[loop].extent);
  LLVMValueRef before = LLVMBuildNSWMul(g->b, g->index[sample], extent, "");
  return LLVMBuildAdd(g->b, number, bd_gen_splat(g, before), "");
}

static void find(bd_gen *g, void *user) {
  const hunt *h = user;
  LLVMValueRef p =
      h->sample < 0 ? bd_gen_logical(g, h->place) : bd_gen_pooled(g, h->sample, h->place);
  LLVMValueRef position = bd_gen_count_at_most(g, &h->list, p);
  bd_gen_store(g, &h->out, bd_gen_cast(g, BD_I64, h->out.dtype, position));
}

bd_status bd_gen_search(bd_gen *g) {
  int rank = g->kernel->function->values[g->op->out[0]].type.rank;
  int loop = g->map.in[0][bd_op_int(g->op, "dim", 0)];
  hunt h = {.x = bd_gen_in(g, 0),
            .out = bd_gen_out(g, 0),
            .place = g->map.out[0][rank - 1],
            .sample = bd_op_pools(g->op) ? g->map.out[0][0] : -1};
  h.list = (bd_gen_list){&h.x, NULL, h.x.stride[loop], g->loop[loop].extent};
  h.x.stride[loop] = 0;
  bd_access *accesses[] = {&h.x, &h.out};
  bd_gen_points points = {
      .loops = rank, .access_count = 2, .accesses = accesses, .body = find, .user = &h};
  for (int d = 0; d < rank; d++)
    points.order[d] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
  return BD_OK;
}
