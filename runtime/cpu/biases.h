// Biases of attention's scores by relative position, of one head: `places` numbers. Key j is at
// place j - i + far of query i, or the nearest that there is.
#ifndef BD_RT_CPU_BIASES_H
#define BD_RT_CPU_BIASES_H
#include "runtime/braid_rt.h"

// A tile of scores: `rows` queries from `row` on, KEYS numbers apart, by `keys` keys from `key` on.
typedef struct bd_rt_tile {
  int64_t row, rows, key, keys;
} bd_rt_tile;

// Adds the biases to scores.
void bd_rt_add_biases(const bd_rt_attention *shape, const bd_rt_tile *tile, const float *biases,
                      float *scores);
// Adds the gradients of scores to the sums of their places.
void bd_rt_sum_places(const bd_rt_attention *shape, const bd_rt_tile *tile, const float *slopes,
                      float *sums);
#endif
