#include "runtime/deferred.h"

#include "runtime/backend.h"
#include "runtime/bucket.h"
#include "runtime/master.h"
#include "runtime/update.h"

#include <stdlib.h>

enum { NO_BUCKET = -1 };

// A weight of the stage; one that no forward pass has asked for is in no bucket.
typedef struct entry {
  int64_t offset; // in the arena
  const bd_rt_weight *weight;
  int bucket;
} entry;

// Weights [first, first + count) of the order. `updated`: how many are, since the last round.
typedef struct bucket {
  int first, count, updated;
  int64_t bytes;
} bucket;

// A round begins with an update and ends when each bucket has been waited for. At any time those of
// [awaited, asked) are on their way.
struct bd_rt_deferred {
  int entry_count;
  entry *entries; // ascending
  int ordered;
  const bd_rt_weight **order; // of the first forward pass
  int bucket_count;
  bucket *buckets;
  int64_t most_bytes;
  int asked, awaited;
  bool in_round;
};

static int64_t bytes_of(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_share_of(rt, weight).elements * bd_rt_element_bytes(weight->layout.dtype);
}

void bd_rt_deferred_open(bd_rt *rt) {
  const bd_rt_stage *const stage = rt->stage;
  bd_rt_deferred *const d = rt->deferred = bd_rt_allocate(1, sizeof *d);
  const size_t count = (size_t)stage->weight_count;
  int64_t bytes = 0;
  d->entry_count = stage->weight_count;
  d->entries = bd_rt_allocate(count, sizeof *d->entries);
  d->order = bd_rt_allocate(count, sizeof *d->order);
  d->buckets = bd_rt_allocate(count, sizeof *d->buckets);
  for (int i = 0; i < stage->weight_count; i++) {
    const bd_rt_weight *const w = &stage->weights[i];
    d->entries[i] = (entry){w->weight_offset, w, NO_BUCKET};
    bytes += bytes_of(rt, w);
  }
  qsort(d->entries, count, sizeof *d->entries, bd_rt_compare_offsets);
  d->most_bytes = bd_rt_full_bucket(bytes);
}

void bd_rt_deferred_close(bd_rt *rt) {
  if (!rt->deferred) return;
  free(rt->deferred->entries);
  free(rt->deferred->order);
  free(rt->deferred->buckets);
  free(rt->deferred);
  rt->deferred = NULL;
}

static entry *find(const bd_rt_deferred *d, int64_t offset) {
  const entry wanted = {.offset = offset};
  return bsearch(&wanted, d->entries, (size_t)d->entry_count, sizeof wanted, bd_rt_compare_offsets);
}

// The first forward pass of all reads the weight next.
static void put_in_order(bd_rt *rt, entry *e) {
  bd_rt_deferred *const d = rt->deferred;
  if (d->bucket_count == 0 || d->buckets[d->bucket_count - 1].bytes >= d->most_bytes)
    d->buckets[d->bucket_count++] = (bucket){.first = d->ordered};
  e->bucket = d->bucket_count - 1;
  d->order[d->ordered++] = e->weight;
  d->buckets[e->bucket].count++;
  d->buckets[e->bucket].bytes += bytes_of(rt, e->weight);
}

static int slot_of(int number) {
  return BD_RT_PREFETCHES + number % BD_RT_DEFERRED_SLOTS;
}

// What the bucket has for one group of ranks starts together.
static void start_group(bd_rt *rt, int number, int mask) {
  const bd_rt_deferred *const d = rt->deferred;
  const bucket *const b = &d->buckets[number];
  bool begun = false;
  for (int i = b->first; i < b->first + b->count; i++) {
    if (bd_rt_share_of(rt, d->order[i]).zero != mask) continue;
    if (!begun) bd_rt_aside(rt, slot_of(number));
    begun = true;
    bd_rt_gather_weight(rt, d->order[i]);
  }
  if (begun) bd_rt_back(rt);
}

// As many buckets as there are slots are on their way. What the compute stream and messages ask of
// NCCL later begins when these have begun (NCCL_LAUNCH_ORDER_IMPLICIT), and one begins when the one
// before it has ended: behind two, a collective of the next layer waits for the end of the first
// bucket, which that layer reads itself. Behind more it would wait for what only later layers read.
static void ask(bd_rt *rt) {
  bd_rt_deferred *const d = rt->deferred;
  while (d->asked < d->bucket_count && d->asked < d->awaited + BD_RT_DEFERRED_SLOTS &&
         d->buckets[d->asked].updated == d->buckets[d->asked].count) {
    for (int mask = 1; mask < BD_RT_GROUPS; mask++)
      start_group(rt, d->asked, mask);
    d->asked++;
  }
}

// The next bucket is asked for before this one is waited for: else it would begin behind the layers
// that it is to run beside.
static void await_next(bd_rt *rt) {
  bd_rt_deferred *const d = rt->deferred;
  ask(rt);
  bd_rt_await(rt, slot_of(d->awaited));
  if (++d->awaited < d->bucket_count) return;
  for (int i = 0; i < d->bucket_count; i++)
    d->buckets[i].updated = 0;
  d->asked = d->awaited = 0;
  d->in_round = false;
}

bool bd_rt_defers(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_runs_aside(rt) && find(rt->deferred, weight->weight_offset)->bucket != NO_BUCKET;
}

void bd_rt_deferred_take(bd_rt *rt, const bd_rt_weight *weight) {
  bd_rt_deferred *const d = rt->deferred;
  d->in_round = true;
  d->buckets[find(d, weight->weight_offset)->bucket].updated++;
  ask(rt);
}

void bd_rt_await_weight(bd_rt *rt, int64_t micro_batch, const void *weight) {
  bd_rt_deferred *const d = rt->deferred;
  if (micro_batch > 0) return;
  entry *const e = find(d, (const char *)weight - rt->arena);
  if (!e) return;
  if (e->bucket == NO_BUCKET && bd_rt_runs_aside(rt) && bd_rt_gathers_in_place(rt, e->weight))
    put_in_order(rt, e);
  if (!d->in_round || d->awaited > e->bucket) return;
  bd_rt_mark(rt, BD_RT_MARK_OTHER); // its time is no layer's
  while (d->in_round && d->awaited <= e->bucket)
    await_next(rt);
}

void bd_rt_deferred_finish(bd_rt *rt) {
  while (rt->deferred->in_round)
    await_next(rt);
}
