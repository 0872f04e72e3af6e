// The arena of a CPU rank is memory of the host.
#include "runtime/cpu/rt.h"
#include "runtime/half.h"

#include <immintrin.h>
#include <string.h>

enum { CLEAR_GRAIN = 1 << 20, RUN = 1 << 14 };

void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial) {
  if (bd_rt_loss_counts(rt, partial)) rt->sums[0] += (double)*loss;
}

void bd_rt_loss_gradient(bd_rt *rt, float *out) {
  *out = rt->target_share * rt->loss_scale;
}

void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  const bd_rt_samples all = bd_rt_samples_of_sequences(rt, micro_batch, start, rows, 0);
  bd_rt_samples_read(rt, &all, out);
}

void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  const bd_rt_samples all = bd_rt_samples_of_sequences(rt, micro_batch, start, rows, 1);
  bd_rt_samples_read(rt, &all, out);
}

void bd_rt_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
               int32_t *out) {
  const bd_rt_samples all = bd_rt_samples_of_ids(rt, input, micro_batch, start, rows);
  bd_rt_samples_read(rt, &all, out);
}

void bd_rt_reals(bd_rt *rt, int dtype, int64_t micro_batch, int64_t start, int64_t rows,
                 int64_t elements, void *out) {
  if (dtype != BD_RT_F32 && elements > BD_RT_SCRATCH_FLOATS)
    bd_rt_fail(BD_RT_EXIT_DATA, "%s: a sample in halves has at most %d elements, not %lld",
               bd_rt_batch_path(rt, rt->batch), BD_RT_SCRATCH_FLOATS, (long long)elements);
  for (int64_t row = 0; row < rows; row++) {
    float *const wide = dtype == BD_RT_F32 ? (float *)out + row * elements : rt->scratch;
    const bd_rt_samples one = {BD_RT_SAMPLES_REALS, BD_RT_F32, micro_batch,
                               start + row,         1,         elements};
    bd_rt_samples_read(rt, &one, wide);
    if (dtype != BD_RT_F32)
      bd_rt_narrow(rt, dtype, wide, (uint16_t *)out + row * elements, elements);
  }
}

void bd_rt_samples_end(bd_rt *rt) {
  (void)rt; // none were read before they were asked for
}

void bd_rt_settle(bd_rt *rt) {
  (void)rt; // every call has done its work when it returns
}

typedef struct clearing {
  char *data;
  int64_t bytes;
} clearing;

// Large buffers go past the caches, which would only read what is about to be overwritten.
static void clear_grain(void *args, int64_t chunk) {
  const clearing *const c = args;
  const int64_t start = chunk * CLEAR_GRAIN, rest = c->bytes - start;
  char *const data = c->data + start;
  if (rest < CLEAR_GRAIN || (uintptr_t)data % sizeof(__m256i)) {
    memset(data, 0, (size_t)(rest < CLEAR_GRAIN ? rest : CLEAR_GRAIN));
    return;
  }
  for (int64_t i = 0; i < CLEAR_GRAIN; i += (int64_t)sizeof(__m256i))
    _mm256_stream_si256((__m256i *)(void *)(data + i), _mm256_setzero_si256());
  _mm_sfence();
}

void bd_rt_zero(bd_rt *rt, void *data, int64_t bytes) {
  clearing c = {data, bytes};
  bd_rt_parallel(rt, clear_grain, &c, (bytes + CLEAR_GRAIN - 1) / CLEAR_GRAIN);
}

void bd_rt_clear_gradient(bd_rt *rt, void *at, int64_t bytes) {
  bd_rt_zero(rt, at, bytes);
}

void bd_rt_copy(bd_rt *rt, void *to, const void *from, int64_t bytes) {
  (void)rt;
  memcpy(to, from, (size_t)bytes);
}

void *bd_rt_map(bd_rt *rt, void *data, int64_t bytes) {
  (void)rt, (void)bytes;
  return data;
}

void bd_rt_unmap(bd_rt *rt, void *data, int64_t bytes) {
  (void)rt, (void)data, (void)bytes; // mapped in place
}

