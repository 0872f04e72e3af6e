// Attention backward: probabilities are recomputed tile by tile from the saved log-sum-exp. One
// task owns a key-value head with all its queries' heads, so no two tasks write one element.
#include "runtime/cpu/attention_grad.h"

#include "runtime/cpu/biases.h"
#include "runtime/cpu/dropout.h"
#include "runtime/cpu/exp.h"
#include "runtime/cpu/softcap.h"

#include <string.h>

enum { LANES = 8 };

static float dot(const float *a, const float *b, int64_t count) {
  float lanes[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++)
      lanes[l] += a[i + l] * b[i + l];
  for (; i < count; i++)
    sum += a[i] * b[i];
  for (int l = 0; l < LANES; l++)
    sum += lanes[l];
  return sum;
}

// first = probabilities before dropout. Keys that a row does not see are zero. slopes: of scores
// that are capped, by what they were.
static void recompute(const bd_rt_backward *w, const bd_rt_pair *at, bd_rt_tiles *tiles,
                      float *slopes) {
  const bd_rt_attention *const s = w->shape;
  bd_rt_gemm_block(at->rows, at->keys, s->d, s->scale, w->q + at->q, s->q_row, 1, w->k + at->k, 1,
                   s->k_row, 0, tiles->first, KEYS);
  const bd_rt_tile tile = {at->row, at->rows, at->key, at->keys};
  if (s->softcap > 0) bd_rt_cap_scores(s->softcap, at->rows, at->keys, tiles->first, slopes);
  if (at->biases) bd_rt_add_biases(s, &tile, at->biases, tiles->first);
  const float *const lse = w->lse + at->batch * s->lse_batch + at->row * s->lse_row + at->head;
  for (int64_t i = 0; i < at->rows; i++) {
    float *const p = tiles->first + i * KEYS;
    const int64_t from = bd_rt_skipped(s, at->row + i, at->key, at->keys);
    const int64_t seen = bd_rt_seen(s, at->row + i, at->key, at->keys);
    const float shift = lse[i * s->lse_row];
    for (int64_t j = 0; j < from; j++)
      p[j] = 0;
    for (int64_t j = from; j < seen; j++)
      p[j] = bd_rt_exp(p[j] - shift);
    for (int64_t j = seen; j < at->keys; j++)
      p[j] = 0;
  }
}

// Marks dropped probabilities in `first` by their sign; second = what dropout left of them.
static void drop(const bd_rt_backward *w, const bd_rt_pair *at, bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = w->shape;
  bd_rt_dropout_tile(s, w->random, at->batch, at->head, at->row, at->rows, at->key, at->keys,
                     tiles->second);
  for (int64_t i = 0; i < at->rows; i++) {
    float *restrict const p = tiles->first + i * KEYS, *restrict const left =
                                                           tiles->second + i * KEYS;
    const int64_t seen = bd_rt_seen(s, at->row + i, at->key, at->keys);
    for (int64_t j = 0; j < seen; j++) {
      const float probability = p[j], mask = left[j];
      p[j] = mask == 0 ? -probability : probability;
      left[j] = probability * mask;
    }
    for (int64_t j = seen; j < at->keys; j++)
      left[j] = 0;
  }
}

// second: dout v^T -> ds = p (mask dp - dot(dout, out)), times the slopes where scores are capped.
static void score_gradient(const bd_rt_backward *w, const bd_rt_pair *at, bd_rt_tiles *tiles,
                           const float *slopes) {
  const bd_rt_attention *const s = w->shape;
  const float keep = s->dropout > 0 ? 1.0f / (1.0f - s->dropout) : 1.0f;
  for (int64_t i = 0; i < at->rows; i++) {
    const float *restrict const p = tiles->first + i * KEYS;
    float *restrict const ds = tiles->second + i * KEYS;
    const int64_t o = at->out + i * s->out_row;
    const float inner = dot(w->dout + o, w->out + o, s->d_v);
    for (int64_t j = 0; j < at->keys; j++) {
      const float dp = p[j] < 0 ? 0 : ds[j] * keep;
      ds[j] = __builtin_fabsf(p[j]) * (dp - inner);
    }
    for (int64_t j = 0; s->softcap > 0 && j < at->keys; j++)
      ds[j] *= slopes[i * KEYS + j];
  }
}

