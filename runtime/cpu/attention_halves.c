// Attention backward on halves. A task owns a key-value head: first the gradients of its keys, a
// tile at a time over all queries, then those of its queries, a tile at a time over all keys, so
// that every sum is formed in floats and rounded once.
#include "runtime/cpu/attention_grad.h"

typedef struct halves_work {
  const bd_rt *rt;
  const bd_rt_backward *like;
  const bd_rt_tensors *tensors;
  atomic_llong next;
} halves_work;

// Halves of one key-value head: `tile` is the same work on floats in the scratch, where rows of all
// tensors lie one behind another.
typedef struct halves {
  const halves_work *of;
  bd_rt_attention shape;
  bd_rt_backward tile;
  float *q, *dout, *out, *k, *v;
  int64_t batch, kv_head;
  float *room; // for the biases of a head
} halves;

static halves start_halves(const halves_work *of, int64_t batch, int64_t kv_head, float *scratch,
                           float room[BD_RT_ATTENTION_PLACES]) {
  const int64_t d = of->like->shape->d, d_v = of->like->shape->d_v;
  halves h = {.of = of,
              .shape = *of->like->shape,
              .tile = *of->like,
              .batch = batch,
              .kv_head = kv_head,
              .room = room};
  h.shape.q_row = h.shape.k_row = d;
  h.shape.v_row = h.shape.out_row = d_v;
  h.tile.q = h.q = scratch;
  h.tile.dout = h.dout = h.q + ROWS * d;
  h.tile.out = h.out = h.dout + ROWS * d_v;
  h.tile.dq = h.out + ROWS * d_v;
  h.tile.k = h.k = h.tile.dq + ROWS * d;
  h.tile.v = h.v = h.k + KEYS * d;
  h.tile.dk = h.v + KEYS * d_v;
  h.tile.dv = h.tile.dk + KEYS * d;
  return h;
}

static int64_t keys_at(const halves *h, int64_t key) {
  const bd_rt_attention *const s = h->of->like->shape;
  return h->batch * s->k_batch + key * s->k_row + h->kv_head * s->d;
}

static int64_t values_at(const halves *h, int64_t key) {
  const bd_rt_attention *const s = h->of->like->shape;
  return h->batch * s->v_batch + key * s->v_row + h->kv_head * s->d_v;
}

static void load_keys(const halves *h, int64_t key, int64_t keys) {
  const bd_rt_attention *const s = h->of->like->shape;
  bd_rt_widen_rows(s->dtype, h->of->tensors->k, keys_at(h, key), s->k_row, keys, s->d, h->k);
  bd_rt_widen_rows(s->dtype, h->of->tensors->v, values_at(h, key), s->v_row, keys, s->d_v, h->v);
}

static int64_t rows_at(const halves *h, int64_t head, int64_t row) {
  const bd_rt_attention *const s = h->of->like->shape;
  return h->batch * s->q_batch + row * s->q_row + head * s->d;
}

static int64_t results_at(const halves *h, int64_t head, int64_t row) {
  const bd_rt_attention *const s = h->of->like->shape;
  return h->batch * s->out_batch + row * s->out_row + head * s->d_v;
}

static const float *biases_of(const halves *h, int64_t head) {
  return bd_rt_head_biases(&h->shape, h->tile.biases, head, h->room);
}

static void load_rows(const halves *h, int64_t head, int64_t row, int64_t rows) {
  const bd_rt_attention *const s = h->of->like->shape;
  const bd_rt_tensors *const t = h->of->tensors;
  const int64_t out = results_at(h, head, row);
  bd_rt_widen_rows(s->dtype, t->q, rows_at(h, head, row), s->q_row, rows, s->d, h->q);
  bd_rt_widen_rows(s->dtype, t->dout, out, s->out_row, rows, s->d_v, h->dout);
  bd_rt_widen_rows(s->dtype, t->out, out, s->out_row, rows, s->d_v, h->out);
}

