// Convolutions and pools of the CPU runtime against naive double loops, in every type and order of
// channels, as check_kernels.c. Run:
// mpirun --allow-run-as-root --oversubscribe -n 1 check_windows. Exit 0: all agree.
#include "runtime/half.h"
#include "tests/runtime/check.h"
#include "tests/runtime/check_step.h"
#include "tests/runtime/halves.h"

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

// Where a point of a channel lies in one of several images.
static int64_t offset_of(const bd_rt_conv *s, int64_t image, int64_t channels, int64_t channel,
                         int64_t points, int64_t point) {
  return s->channels_last ? (image * points + point) * channels + channel
                          : (image * channels + channel) * points + point;
}

typedef struct conv_case {
  bd_rt_conv s;
  int64_t xs, ws, ys; // elements
  float *x, *w, *dy;  // as the convolution sees them: rounded
  void *half_x, *half_w, *half_dy;
  double *y, *dx, *dw; // expected
  int64_t *places;     // place_of every point of y, for every point of its window
} conv_case;

// Adds one point of y to the results that are expected.
static void add_expected(conv_case *c, int64_t image, int64_t o, int64_t point) {
  const bd_rt_conv *const s = &c->s;
  const int64_t channels = s->c / s->groups, xs = points_of(s->x), ks = points_of(s->k);
  const int64_t base = o / (s->o / s->groups) * channels;
  const int64_t *const places = c->places + point * ks;
  const int64_t at = offset_of(s, image, s->o, o, points_of(s->y), point);
  for (int64_t k = 0; k < channels * ks; k++) {
    const int64_t place = places[k % ks];
    if (place < 0) continue;
    const int64_t x = offset_of(s, image, s->c, base + k / ks, xs, place);
    const int64_t w = (o * channels + k / ks) * ks + k % ks;
    c->y[at] += (double)c->x[x] * c->w[w];
    c->dx[x] += (double)c->dy[at] * c->w[w];
    c->dw[w] += (double)c->dy[at] * c->x[x];
  }
}

// Numbers that the type holds, as floats, and as it holds them.
static float *operand(int dtype, int64_t count, unsigned seed, void **out_halves) {
  float *const x = numbers(count, seed);
  uint16_t *const halves = to_halves(dtype, x, count);
  if (dtype != BD_RT_F32) from_halves(dtype, halves, count, x);
  *out_halves = halves;
  return x;
}

static int64_t *make_places(const bd_rt_conv *s) {
  const int64_t ys = points_of(s->y), ks = points_of(s->k);
  int64_t *const places = malloc((size_t)(ys * ks) * sizeof *places);
  if (!places) abort();
  for (int64_t i = 0; i < ys * ks; i++)
    places[i] = place_of(s, i / ks, i % ks);
  return places;
}

static conv_case open_case(bd_rt_conv s) {
  conv_case c = {.s = s,
                 .xs = s.n * s.c * points_of(s.x),
                 .ws = s.o * (s.c / s.groups) * points_of(s.k),
                 .ys = s.n * s.o * points_of(s.y)};
  c.x = operand(s.dtype, c.xs, 1, &c.half_x);
  c.w = operand(s.dtype, c.ws, 2, &c.half_w);
  c.dy = operand(s.dtype, c.ys, 3, &c.half_dy);
  c.places = make_places(&s);
  c.y = zeros(c.ys), c.dx = zeros(c.xs), c.dw = zeros(c.ws);
  for (int64_t image = 0; image < s.n; image++)
    for (int64_t o = 0; o < s.o; o++)
      for (int64_t point = 0; point < points_of(s.y); point++)
        add_expected(&c, image, o, point);
  return c;
}

static void close_case(conv_case *c) {
  free(c->x), free(c->w), free(c->dy), free(c->half_x), free(c->half_w), free(c->half_dy);
  free(c->y), free(c->dx), free(c->dw), free(c->places);
}