static float *sums_of(const bd_rt_backward *w, int64_t batch, int64_t head) {
  const bd_rt_attention *const s = w->shape;
  return w->sums + (batch * s->heads + head) * s->places;
}

void bd_rt_zero_sums(const bd_rt_backward *w, int64_t batch, int64_t head, int64_t heads) {
  const int64_t places = w->shape->places;
  if (places) memset(sums_of(w, batch, head), 0, (size_t)(heads * places) * sizeof(float));
}

void bd_rt_tile_backward(const bd_rt_backward *w, const bd_rt_pair *at, int wanted, int fresh,
                         bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = w->shape;
  float slopes[ROWS * KEYS];
  recompute(w, at, tiles, slopes);
  if (s->dropout > 0) drop(w, at, tiles);
  const float sum = fresh ? 0 : 1;
  const float *const left = s->dropout > 0 ? tiles->second : tiles->first;
  if (wanted & BD_RT_OF_KEYS)
    bd_rt_gemm_block(at->keys, s->d_v, at->rows, 1, left, 1, KEYS, w->dout + at->out, s->out_row, 1,
                     sum, w->dv + at->v, s->v_row);
  bd_rt_gemm_block(at->rows, at->keys, s->d_v, 1, w->dout + at->out, s->out_row, 1, w->v + at->v, 1,
                   s->v_row, 0, tiles->second, KEYS);
  score_gradient(w, at, tiles, slopes);
  if (wanted & BD_RT_OF_QUERIES && at->biases) {
    const bd_rt_tile tile = {at->row, at->rows, at->key, at->keys};
    bd_rt_sum_places(s, &tile, tiles->second, sums_of(w, at->batch, at->head));
  }
  if (wanted & BD_RT_OF_QUERIES)
    bd_rt_gemm_block(at->rows, s->d, at->keys, s->scale, tiles->second, KEYS, 1, w->k + at->k,
                     s->k_row, 1, at->key == bd_rt_keys_begin(s, at->row) ? 0 : 1, w->dq + at->q,
                     s->q_row);
  if (wanted & BD_RT_OF_KEYS)
    bd_rt_gemm_block(at->keys, s->d, at->rows, s->scale, tiles->second, 1, KEYS, w->q + at->q,
                     s->q_row, 1, sum, w->dk + at->k, s->k_row);
}

void bd_rt_zero_keys(const bd_rt_backward *w, int64_t k, int64_t v, int64_t keys) {
  const bd_rt_attention *const s = w->shape;
  for (int64_t i = 0; i < keys; i++) {
    memset(w->dk + k + i * s->k_row, 0, (size_t)s->d * sizeof(float));
    memset(w->dv + v + i * s->v_row, 0, (size_t)s->d_v * sizeof(float));
  }
}

