#include "runtime/cpu/rt.h"
#include "runtime/cpu/windows.h"

#include <math.h>
#include <string.h>

typedef struct pooling {
  const bd_rt_conv *s;
  const float *x, *dy;
  float *y, *dx;
} pooling;

// Index within the plane of the first greatest value of the window of point `y`; -1: all of it is
// outside.
static int64_t find_most(const bd_rt_conv *s, const float *x, int64_t y) {
  int64_t best = -1, corner[3];
  for (int d = 2; d >= 0; y /= s->y[d--])
    corner[d] = y % s->y[d] * s->stride[d] - s->before[d];
  for (int64_t a = 0; a < s->k[0]; a++)
    for (int64_t b = 0; b < s->k[1]; b++) {
      const int64_t i = corner[0] + a * s->dilation[0], j = corner[1] + b * s->dilation[1];
      if (i < 0 || i >= s->x[0] || j < 0 || j >= s->x[1]) continue;
      const int64_t row = (i * s->x[1] + j) * s->x[2];
      for (int64_t c = 0; c < s->k[2]; c++) {
        const int64_t h = corner[2] + c * s->dilation[2];
        if (h < 0 || h >= s->x[2]) continue;
        if (best < 0 || x[row + h] > x[best]) best = row + h;
      }
    }
  return best;
}

static void pool_plane(void *args, int64_t plane) {
  const pooling *const p = args;
  const bd_rt_conv *const s = p->s;
  const int64_t from = bd_rt_points(s->x), to = bd_rt_points(s->y);
  const float *const x = p->x + plane * from;
  if (p->dx) memset(p->dx + plane * from, 0, (size_t)from * sizeof *p->dx);
  for (int64_t i = 0; i < to; i++) {
    const int64_t best = find_most(s, x, i);
    if (p->y) p->y[plane * to + i] = best < 0 ? -INFINITY : x[best];
    if (p->dx && best >= 0) p->dx[plane * from + best] += p->dy[plane * to + i];
  }
}

void bd_rt_maxpool_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, float *y) {
  pooling p = {.s = s, .x = x, .y = y};
  bd_rt_parallel(rt, pool_plane, &p, s->n * s->c);
}

void bd_rt_maxpool_grad_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                            float *dx) {
  pooling p = {.s = s, .x = x, .dy = dy, .dx = dx};
  bd_rt_parallel(rt, pool_plane, &p, s->n * s->c);
}
