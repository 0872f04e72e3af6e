// search: how many elements of a growing list are at most the place's number. A thread halves what
// is left of the list.
#include "codegen/kernel/gen.h"

typedef struct hunt {
  bd_access x, out; // x without the loop over the list
  int list, place;  // loops
  int64_t apart;    // elements between two of the list
} hunt;

// `position` moves on by `step` where all before it and so many more are at most p.
static LLVMValueRef step_on(bd_gen *g, const hunt *h, LLVMValueRef position, int64_t step,
                            LLVMValueRef p) {
  LLVMValueRef next = LLVMBuildAdd(g->b, position, bd_gen_int_like(position, step), "");
  LLVMValueRef extent = bd_gen_int_like(position, g->loop[h->list].extent);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntULE, next, extent, "");
  LLVMValueRef last = LLVMBuildSub(g->b, next, bd_gen_int_like(next, 1), "");
  last = LLVMBuildSelect(g->b, there, last, bd_gen_int_like(last, 0), "");
  LLVMValueRef offset = LLVMBuildMul(g->b, last, bd_gen_int_like(last, h->apart), "");
  LLVMValueRef x = bd_gen_index(g, bd_gen_load_at(g, &h->x, offset, there));
  LLVMValueRef most = LLVMBuildICmp(g->b, LLVMIntSLE, x, p, "");
  return LLVMBuildSelect(g->b, LLVMBuildAnd(g->b, there, most, ""), next, position, "");
}

static void find(bd_gen *g, void *user) {
  const hunt *h = user;
  LLVMValueRef p = bd_gen_logical(g, h->place), position = bd_gen_int_like(p, 0);
  int64_t step = 1;
  while (step <= g->loop[h->list].extent / 2)
    step *= 2;
  for (; step > 0; step /= 2)
    position = step_on(g, h, position, step, p);
  bd_gen_store(g, &h->out, bd_gen_cast(g, BD_I64, h->out.dtype, position));
}

bd_status bd_gen_search(bd_gen *g) {
  int rank = g->kernel->function->values[g->op->out[0]].type.rank;
  hunt h = {.x = bd_gen_in(g, 0),
            .out = bd_gen_out(g, 0),
            .list = g->map.in[0][bd_op_int(g->op, "dim", 0)],
            .place = g->map.out[0][rank - 1]};
  h.apart = h.x.stride[h.list];
  h.x.stride[h.list] = 0;
  bd_access *accesses[] = {&h.x, &h.out};
  bd_gen_points points = {
      .loops = rank, .access_count = 2, .accesses = accesses, .body = find, .user = &h};
  for (int d = 0; d < rank; d++)
    points.order[d] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
  return BD_OK;
}
