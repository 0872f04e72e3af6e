#include "planner/choice/classify.h"
#include <stdint.h>
#include <string.h>

static size_t hash_of(const unsigned char *key, size_t size) {
  uint64_t hash = 0;
  for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
    uint32_t word;
    memcpy(&word, key + i, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return (size_t)hash;
}

// Open addressing; a bucket holds a class, from 1; 0: free.
bd_classes bd_classify(bd_arena *arena, bd_arena *scratch, const void *keys, size_t size,
                       int count) {
  const unsigned char *key = keys;
  size_t buckets = 16;
  while (buckets < 2 * (size_t)count)
    buckets *= 2;
  int *bucket = BD_NEW_ARRAY(scratch, int, buckets);
  bd_classes out = {0, BD_NEW_ARRAY(arena, int, count), BD_NEW_ARRAY(scratch, int, count)};
  for (int i = 0; i < count; i++) {
    const unsigned char *own = key + size * (size_t)i;
    size_t at = hash_of(own, size) & (buckets - 1);
    while (bucket[at] && memcmp(key + size * (size_t)out.first[bucket[at] - 1], own, size) != 0)
      at = (at + 1) & (buckets - 1);
    if (!bucket[at]) {
      out.first[out.count] = i;
      bucket[at] = ++out.count;
    }
    out.class_of[i] = bucket[at] - 1;
  }
  return out;
}
