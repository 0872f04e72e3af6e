// Attention forward with the softmax run online (Milakov and Gimelshein 2018; Dao et al. 2022).
#include "codegen/kernel/attention_bias.h"
#include "ir/balance.h"
#include <float.h>
#include <math.h>

// The wider of a head of queries and one of values.
static int64_t widest(const bd_gen *g, int query) {
  const bd_value *values = g->kernel->function->values;
  int64_t width = values[g->op->in[query]].type.dims[3];
  int64_t own = values[g->op->in[query + 2]].type.dims[3];
  return width > own ? width : own;
}

int bd_attention_threads(const bd_gen *g) {
  int query = bd_op_is_attention(g->op->kind) ? 0 : 1;
  bd_dtype dtype = g->kernel->function->values[g->op->in[query]].type.dtype;
  return bd_tiles_suit_tensor_cores(dtype, widest(g, query)) ? BD_TILE_TENSOR_THREADS
                                                             : BD_GEN_THREADS;
}

// Query heads on a rank per key-value head there. Parts of heads are equal.
static int64_t local_group(const bd_gen *g, int query, int key) {
  const bd_module *module = g->kernel->module;
  const bd_value *values = g->kernel->function->values;
  return bd_value_local_type(module, &values[g->op->in[query]]).dims[2] /
         bd_value_local_type(module, &values[g->op->in[key]]).dims[2];
}

// Queries on a rank. Parts of them are equal.
static int64_t local_queries(const bd_gen *g, int query) {
  const bd_value *value = &g->kernel->function->values[g->op->in[query]];
  return bd_value_local_type(g->kernel->module, value).dims[1];
}

// 0 where it reaches back over all keys.
static int64_t window_of(const bd_op *op, int64_t queries) {
  int64_t window = bd_op_int(op, "window", 0);
  return window < queries ? window : 0;
}

// The global number of the rank's first query. Of 2n chunks rank r has number 2r, or mirrored, in
// the op for the other half of them, 2n - 1 - 2r.
static LLVMValueRef first_query(bd_gen *g, const bd_gen_loop *t, int64_t queries) {
  int64_t chunk = bd_op_int(g->op, "chunk", 0);
  if (!chunk) return t->split ? t->start : NULL;
  LLVMValueRef twice = LLVMBuildNSWMul(g->b, t->start, bd_gen_long(g, 2), "");
  if (!bd_op_int(g->op, "half", 0)) return twice;
  return LLVMBuildNSWSub(g->b, bd_gen_long(g, 2 * queries - chunk), twice, "");
}

bd_status bd_attention_open(bd_gen *g, int query, int key, bd_attention *out) {
  const bd_value *values = g->kernel->function->values;
  const int64_t *q = values[g->op->in[query]].type.dims, *k = values[g->op->in[key]].type.dims;
  int64_t most = widest(g, query);
  if (most > BD_TILE_MAX_WIDTH)
    return bd_fail(g->ctx, BD_UNSUPPORTED, g->op->loc,
                   "attention on GPUs takes heads of up to %d numbers, not %lld%s",
                   BD_TILE_MAX_WIDTH, (long long)most,
                   most <= BD_TILE_MAX_WIDTH + 8
                       ? "; 8 of a head hide keys where there is padding (docs/hugging-face.md)"
                       : "");
  const bd_gen_loop *b = &g->loop[bd_index_find(&g->map, 'b')];
  const bd_gen_loop *kv = &g->loop[bd_index_find(&g->map, 'k')];
  const bd_gen_loop *inner = &g->loop[bd_index_find(&g->map, 'g')];
  const bd_gen_loop *t = &g->loop[bd_index_find(&g->map, 't')];
  int64_t queries = bd_balance_queries(g->op, q[1]);
  float dropout = (float)bd_op_real(g->op, "dropout", 0);
  *out = (bd_attention){.g = g,
                        .tiles = bd_tiles_open(g, values[g->op->in[query]].type.dtype),
                        .tq = local_queries(g, query),
                        .queries = queries,
                        .first_query = first_query(g, t, q[1]),
                        .tk = k[1],
                        .width = q[3],
                        .values = values[g->op->in[query + 2]].type.dims[3],
                        .group = local_group(g, query, key),
                        .causal = bd_op_int(g->op, "causal", 0) != 0,
                        .window = window_of(g->op, q[1]),
                        .scale = bd_op_real(g->op, "scale", 1 / sqrt((double)q[3])),
                        .softcap = bd_op_real(g->op, "softcap", 0),
                        .dropout = dropout,
                        .site = (uint32_t)bd_op_int(g->op, "site", 0),
                        .few = bd_attention_has_few_blocks(q[2], queries, k[1]),
                        .batches = b->count,
                        .kv_heads = kv->count};
  out->heads = LLVMBuildNSWMul(g->b, kv->count, bd_gen_long(g, out->group), "");
  out->first_head = LLVMBuildNSWMul(g->b, kv->start, bd_gen_long(g, q[2] / k[2]), "");
  if (inner->split) out->first_head = LLVMBuildNSWAdd(g->b, out->first_head, inner->start, "");
  if (dropout > 0) {
    out->first_sample = LLVMBuildNSWAdd(g->b, bd_gen_first_sample(g), b->start, "");
    out->keep = bd_gen_keep(g, (double)(1.0f / (1.0f - dropout)));
    out->kept = bd_gen_variable(g, bd_gen_i32(g));
  }
  return BD_OK;
}

