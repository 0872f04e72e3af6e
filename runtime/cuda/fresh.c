#include "runtime/cuda/fresh.h"
#include "runtime/master.h"

#include <stdlib.h>

typedef enum state { UNTOUCHED, NEEDS_ZEROS, FRESH, WRITTEN } state; // the last two: it needs none

typedef struct accumulator {
  const char *at;
  int64_t elements, bytes;
  state state;
} accumulator;

struct bd_cuda_accumulators {
  int count;
  accumulator of[]; // in the order of their addresses
};

static int compare(const void *a, const void *b) {
  const char *const x = ((const accumulator *)a)->at, *const y = ((const accumulator *)b)->at;
  return (x > y) - (x < y);
}

void bd_cuda_fresh_open(bd_rt *rt) {
  const bd_rt_stage *const stage = rt->stage;
  size_t count = 0;
  for (int i = 0; i < stage->weight_count; i++)
    count += (size_t)stage->weights[i].gradient_count;
  bd_cuda_accumulators *const list = bd_rt_allocate(1, sizeof *list + count * sizeof(accumulator));
  for (int i = 0; i < stage->weight_count; i++) {
    const bd_rt_weight *const weight = &stage->weights[i];
    const int64_t elements = bd_rt_gradient_local(rt, weight).elements;
    const int64_t bytes = elements * bd_rt_element_bytes(weight->gradient_dtype);
    for (int use = 0; use < weight->gradient_count; use++)
      list->of[list->count++] =
          (accumulator){rt->arena + weight->gradient_offsets[use], elements, bytes, UNTOUCHED};
  }
  qsort(list->of, count, sizeof *list->of, compare);
  rt->device->accumulators = list;
}

void bd_cuda_release_fresh(bd_rt *rt) {
  free(rt->device->accumulators);
  rt->device->accumulators = NULL;
}

// The one that an address lies in, or NULL.
static accumulator *find(bd_rt *rt, const char *at) {
  bd_cuda_accumulators *const list = rt->device->accumulators;
  int low = 0, high = list ? list->count : 0;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list->of[middle].at <= at)
      low = middle;
    else
      high = middle;
  }
  if (low == high || at < list->of[low].at) return NULL;
  accumulator *const a = &list->of[low];
  return at < a->at + a->bytes ? a : NULL;
}

void bd_cuda_fresh_touch(bd_rt *rt, const void *at) {
  accumulator *const a = rt->device->rehearsing ? find(rt, at) : NULL;
  if (a && a->state == UNTOUCHED) a->state = NEEDS_ZEROS;
}

int bd_cuda_fresh_adds(bd_rt *rt, const void *at, int64_t elements) {
  accumulator *const a = find(rt, at);
  if (!a) return 1;
  if (rt->device->rehearsing) {
    if (a->state == UNTOUCHED)
      a->state = at == a->at && elements == a->elements ? FRESH : NEEDS_ZEROS;
    return 1;
  }
  const int adds = a->state != FRESH;
  if (!adds) a->state = WRITTEN;
  return adds;
}

// One that nothing touches is nobody's gradient in this step, and stays zero.
void bd_rt_clear_gradient(bd_rt *rt, void *at, int64_t bytes) {
  accumulator *const a = find(rt, at);
  if (a && (a->state == FRESH || a->state == WRITTEN))
    a->state = FRESH;
  else
    bd_rt_zero(rt, at, bytes);
}
