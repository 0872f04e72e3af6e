#include "runtime/cuda/attention_tiles.h"

#include "runtime/cuda/kernels.h"
#include "runtime/cuda/rt.h"

#include <stdio.h>

enum { MOST_TRIES = 8, PLACE_UNIT = 256 };

// Places in the library segment, for one key-value head and its query heads: sums of dk and dv for
// all keys and of dq for the tile's queries, what a tile makes of them, and the workspace.
typedef struct places {
  int64_t dk_sum, dv_sum, dq_sum, dk, dv, dq, workspace;
} places;

static int64_t take(int64_t *end, int64_t numbers, int64_t number_bytes) {
  const int64_t at = *end;
  *end += (numbers * number_bytes + PLACE_UNIT - 1) / PLACE_UNIT * PLACE_UNIT;
  return at;
}

// The most keys that a tile has.
static int64_t keys_of(const bd_cuda_attention *s, int64_t rows) {
  return s->window ? rows + s->window - 1 : rows;
}

static places places_of(const bd_cuda_attention *s, int64_t rows) {
  const int64_t wide = sizeof(float), half = bd_rt_element_bytes(s->dtype), queries = rows * s->d,
                keys = keys_of(s, rows);
  int64_t end = 0;
  places p;
  p.dk_sum = take(&end, s->tk * s->d, wide);
  p.dv_sum = take(&end, s->tk * s->d_v, wide);
  p.dq_sum = take(&end, s->group * queries, wide);
  p.dk = take(&end, keys * s->d, half);
  p.dv = take(&end, keys * s->d_v, half);
  p.dq = take(&end, s->group * queries, half);
  p.workspace = end;
  return p;
}

static bd_dnn_plan *plan_of(bd_rt *rt, bd_dnn *dnn, const bd_cuda_attention *shape, int64_t rows,
                            int diagonal, char *why, size_t why_bytes) {
  bd_cuda_attention tile = *shape;
  tile.batch = tile.kv_heads = 1;
  tile.tq = rows;
  tile.tk = tile.keys = diagonal ? rows : keys_of(shape, rows);
  tile.first = tile.tk - rows;
  tile.skipped = 0;
  tile.causal = diagonal || shape->window;
  tile.apart = 1;
  bd_dnn_graph *const graph = bd_dnn_begin(dnn);
  bd_cuda_attention_grad_graph(graph, &tile);
  return bd_dnn_choose(graph, rt->device->library_bytes - places_of(shape, rows).workspace, why,
                       why_bytes);
}

static int plan_rows(bd_rt *rt, bd_dnn *dnn, const bd_cuda_attention *shape, bd_cuda_tiles *t,
                     char *why, size_t why_bytes) {
  t->full = plan_of(rt, dnn, shape, t->rows, 0, why, why_bytes);
  if (t->full && shape->causal) t->diagonal = plan_of(rt, dnn, shape, t->rows, 1, why, why_bytes);
  if (t->full && (t->diagonal || !shape->causal)) return 1;
  bd_cuda_free_tiles(t);
  return 0;
}

// What the gradients of scores alone take beside the sums.
static int fits(const bd_rt *rt, const bd_cuda_attention *s, int64_t rows) {
  const int64_t room = rt->device->library_bytes - places_of(s, rows).workspace;
  return room / bd_rt_element_bytes(s->dtype) / rows / keys_of(s, rows) >= s->group;
}

// Whether tiles of so many queries make up the shape. A part of the queries begins with a whole
// window, or with the first key.
static int divide(const bd_cuda_attention *s, int64_t rows) {
  if (!s->window) return s->tk % rows == 0;
  return rows >= s->window - 1 && (s->first == 0 || s->first == s->window - 1);
}

int bd_cuda_plan_tiles(bd_rt *rt, bd_dnn *dnn, const bd_cuda_attention *shape,
                       bd_cuda_tiles *out_tiles, char *why, size_t why_bytes) {
  int tries = 0;
  *out_tiles = (bd_cuda_tiles){0};
  for (int64_t rows = shape->tq; rows >= BD_RT_LEAST_TILE && tries < MOST_TRIES;
       rows = bd_cuda_next_divisor(shape->tq, rows)) {
    if (!divide(shape, rows) || !fits(rt, shape, rows)) continue;
    tries++;
    out_tiles->rows = rows;
    if (plan_rows(rt, dnn, shape, out_tiles, why, why_bytes)) return 1;
  }
  if (tries == 0)
    snprintf(why, why_bytes,
             "gradients of one key-value head's scores exceed the %lld bytes of workspace, and so "
             "do those of tiles of its %lld queries and %lld keys",
             (long long)rt->device->library_bytes, (long long)shape->tq, (long long)shape->tk);
  out_tiles->rows = 0;
  return 0;
}

void bd_cuda_free_tiles(bd_cuda_tiles *tiles) {
  bd_dnn_free(tiles->full);
  bd_dnn_free(tiles->diagonal);
  tiles->full = tiles->diagonal = NULL;
}

// One key-value head of one sample, with its query heads.
typedef struct head {
  bd_rt *rt;
  const bd_cuda_attention *shape;
  const bd_cuda_tiles *tiles;
  places places;
  char *library, *const *at; // of the head
  cudaStream_t stream;
} head;

static void add(const head *h, int first, int64_t tile, int64_t sum, int64_t count) {
  bd_cuda_add_tile(bd_cuda_now(h->rt), h->shape->dtype, first,
                   (const uint16_t *)(const void *)(h->library + tile),
                   (float *)(void *)(h->library + sum), count);
}