int bd_attention_loop(bd_gen *g, const bd_gen_loop *like, int64_t scale) {
  bd_gen_loop loop = *like;
  loop.scale = scale;
  loop.extent *= scale;
  loop.count = LLVMBuildNSWMul(g->b, loop.count, bd_gen_long(g, scale), "");
  loop.start = bd_gen_long(g, 0);
  g->loop[g->loops] = loop;
  return g->loops++;
}

static bd_heads heads_of(bd_attention *a, bd_id id, bd_access access) {
  const bd_module *module = a->g->kernel->module;
  const bd_value *value = &a->g->kernel->function->values[id];
  bd_type local = bd_value_local_type(module, value);
  int64_t width = local.rank == 4 ? local.dims[3] : 0, head = width ? width : 1;
  return (bd_heads){.access = access,
                    .batch = local.dims[1] * local.dims[2] * head,
                    .row = local.dims[2] * head,
                    .head = head,
                    .width = width};
}

bd_heads bd_attention_in(bd_attention *a, int operand) {
  return heads_of(a, a->g->op->in[operand], bd_gen_in(a->g, operand));
}

bd_heads bd_attention_out(bd_attention *a, int result) {
  return heads_of(a, a->g->op->out[result], bd_gen_out(a->g, result));
}

static LLVMValueRef address(bd_attention *a, const bd_heads *tensor, LLVMValueRef head,
                            LLVMValueRef row) {
  bd_gen *g = a->g;
  LLVMValueRef offset = LLVMBuildNSWMul(g->b, a->batch, bd_gen_long(g, tensor->batch), "");
  LLVMValueRef part = LLVMBuildNSWMul(g->b, head, bd_gen_long(g, tensor->head), "");
  offset = LLVMBuildNSWAdd(g->b, offset, part, "");
  part = LLVMBuildNSWMul(g->b, row, bd_gen_long(g, tensor->row), "");
  offset = LLVMBuildNSWAdd(g->b, offset, part, "");
  return LLVMBuildGEP2(g->b, bd_gen_dtype(g, tensor->access.dtype), tensor->access.base, &offset, 1,
                       "");
}

bd_rows bd_attention_rows(bd_attention *a, const bd_heads *tensor, LLVMValueRef head,
                          LLVMValueRef first, int64_t total) {
  LLVMValueRef all = bd_gen_long(a->g, total);
  return (bd_rows){.dtype = tensor->access.dtype,
                   .accumulate = tensor->access.accumulate,
                   .base = address(a, tensor, head, first),
                   .stride = tensor->row,
                   .width = tensor->width,
                   .count = LLVMBuildNSWSub(a->g->b, all, first, "")};
}

LLVMValueRef bd_attention_number(bd_attention *a, const bd_heads *tensor, LLVMValueRef head,
                                 LLVMValueRef row, int64_t total) {
  bd_gen *g = a->g;
  LLVMValueRef last = bd_gen_long(g, total - 1);
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, row, last, "");
  return address(a, tensor, head, LLVMBuildSelect(g->b, there, row, last, ""));
}

LLVMValueRef bd_attention_load(bd_attention *a, LLVMValueRef address) {
  return LLVMBuildLoad2(a->g->b, bd_gen_f32(a->g), address, "");
}

