// Convolution by tiles of im2col and matrix products; a tile fits a thread's
// scratch.
#include "runtime/cpu/rt.h"
#include "runtime/cpu/windows.h"

#include <string.h>

enum { TILE_FLOATS = 1 << 17 };
_Static_assert(TILE_FLOATS <= (int)BD_RT_THREAD_SCRATCH_FLOATS,
               "a thread's scratch holds a tile");

typedef struct convolution {
  const bd_rt *rt;
  const bd_rt_conv *s;
  const float *x, *w, *dy;
  float *y, *dx, *dw;
  int accumulate;  // add to dw
  int64_t c, o, k; // channels and outputs of a group, length of a patch
  int64_t points, in, area; // of a window, an image, a result
  int64_t k_tile, pixels;   // of one tile of columns
} convolution;

static convolution describe(const bd_rt *rt, const bd_rt_conv *s) {
  convolution v = {
      .rt = rt, .s = s, .c = s->c / s->groups, .o = s->o / s->groups};
  v.points = bd_rt_points(s->k);
  v.k = v.c * v.points;
  v.in = bd_rt_points(s->x);
  v.area = bd_rt_points(s->y);
  const int64_t most = TILE_FLOATS;
  v.k_tile = v.k < most / 64 ? v.k : most / 64;
  v.pixels = most / v.k_tile < v.area ? most / v.k_tile : v.area;
  return v;
}

// columns[k, pixel] of rows k0..k0+rows, pixels p0..p0+width.
static void to_columns(const convolution *v, const float *x, int64_t k0,
                       int64_t rows, int64_t p0, int64_t width,
                       float *columns) {
  for (int64_t k = 0; k < rows; k++)
    for (int64_t p = 0; p < width; p++) {
      const int64_t from =
          bd_rt_window_place(v->s, p0 + p, (k0 + k) % v->points);
      columns[k * width + p] =
          from < 0 ? 0 : x[(k0 + k) / v->points * v->in + from];
    }
}

static void add_columns(const convolution *v, const float *columns, int64_t k0,
                        int64_t rows, int64_t p0, int64_t width, float *dx) {
  for (int64_t k = 0; k < rows; k++)
    for (int64_t p = 0; p < width; p++) {
      const int64_t to = bd_rt_window_place(v->s, p0 + p, (k0 + k) % v->points);
      if (to >= 0)
        dx[(k0 + k) / v->points * v->in + to] += columns[k * width + p];
    }
}

// A chunk is an image and a group.
static void forward_image(void *args, int64_t chunk, int worker) {
  const convolution *const v = args;
  const bd_rt_conv *const s = v->s;
  const int64_t image = chunk / s->groups, group = chunk % s->groups,
                area = v->area;
  const float *const x = v->x + (image * s->c + group * v->c) * v->in;
  const float *const w = v->w + group * v->o * v->k;
  float *const y = v->y + (image * s->o + group * v->o) * area;
  float *const columns = bd_rt_thread_scratch(v->rt, worker);
  for (int64_t p = 0; p < area; p += v->pixels) {
    const int64_t width = bd_rt_least(v->pixels, area - p);
    for (int64_t k = 0; k < v->k; k += v->k_tile) {
      const int64_t rows = bd_rt_least(v->k_tile, v->k - k);
      to_columns(v, x, k, rows, p, width, columns);
      bd_rt_gemm_block(v->o, width, rows, 1, w + k, v->k, 1, columns, width, 1,
                       k ? 1 : 0, y + p, area);
    }
  }
}

static void input_gradient(void *args, int64_t chunk, int worker) {
  const convolution *const v = args;
  const bd_rt_conv *const s = v->s;
  const int64_t image = chunk / s->groups, group = chunk % s->groups,
                area = v->area;
  const float *const dy = v->dy + (image * s->o + group * v->o) * area;
  const float *const w = v->w + group * v->o * v->k;
  float *const dx = v->dx + (image * s->c + group * v->c) * v->in;
  float *const columns = bd_rt_thread_scratch(v->rt, worker);
  memset(dx, 0, (size_t)(v->c * v->in) * sizeof *dx);
  for (int64_t p = 0; p < area; p += v->pixels) {
    const int64_t width = bd_rt_least(v->pixels, area - p);
    for (int64_t k = 0; k < v->k; k += v->k_tile) {
      const int64_t rows = bd_rt_least(v->k_tile, v->k - k);
      bd_rt_gemm_block(rows, width, v->o, 1, w + k, 1, v->k, dy + p, area, 1, 0,
                       columns, width);
      add_columns(v, columns, k, rows, p, width, dx);
    }
  }
}

enum { WEIGHT_ROWS = 64 }; // patch values per task of the weight gradient

static void weight_gradient(void *args, int64_t chunk, int worker) {
  const convolution *const v = args;
  const bd_rt_conv *const s = v->s;
  const int64_t blocks = (v->k + WEIGHT_ROWS - 1) / WEIGHT_ROWS, area = v->area;
  const int64_t group = chunk / blocks, k = chunk % blocks * WEIGHT_ROWS;
  const int64_t rows = bd_rt_least(WEIGHT_ROWS, v->k - k);
  const int64_t pixels =
      bd_rt_least(BD_RT_THREAD_SCRATCH_FLOATS / WEIGHT_ROWS, area);
  float *const columns = bd_rt_thread_scratch(v->rt, worker), *const dw =
                                                                  v->dw +
                                                                  group * v->o *
                                                                      v->k +
                                                                  k;
  int first = !v->accumulate;
  for (int64_t image = 0; image < s->n; image++) {
    const float *const x = v->x + (image * s->c + group * v->c) * v->in;
    const float *const dy = v->dy + (image * s->o + group * v->o) * area;
    for (int64_t p = 0; p < area; p += pixels) {
      const int64_t width = bd_rt_least(pixels, area - p);
      to_columns(v, x, k, rows, p, width, columns);
      bd_rt_gemm_block(v->o, rows, width, 1, dy + p, area, 1, columns, 1, width,
                       first ? 0 : 1, dw, v->k);
      first = 0;
    }
  }
  for (int64_t o = 0; first && o < v->o; o++)
    memset(dw + o * v->k, 0, (size_t)rows * sizeof *dw);
}

void bd_rt_conv_f32(bd_rt *rt, const bd_rt_conv *s, const float *x,
                    const float *w, float *y) {
  convolution v = describe(rt, s);
  v.x = x;
  v.w = w;
  v.y = y;
  bd_rt_pool_run(rt->pool, forward_image, &v, s->n * s->groups);
}

void bd_rt_conv_dx_f32(bd_rt *rt, const bd_rt_conv *s, const float *dy,
                       const float *w, float *dx) {
  convolution v = describe(rt, s);
  v.dy = dy;
  v.w = w;
  v.dx = dx;
  bd_rt_pool_run(rt->pool, input_gradient, &v, s->n * s->groups);
}

void bd_rt_conv_dw_f32(bd_rt *rt, const bd_rt_conv *s, const float *x,
                       const float *dy, int32_t accumulate, float *dw) {
  convolution v = describe(rt, s);
  v.x = x;
  v.dy = dy;
  v.dw = dw;
  v.accumulate = accumulate;
  bd_rt_pool_run(rt->pool, weight_gradient, &v,
                 s->groups * ((v.k + WEIGHT_ROWS - 1) / WEIGHT_ROWS));
}
