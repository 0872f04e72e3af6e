// Attention backward, tile by tile: what floats and halves share.
#ifndef BD_RT_CPU_ATTENTION_GRAD_H
#define BD_RT_CPU_ATTENTION_GRAD_H
#include "runtime/cpu/attention.h"

typedef struct bd_rt_backward {
  const bd_rt_attention *shape;
  const bd_rt_random *random;
  const void *biases; // of all heads, as stored; NULL: there are none
  const float *dout, *q, *k, *v, *out, *lse;
  float *dq, *dk, *dv;
  float *sums; // of the gradients of scores by place, of each sample's heads
  bd_rt_tiles *tiles;
} bd_rt_backward;

// One tile: queries of a head against keys.
typedef struct bd_rt_pair {
  int64_t batch, head, row, rows, key, keys;
  int64_t q, out;      // offsets of the first row's head
  int64_t k, v;        // and of the first key's
  const float *biases; // of the head
} bd_rt_pair;

enum { BD_RT_OF_QUERIES = 1, BD_RT_OF_KEYS = 2 }; // which gradients are wanted

// Adds a tile's part to the gradients. `fresh`: nothing is accumulated yet in dk and dv; dq starts
// with the first key.
void bd_rt_tile_backward(const bd_rt_backward *w, const bd_rt_pair *at, int wanted, int fresh,
                         bd_rt_tiles *tiles);
// The head's sums by place: of one, or with `heads` of as many.
void bd_rt_zero_sums(const bd_rt_backward *w, int64_t batch, int64_t head, int64_t heads);
// Of keys and values from these offsets on.
void bd_rt_zero_keys(const bd_rt_backward *w, int64_t k, int64_t v, int64_t keys);

// What is read and written, as stored.
typedef struct bd_rt_tensors {
  const void *dout, *q, *k, *v, *out;
  void *dq, *dk, *dv;
} bd_rt_tensors;

// The backward pass on halves; `like` has shape, randomness, lse and tiles.
void bd_rt_halves_backward(bd_rt *rt, const bd_rt_backward *like, const bd_rt_tensors *tensors);
#endif