void bd_attention_tiles(bd_attention *a, LLVMValueRef heads, int64_t total, bool descending,
                        bd_attention_body body, void *user) {
  bd_gen *g = a->g;
  int64_t tiles = (total + BD_TILE - 1) / BD_TILE;
  LLVMValueRef columns = LLVMBuildNSWMul(g->b, a->batches, heads, "");
  LLVMValueRef items = LLVMBuildNSWMul(g->b, columns, bd_gen_long(g, tiles), "");
  bd_gen_for each = bd_gen_for_begin(g, g->block, items, g->blocks);
  LLVMValueRef tile = LLVMBuildSDiv(g->b, each.index, columns, "");
  LLVMValueRef column = LLVMBuildSRem(g->b, each.index, columns, "");
  if (descending) tile = LLVMBuildNSWSub(g->b, bd_gen_long(g, tiles - 1), tile, "");
  a->batch = LLVMBuildSDiv(g->b, column, heads, "");
  LLVMValueRef head = LLVMBuildSRem(g->b, column, heads, "");
  body(a, head, LLVMBuildNSWMul(g->b, tile, bd_gen_long(g, BD_TILE), ""), user);
  bd_gen_for_end(g, &each);
}

// Rows and columns as numbers of 31 bits, which GPUs take in one register.
static LLVMValueRef shortened(bd_gen *g, LLVMValueRef index) {
  return LLVMBuildTrunc(g->b, index, bd_gen_i32(g), "");
}

// Whether there is such a row; NULL: tiles are full, there always is.
static LLVMValueRef exists(bd_gen *g, LLVMValueRef row, int64_t total) {
  if (total % BD_TILE == 0) return NULL;
  return LLVMBuildICmp(g->b, LLVMIntSLT, row, bd_gen_int_like(row, total), "");
}

static LLVMValueRef both(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return a && b ? LLVMBuildAnd(g->b, a, b, "") : a ? a : b;
}

LLVMValueRef bd_attention_place(bd_attention *a, LLVMValueRef query) {
  return a->first_query ? LLVMBuildNSWAdd(a->g->b, query, a->first_query, "") : query;
}

// Where the tile begins that a row is in; the first one for rows before it.
static LLVMValueRef tile_of(bd_gen *g, LLVMValueRef row) {
  LLVMValueRef zero = bd_gen_long(g, 0), tile = bd_gen_long(g, BD_TILE);
  row = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, row, zero, ""), row, zero, "");
  return LLVMBuildNSWMul(g->b, LLVMBuildSDiv(g->b, row, tile, ""), tile, "");
}

LLVMValueRef bd_attention_begin(bd_attention *a, LLVMValueRef key) {
  bd_gen *g = a->g;
  if (!a->causal) return bd_gen_long(g, 0);
  if (!a->first_query) return key;
  return tile_of(g, LLVMBuildNSWSub(g->b, key, a->first_query, ""));
}

LLVMValueRef bd_attention_last(bd_attention *a, LLVMValueRef key) {
  bd_gen *g = a->g;
  LLVMValueRef all = bd_gen_long(g, a->tq);
  if (!a->window) return all;
  LLVMValueRef end = LLVMBuildNSWAdd(g->b, key, bd_gen_long(g, BD_TILE - 1 + a->window), "");
  if (a->first_query) end = LLVMBuildNSWSub(g->b, end, a->first_query, "");
  return bd_gen_smaller(g, end, all);
}

LLVMValueRef bd_attention_sees(bd_attention *a, LLVMValueRef query, LLVMValueRef key) {
  bd_gen *g = a->g;
  LLVMValueRef place = shortened(g, bd_attention_place(a, query));
  query = shortened(g, query);
  key = shortened(g, key);
  LLVMValueRef sees = both(g, exists(g, query, a->tq), exists(g, key, a->tk));
  if (a->causal) sees = both(g, sees, LLVMBuildICmp(g->b, LLVMIntSLE, key, place, ""));
  if (a->window) {
    LLVMValueRef before = LLVMBuildNSWSub(g->b, place, bd_gen_int_like(place, a->window), "");
    sees = both(g, sees, LLVMBuildICmp(g->b, LLVMIntSGT, key, before, ""));
  }
  return sees ? sees : LLVMConstInt(LLVMInt1TypeInContext(g->llvm), 1, false);
}

LLVMValueRef bd_attention_first(bd_attention *a, LLVMValueRef first) {
  bd_gen *g = a->g;
  if (!a->window) return bd_gen_long(g, 0);
  LLVMValueRef before = bd_gen_long(g, a->window - 1);
  return tile_of(g, LLVMBuildNSWSub(g->b, bd_attention_place(a, first), before, ""));
}

LLVMValueRef bd_attention_end(bd_attention *a, LLVMValueRef first) {
  bd_gen *g = a->g;
  LLVMValueRef all = bd_gen_long(g, a->tk);
  if (!a->causal) return all;
  LLVMValueRef end = bd_attention_place(a, first);
  end = LLVMBuildNSWAdd(g->b, end, bd_gen_long(g, BD_TILE), "");
  return bd_gen_smaller(g, end, all);
}

