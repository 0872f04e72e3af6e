// gather, its gradient, scatter, and route. A point is an element of what is looked up, or a column
// of the rows: its lane walks over all indices, so that additions come in their order.
#include "codegen/kernel/gen.h"
#include "ir/pool.h"
#include <string.h>

typedef struct lookup {
  bd_access x, row, ids, found, out; // row: x or the result without the loop over rows
  bd_access whole_out;               // the result with it
  int row_count, rows[BD_MAX_RANK];  // the loops over rows
  int64_t apart[BD_MAX_RANK];        // elements between rows
  int count, places[BD_MAX_RANK];    // loops over the indices
  bd_op join;                        // scatter: how an element joins what is there
} lookup;

typedef struct place {
  LLVMValueRef offset, held; // in elements; whether this part has the row
} place;

// Ids number the rows of all ranks in order, the last of the loops fastest, but samples from this
// rank's first on.
static place place_of(bd_gen *g, const lookup *l) {
  LLVMValueRef id = bd_gen_index(g, bd_gen_load(g, &l->ids));
  place p = {.offset = bd_gen_int_like(id, 0)};
  for (int i = l->row_count - 1; i >= 0; i--) {
    const bd_gen_loop *rows = &g->loop[l->rows[i]];
    LLVMValueRef number = id, extent = bd_gen_int_like(id, g->map.loop[l->rows[i]].extent);
    if (i) number = LLVMBuildURem(g->b, id, extent, "");
    if (i) id = LLVMBuildUDiv(g->b, id, extent, "");
    bool sample = g->map.loop[l->rows[i]].extent == BD_DIM_BATCH;
    LLVMValueRef first = sample ? bd_gen_long(g, 0) : rows->start;
    LLVMValueRef local = LLVMBuildSub(g->b, number, bd_gen_splat(g, first), "");
    LLVMValueRef count = bd_gen_splat(g, rows->count);
    LLVMValueRef held = LLVMBuildICmp(g->b, LLVMIntULT, local, count, "");
    p.held = p.held ? LLVMBuildAnd(g->b, p.held, held, "") : held;
    LLVMValueRef apart = bd_gen_int_like(local, l->apart[i]);
    p.offset = LLVMBuildAdd(g->b, p.offset, LLVMBuildMul(g->b, local, apart, ""), "");
  }
  p.offset = LLVMBuildSelect(g->b, p.held, p.offset, bd_gen_int_like(p.offset, 0), "");
  return p;
}

