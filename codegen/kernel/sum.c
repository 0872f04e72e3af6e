// reduce_sum of f32 and halves, any rule. Where the operand's last dimension stays, lanes run along
// columns; else along the summed row.
#include "codegen/kernel/columns.h"
#include "codegen/kernel/rows.h"

typedef struct reduction {
  bd_access in, out;
  int lane_loop, serial_count, serial[BD_MAX_LOOPS];
  LLVMValueRef sum;
} reduction;

static void term(bd_gen *g, void *user, const LLVMValueRef *values, LLVMValueRef *out_terms) {
  (void)g, (void)user;
  out_terms[0] = values[0];
}

static void add(bd_gen *g, void *user) {
  reduction *r = user;
  bd_gen_sum_add(g, r->sum, bd_gen_load(g, &r->in));
}

static void along_row(bd_gen *g, void *user) {
  bd_gen_lanes(g, ((reduction *)user)->lane_loop, BD_GEN_LANES, add, user);
}

static void row(bd_gen *g, void *user) {
  reduction *r = user;
  r->sum = bd_gen_sum_begin(g);
  bd_gen_serial(g, r->serial_count, r->serial, along_row, r);
  bd_gen_store(g, &r->out, bd_gen_to_f32(g, bd_gen_sum_end(g, r->sum)));
}

static bool in_result(const bd_gen *g, int rank, int loop) {
  for (int d = 0; d < rank; d++)
    if (g->map.out[0][d] == loop) return true;
  return false;
}

bd_status bd_gen_reduce_sum(bd_gen *g) {
  const bd_value *values = g->kernel->function->values;
  if (bd_dtype_wide(values[g->op->in[0]].type.dtype) != BD_F32) return bd_gen_reduce(g);
  int rank = values[g->op->in[0]].type.rank, out_rank = values[g->op->out[0]].type.rank;
  reduction r = {.in = bd_gen_in(g, 0), .out = bd_gen_out(g, 0)};
  r.lane_loop = g->map.in[0][rank - 1];
  bool columns = in_result(g, out_rank, r.lane_loop);
  bd_gen_nest nest = {.lane_loop = r.lane_loop};
  for (int d = 0; d < out_rank; d++)
    if (g->map.out[0][d] != r.lane_loop) nest.outer[nest.outer_count++] = g->map.out[0][d];
  for (int d = 0; d < rank; d++) {
    int loop = g->map.in[0][d];
    if (loop != r.lane_loop && !in_result(g, out_rank, loop)) r.serial[r.serial_count++] = loop;
  }
  if (!columns) {
    nest.work = g->loop[r.lane_loop].extent * bd_gen_work(g, r.serial_count, r.serial);
    nest.whole_block = nest.work >= BD_GEN_LONG_ROW;
    bd_gen_pack(g, r.lane_loop, BD_GEN_ALIGNED, 1, (const bd_access *const[]){&r.in});
    nest.threads = bd_gen_row_threads(g, r.lane_loop);
    nest.meets = true;
    bd_gen_items(g, &nest, row, &r);
    return BD_OK;
  }
  bd_gen_columns c = {.outer_count = nest.outer_count,
                      .lane_loop = r.lane_loop,
                      .row_count = r.serial_count,
                      .sums = 1,
                      .out = {r.out},
                      .read_count = 1,
                      .read = {r.in},
                      .term = term};
  for (int i = 0; i < nest.outer_count; i++)
    c.outer[i] = nest.outer[i];
  for (int i = 0; i < r.serial_count; i++)
    c.row[i] = r.serial[i];
  bd_gen_sum_columns(g, &c);
  return BD_OK;
}