LLVMValueRef bd_attention_score(bd_attention *a, LLVMValueRef product, LLVMValueRef query,
                                LLVMValueRef key) {
  bd_gen *g = a->g;
  LLVMValueRef score = LLVMBuildFMul(g->b, product, bd_gen_real(g, a->scale), "");
  if (a->softcap > 0) {
    LLVMValueRef share = LLVMBuildFMul(g->b, score, bd_gen_real(g, 1 / a->softcap), "");
    score = LLVMBuildFMul(g->b, bd_gen_tanh(g, share), bd_gen_real(g, a->softcap), "");
  }
  return bd_attention_biased(a, score, query, key);
}

LLVMValueRef bd_attention_slope(bd_attention *a, LLVMValueRef score) {
  bd_gen *g = a->g;
  LLVMValueRef share = LLVMBuildFMul(g->b, score, bd_gen_real(g, 1 / a->softcap), "");
  return LLVMBuildFSub(g->b, bd_gen_real(g, 1.0), LLVMBuildFMul(g->b, share, share, ""), "");
}

typedef struct forward {
  bd_heads q, k, v, out, lse;
  bool has_sinks;
  bd_square scores;
  bd_strip sums;
  LLVMValueRef most[BD_TILE_MOST_ROWS],
      total[BD_TILE_MOST_ROWS]; // of each row so far, f32 variables
} forward;

static LLVMValueRef row_max(bd_attention *a, const forward *f, int row) {
  LLVMValueRef most = bd_square_get(&a->tiles, &f->scores, row, 0);
  for (int j = 1; j < a->tiles.columns; j++)
    most = bd_gen_larger(a->g, bd_square_get(&a->tiles, &f->scores, row, j), most);
  return bd_tiles_join(&a->tiles, most, bd_gen_larger);
}

// One row of scores becomes weights exp(score - maximum), dropped ones zero; what is accumulated is
// scaled down when the row's maximum grows. It is a number before the first score where a row may
// see no key of its first tile.
static void softmax_row(bd_attention *a, forward *f, int row, LLVMValueRef query,
                        LLVMValueRef first_key) {
  bd_gen *g = a->g;
  LLVMValueRef seen[BD_TILE_MOST_COLUMNS], key[BD_TILE_MOST_COLUMNS], part = bd_gen_real(g, 0.0);
  for (int j = 0; j < a->tiles.columns; j++) {
    key[j] = LLVMBuildNSWAdd(g->b, first_key, bd_tiles_column(&a->tiles, j), "");
    seen[j] = bd_attention_sees(a, query, key[j]);
    LLVMValueRef product = bd_square_get(&a->tiles, &f->scores, row, j);
    LLVMValueRef score = bd_attention_score(a, product, query, key[j]);
    score = LLVMBuildSelect(g->b, seen[j], score, bd_gen_real(g, -INFINITY), "");
    bd_square_set(&a->tiles, &f->scores, row, j, score);
  }
  LLVMValueRef before = LLVMBuildLoad2(g->b, bd_gen_f32(g), f->most[row], "");
  LLVMValueRef most = bd_gen_larger(g, row_max(a, f, row), before);
  for (int j = 0; j < a->tiles.columns; j++) {
    LLVMValueRef score = bd_square_get(&a->tiles, &f->scores, row, j);
    LLVMValueRef weight = bd_gen_exp(g, LLVMBuildFSub(g->b, score, most, ""));
    weight = LLVMBuildSelect(g->b, seen[j], weight, bd_gen_real(g, 0.0), "");
    part = LLVMBuildFAdd(g->b, part, weight, "");
    if (a->dropout > 0) weight = LLVMBuildFMul(g->b, weight, bd_attention_kept(a, row, j), "");
    bd_square_set(&a->tiles, &f->scores, row, j, weight);
  }
  part = bd_tiles_join(&a->tiles, part, bd_gen_plus);
  LLVMValueRef shrink = bd_gen_exp(g, LLVMBuildFSub(g->b, before, most, ""));
  LLVMValueRef total = LLVMBuildLoad2(g->b, bd_gen_f32(g), f->total[row], "");
  total = LLVMBuildFAdd(g->b, LLVMBuildFMul(g->b, total, shrink, ""), part, "");
  LLVMBuildStore(g->b, total, f->total[row]);
  LLVMBuildStore(g->b, most, f->most[row]);
  bd_strip_scale(&a->tiles, &f->sums, row, shrink);
}