static void head_backward(const bd_rt_backward *w, int64_t batch, int64_t kv_head,
                          bd_rt_tiles *tiles) {
  const bd_rt_attention *const s = w->shape;
  const int64_t group = s->heads / s->kv_heads;
  bd_rt_zero_sums(w, batch, kv_head * group, group);
  for (int64_t key = 0; key < s->tk; key += KEYS) {
    const int64_t keys = bd_rt_least(KEYS, s->tk - key);
    const int64_t k = batch * s->k_batch + key * s->k_row + kv_head * s->d;
    const int64_t v = batch * s->v_batch + key * s->v_row + kv_head * s->d_v;
    // Under causality the first rows see none of these keys, with a window the last ones.
    const int64_t first = bd_rt_rows_begin(s, key), end = bd_rt_rows_end(s, key);
    int fresh = 1;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
      for (int64_t row = first; row < end; row += ROWS) {
        const int64_t rows = bd_rt_least(ROWS, s->tq - row);
        const bd_rt_pair at = {.batch = batch,
                               .head = head,
                               .row = row,
                               .rows = rows,
                               .key = key,
                               .keys = keys,
                               .q = batch * s->q_batch + row * s->q_row + head * s->d,
                               .out = batch * s->out_batch + row * s->out_row + head * s->d_v,
                               .k = k,
                               .v = v,
                               .biases = bd_rt_head_biases(s, w->biases, head, NULL)};
        bd_rt_tile_backward(w, &at, BD_RT_OF_QUERIES | BD_RT_OF_KEYS, fresh, tiles);
        fresh = 0;
      }
    if (fresh) bd_rt_zero_keys(w, k, v, keys);
  }
}

typedef struct work {
  bd_rt_backward of;
  atomic_llong next;
} work;

static void floats_worker(void *args, int64_t chunk) {
  work *const w = args;
  const bd_rt_attention *const s = w->of.shape;
  for (;;) {
    const int64_t task = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
    if (task >= s->batch * s->kv_heads) return;
    head_backward(&w->of, task / s->kv_heads, task % s->kv_heads, w->of.tiles + chunk);
  }
}

// The sums of all samples.
static void join_sums(const bd_rt_backward *w, float *dbiases) {
  const bd_rt_attention *const s = w->shape;
  const int64_t count = s->heads * s->places;
  memcpy(dbiases, w->sums, (size_t)count * sizeof *dbiases);
  for (int64_t batch = 1; batch < s->batch; batch++)
    for (int64_t i = 0; i < count; i++)
      dbiases[i] += w->sums[batch * count + i];
}

static void backward(bd_rt *rt, bd_rt_backward *w, const bd_rt_tensors *tensors) {
  const int64_t threads = bd_rt_least(rt->threads, BD_RT_ATTENTION_WORKERS);
  if (bd_rt_is_half(w->shape->dtype)) {
    bd_rt_halves_backward(rt, w, tensors);
    return;
  }
  work floats = {.of = *w};
  floats.of.dout = tensors->dout;
  floats.of.q = tensors->q;
  floats.of.k = tensors->k;
  floats.of.v = tensors->v;
  floats.of.out = tensors->out;
  floats.of.dq = tensors->dq;
  floats.of.dk = tensors->dk;
  floats.of.dv = tensors->dv;
  atomic_init(&floats.next, 0);
  bd_rt_parallel(rt, floats_worker, &floats, threads);
}

void bd_rt_attention_backward(bd_rt *rt, const bd_rt_attention *shape, const bd_rt_random *random,
                              const void *dout, const void *q, const void *k, const void *v,
                              const void *out, const float *lse, void *dq, void *dk, void *dv,
                              void *workspace) {
  bd_rt_backward w = {.shape = shape, .random = random, .lse = lse, .tiles = workspace};
  const bd_rt_tensors tensors = {dout, q, k, v, out, dq, dk, dv};
  backward(rt, &w, &tensors);
}

void bd_rt_relative_attention_backward(bd_rt *rt, const bd_rt_attention *shape,
                                       const bd_rt_random *random, const void *dout, const void *q,
                                       const void *k, const void *v, const void *out,
                                       const float *lse, const void *biases, void *dq, void *dk,
                                       void *dv, float *dbiases, void *workspace) {
  bd_rt_backward w = {.shape = shape,
                      .random = random,
                      .biases = biases,
                      .lse = lse,
                      .sums = (float *)((char *)workspace + bd_rt_attention_workspace_bytes()),
                      .tiles = workspace};
  const bd_rt_tensors tensors = {dout, q, k, v, out, dq, dk, dv};
  backward(rt, &w, &tensors);
  join_sums(&w, dbiases);
}