// A result of the type that the case asks for, near what is expected; `times` that.
static void check_result_of(const conv_case *c, const char *what, const char *name, void *got,
                            const double *expected, int64_t count, double times) {
  const double bound = c->s.out_dtype == BD_RT_BF16 ? 5e-3 : c->s.out_dtype == BD_RT_F16 ? 1e-3 : 0;
  float *const floats = got;
  char text[120];
  double *const wanted = zeros(count);
  for (int64_t i = count - 1; i >= 0; i--) {
    wanted[i] = times * expected[i];
    if (bound > 0) floats[i] = bd_rt_from_half(c->s.out_dtype, ((uint16_t *)got)[i]);
  }
  snprintf(text, sizeof text, "%s %s, %s%s", what, name,
           c->s.dtype == BD_RT_F32   ? "f32"
           : c->s.dtype == BD_RT_F16 ? "f16"
                                     : "bf16",
           c->s.channels_last ? ", channels last" : "");
  check_near_double(text, floats, wanted, count, bound + 1e-4 * times);
  free(wanted);
}

// All three of one type and order; room for results is for floats.
static void check_types(bd_rt *rt, const char *name, bd_rt_conv s) {
  conv_case c = open_case(s);
  const int halves = s.dtype != BD_RT_F32;
  const void *const x = halves ? c.half_x : c.x, *const w = halves ? c.half_w : c.w;
  const void *const dy = halves ? c.half_dy : c.dy;
  float *const y = numbers(c.ys, 4), *const dx = numbers(c.xs, 5), *const dw = numbers(c.ws, 10);
  bd_rt_convolve(rt, &s, x, w, y);
  bd_rt_convolve_dx(rt, &s, dy, w, dx);
  bd_rt_convolve_dw(rt, &s, x, dy, 0, dw);
  if (s.out_dtype == BD_RT_F32) {
    bd_rt_convolve_dw(rt, &s, x, dy, 1, dw);
    check_result_of(&c, "conv_dw, twice", name, dw, c.dw, c.ws, 2);
  } else {
    check_result_of(&c, "conv_dw", name, dw, c.dw, c.ws, 1);
  }
  check_result_of(&c, "conv", name, y, c.y, c.ys, 1);
  check_result_of(&c, "conv_dx", name, dx, c.dx, c.xs, 1);
  free(y), free(dx), free(dw);
  close_case(&c);
}

// `after`: padding at the ends. Large ones in f32, and in bf16 with channels last, alone.
static void check_conv(bd_rt *rt, const char *name, bd_rt_conv s, const int64_t after[3]) {
  static const int32_t types[][2] = {{BD_RT_F32, BD_RT_F32},
                                     {BD_RT_BF16, BD_RT_BF16},
                                     {BD_RT_BF16, BD_RT_F32},
                                     {BD_RT_F16, BD_RT_F16}};
  for (int d = 0; d < 3; d++)
    s.y[d] = (s.x[d] + s.before[d] + after[d] - (s.k[d] - 1) * s.dilation[d] - 1) / s.stride[d] + 1;
  const int large = s.c * points_of(s.x) > 100000;
  for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i += large ? 3 : 1) {
    if (large && i > 3) break;
    s.dtype = types[i / 2][0], s.out_dtype = types[i / 2][1], s.channels_last = i % 2;
    check_types(rt, name, s);
  }
}

