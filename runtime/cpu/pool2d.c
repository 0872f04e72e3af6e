#include "runtime/cpu/rt.h"

#include <math.h>
#include <string.h>

typedef struct pooling {
  const bd_rt_conv *s;
  const float *x, *dy;
  float *y, *dx;
} pooling;

// Index within the plane of the first greatest value of a window.
static int64_t find_most(const bd_rt_conv *s, const float *x, int64_t oh, int64_t ow) {
  int64_t best = -1;
  for (int64_t kh = 0; kh < s->kh; kh++)
    for (int64_t kw = 0; kw < s->kw; kw++) {
      const int64_t h = oh * s->stride_h - s->pad_h + kh, w = ow * s->stride_w - s->pad_w + kw;
      if (h < 0 || h >= s->h || w < 0 || w >= s->w) continue;
      if (best < 0 || x[h * s->w + w] > x[best]) best = h * s->w + w;
    }
  return best;
}

static void pool_plane(void *args, int64_t plane) {
  const pooling *const p = args;
  const bd_rt_conv *const s = p->s;
  const float *const x = p->x + plane * s->h * s->w;
  if (p->dx) memset(p->dx + plane * s->h * s->w, 0, (size_t)(s->h * s->w) * sizeof *p->dx);
  for (int64_t i = 0; i < s->oh * s->ow; i++) {
    const int64_t best = find_most(s, x, i / s->ow, i % s->ow);
    if (p->y) p->y[plane * s->oh * s->ow + i] = best < 0 ? -INFINITY : x[best];
    if (p->dx && best >= 0) p->dx[plane * s->h * s->w + best] += p->dy[plane * s->oh * s->ow + i];
  }
}

void bd_rt_maxpool2d_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, float *y) {
  pooling p = {.s = s, .x = x, .y = y};
  bd_rt_parallel(rt, pool_plane, &p, s->n * s->c);
}

void bd_rt_maxpool2d_grad_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                              float *dx) {
  pooling p = {.s = s, .x = x, .dy = dy, .dx = dx};
  bd_rt_parallel(rt, pool_plane, &p, s->n * s->c);
}
