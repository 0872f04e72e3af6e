// row_items: a thread finds the group that its row is in, by where those of the first sample begin,
// then the sample, and in the sample's queue the item that comes there.
#include "codegen/kernel/gen.h"

typedef struct seating {
  bd_access arrived, starts, out; // operands without their loops
  bd_access whole;                // keeps the loops of the result apart
  int sample, row, item, group;   // loops
  int64_t arrived_sample, arrived_item, arrived_group, starts_sample,
      starts_group; // elements apart
} seating;

// The last of a list that is at most p, or the first.
static LLVMValueRef last_at_most(bd_gen *g, const bd_gen_list *list, LLVMValueRef p) {
  LLVMValueRef count = bd_gen_count_at_most(g, list, p), one = bd_gen_int_like(count, 1);
  LLVMValueRef any = LLVMBuildICmp(g->b, LLVMIntSGE, count, one, "");
  return LLVMBuildSelect(g->b, any, LLVMBuildSub(g->b, count, one, ""), bd_gen_int_like(count, 0),
                         "");
}

static LLVMValueRef times(bd_gen *g, LLVMValueRef x, int64_t factor) {
  return LLVMBuildMul(g->b, x, bd_gen_int_like(x, factor), "");
}

static void seat(bd_gen *g, void *user) {
  const seating *s = user;
  LLVMValueRef row = bd_gen_pooled(g, s->sample, s->row);
  const bd_gen_list groups = {&s->starts, NULL, s->starts_group, g->loop[s->group].extent};
  LLVMValueRef group = last_at_most(g, &groups, row), column = times(g, group, s->starts_group);
  const bd_gen_list samples = {&s->starts, column, s->starts_sample, g->loop[s->sample].extent};
  LLVMValueRef sample = last_at_most(g, &samples, row);
  LLVMValueRef at = LLVMBuildAdd(g->b, column, times(g, sample, s->starts_sample), "");
  LLVMValueRef all = LLVMBuildICmp(g->b, LLVMIntEQ, row, row, "");
  LLVMValueRef first = bd_gen_index(g, bd_gen_load_at(g, &s->starts, at, all));
  LLVMValueRef queue = LLVMBuildAdd(g->b, times(g, group, s->arrived_group),
                                    times(g, sample, s->arrived_sample), "");
  int64_t count = g->loop[s->item].extent;
  const bd_gen_list items = {&s->arrived, queue, s->arrived_item, count};
  LLVMValueRef item = bd_gen_count_at_most(g, &items, LLVMBuildSub(g->b, row, first, ""));
  LLVMValueRef found = LLVMBuildICmp(g->b, LLVMIntSLT, item, bd_gen_int_like(item, count), "");
  LLVMValueRef number = LLVMBuildAdd(g->b, item, times(g, sample, count), "");
  number = LLVMBuildSelect(g->b, found, number, bd_gen_int_like(number, -1), "");
  bd_gen_store(g, &s->out, bd_gen_cast(g, BD_I64, s->out.dtype, number));
}

static int64_t take_stride(bd_access *access, int loop) {
  int64_t stride = access->stride[loop];
  access->stride[loop] = 0;
  return stride;
}

bd_status bd_gen_row_items(bd_gen *g) {
  const int8_t *queue = g->map.in[0], *rows = g->map.out[0];
  seating s = {.arrived = bd_gen_in(g, 0),
               .starts = bd_gen_in(g, 1),
               .out = bd_gen_out(g, 0),
               .whole = bd_gen_in(g, 0),
               .sample = rows[0],
               .row = rows[1],
               .item = queue[1],
               .group = queue[2]};
  s.arrived_sample = take_stride(&s.arrived, s.sample);
  s.arrived_item = take_stride(&s.arrived, s.item);
  s.arrived_group = take_stride(&s.arrived, s.group);
  s.starts_sample = take_stride(&s.starts, s.sample);
  s.starts_group = take_stride(&s.starts, s.group);
  bd_access *accesses[] = {&s.arrived, &s.starts, &s.out, &s.whole};
  bd_gen_points points = {.loops = 2,
                          .order = {s.sample, s.row},
                          .access_count = 4,
                          .accesses = accesses,
                          .body = seat,
                          .user = &s};
  bd_gen_elementwise(g, &points);
  return BD_OK;
}