// Gradients of one tile of keys, over all its heads' queries.
static void keys_of_halves(const halves *h, int64_t key, bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = h->of->like->shape;
  const int64_t group = s->heads / s->kv_heads, keys = bd_rt_least(KEYS, s->tk - key);
  const int64_t first = bd_rt_rows_begin(s, key), rows_end = bd_rt_rows_end(s, key);
  int fresh = 1;
  load_keys(h, key, keys);
  for (int64_t head = h->kv_head * group; head < (h->kv_head + 1) * group; head++) {
    const float *const biases = biases_of(h, head);
    for (int64_t row = first; row < rows_end; row += ROWS) {
      const int64_t rows = bd_rt_least(ROWS, s->tq - row);
      const bd_rt_pair at = {h->batch, head, row, rows, key, keys, 0, 0, 0, 0, biases};
      load_rows(h, head, row, rows);
      bd_rt_tile_backward(&h->tile, &at, BD_RT_OF_KEYS, fresh, tiles);
      fresh = 0;
    }
  }
  if (fresh) bd_rt_zero_keys(&h->tile, 0, 0, keys);
  bd_rt_narrow_rows(s->dtype, h->tile.dk, keys, s->d, h->of->tensors->dk, keys_at(h, key),
                    s->k_row);
  bd_rt_narrow_rows(s->dtype, h->tile.dv, keys, s->d_v, h->of->tensors->dv, values_at(h, key),
                    s->v_row);
}

// The gradient of one tile of queries, over all keys that they see.
static void queries_of_halves(const halves *h, int64_t head, int64_t row, bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = h->of->like->shape;
  const int64_t rows = bd_rt_least(ROWS, s->tq - row);
  const int64_t end = bd_rt_keys_end(s, row, rows);
  const float *const biases = biases_of(h, head);
  load_rows(h, head, row, rows);
  for (int64_t key = bd_rt_keys_begin(s, row); key < end; key += KEYS) {
    const int64_t keys = bd_rt_least(KEYS, end - key);
    const bd_rt_pair at = {h->batch, head, row, rows, key, keys, 0, 0, 0, 0, biases};
    load_keys(h, key, keys);
    bd_rt_tile_backward(&h->tile, &at, BD_RT_OF_QUERIES, 1, tiles);
  }
  bd_rt_narrow_rows(s->dtype, h->tile.dq, rows, s->d, h->of->tensors->dq, rows_at(h, head, row),
                    s->q_row);
}

static void halves_worker(void *args, int64_t chunk, int worker) {
  halves_work *const of = args;
  const bd_rt_attention *const s = of->like->shape;
  const int64_t group = s->heads / s->kv_heads;
  bd_rt_tiles *const tiles = of->like->tiles + chunk;
  float room[BD_RT_ATTENTION_PLACES];
  for (;;) {
    const int64_t task = atomic_fetch_add_explicit(&of->next, 1, memory_order_relaxed);
    if (task >= s->batch * s->kv_heads) return;
    halves h = start_halves(of, task / s->kv_heads, task % s->kv_heads,
                            bd_rt_thread_scratch(of->rt, worker), room);
    h.tile.shape = &h.shape;
    bd_rt_zero_sums(&h.tile, h.batch, h.kv_head * group, group);
    for (int64_t key = 0; key < s->tk; key += KEYS)
      keys_of_halves(&h, key, tiles);
    for (int64_t head = h.kv_head * group; head < (h.kv_head + 1) * group; head++)
      for (int64_t row = 0; row < s->tq; row += ROWS)
        queries_of_halves(&h, head, row, tiles);
  }
}

void bd_rt_halves_backward(bd_rt *rt, const bd_rt_backward *like, const bd_rt_tensors *tensors) {
  halves_work work = {.rt = rt, .like = like, .tensors = tensors};
  atomic_init(&work.next, 0);
  bd_rt_pool_run(rt->pool, halves_worker, &work, bd_rt_least(rt->threads, BD_RT_ATTENTION_WORKERS));
}
