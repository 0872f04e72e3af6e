// What attention's two directions share.
#ifndef BD_RT_CPU_ATTENTION_H
#define BD_RT_CPU_ATTENTION_H
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

static inline int64_t bd_rt_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// How many of the keys from `key` on the query `row` sees.
static inline int64_t bd_rt_seen(const bd_rt_attention *s, int64_t row, int64_t key, int64_t keys) {
  if (!s->causal) return keys;
  const int64_t seen = row + 1 - key;
  return seen < 0 ? 0 : bd_rt_least(seen, keys);
}

// Dropout's number of (head, row, key); `head` is local.
static inline int64_t bd_rt_element(const bd_rt_attention *s, int64_t head, int64_t row,
                                    int64_t key) {
  return ((s->first_head + head) * s->tq + row) * s->tk + key;
}
#endif
