// What attention's two directions share.
#ifndef BD_RT_CPU_ATTENTION_H
#define BD_RT_CPU_ATTENTION_H
#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <stdatomic.h>

enum { ROWS = BD_RT_ATTENTION_ROWS, KEYS = BD_RT_ATTENTION_KEYS };

// A worker's share of the workspace.
typedef struct bd_rt_tiles {
  float first[ROWS * KEYS], second[ROWS * KEYS];
  float row[4][ROWS];
} bd_rt_tiles;
_Static_assert(sizeof(bd_rt_tiles) * BD_RT_ATTENTION_WORKERS ==
                   (size_t)ROWS * (2 * KEYS + 4) * 4 * BD_RT_ATTENTION_WORKERS,
               "the workspace formula of braid_rt_abi.h");

// Halves become floats in a thread's scratch: four tiles of queries' rows and four of keys'.
_Static_assert((4 * ROWS + 4 * KEYS) * BD_RT_ATTENTION_HALF_WIDTH <=
                   (int)BD_RT_THREAD_SCRATCH_FLOATS,
               "a thread's scratch holds the tiles of the widest heads");

// `rows` of `width` halves that lie `stride` apart from element `offset` on, without gaps; and
// back.
static inline void bd_rt_widen_rows(int dtype, const void *halves, int64_t offset, int64_t stride,
                                    int64_t rows, int64_t width, float *wide) {
  const uint16_t *const from = (const uint16_t *)halves + offset;
  for (int64_t i = 0; i < rows; i++)
    bd_rt_widen_run(dtype, from + i * stride, wide + i * width, width);
}

static inline void bd_rt_narrow_rows(int dtype, const float *wide, int64_t rows, int64_t width,
                                     void *halves, int64_t offset, int64_t stride) {
  uint16_t *const to = (uint16_t *)halves + offset;
  for (int64_t i = 0; i < rows; i++)
    bd_rt_narrow_run(dtype, wide + i * width, to + i * stride, width);
}

// How many of the keys from `key` on are before the first that the query `row` sees.
static inline int64_t bd_rt_skipped(const bd_rt_attention *s, int64_t row, int64_t key,
                                    int64_t keys) {
  if (!s->window) return 0;
  const int64_t skipped = s->first_query + row + 1 - s->window - key;
  return skipped < 0 ? 0 : bd_rt_least(skipped, keys);
}

// One past the last of the keys from `key` on that the query `row` sees, counted from there.
static inline int64_t bd_rt_seen(const bd_rt_attention *s, int64_t row, int64_t key, int64_t keys) {
  if (!s->causal) return keys;
  const int64_t seen = s->first_query + row + 1 - key;
  return seen < 0 ? 0 : bd_rt_least(seen, keys);
}

// The first key of the first tile that the queries from `row` on see.
static inline int64_t bd_rt_keys_begin(const bd_rt_attention *s, int64_t row) {
  const int64_t first = s->first_query + row + 1 - s->window;
  return s->window && first > 0 ? first / KEYS * KEYS : 0;
}

// One past the last key that the `rows` queries from `row` on see.
static inline int64_t bd_rt_keys_end(const bd_rt_attention *s, int64_t row, int64_t rows) {
  return s->causal ? bd_rt_least(s->tk, s->first_query + row + rows) : s->tk;
}

// The first query of the first tile that sees a key from `key` on.
static inline int64_t bd_rt_rows_begin(const bd_rt_attention *s, int64_t key) {
  if (!s->causal || key <= s->first_query) return 0;
  return (key - s->first_query) / ROWS * ROWS;
}

// One past the last query that sees a key of the tile from `key` on; less than the first: none
// does.
static inline int64_t bd_rt_rows_end(const bd_rt_attention *s, int64_t key) {
  return s->window ? bd_rt_least(s->tq, key + KEYS - 1 + s->window - s->first_query) : s->tq;
}

// Biases of a head, halves of them widened in `room`; NULL: there are none.
static inline const float *bd_rt_head_biases(const bd_rt_attention *s, const void *biases,
                                             int64_t head, float room[BD_RT_ATTENTION_PLACES]) {
  if (!s->places) return NULL;
  if (!bd_rt_is_half(s->dtype)) return (const float *)biases + head * s->places;
  bd_rt_widen_run(s->dtype, (const uint16_t *)biases + head * s->places, room, s->places);
  return room;
}
#endif
