#include "runtime/cpu/combine.h"
#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <math.h>

enum { WIDE = 1024 };

// out = out (combiner) in, element by element.
static void combine(int combiner, float *restrict out, const float *restrict in, int64_t count) {
  if (combiner == BD_RT_SUM) {
    for (int64_t i = 0; i < count; i++)
      out[i] += in[i];
  } else if (combiner == BD_RT_MAX) {
    for (int64_t i = 0; i < count; i++)
      out[i] = in[i] > out[i] || in[i] != in[i] ? in[i] : out[i];
  } else {
    for (int64_t i = 0; i < count; i++) {
      const float most = in[i] > out[i] ? in[i] : out[i], least = in[i] > out[i] ? out[i] : in[i];
      out[i] = most == -INFINITY ? most : most + log1pf(expf(least - most));
    }
  }
}

static void combine_halves(int dtype, int combiner, int size, int64_t stride, int64_t count,
                           uint16_t *pieces) {
  float sum[WIDE], next[WIDE];
  for (int64_t from = 0; from < count; from += WIDE) {
    const int64_t length = count - from < WIDE ? count - from : WIDE;
    for (int r = 0; r < size; r++) {
      bd_rt_widen_run(dtype, pieces + r * stride + from, r ? next : sum, length);
      if (r) combine(combiner, sum, next, length);
    }
    bd_rt_narrow_run(dtype, sum, pieces + from, length);
  }
}

void bd_rt_combine_pieces(int dtype, int combiner, int size, int64_t stride, int64_t count,
                          void *pieces) {
  if (bd_rt_is_half(dtype)) {
    combine_halves(dtype, combiner, size, stride, count, pieces);
    return;
  }
  float *const floats = pieces;
  for (int r = 1; r < size; r++)
    combine(combiner, floats, floats + r * stride, count);
}
