// Attention forward in tiles (Dao et al. 2022; the softmax runs online, Milakov and Gimelshein
// 2018).
#include "runtime/cpu/attention.h"

#include "runtime/cpu/biases.h"
#include "runtime/cpu/dropout.h"
#include "runtime/cpu/exp.h"
#include "runtime/cpu/softcap.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

typedef struct forward {
  const bd_rt_attention *shape;
  const bd_rt_random *random;
  const bd_rt *rt;
  const void *q, *k, *v, *biases, *sinks;
  void *out;
  float *lse;
  bd_rt_tiles *tiles;
  int64_t row_tiles, tasks;
  atomic_llong next;
} forward;

static float row_max(const float *x, int64_t count) {
  float lanes[LANES], most = -INFINITY;
  for (int l = 0; l < LANES; l++)
    lanes[l] = -INFINITY;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++)
      lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  for (int l = 0; l < LANES; l++)
    most = lanes[l] > most ? lanes[l] : most;
  for (; i < count; i++)
    most = x[i] > most ? x[i] : most;
  return most;
}

// x = exp(x - most) for `count` elements, zero for the rest of `width`; returns the sum.
static float row_exp(float *x, int64_t count, int64_t width, float most) {
  float lanes[LANES] = {0}, sum = 0;
  for (int64_t i = 0; i < count; i++)
    x[i] = bd_rt_exp(x[i] - most);
  for (int64_t i = count; i < width; i++)
    x[i] = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++)
      lanes[l] += x[i + l];
  for (; i < count; i++)
    sum += x[i];
  for (int l = 0; l < LANES; l++)
    sum += lanes[l];
  return sum;
}

static void scale_row(float *x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i++)
    x[i] *= factor;
}

// Where one task works: a batch entry, a head, a tile of rows.
typedef struct place {
  int64_t batch, head, row, rows;
  const float *q;
  float *out;
  int64_t q_stride, out_stride; // of rows
  int64_t k, v;                 // offsets of the head's first key and value
  float *wide;                  // of halves: room for a tile of keys and one of values, else NULL
  const float *biases;          // of the head; NULL: there are none
  float sink, sinks;            // of the head, and how many it has: without one -INFINITY and 0
} place;

// Softmax of one tile of scores, in place; rescales what is accumulated when a row's maximum grows.
static void tile_softmax(const forward *f, const place *at, bd_rt_tiles *tiles, int64_t key,
                         int64_t keys) {
  const bd_rt_attention *const s = f->shape;
  float *const maximum = tiles->row[0], *const sum = tiles->row[1];
  const int64_t begin = bd_rt_keys_begin(s, at->row);
  const int drops = bd_rt_attention_drops(s, f->random);
  if (drops)
    bd_rt_dropout_tile(s, f->random, at->batch, at->head, at->row, at->rows, key, keys,
                       tiles->second);
  for (int64_t i = 0; i < at->rows; i++) {
    float *const x = tiles->first + i * KEYS;
    const int64_t from = bd_rt_skipped(s, at->row + i, key, keys);
    const int64_t seen = bd_rt_seen(s, at->row + i, key, keys);
    if (seen <= from) {
      memset(x, 0, (size_t)keys * sizeof *x);
      continue;
    }
    const float own = row_max(x + from, seen - from), most = own > maximum[i] ? own : maximum[i];
    memset(x, 0, (size_t)from * sizeof *x);
    const float part = row_exp(x + from, seen - from, keys - from, most);
    const float shrink = maximum[i] == -INFINITY ? 0 : bd_rt_exp(maximum[i] - most);
    sum[i] = sum[i] * shrink + part;
    if (key > begin && most != maximum[i]) scale_row(at->out + i * at->out_stride, s->d_v, shrink);
    maximum[i] = most;
    if (drops) {
      const float *const mask = tiles->second + i * KEYS;
      for (int64_t j = from; j < seen; j++)
        x[j] *= mask[j];
    }
  }
}

// What is stored of the keys or values of a head: `width` numbers a row.
typedef struct stored {
  const void *data;
  int64_t offset, row, width;
} stored;

// Rows of a tile's keys or values, and how far apart they are.
static const float *key_rows(const forward *f, const place *at, const stored *from, int64_t key,
                             int64_t keys, int64_t *out_stride) {
  const int64_t offset = from->offset + key * from->row;
  *out_stride = at->wide ? from->width : from->row;
  if (!at->wide) return (const float *)from->data + offset;
  bd_rt_widen_rows(f->shape->dtype, from->data, offset, from->row, keys, from->width, at->wide);
  return at->wide;
}

static void attend(const forward *f, const place *at, bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = f->shape;
  const stored all_keys = {f->k, at->k, s->k_row, s->d};
  const stored all_values = {f->v, at->v, s->v_row, s->d_v};
  float *const maximum = tiles->row[0], *const sum = tiles->row[1];
  for (int64_t i = 0; i < at->rows; i++) {
    maximum[i] = at->sink;
    sum[i] = at->sinks;
  }
  const int64_t begin = bd_rt_keys_begin(s, at->row), end = bd_rt_keys_end(s, at->row, at->rows);
  for (int64_t key = begin; key < end; key += KEYS) {
    const int64_t keys = bd_rt_least(KEYS, end - key);
    int64_t stride;
    const float *const k = key_rows(f, at, &all_keys, key, keys, &stride);
    bd_rt_gemm_block(at->rows, keys, s->d, s->scale, at->q, at->q_stride, 1, k, 1, stride, 0,
                     tiles->first, KEYS);
    if (s->softcap > 0) bd_rt_cap_scores(s->softcap, at->rows, keys, tiles->first, NULL);
    if (at->biases) {
      const bd_rt_tile tile = {at->row, at->rows, key, keys};
      bd_rt_add_biases(s, &tile, at->biases, tiles->first);
    }
    tile_softmax(f, at, tiles, key, keys);
    const float *const v = key_rows(f, at, &all_values, key, keys, &stride);
    bd_rt_gemm_block(at->rows, s->d_v, keys, 1, tiles->first, KEYS, 1, v, stride, 1,
                     key == begin ? 0 : 1, at->out, at->out_stride);
  }
  float *const lse = f->lse + at->batch * s->lse_batch + at->row * s->lse_row + at->head;
  for (int64_t i = 0; i < at->rows; i++) {
    scale_row(at->out + i * at->out_stride, s->d_v, 1.0f / sum[i]);
    lse[i * s->lse_row] = maximum[i] + logf(sum[i]);
  }
}

