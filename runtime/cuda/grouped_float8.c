// Factors of products of rows in groups in 8 bits. They are rounded before the products of groups,
// all of a factor at once and under one scale, with the terms of sums one after another: rows of x
// and columns of matrices; of a gradient of matrices the columns of x and y, all rows long.
// A group begins at a multiple of BD_RT_F8_GRAIN rows, and so at an address that the library takes.
#include "runtime/cuda/grouping.h"
#include "runtime/cuda/kernels.h"
#include "runtime/float8.h"

static char *rounded_x(const bd_rt_grouped *s) {
  return (char *)s->f8_room + BD_RT_ALIGNMENT;
}

static char *rounded_other(const bd_rt_grouped *s) {
  const int64_t bytes = s->rows * s->k;
  return rounded_x(s) + (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

static bd_cuda_grouped as_they_are(const bd_rt_grouped *s, const void *x, const void *other) {
  return (bd_cuda_grouped){.shape = *s,
                           .x_column = 1,
                           .y_column = 1,
                           .x = x,
                           .other = other,
                           .bytes = bd_rt_element_bytes(s->dtype)};
}

static void read_rounded(bd_cuda_grouped *g) {
  const float *const scales = g->shape.f8_room;
  g->x = rounded_x(&g->shape);
  g->other = rounded_other(&g->shape);
  g->bytes = 1;
  g->scales[0] = scales + BD_CUDA_F8_INVERSE;
  g->scales[1] = scales + BD_CUDA_F8_SCALES + BD_CUDA_F8_INVERSE;
}

bd_cuda_grouped bd_cuda_grouped_rows(const bd_rt_grouped *s, const void *x, const void *w) {
  bd_cuda_grouped g = as_they_are(s, x, w);
  if (!bd_rt_is_f8_grouped(s)) return g;
  read_rounded(&g);
  g.shape.x_row = s->k;
  g.shape.w_k = 1, g.shape.w_n = s->k, g.shape.w_group = s->n * s->k;
  return g;
}

bd_cuda_grouped bd_cuda_grouped_terms(const bd_rt_grouped *s, const void *x, const void *y) {
  bd_cuda_grouped g = as_they_are(s, x, y);
  if (!bd_rt_is_f8_grouped(s)) return g;
  read_rounded(&g);
  g.x_column = g.y_column = s->rows;
  g.shape.x_row = g.shape.y_row = 1;
  return g;
}

static void start(bd_rt *rt, const bd_rt_grouped *s, const bd_cuda_factor *x,
                  const bd_cuda_factor *other) {
  const bd_cuda_queue *const queue = bd_cuda_now(rt);
  uint32_t *const room = (uint32_t *)(void *)rt->device->room;
  float *const scales = s->f8_room;
  bd_cuda_round_f8(queue, x, room, scales, rounded_x(s));
  bd_cuda_round_f8(queue, other, room, scales + BD_CUDA_F8_SCALES, rounded_other(s));
}

void bd_cuda_round_rows(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *w) {
  const bd_cuda_factor of_x = {x, s->rows, s->k, s->x_row, 1, s->rows, 0, s->f8[0]};
  const bd_cuda_factor of_w = {w,    s->groups * s->n, s->k,    s->w_n, s->w_k,
                               s->n, s->w_group,       s->f8[1]};
  if (bd_rt_is_f8_grouped(s)) start(rt, s, &of_x, &of_w);
}

void bd_cuda_round_terms(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *y) {
  const bd_cuda_factor of_x = {x, s->k, s->rows, 1, s->x_row, s->k, 0, s->f8[0]};
  const bd_cuda_factor of_y = {y, s->n, s->rows, 1, s->y_row, s->n, 0, s->f8[1]};
  if (bd_rt_is_f8_grouped(s)) start(rt, s, &of_x, &of_y);
}