// Where all lanes have one index, a row is loaded as it lies.
static LLVMValueRef load_row(bd_gen *g, const lookup *l) {
  int lanes = g->lanes;
  if (g->lane_loop >= 0 && l->ids.stride[g->lane_loop]) {
    place p = place_of(g, l);
    return bd_gen_load_at(g, &l->row, p.offset, p.held);
  }
  g->lanes = 1;
  place p = place_of(g, l);
  g->lanes = lanes;
  bd_access row = l->row;
  row.base = LLVMBuildGEP2(g->b, bd_gen_dtype(g, row.dtype), row.base, &p.offset, 1, "");
  LLVMValueRef value = bd_gen_load(g, &row);
  return LLVMBuildSelect(g->b, p.held, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

static void look_up(bd_gen *g, void *user) {
  lookup *l = user;
  bd_gen_store(g, &l->out, load_row(g, l));
}

static void leave_rows(lookup *l, const bd_access *whole) {
  l->row = *whole;
  for (int i = 0; i < l->row_count; i++) {
    l->apart[i] = whole->stride[l->rows[i]];
    l->row.stride[l->rows[i]] = 0;
  }
}

static void look_up_points(bd_gen *g, lookup *l, bd_gen_body body) {
  bd_access x = bd_gen_in(g, 0);
  leave_rows(l, &x);
  l->ids = bd_gen_in(g, 1);
  l->out = bd_gen_out(g, 0);
  bd_access *accesses[] = {&l->row, &l->ids, &l->out, &x};
  bd_gen_points points = {
      .loops = g->kernel->function->values[g->op->out[0]].type.rank,
      .access_count = 4,
      .accesses = accesses,
      .packs = true,
      .body = body,
      .user = l,
  };
  for (int d = 0; d < points.loops; d++)
    points.order[d] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
}

bd_status bd_gen_gather(bd_gen *g) {
  lookup l = {.row_count = 1, .rows = {g->map.in[0][bd_op_int(g->op, "dim", 0)]}};
  look_up_points(g, &l, look_up);
  return BD_OK;
}

// The sum of the rows that a place names.
static void sum_rows(bd_gen *g, void *user) {
  lookup *l = user;
  const bd_gen_loop *named = &g->loop[l->places[0]];
  LLVMValueRef sum = NULL;
  for (int64_t i = 0; i < named->extent; i++) {
    g->index[l->places[0]] = bd_gen_long(g, i);
    LLVMValueRef row = load_row(g, l);
    sum = sum ? LLVMBuildFAdd(g->b, sum, row, "") : row;
  }
  bd_gen_store(g, &l->out, sum);
}

bd_status bd_gen_route(bd_gen *g) {
  int ids_rank = g->kernel->function->values[g->op->in[1]].type.rank;
  lookup l = {.row_count = (int)bd_op_int(g->op, "rows", 1),
              .count = 1,
              .places = {g->map.in[1][ids_rank - 1]}};
  int sample = bd_op_pools(g->op) ? 1 : 0; // the samples are rows as well
  for (int i = 0; i < l.row_count + sample; i++)
    l.rows[i] = g->map.in[0][1 + i - sample];
  l.row_count += sample;
  look_up_points(g, &l, sum_rows);
  return BD_OK;
}

static void copy_row(bd_gen *g, void *user) {
  lookup *l = user;
  LLVMValueRef value;
  if (l->x.base) {
    value = bd_gen_load(g, &l->x);
  } else {
    LLVMTypeRef type = bd_gen_type(g, bd_gen_register(g, l->whole_out.dtype));
    value = LLVMConstNull(type);
  }
  bd_gen_store(g, &l->whole_out, value);
}

static void join_row(bd_gen *g, void *user) {
  lookup *l = user;
  place p = place_of(g, l);
  LLVMValueRef value = bd_gen_load(g, &l->found);
  value = bd_gen_cast(g, l->found.dtype, l->row.dtype, value);
  if (l->join.kind != BD_OP_SELECT) {
    LLVMValueRef both[2] = {value, bd_gen_load_at(g, &l->row, p.offset, p.held)};
    value = bd_gen_arithmetic(g, &l->join, l->row.dtype, both);
  }
  bd_gen_store_at(g, &l->row, p.offset, p.held, value);
}

// Rows are copied, or zero, then joined in the order of the indices.
static void fill_column(bd_gen *g, void *user) {
  lookup *l = user;
  if (!l->whole_out.accumulate) bd_gen_serial(g, 1, l->rows, copy_row, l);
  bd_gen_serial(g, l->count, l->places, join_row, l);
}

// Points: the columns of the result's rows.
static void fill_columns(bd_gen *g, lookup *l) {
  int rank = g->kernel->function->values[g->op->out[0]].type.rank;
  int ids_rank = g->kernel->function->values[g->op->in[1]].type.rank;
  l->rows[l->row_count++] = g->map.out[0][bd_op_int(g->op, "dim", 0)];
  l->ids = bd_gen_in(g, 1);
  l->whole_out = bd_gen_out(g, 0);
  leave_rows(l, &l->whole_out);
  for (int d = (int)bd_op_int(g->op, "batch", 0); d < ids_rank; d++)
    l->places[l->count++] = g->map.in[1][d];
  bd_access *accesses[] = {&l->x, &l->row, &l->ids, &l->found, &l->whole_out};
  bd_gen_points points = {
      .access_count = 5,
      .accesses = accesses,
      .work = g->loop[l->rows[0]].extent + bd_gen_work(g, l->count, l->places),
      .body = fill_column,
      .user = l,
  };
  for (int d = 0; d < rank; d++)
    if (g->map.out[0][d] != l->rows[0]) points.order[points.loops++] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
}

bd_status bd_gen_gather_dx(bd_gen *g) {
  lookup l = {.found = bd_gen_in(g, 0), .join = {.kind = BD_OP_ADD}};
  fill_columns(g, &l);
  return BD_OK;
}

bd_status bd_gen_scatter(bd_gen *g) {
  const char *how = bd_op_string(g->op, "reduction");
  lookup l = {.x = bd_gen_in(g, 0), .found = bd_gen_in(g, 2)};
  l.join.kind = !how || strcmp(how, "none") == 0 ? BD_OP_SELECT
                : strcmp(how, "add") == 0        ? BD_OP_ADD
                : strcmp(how, "mul") == 0        ? BD_OP_MUL
                : strcmp(how, "max") == 0        ? BD_OP_MAX
                                                 : BD_OP_MIN;
  fill_columns(g, &l);
  return BD_OK;
}
