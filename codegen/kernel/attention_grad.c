// Attention backward, kernels that agree on what they recompute: the product of each row of the
// result with its gradient (to the scratch), then the gradients of keys and values, then those of
// queries, with sums by place for the gradient of biases, which a fourth kernel adds up. With P the
// probabilities, M the mask over 1 - p and D the row products: dP = M dout v', dS = P (dP - D), dv
// = (M P)' dout, dk = scale dS' q, dq = scale dS k. A block owns what it writes.
#include "codegen/kernel/attention_bias.h"
#include "ir/memory.h"

// The scratch, of a number per row as the log-sum-exp has.
static bd_heads scratch(bd_attention *a) {
  const bd_kernel *k = a->g->kernel;
  bd_heads like = bd_attention_in(a, 5);
  like.access.base = like.access.valid = bd_gen_buffer(a->g, k->in_count + k->out_count);
  return like;
}

// Behind it: sums by place of tiles of queries.
static LLVMValueRef tile_sums(bd_attention *a) {
  const bd_kernel *k = a->g->kernel;
  int64_t bytes = bd_memory_value_bytes(k->module, &k->function->values[a->g->op->in[5]]);
  LLVMValueRef from = bd_gen_long(a->g, bytes / bd_dtype_bytes(BD_F32));
  return bd_panel_at(a->g, bd_gen_f32(a->g), scratch(a).access.base, from);
}

static void row_products(bd_attention *a) {
  bd_heads dout = bd_attention_in(a, 0), out = bd_attention_in(a, 4), to = scratch(a);
  int kv = bd_index_find(&a->g->map, 'k');
  int heads = bd_attention_loop(a->g, &a->g->loop[kv], a->group);
  bd_attention_row_products(a, heads, &dout, &out, &to);
}

typedef struct backward {
  bd_heads dout, q, k, v, lse, products;
  bd_heads to[2];
  bd_square scores, slopes;
  bd_strip sums[2];
  bd_place_sums places;
} backward;

static backward open_backward(bd_attention *a) {
  return (backward){.dout = bd_attention_in(a, 0),
                    .q = bd_attention_in(a, 1),
                    .k = bd_attention_in(a, 2),
                    .v = bd_attention_in(a, 3),
                    .lse = bd_attention_in(a, 5),
                    .products = scratch(a),
                    .scores = bd_square_create(&a->tiles),
                    .slopes = bd_square_create(&a->tiles)};
}

// One score becomes M P (in `scores`) and its product with dout v' becomes dS (in `slopes`).
static void differentiate(bd_attention *a, const backward *w, int row, int column,
                          LLVMValueRef query, LLVMValueRef key, LLVMValueRef lse,
                          LLVMValueRef product) {
  bd_gen *g = a->g;
  LLVMValueRef seen = bd_attention_sees(a, query, key), zero = bd_gen_real(g, 0.0);
  LLVMValueRef score = bd_square_get(&a->tiles, &w->scores, row, column);
  score = bd_attention_score(a, score, query, key);
  LLVMValueRef p = bd_gen_exp(g, LLVMBuildFSub(g->b, score, lse, ""));
  p = LLVMBuildSelect(g->b, seen, p, zero, "");
  LLVMValueRef dp = bd_square_get(&a->tiles, &w->slopes, row, column), kept = p;
  if (a->dropout > 0) {
    LLVMValueRef mask = bd_attention_kept(a, row, column);
    dp = LLVMBuildFMul(g->b, dp, mask, "");
    kept = LLVMBuildFMul(g->b, p, mask, "");
  }
  LLVMValueRef ds = LLVMBuildFMul(g->b, p, LLVMBuildFSub(g->b, dp, product, ""), "");
  if (a->softcap > 0) ds = LLVMBuildFMul(g->b, ds, bd_attention_slope(a, score), "");
  bd_square_set(&a->tiles, &w->scores, row, column, kept);
  bd_square_set(&a->tiles, &w->slopes, row, column, LLVMBuildSelect(g->b, seen, ds, zero, ""));
}

static LLVMValueRef number(bd_attention *a, const bd_heads *tensor, LLVMValueRef query) {
  return bd_attention_load(a, bd_attention_number(a, tensor, a->head, query, a->tq));
}

// Squares are keys by queries.
static void add_queries(bd_attention *a, const backward *w, LLVMValueRef first_key,
                        LLVMValueRef first_query) {
  bd_gen *g = a->g;
  bd_rows q = bd_attention_rows(a, &w->q, a->head, first_query, a->tq);
  bd_rows dout = bd_attention_rows(a, &w->dout, a->head, first_query, a->tq);
  bd_rows k = bd_attention_rows(a, &w->k, a->kv_head, first_key, a->tk);
  bd_rows v = bd_attention_rows(a, &w->v, a->kv_head, first_key, a->tk);
  if (a->dropout > 0) bd_attention_draw(a, first_query, first_key, true);
  bd_square_product(&a->tiles, &w->scores, &k, &q);
  bd_square_product(&a->tiles, &w->slopes, &v, &dout);
  for (int j = 0; j < a->tiles.columns; j++) {
    LLVMValueRef query = LLVMBuildNSWAdd(g->b, first_query, bd_tiles_column(&a->tiles, j), "");
    LLVMValueRef lse = number(a, &w->lse, query), product = number(a, &w->products, query);
    for (int i = 0; i < a->tiles.rows; i++) {
      LLVMValueRef key = LLVMBuildNSWAdd(g->b, first_key, bd_tiles_row(&a->tiles, i), "");
      differentiate(a, w, i, j, query, key, lse, product);
    }
  }
  bd_strip_add(&a->tiles, &w->sums[1], &w->scores, &dout);
  bd_strip_add(&a->tiles, &w->sums[0], &w->slopes, &q);
}

