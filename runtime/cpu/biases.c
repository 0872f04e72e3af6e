#include "runtime/cpu/biases.h"

#include "runtime/cpu/attention.h"

// Of a row's keys the first `before` are at place 0, those from `behind` on at the last, and those
// between at places of their own, from `first` on.
typedef struct runs {
  int64_t before, behind, first;
} runs;

static int64_t within(int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

static runs runs_of(const bd_rt_attention *s, const bd_rt_tile *tile, int64_t i) {
  const int64_t far = s->causal ? s->places - 1 : s->places / 2;
  const int64_t place = tile->key - (s->first_query + tile->row + i) + far; // of the first key
  const int64_t before = within(1 - place, 0, tile->keys);
  const int64_t behind = within(s->places - 1 - place, before, tile->keys);
  return (runs){before, behind, place + before};
}

void bd_rt_add_biases(const bd_rt_attention *s, const bd_rt_tile *tile, const float *biases,
                      float *scores) {
  for (int64_t i = 0; i < tile->rows; i++) {
    const runs at = runs_of(s, tile, i);
    float *restrict const x = scores + i * KEYS;
    const float *restrict const own = biases + at.first - at.before;
    const float first = biases[0], last = biases[s->places - 1];
    for (int64_t j = 0; j < at.before; j++)
      x[j] += first;
    for (int64_t j = at.before; j < at.behind; j++)
      x[j] += own[j];
    for (int64_t j = at.behind; j < tile->keys; j++)
      x[j] += last;
  }
}

static float sum(const float *x, int64_t count) {
  float total = 0;
  for (int64_t i = 0; i < count; i++)
    total += x[i];
  return total;
}

void bd_rt_sum_places(const bd_rt_attention *s, const bd_rt_tile *tile, const float *slopes,
                      float *sums) {
  for (int64_t i = 0; i < tile->rows; i++) {
    const runs at = runs_of(s, tile, i);
    const float *restrict const x = slopes + i * KEYS;
    float *restrict const own = sums + at.first;
    sums[0] += sum(x, at.before);
    for (int64_t j = at.before; j < at.behind; j++)
      own[j - at.before] += x[j];
    sums[s->places - 1] += sum(x + at.behind, tile->keys - at.behind);
  }
}