// `q` and `out`: offsets of the first row.
static void attend_floats(const forward *f, place at, int64_t q, int64_t out, bd_rt_tiles *tiles) {
  at.q = (const float *)f->q + q;
  at.out = (float *)f->out + out;
  at.q_stride = f->shape->q_row;
  at.out_stride = f->shape->out_row;
  attend(f, &at, tiles);
}

static void attend_halves(const forward *f, place at, int64_t q, int64_t out, bd_rt_tiles *tiles,
                          float *scratch) {
  const bd_rt_attention *const s = f->shape;
  float *const rows = scratch, *const made = rows + ROWS * s->d;
  bd_rt_widen_rows(s->dtype, f->q, q, s->q_row, at.rows, s->d, rows);
  at.q = rows;
  at.out = made;
  at.q_stride = s->d;
  at.out_stride = s->d_v;
  at.wide = made + ROWS * s->d_v;
  attend(f, &at, tiles);
  bd_rt_narrow_rows(s->dtype, made, at.rows, s->d_v, f->out, out, s->out_row);
}

static float sink_of(const forward *f, int64_t head) {
  const int dtype = f->shape->dtype;
  if (!f->sinks) return -INFINITY;
  if (!bd_rt_is_half(dtype)) return ((const float *)f->sinks)[head];
  float sink;
  bd_rt_widen_run(dtype, (const uint16_t *)f->sinks + head, &sink, 1);
  return sink;
}

static void forward_worker(void *args, int64_t chunk, int worker) {
  forward *const f = args;
  const bd_rt_attention *const s = f->shape;
  const int64_t group = s->heads / s->kv_heads;
  float biases[BD_RT_ATTENTION_PLACES];
  for (;;) {
    const int64_t task = atomic_fetch_add_explicit(&f->next, 1, memory_order_relaxed);
    if (task >= f->tasks) return;
    // Long rows first: the last tasks are the short ones.
    const int64_t tile = f->row_tiles - 1 - task / (s->batch * s->heads);
    const int64_t batch = task % (s->batch * s->heads) / s->heads, head = task % s->heads;
    const int64_t row = tile * ROWS;
    const int64_t q = batch * s->q_batch + row * s->q_row + head * s->d;
    const int64_t out = batch * s->out_batch + row * s->out_row + head * s->d_v;
    const place at = {.batch = batch,
                      .head = head,
                      .row = row,
                      .rows = bd_rt_least(ROWS, s->tq - row),
                      .k = batch * s->k_batch + head / group * s->d,
                      .v = batch * s->v_batch + head / group * s->d_v,
                      .biases = bd_rt_head_biases(s, f->biases, head, biases),
                      .sink = sink_of(f, head),
                      .sinks = f->sinks ? 1 : 0};
    if (bd_rt_is_half(s->dtype))
      attend_halves(f, at, q, out, f->tiles + chunk, bd_rt_thread_scratch(f->rt, worker));
    else
      attend_floats(f, at, q, out, f->tiles + chunk);
  }
}

static void run(bd_rt *rt, forward f) {
  f.rt = rt;
  f.row_tiles = (f.shape->tq + ROWS - 1) / ROWS;
  f.tasks = f.row_tiles * f.shape->batch * f.shape->heads;
  atomic_init(&f.next, 0);
  bd_rt_pool_run(rt->pool, forward_worker, &f, bd_rt_least(rt->threads, BD_RT_ATTENTION_WORKERS));
}

void bd_rt_relative_attention_forward(bd_rt *rt, const bd_rt_attention *shape,
                                      const bd_rt_random *random, const void *q, const void *k,
                                      const void *v, const void *biases, void *out, float *lse,
                                      void *workspace) {
  run(rt, (forward){.shape = shape,
                    .random = random,
                    .q = q,
                    .k = k,
                    .v = v,
                    .biases = biases,
                    .out = out,
                    .lse = lse,
                    .tiles = workspace});
}

void bd_rt_sink_attention_forward(bd_rt *rt, const bd_rt_attention *shape,
                                  const bd_rt_random *random, const void *q, const void *k,
                                  const void *v, const void *sinks, void *out, float *lse,
                                  void *workspace) {
  run(rt, (forward){.shape = shape,
                    .random = random,
                    .q = q,
                    .k = k,
                    .v = v,
                    .sinks = sinks,
                    .out = out,
                    .lse = lse,
                    .tiles = workspace});
}

void bd_rt_attention_forward(bd_rt *rt, const bd_rt_attention *shape, const bd_rt_random *random,
                             const void *q, const void *k, const void *v, void *out, float *lse,
                             void *workspace) {
  bd_rt_relative_attention_forward(rt, shape, random, q, k, v, NULL, out, lse, workspace);
}
