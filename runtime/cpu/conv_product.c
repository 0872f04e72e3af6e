#include "runtime/cpu/conv.h"
#include "runtime/cpu/windows.h"

#include <string.h>

enum {
  POINTS = 2048, // of a chunk of images
  ROWS = 64,     // channels of a chunk of the weight gradient
};

typedef struct product {
  const bd_rt_conv *s;
  const float *in, *w, *dy;
  float *out;
  int backward, accumulate;
  int64_t c, o, points, blocks; // channels of a group in and out, points of an image, in blocks
} product;

int bd_rt_conv_is_product(const bd_rt_conv *s) {
  int is = s->dtype == BD_RT_F32 && !s->channels_last;
  is = is && (s->groups < s->c || s->groups == 1);
  for (int d = 0; d < 3; d++)
    is = is && s->k[d] == 1 && s->stride[d] == 1 && s->before[d] == 0 && s->x[d] == s->y[d];
  return is;
}

static product describe(const bd_rt_conv *s) {
  product p = {.s = s, .c = s->c / s->groups, .o = s->o / s->groups, .points = bd_rt_points(s->x)};
  p.blocks = (p.points + POINTS - 1) / POINTS;
  return p;
}

// A chunk is a block of the points of a group of an image.
static void make_image(void *args, int64_t chunk, int worker) {
  const product *const p = args;
  const int64_t at = chunk % p->blocks * POINTS, part = chunk / p->blocks;
  const int64_t group = part % p->s->groups, width = bd_rt_least(POINTS, p->points - at);
  const float *const w = p->w + group * p->o * p->c;
  const int64_t in = p->backward ? p->o : p->c, out = p->backward ? p->c : p->o;
  (void)worker;
  bd_rt_gemm_block(out, width, in, 1, w, p->backward ? 1 : p->c, p->backward ? p->c : 1,
                   p->in + part * in * p->points + at, p->points, 1, 0,
                   p->out + part * out * p->points + at, p->points);
}

// A chunk is some channels of the filters of a group.
static void make_filters(void *args, int64_t chunk, int worker) {
  const product *const p = args;
  const int64_t blocks = (p->c + ROWS - 1) / ROWS, c = chunk % blocks * ROWS;
  const int64_t group = chunk / blocks, columns = bd_rt_least(ROWS, p->c - c);
  float *const dw = p->out + group * p->o * p->c + c;
  (void)worker;
  for (int64_t o = 0; !p->accumulate && o < p->o; o++)
    memset(dw + o * p->c, 0, (size_t)columns * sizeof *dw);
  for (int64_t image = 0; image < p->s->n; image++) {
    const int64_t part = image * p->s->groups + group;
    bd_rt_gemm_block(p->o, columns, p->points, 1, p->dy + part * p->o * p->points, p->points, 1,
                     p->in + (part * p->c + c) * p->points, 1, p->points, 1, dw, p->c);
  }
}

void bd_rt_conv_product(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *w, float *y) {
  product p = describe(s);
  p.in = x, p.w = w, p.out = y;
  bd_rt_pool_run(rt->pool, make_image, &p, s->n * s->groups * p.blocks);
}

void bd_rt_conv_product_dx(bd_rt *rt, const bd_rt_conv *s, const float *dy, const float *w,
                           float *dx) {
  product p = describe(s);
  p.in = dy, p.w = w, p.out = dx, p.backward = 1;
  bd_rt_pool_run(rt->pool, make_image, &p, s->n * s->groups * p.blocks);
}

void bd_rt_conv_product_dw(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                           int accumulate, float *dw) {
  product p = describe(s);
  p.in = x, p.dy = dy, p.out = dw, p.accumulate = accumulate;
  bd_rt_pool_run(rt->pool, make_filters, &p, s->groups * ((p.c + ROWS - 1) / ROWS));
}