static void finish_row(bd_attention *a, forward *f, int row, LLVMValueRef query) {
  bd_gen *g = a->g;
  LLVMValueRef total = LLVMBuildLoad2(g->b, bd_gen_f32(g), f->total[row], "");
  LLVMValueRef most = LLVMBuildLoad2(g->b, bd_gen_f32(g), f->most[row], "");
  bd_strip_scale(&a->tiles, &f->sums, row, LLVMBuildFDiv(g->b, bd_gen_real(g, 1.0), total, ""));
  LLVMValueRef lse = LLVMBuildFAdd(g->b, most, bd_gen_log(g, total), "");
  LLVMValueRef first = LLVMBuildICmp(g->b, LLVMIntEQ, a->tiles.x, bd_gen_long(g, 0), "");
  LLVMValueRef there = LLVMBuildICmp(g->b, LLVMIntSLT, query, bd_gen_long(g, a->tq), "");
  bd_gen_if branch = bd_gen_if_begin(g, LLVMBuildAnd(g->b, first, there, ""));
  LLVMBuildStore(g->b, lse, bd_attention_number(a, &f->lse, a->head, query, a->tq));
  bd_gen_if_end(g, &branch);
}

static void attend(bd_attention *a, LLVMValueRef head, LLVMValueRef first, void *user) {
  bd_gen *g = a->g;
  forward *f = user;
  LLVMValueRef query[BD_TILE_MOST_ROWS];
  a->head = head;
  a->kv_head = LLVMBuildSDiv(g->b, head, bd_gen_long(g, a->group), "");
  bd_attention_load_biases(a);
  bd_strip_clear(&a->tiles, &f->sums);
  LLVMValueRef most =
      f->has_sinks ? bd_attention_sink(a, 3) : bd_gen_real(g, a->window ? -FLT_MAX : -INFINITY);
  for (int i = 0; i < a->tiles.rows; i++) {
    query[i] = LLVMBuildNSWAdd(g->b, first, bd_tiles_row(&a->tiles, i), "");
    LLVMBuildStore(g->b, most, f->most[i]);
    LLVMBuildStore(g->b, bd_gen_real(g, f->has_sinks ? 1.0 : 0.0), f->total[i]);
  }
  bd_rows q = bd_attention_rows(a, &f->q, head, first, a->tq);
  LLVMValueRef from = bd_attention_first(a, first), to = bd_attention_end(a, first);
  bd_gen_for keys = bd_gen_for_begin(g, from, to, bd_gen_long(g, BD_TILE));
  bd_rows k = bd_attention_rows(a, &f->k, a->kv_head, keys.index, a->tk);
  bd_rows v = bd_attention_rows(a, &f->v, a->kv_head, keys.index, a->tk);
  if (a->dropout > 0) bd_attention_draw(a, first, keys.index, false);
  bd_square_product(&a->tiles, &f->scores, &q, &k);
  for (int i = 0; i < a->tiles.rows; i++)
    softmax_row(a, f, i, query[i], keys.index);
  bd_strip_add(&a->tiles, &f->sums, &f->scores, &v);
  bd_gen_for_end(g, &keys);
  for (int i = 0; i < a->tiles.rows; i++)
    finish_row(a, f, i, query[i]);
  bd_rows out = bd_attention_rows(a, &f->out, head, first, a->tq);
  bd_strip_store(&a->tiles, &f->sums, &out);
}

bd_status bd_gen_attention(bd_gen *g) {
  bd_attention a;
  BD_TRY(bd_attention_open(g, 0, 1, &a));
  if (g->op->kind == BD_OP_RELATIVE_ATTENTION) bd_attention_open_biases(&a, 3);
  forward f = {.q = bd_attention_in(&a, 0),
               .k = bd_attention_in(&a, 1),
               .v = bd_attention_in(&a, 2),
               .out = bd_attention_out(&a, 0),
               .lse = bd_attention_out(&a, 1),
               .has_sinks = g->op->kind == BD_OP_SINK_ATTENTION,
               .scores = bd_square_create(&a.tiles),
               .sums = bd_strip_create(&a.tiles, a.values)};
  for (int i = 0; i < a.tiles.rows; i++) {
    f.most[i] = bd_gen_variable(g, bd_gen_f32(g));
    f.total[i] = bd_gen_variable(g, bd_gen_f32(g));
  }
  bd_attention_tiles(&a, a.heads, a.tq, a.causal, attend, &f);
  return BD_OK;
}
