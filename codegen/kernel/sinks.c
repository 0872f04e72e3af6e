// Sinks of attention, and what their gradient is made of.
#include "codegen/kernel/attention.h"
#include "codegen/kernel/columns.h"

LLVMValueRef bd_attention_sink(bd_attention *a, int operand) {
  bd_gen *g = a->g;
  bd_access sinks = bd_gen_in(g, operand);
  bd_rows rows = {.dtype = sinks.dtype, .base = sinks.base, .stride = 1, .width = 1};
  return bd_rows_load(g, &rows, bd_rows_address(g, &rows, a->head, bd_gen_long(g, 0)), 1);
}

typedef struct products {
  int t, h, d; // loops
  bd_access dout, out, to;
  LLVMValueRef sum;
} products;

static void add_product(bd_gen *g, void *user) {
  products *p = user;
  LLVMValueRef dout = bd_gen_load(g, &p->dout), out = bd_gen_load(g, &p->out);
  bd_gen_sum_add(g, p->sum, LLVMBuildFMul(g->b, dout, out, ""));
}

static void row_product(bd_gen *g, void *user) {
  products *p = user;
  p->sum = bd_gen_sum_begin(g);
  bd_gen_lanes(g, p->d, BD_GEN_LANES, add_product, p);
  LLVMValueRef sum = bd_gen_sum_end(g, p->sum);
  bd_gen_store(g, &p->to, LLVMBuildFPTrunc(g->b, sum, bd_gen_f32(g), ""));
}

static bd_access along_rows(const products *p, const bd_heads *tensor, int kv) {
  bd_access access = tensor->access;
  access.stride[kv] = 0;
  access.stride[p->t] = tensor->row;
  access.stride[p->h] = tensor->head;
  access.stride[p->d] = tensor->width ? 1 : 0;
  return access;
}

void bd_attention_row_products(bd_attention *a, int heads, const bd_heads *dout,
                               const bd_heads *out, const bd_heads *to) {
  bd_gen *g = a->g;
  int b = bd_index_find(&g->map, 'b'), kv = bd_index_find(&g->map, 'k');
  products p = {.t = bd_index_find(&g->map, 't'), .h = heads, .d = bd_gen_own_loop(g, out->width)};
  p.dout = along_rows(&p, dout, kv);
  p.out = along_rows(&p, out, kv);
  p.to = along_rows(&p, to, kv);
  bd_gen_pack(g, p.d, BD_GEN_ALIGNED, 2, (const bd_access *const[]){&p.dout, &p.out});
  bd_gen_nest nest = {.outer_count = 3,
                      .outer = {b, p.t, p.h},
                      .lane_loop = p.d,
                      .work = out->width,
                      .threads = bd_gen_row_threads(g, p.d),
                      .meets = true};
  bd_gen_items(g, &nest, row_product, &p);
}

// A loop over the query heads on this rank, whose parts are equal where keys have fewer heads.
static int head_loop(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  if (bd_index_find(&g->map, 'g') < 0)
    return bd_attention_loop(g, &g->loop[bd_index_find(&g->map, 'k')], 1);
  bd_type rows = bd_value_local_type(k->module, &k->function->values[g->op->in[0]]);
  return bd_gen_own_loop(g, rows.dims[2]);
}

bd_status bd_gen_row_products(bd_gen *g) {
  bd_attention a = {.g = g};
  bd_heads dout = bd_attention_in(&a, 0), out = bd_attention_in(&a, 1);
  bd_heads to = bd_attention_out(&a, 0);
  bd_attention_row_products(&a, head_loop(g), &dout, &out, &to);
  return BD_OK;
}

// Of a row's product, lse and the head's sink.
static void sink_term(bd_gen *g, void *user, const LLVMValueRef *values, LLVMValueRef *out_terms) {
  (void)user;
  LLVMValueRef share = bd_gen_exp(g, LLVMBuildFSub(g->b, values[2], values[1], ""));
  out_terms[0] = LLVMBuildFNeg(g->b, LLVMBuildFMul(g->b, share, values[0], ""), "");
}

bd_status bd_gen_sinks_grad(bd_gen *g) {
  bd_attention a = {.g = g};
  int kv = bd_index_find(&g->map, 'k'), t = bd_index_find(&g->map, 't'), head = head_loop(g);
  bd_gen_columns c = {.lane_loop = head,
                      .row_count = 2,
                      .row = {bd_index_find(&g->map, 'b'), t},
                      .sums = 1,
                      .read_count = 3,
                      .term = sink_term};
  for (int i = 0; i < 2; i++) {
    bd_heads rows = bd_attention_in(&a, i);
    c.read[i] = rows.access;
    c.read[i].stride[t] = rows.row;
  }
  c.read[2] = bd_gen_in(g, 2);
  c.out[0] = bd_gen_out(g, 0);
  bd_access *const all[] = {&c.read[0], &c.read[1], &c.read[2], &c.out[0]};
  for (int i = 0; i < 4; i++) {
    all[i]->stride[kv] = 0;
    all[i]->stride[head] = 1;
  }
  bd_gen_sum_columns(g, &c);
  return BD_OK;
}
