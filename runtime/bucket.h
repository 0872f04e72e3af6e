// Buckets: what ranks exchange of a stage's weights together, and how weights are found in the
// arena.
#ifndef BD_RT_BUCKET_H
#define BD_RT_BUCKET_H
#include "runtime/rank.h"

// At least eight of all that a stage exchanges, so that no one is all of it: the last of gradients
// is soon summed, the first of weights soon there.
enum { BD_RT_LEAST_BUCKETS = 8 };

// A bucket with so many bytes is full, of `bytes` in all.
static inline int64_t bd_rt_full_bucket(int64_t bytes) {
  return bd_rt_least(bytes / BD_RT_LEAST_BUCKETS, BD_RT_BUCKET_BYTES);
}

// For qsort and bsearch of what begins with its offset in the arena.
static inline int bd_rt_compare_offsets(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}
#endif