static void key_tile(bd_attention *a, LLVMValueRef head, LLVMValueRef first, void *user) {
  bd_gen *g = a->g;
  backward *w = user;
  a->kv_head = head;
  bd_strip_clear(&a->tiles, &w->sums[0]);
  bd_strip_clear(&a->tiles, &w->sums[1]);
  LLVMValueRef group = bd_gen_long(g, a->group);
  bd_gen_for heads = bd_gen_for_begin(g, bd_gen_long(g, 0), group, bd_gen_long(g, 1));
  a->head = LLVMBuildNSWMul(g->b, head, group, "");
  a->head = LLVMBuildNSWAdd(g->b, a->head, heads.index, "");
  bd_attention_load_biases(a);
  LLVMValueRef from = bd_attention_begin(a, first), to = bd_attention_last(a, first);
  bd_gen_for queries = bd_gen_for_begin(g, from, to, bd_gen_long(g, BD_TILE));
  add_queries(a, w, first, queries.index);
  bd_gen_for_end(g, &queries);
  bd_gen_for_end(g, &heads);
  for (int i = 0; i < a->tiles.rows; i++)
    bd_strip_scale(&a->tiles, &w->sums[0], i, bd_gen_real(g, a->scale));
  for (int i = 0; i < 2; i++) {
    bd_rows out = bd_attention_rows(a, &w->to[i], head, first, a->tk);
    bd_strip_store(&a->tiles, &w->sums[i], &out);
  }
}

static void key_gradients(bd_attention *a) {
  backward w = open_backward(a);
  for (int i = 0; i < 2; i++) {
    w.to[i] = bd_attention_out(a, i + 1);
    w.sums[i] = bd_strip_create(&a->tiles, i ? a->values : a->width);
  }
  bd_attention_tiles(a, a->kv_heads, a->tk, false, key_tile, &w);
}

static void query_tile(bd_attention *a, LLVMValueRef head, LLVMValueRef first, void *user) {
  bd_gen *g = a->g;
  backward *w = user;
  LLVMValueRef query[BD_TILE_MOST_ROWS], lse[BD_TILE_MOST_ROWS], product[BD_TILE_MOST_ROWS];
  a->head = head;
  a->kv_head = LLVMBuildSDiv(g->b, head, bd_gen_long(g, a->group), "");
  bd_attention_load_biases(a);
  if (a->places) bd_place_sums_clear(a, &w->places);
  bd_strip_clear(&a->tiles, &w->sums[0]);
  for (int i = 0; i < a->tiles.rows; i++) {
    query[i] = LLVMBuildNSWAdd(g->b, first, bd_tiles_row(&a->tiles, i), "");
    lse[i] = number(a, &w->lse, query[i]);
    product[i] = number(a, &w->products, query[i]);
  }
  bd_rows q = bd_attention_rows(a, &w->q, head, first, a->tq);
  bd_rows dout = bd_attention_rows(a, &w->dout, head, first, a->tq);
  LLVMValueRef from = bd_attention_first(a, first), to = bd_attention_end(a, first);
  bd_gen_for keys = bd_gen_for_begin(g, from, to, bd_gen_long(g, BD_TILE));
  bd_rows k = bd_attention_rows(a, &w->k, a->kv_head, keys.index, a->tk);
  bd_rows v = bd_attention_rows(a, &w->v, a->kv_head, keys.index, a->tk);
  if (a->dropout > 0) bd_attention_draw(a, first, keys.index, false);
  bd_square_product(&a->tiles, &w->scores, &q, &k);
  bd_square_product(&a->tiles, &w->slopes, &dout, &v);
  for (int j = 0; j < a->tiles.columns; j++) {
    LLVMValueRef key = LLVMBuildNSWAdd(g->b, keys.index, bd_tiles_column(&a->tiles, j), "");
    for (int i = 0; i < a->tiles.rows; i++)
      differentiate(a, w, i, j, query[i], key, lse[i], product[i]);
  }
  bd_strip_add(&a->tiles, &w->sums[0], &w->slopes, &k);
  if (a->places) bd_place_sums_add(a, &w->places, &w->slopes, first, keys.index);
  bd_gen_for_end(g, &keys);
  if (a->places) bd_place_sums_store(a, &w->places, first);
  for (int i = 0; i < a->tiles.rows; i++)
    bd_strip_scale(&a->tiles, &w->sums[0], i, bd_gen_real(g, a->scale));
  bd_rows out = bd_attention_rows(a, &w->to[0], head, first, a->tq);
  bd_strip_store(&a->tiles, &w->sums[0], &out);
}

static void query_gradients(bd_attention *a) {
  backward w = open_backward(a);
  w.to[0] = bd_attention_out(a, 0);
  if (a->places) w.places = bd_place_sums_create(a, tile_sums(a));
  w.sums[0] = bd_strip_create(&a->tiles, a->width);
  bd_attention_tiles(a, a->heads, a->tq, a->causal, query_tile, &w);
}

static void bias_gradients(bd_attention *a) {
  bd_place_sums_join(a, tile_sums(a), 3);
}

bd_status bd_gen_attention_grad(bd_gen *g) {
  static void (*const parts[])(bd_attention *) = {row_products, key_gradients, query_gradients,
                                                  bias_gradients};
  bd_attention a;
  BD_TRY(bd_attention_open(g, 1, 2, &a));
  if (g->op->kind == BD_OP_RELATIVE_ATTENTION_GRAD) bd_attention_open_biases(&a, 6);
  parts[g->part](&a);
  return BD_OK;
}
