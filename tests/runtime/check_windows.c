// Convolutions and pools of the CPU runtime against naive double loops, as check_kernels.c. Run:
// mpirun --allow-run-as-root --oversubscribe -n 1 check_windows. Exit 0: all agree.
#include "tests/runtime/check_step.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t points_of(const int64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

// Which point of the image is point k of the window of point y; -1: outside.
static int64_t place_of(const bd_rt_conv *s, int64_t y, int64_t k) {
  const int64_t ys[3] = {y / s->y[2] / s->y[1], y / s->y[2] % s->y[1], y % s->y[2]};
  const int64_t ks[3] = {k / s->k[2] / s->k[1], k / s->k[2] % s->k[1], k % s->k[2]};
  int64_t place = 0;
  for (int d = 0; d < 3; d++) {
    const int64_t at = ys[d] * s->stride[d] + ks[d] * s->dilation[d] - s->before[d];
    if (at < 0 || at >= s->x[d]) return -1;
    place = place * s->x[d] + at;
  }
  return place;
}

static double conv_at(const bd_rt_conv *s, const float *x, const float *w, int64_t i,
                      const float *dy, double *dx, double *dw) {
  const int64_t c = s->c / s->groups, xs = points_of(s->x), ks = points_of(s->k);
  const int64_t ys = points_of(s->y), o = i / ys % s->o, base = o / (s->o / s->groups) * c;
  double sum = 0;
  for (int64_t k = 0; k < c * ks; k++) {
    const int64_t place = place_of(s, i % ys, k % ks);
    if (place < 0) continue;
    const int64_t at = (i / ys / s->o * s->c + base + k / ks) * xs + place;
    const int64_t weight = o * c * ks + k;
    sum += (double)x[at] * w[weight];
    dx[at] += (double)dy[i] * w[weight];
    dw[weight] += (double)dy[i] * x[at];
  }
  return sum;
}

// `after`: padding at the ends.
static void check_conv(bd_rt *rt, const char *name, bd_rt_conv s, const int64_t after[3]) {
  char text[80];
  for (int d = 0; d < 3; d++)
    s.y[d] = (s.x[d] + s.before[d] + after[d] - (s.k[d] - 1) * s.dilation[d] - 1) / s.stride[d] + 1;
  const int64_t xs = s.n * s.c * points_of(s.x), ys = s.n * s.o * points_of(s.y);
  const int64_t ws = s.o * (s.c / s.groups) * points_of(s.k);
  float *const x = numbers(xs, 1), *const w = numbers(ws, 2), *const dy = numbers(ys, 3);
  float *const y = numbers(ys, 4), *const dx = numbers(xs, 5), *const dw = numbers(ws, 10);
  double *const ey = zeros(ys), *const ex = zeros(xs);
  double *const ew = zeros(ws);
  for (int64_t i = 0; i < ys; i++)
    ey[i] = conv_at(&s, x, w, i, dy, ex, ew);
  bd_rt_conv_f32(rt, &s, x, w, y);
  bd_rt_conv_dx_f32(rt, &s, dy, w, dx);
  bd_rt_conv_dw_f32(rt, &s, x, dy, 0, dw);
  snprintf(text, sizeof text, "conv %s", name);
  check_near_double(text, y, ey, ys, 1e-4);
  snprintf(text, sizeof text, "conv_dx %s", name);
  check_near_double(text, dx, ex, xs, 1e-4);
  snprintf(text, sizeof text, "conv_dw %s", name);
  check_near_double(text, dw, ew, ws, 1e-4);
  bd_rt_conv_dw_f32(rt, &s, x, dy, 1, dw);
  for (int64_t i = 0; i < ws; i++)
    ew[i] *= 2;
  snprintf(text, sizeof text, "conv_dw %s, accumulated", name);
  check_near_double(text, dw, ew, ws, 2e-4);
  free(x), free(w), free(dy), free(y), free(dx), free(dw), free(ey), free(ex), free(ew);
}

static void check_convs(bd_rt *rt) {
  static const struct {
    const char *name;
    bd_rt_conv s;
    int64_t after[3];
  } cases[] = {
      {"of odd extents",
       {2, 4, 6, 1, {1, 9, 7}, {1, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
       {0, 1, 1}},
      {"of two groups, in steps",
       {1, 4, 6, 2, {1, 70, 80}, {1, 5, 3}, {0}, {1, 2, 3}, {1, 1, 1}, {0, 2, 0}},
       {0, 2, 0}},
      {"of many channels",
       {1, 300, 3, 1, {1, 6, 6}, {1, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
       {0, 1, 1}},
      {"of a point", {2, 20, 33, 1, {1, 5, 9}, {1, 1, 1}, {0}, {1, 1, 1}, {1, 1, 1}, {0}}, {0}},
      {"of a point, in steps",
       {2, 17, 5, 1, {1, 6, 9}, {1, 1, 1}, {0}, {1, 2, 3}, {1, 1, 1}, {0}},
       {0}},
      {"of each channel",
       {2, 19, 19, 19, {1, 9, 8}, {1, 3, 3}, {0}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}},
       {0, 1, 1}},
      {"of each channel to two",
       {1, 6, 12, 6, {1, 9, 8}, {1, 3, 2}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
       {0, 1, 0}},
      {"of a signal, dilated",
       {3, 5, 4, 1, {1, 1, 60}, {1, 1, 4}, {0}, {1, 1, 2}, {1, 1, 3}, {0, 0, 5}},
       {0, 0, 2}},
      {"of volumes",
       {2, 3, 20, 1, {7, 6, 8}, {3, 2, 3}, {0}, {1, 2, 1}, {2, 1, 1}, {2, 0, 1}},
       {1, 1, 0}},
      {"of volumes in tiles",
       {1, 24, 18, 1, {20, 40, 38}, {3, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
       {1, 1, 1}},
      {"in steps longer than windows",
       {1, 3, 4, 1, {1, 11, 10}, {1, 2, 2}, {0}, {1, 3, 4}, {1, 1, 1}, {0, 1, 0}},
       {0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_conv(rt, cases[i].name, cases[i].s, cases[i].after);
}

static void check_pool(bd_rt *rt) {
  const bd_rt_conv s = {.n = 1,
                        .c = 2,
                        .o = 2,
                        .groups = 1,
                        .x = {1, 4, 4},
                        .k = {1, 2, 2},
                        .y = {1, 2, 2},
                        .stride = {1, 2, 2},
                        .dilation = {1, 1, 1}};
  float x[32], y[8], dx[32], dy[8] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[8], gradient[32] = {0};
  for (int i = 0; i < 32; i++)
    x[i] = (float)(i % 16 == 5 ? 5 : i % 4 + i / 8);
  for (int i = 0; i < 8; i++) {
    const int at = i / 4 * 16 + i / 2 % 2 * 8 + i % 2 * 2;
    const int window[4] = {at, at + 1, at + 4, at + 5};
    int best = at;
    for (int j = 1; j < 4; j++)
      best = x[window[j]] > x[best] ? window[j] : best;
    expected[i] = x[best];
    gradient[best] += dy[i];
  }
  bd_rt_maxpool_f32(rt, &s, x, y);
  bd_rt_maxpool_grad_f32(rt, &s, x, dy, dx);
  check_near("maxpool", y, expected, 8, 0);
  check_near("maxpool_grad", dx, gradient, 32, 0);
}

static void step(bd_rt *rt) {
  check_convs(rt);
  check_pool(rt);
}

int main(int argc, char **argv) {
  return check_run_step(argv[0], step, argc > 1 ? 3 : 2);
}