const void *bd_rt_view(bd_rt *rt, const void *data, int64_t bytes) {
  (void)rt, (void)bytes;
  return data;
}

float *bd_rt_workspace(bd_rt *rt, int64_t *out_floats) {
  *out_floats = BD_RT_THREAD_SCRATCH_FLOATS;
  return rt->device->thread_scratch;
}

typedef struct exchange { // of stored elements
  const bd_rt_weight *weight;
  const bd_rt_local *local;
  int64_t first, count;
  float *values;
  int dtype;
  void *buffer;
} exchange;

static int64_t place_of(const exchange *e, int64_t i) {
  const int64_t logical = bd_rt_stored_to_logical(e->weight, e->first + i);
  return logical < 0 ? -1 : bd_rt_local_find(e->local, logical);
}

static int64_t end_of(const exchange *e, int64_t chunk) {
  return (chunk + 1) * RUN < e->count ? (chunk + 1) * RUN : e->count;
}

static void place_run(void *args, int64_t chunk) {
  const exchange *const e = args;
  for (int64_t i = chunk * RUN; i < end_of(e, chunk); i++) {
    const int64_t at = place_of(e, i);
    if (at >= 0) bd_rt_put_element(e->dtype, e->buffer, at, e->values[i]);
  }
}

static void pick_run(void *args, int64_t chunk) {
  const exchange *const e = args;
  for (int64_t i = chunk * RUN; i < end_of(e, chunk); i++) {
    const int64_t at = place_of(e, i);
    if (at >= 0) e->values[i] = bd_rt_get_element(e->dtype, e->buffer, at);
  }
}

void bd_rt_place(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                 int64_t count, const float *values, int dtype, void *buffer) {
  exchange e = {weight, local, first, count, (float *)(uintptr_t)values, dtype, buffer};
  bd_rt_parallel(rt, place_run, &e, (count + RUN - 1) / RUN);
}

void bd_rt_pick(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                int64_t count, int dtype, const void *buffer, float *values) {
  exchange e = {weight, local, first, count, values, dtype, (void *)(uintptr_t)buffer};
  bd_rt_parallel(rt, pick_run, &e, (count + RUN - 1) / RUN);
}

typedef struct window {
  int64_t first, count, bytes; // bytes: of an element
  char *values, *buffer;
  int store;
} window;

static void copy_row(void *args, int64_t flat, int64_t at, int64_t count) {
  const window *const w = args;
  const int64_t from = flat > w->first ? flat : w->first;
  const int64_t end = flat + count < w->first + w->count ? flat + count : w->first + w->count;
  if (from >= end) return;
  char *const inside = w->values + (from - w->first) * w->bytes, *const local =
                                                                     w->buffer +
                                                                     (at + from - flat) * w->bytes;
  memcpy(w->store ? local : inside, w->store ? inside : local, (size_t)((end - from) * w->bytes));
}

void bd_rt_window(bd_rt *rt, const bd_rt_local *local, int64_t first, int64_t count, int dtype,
                  void *values, void *buffer, int store) {
  (void)rt;
  window w = {first, count, bd_rt_element_bytes(dtype), values, buffer, store};
  bd_rt_local_rows(local, copy_row, &w);
}

typedef struct padding {
  char *buffer;
  int64_t bytes; // of an element
  int64_t done;  // cleared or valid up to here
} padding;

static void clear_before(void *args, int64_t flat, int64_t at, int64_t count) {
  (void)flat;
  padding *const p = args;
  memset(p->buffer + p->done * p->bytes, 0, (size_t)((at - p->done) * p->bytes));
  p->done = at + count;
}

void bd_rt_clear_padding(bd_rt *rt, const bd_rt_local *local, int dtype, void *buffer) {
  (void)rt;
  padding p = {buffer, bd_rt_element_bytes(dtype), 0};
  if (!bd_rt_local_padded(local)) return;
  bd_rt_local_rows(local, clear_before, &p);
  clear_before(&p, 0, local->elements, 0);
}