static void check_convs(bd_rt *rt) {
  static const struct {
    const char *name;
    bd_rt_conv s;
    int64_t after[3];
  } cases[] = {
      {"of odd extents",
       {2, 4, 6, 1, {1, 9, 7}, {1, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 0, 0, 0},
       {0, 1, 1}},
      {"of two groups, in steps",
       {1, 4, 6, 2, {1, 70, 80}, {1, 5, 3}, {0}, {1, 2, 3}, {1, 1, 1}, {0, 2, 0}, 0, 0, 0},
       {0, 2, 0}},
      {"of many channels",
       {1, 300, 3, 1, {1, 6, 6}, {1, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 0, 0, 0},
       {0, 1, 1}},
      {"of a point",
       {2, 20, 33, 1, {1, 5, 9}, {1, 1, 1}, {0}, {1, 1, 1}, {1, 1, 1}, {0}, 0, 0, 0},
       {0}},
      {"of a point, in steps",
       {2, 17, 5, 1, {1, 6, 9}, {1, 1, 1}, {0}, {1, 2, 3}, {1, 1, 1}, {0}, 0, 0, 0},
       {0}},
      {"of each channel",
       {2, 19, 19, 19, {1, 9, 8}, {1, 3, 3}, {0}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}, 0, 0, 0},
       {0, 1, 1}},
      {"of each channel to two",
       {1, 6, 12, 6, {1, 9, 8}, {1, 3, 2}, {0}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0},
       {0, 1, 0}},
      {"of a signal, dilated",
       {3, 5, 4, 1, {1, 1, 60}, {1, 1, 4}, {0}, {1, 1, 2}, {1, 1, 3}, {0, 0, 5}, 0, 0, 0},
       {0, 0, 2}},
      {"of volumes",
       {2, 3, 20, 1, {7, 6, 8}, {3, 2, 3}, {0}, {1, 2, 1}, {2, 1, 1}, {2, 0, 1}, 0, 0, 0},
       {1, 1, 0}},
      {"of volumes in tiles",
       {1, 24, 18, 1, {20, 40, 38}, {3, 3, 3}, {0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0, 0, 0},
       {1, 1, 1}},
      {"in steps longer than windows",
       {1, 3, 4, 1, {1, 11, 10}, {1, 2, 2}, {0}, {1, 3, 4}, {1, 1, 1}, {0, 1, 0}, 0, 0, 0},
       {0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_conv(rt, cases[i].name, cases[i].s, cases[i].after);
}

// Maxima that are equal, and a window wider than its step: the first one of each takes the
// gradient.
static void check_pool(bd_rt *rt, int dtype, int last) {
  const bd_rt_conv s = {.n = 2,
                        .c = 3,
                        .o = 3,
                        .groups = 1,
                        .x = {1, 5, 6},
                        .k = {1, 3, 3},
                        .y = {1, 3, 3},
                        .stride = {1, 2, 2},
                        .dilation = {1, 1, 1},
                        .before = {0, 1, 1},
                        .dtype = dtype,
                        .out_dtype = dtype,
                        .channels_last = last};
  enum { IN = 2 * 3 * 30, OUT = 2 * 3 * 9 };
  float x[IN], dy[OUT], y[OUT], dx[IN], expected[OUT], gradient[IN] = {0};
  uint16_t hx[IN], hdy[OUT], hy[OUT], hdx[IN];
  for (int i = 0; i < IN; i++)
    hx[i] = bd_rt_to_half(dtype, x[i] = (float)(i * 7 % 11));
  for (int i = 0; i < OUT; i++)
    hdy[i] = bd_rt_to_half(dtype, dy[i] = (float)(i % 13 + 1));
  for (int i = 0; i < OUT; i++) {
    int64_t best = -1;
    const int64_t to = offset_of(&s, i / 27, 3, i / 9 % 3, 9, i % 9);
    for (int k = 0; k < 9; k++) {
      const int64_t place = place_of(&s, i % 9, k);
      const int64_t at = place < 0 ? -1 : offset_of(&s, i / 27, 3, i / 9 % 3, 30, place);
      if (at >= 0 && (best < 0 || x[at] > x[best])) best = at;
    }
    expected[to] = x[best];
    gradient[best] += dy[to];
  }
  const int halves = dtype != BD_RT_F32;
  bd_rt_maxpool(rt, &s, halves ? (void *)hx : x, halves ? (void *)hy : y);
  bd_rt_maxpool_grad(rt, &s, halves ? (void *)hx : x, halves ? (void *)hdy : dy,
                     halves ? (void *)hdx : dx);
  for (int i = 0; i < OUT && halves; i++)
    y[i] = bd_rt_from_half(dtype, hy[i]);
  for (int i = 0; i < IN && halves; i++)
    dx[i] = bd_rt_from_half(dtype, hdx[i]);
  check_near("maxpool", y, expected, OUT, 0);
  check_near("maxpool_grad", dx, gradient, IN, 0);
}

static void step(bd_rt *rt) {
  check_convs(rt);
  for (int last = 0; last < 2; last++) {
    check_pool(rt, BD_RT_F32, last);
    check_pool(rt, BD_RT_BF16, last);
    check_pool(rt, BD_RT_F16, last);
  }
}

int main(int argc, char **argv) {
  return check_run_step(argv[0], step, argc > 1 ? 3 : 2);
}
