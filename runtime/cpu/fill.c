// Initial weights on a CPU rank.
#include "runtime/cpu/rt.h"
#include "runtime/half.h"
#include "runtime/initial.h"

#include <string.h>

enum { RUN = 1 << 14 };

typedef struct filling {
  const bd_rt_weight *weight;
  const bd_rt_local *local;
  uint64_t seed;
  int dtype;
  void *buffer;
} filling;

static void fill_row(void *args, int64_t flat, int64_t at, int64_t count) {
  const filling *const f = args;
  for (int64_t i = 0; i < count; i++)
    bd_rt_put_element(f->dtype, f->buffer, at + i, bd_rt_initial(f->weight, f->seed, flat + i));
}

static void fill_run(void *args, int64_t chunk) {
  filling *const f = args;
  const int64_t first = chunk * RUN, rest = f->local->elements - first;
  const int64_t count = rest < RUN ? rest : RUN;
  const int64_t bytes = bd_rt_element_bytes(f->dtype);
  if (bd_rt_local_padded(f->local))
    memset((char *)f->buffer + first * bytes, 0, (size_t)(count * bytes));
  bd_rt_local_window(f->local, first, count, fill_row, f);
}

void bd_rt_fill(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int dtype,
                void *buffer) {
  filling f = {weight, local, rt->options.seed, dtype, buffer};
  bd_rt_parallel(rt, fill_run, &f, (local->elements + RUN - 1) / RUN);
}
