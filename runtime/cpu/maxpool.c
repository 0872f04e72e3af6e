#include "runtime/cpu/rt.h"
#include "runtime/cpu/windows.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

typedef struct pooling {
  bd_rt *rt;
  const bd_rt_conv *s;
  const void *x, *dy;
  void *y, *dx;
} pooling;

// A plane of `points`: where its first element lies, and how far apart the others.
typedef struct plane {
  int64_t first, step, points;
} plane;

static plane plane_of(const bd_rt_conv *s, int64_t number, const int64_t extents[3]) {
  const int64_t points = bd_rt_points(extents);
  if (!s->channels_last) return (plane){number * points, 1, points};
  return (plane){number / s->c * points * s->c + number % s->c, s->c, points};
}

static inline __attribute__((always_inline)) float value_at(int dtype, const void *data,
                                                            int64_t at) {
  return bd_rt_is_half(dtype) ? bd_rt_from_half(dtype, ((const uint16_t *)data)[at])
                              : ((const float *)data)[at];
}

static void put(int dtype, void *data, int64_t at, float value) {
  if (bd_rt_is_half(dtype))
    ((uint16_t *)data)[at] = bd_rt_to_half(dtype, value);
  else
    ((float *)data)[at] = value;
}

// Which point of the plane is the first greatest value of the window of point `y`; -1: all of it is
// outside. Constants make the loops quick.
static inline __attribute__((always_inline)) int64_t search(const bd_rt_conv *s, int dtype,
                                                            const void *x, plane p, int64_t y) {
  int64_t best = -1, corner[3];
  float most = 0;
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
        const float value = value_at(dtype, x, p.first + (row + h) * p.step);
        if (best < 0 || value > most) best = row + h, most = value;
      }
    }
  return best;
}

static int64_t find_most(const bd_rt_conv *s, const void *x, plane p, int64_t y) {
  return s->dtype == BD_RT_F32 && p.step == 1
             ? search(s, BD_RT_F32, x, (plane){p.first, 1, p.points}, y)
             : search(s, s->dtype, x, p, y);
}

static void pool_plane(void *args, int64_t number, int worker) {
  const pooling *const p = args;
  const bd_rt_conv *const s = p->s;
  const plane from = plane_of(s, number, s->x), to = plane_of(s, number, s->y);
  (void)worker;
  for (int64_t i = 0; i < to.points; i++) {
    const int64_t best = find_most(s, p->x, from, i);
    const float most =
        best < 0 ? -INFINITY : value_at(s->dtype, p->x, from.first + best * from.step);
    put(s->dtype, p->y, to.first + i * to.step, most);
  }
}

// Sums of as much of the gradient's plane as a thread's scratch takes, rounded at the end.
static void spread_plane(void *args, int64_t number, int worker) {
  const pooling *const p = args;
  const bd_rt_conv *const s = p->s;
  const plane from = plane_of(s, number, s->x), to = plane_of(s, number, s->y);
  float *const sums = bd_rt_thread_scratch(p->rt, worker);
  for (int64_t first = 0; first < from.points; first += BD_RT_THREAD_SCRATCH_FLOATS) {
    const int64_t count = bd_rt_least(BD_RT_THREAD_SCRATCH_FLOATS, from.points - first);
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t i = 0; i < to.points; i++) {
      const int64_t best = find_most(s, p->x, from, i) - first;
      if (best >= 0 && best < count)
        sums[best] += value_at(s->dtype, p->dy, to.first + i * to.step);
    }
    for (int64_t i = 0; i < count; i++)
      put(s->dtype, p->dx, from.first + (first + i) * from.step, sums[i]);
  }
}

void bd_rt_maxpool(bd_rt *rt, const bd_rt_conv *s, const void *x, void *y) {
  pooling p = {.rt = rt, .s = s, .x = x, .y = y};
  bd_rt_pool_run(rt->pool, pool_plane, &p, s->n * s->c);
}

void bd_rt_maxpool_grad(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy, void *dx) {
  pooling p = {.rt = rt, .s = s, .x = x, .dy = dy, .dx = dx};
  bd_rt_pool_run(rt->pool, spread_plane, &p, s->n * s->c);
}