// Sums of `heads` heads, each `width` wide, to rows of a gradient `row_stride` apart.
static void round_rows(const head *h, int64_t heads, int64_t rows, int64_t width,
                       int64_t row_stride, int64_t sum, char *out) {
  const bd_cuda_head_rows r = {heads, rows, width, row_stride, h->shape->dtype};
  bd_cuda_round_head_rows(bd_cuda_now(h->rt), &r, (const float *)(const void *)(h->library + sum),
                          (uint16_t *)(void *)out);
}

static void run_tile(const head *h, int64_t query, int64_t key, int diagonal) {
  const bd_cuda_attention *const s = h->shape;
  const int64_t half = bd_rt_element_bytes(s->dtype), queries = query * s->q_row * half,
                results = query * s->out_row * half, keys = key * s->k_row * half,
                values = key * s->v_row * half;
  void *at[BD_ATTEND_GRAD_BUFFERS] = {
      [BD_ATTEND_GRAD_DOUT] = h->at[BD_ATTEND_GRAD_DOUT] + results,
      [BD_ATTEND_GRAD_Q] = h->at[BD_ATTEND_GRAD_Q] + queries,
      [BD_ATTEND_GRAD_K] = h->at[BD_ATTEND_GRAD_K] + keys,
      [BD_ATTEND_GRAD_V] = h->at[BD_ATTEND_GRAD_V] + values,
      [BD_ATTEND_GRAD_OUT] = h->at[BD_ATTEND_GRAD_OUT] + results,
      [BD_ATTEND_GRAD_LSE] =
          h->at[BD_ATTEND_GRAD_LSE] + query * s->lse_row * (int64_t)sizeof(float),
      [BD_ATTEND_GRAD_DQ] = h->library + h->places.dq,
      [BD_ATTEND_GRAD_DK] = h->library + h->places.dk,
      [BD_ATTEND_GRAD_DV] = h->library + h->places.dv,
      [BD_ATTEND_GRAD_SUMS] = h->at[BD_ATTEND_GRAD_SUMS],
  };
  bd_dnn_run(diagonal ? h->tiles->diagonal : h->tiles->full, at, h->library + h->places.workspace,
             h->stream);
}

// A tile of some queries and `keys` keys from `key` on, added to what there is of dk and dv, and of
// dq unless it is the first.
static void add_tile(const head *h, int64_t query, int64_t key, int64_t keys, int diagonal,
                     int first) {
  const int64_t d = h->shape->d, d_v = h->shape->d_v, wide = sizeof(float);
  run_tile(h, query, key, diagonal);
  add(h, first, h->places.dq, h->places.dq_sum, h->shape->group * h->tiles->rows * d);
  add(h, 0, h->places.dk, h->places.dk_sum + key * d * wide, keys * d);
  add(h, 0, h->places.dv, h->places.dv_sum + key * d_v * wide, keys * d_v);
}

// The tiles of some queries, keys in ascending order.
static void run_queries(const head *h, int64_t query) {
  const bd_cuda_attention *const s = h->shape;
  const int64_t rows = h->tiles->rows, place = s->first + query,
                end = s->causal && place + rows < s->tk ? place + rows : s->tk;
  if (s->window) {
    const int64_t from = place > 0 ? place - s->window + 1 : 0;
    add_tile(h, query, from, end - from, place == 0, 1);
  } else {
    for (int64_t key = 0; key < end; key += rows)
      add_tile(h, query, key, rows, s->causal && key == place, key == 0);
  }
  round_rows(h, s->group, rows, s->d, s->q_row, h->places.dq_sum,
             h->at[BD_ATTEND_GRAD_DQ] + query * s->q_row * bd_rt_element_bytes(s->dtype));
}

static void run_head(const head *h) {
  const bd_cuda_attention *const s = h->shape;
  BD_CUDA(cudaMemsetAsync(h->library + h->places.dk_sum, 0,
                          (size_t)(h->places.dq_sum - h->places.dk_sum), h->stream));
  for (int64_t query = 0; query < s->tq; query += h->tiles->rows)
    run_queries(h, query);
  round_rows(h, 1, s->tk, s->d, s->k_row, h->places.dk_sum, h->at[BD_ATTEND_GRAD_DK]);
  round_rows(h, 1, s->tk, s->d_v, s->v_row, h->places.dv_sum, h->at[BD_ATTEND_GRAD_DV]);
}

// `own`: where the head's buffers are.
static head head_of(bd_rt *rt, const bd_cuda_attention *shape, const bd_cuda_tiles *tiles,
                    char *const *own) {
  return (head){.rt = rt,
                .shape = shape,
                .tiles = tiles,
                .places = places_of(shape, tiles->rows),
                .library = rt->device->library,
                .at = own,
                .stream = bd_cuda_now(rt)->stream};
}

void bd_cuda_try_tiles(bd_rt *rt, const bd_cuda_attention *shape, const bd_cuda_tiles *tiles,
                       char *const *at) {
  char *own[BD_ATTEND_GRAD_BUFFERS];
  bd_cuda_attention_place(shape, at, 0, 0, own);
  const head h = head_of(rt, shape, tiles, own);
  if (tiles->diagonal) run_tile(&h, 0, 0, 1);
  if (keys_of(shape, tiles->rows) <= shape->tk) run_tile(&h, 0, 0, 0);
}

void bd_cuda_run_tiles(bd_rt *rt, const bd_cuda_attention *shape, const bd_cuda_tiles *tiles,
                       char *const *at) {
  for (int64_t sample = 0; sample < shape->batch; sample++)
    for (int64_t kv_head = 0; kv_head < shape->kv_heads; kv_head++) {
      char *own[BD_ATTEND_GRAD_BUFFERS];
      bd_cuda_attention_place(shape, at, sample, kv_head, own);
      const head h = head_of(rt, shape, tiles, own);
      run_head(&h);
    }
}
