#include "runtime/cpu/conv_tile.h"
#include "runtime/cpu/halves.h"
#include "runtime/cpu/windows.h"
#include "runtime/rank.h"

#include <string.h>

int64_t bd_rt_tile_floats(const bd_rt_tile *t) {
  return (t->all_channels + t->block - 1) / t->block * t->block * bd_rt_points(t->extents);
}

enum { RUN = 256 }; // halves that are converted together

// Rows of the tile and of the planes that hold the same points.
typedef struct rows {
  int64_t tile, plane, length; // of a row: points before its first in either
} rows;

// Row `row` of the tile, 0 long where it lies outside.
static rows row_at(const bd_rt_tile *t, int64_t row) {
  const int64_t z = t->first[0] + row / t->extents[1] * t->step[0];
  const int64_t y = t->first[1] + row % t->extents[1] * t->step[1];
  const int64_t step = t->step[2], start = t->first[2], past = t->image[2] - start;
  const int64_t from = start < 0 ? (-start + step - 1) / step : 0;
  const int64_t to = past > 0 ? bd_rt_least(t->extents[2], (past + step - 1) / step) : 0;
  if (z < 0 || z >= t->image[0] || y < 0 || y >= t->image[1] || to <= from) return (rows){0};
  return (rows){row * t->extents[2] + from,
                (z * t->image[1] + y) * t->image[2] + start + from * step, to - from};
}

static int is_inside(const bd_rt_tile *t) {
  int inside = t->channels == bd_rt_tile_floats(t) / bd_rt_points(t->extents);
  for (int d = 0; d < 3; d++)
    inside =
        inside && t->first[d] >= 0 && t->first[d] + (t->extents[d] - 1) * t->step[d] < t->image[d];
  return inside;
}

// Between a block of `count` channels and rows of as many planes. Constants make the loops quick.
static inline __attribute__((always_inline)) void spread(const float *planes, int64_t plane,
                                                         int64_t step, int64_t count,
                                                         int64_t length, int64_t block,
                                                         float *out) {
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < length; i++)
      out[i * block + c] = planes[c * plane + i * step];
}

static inline __attribute__((always_inline)) void collect(const float *in, int64_t block,
                                                          int64_t count, int64_t length,
                                                          int64_t plane, int64_t step,
                                                          float *planes) {
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < length; i++)
      planes[c * plane + i * step] = in[i * block + c];
}

// Elements from `at` on, `step` apart, as floats.
static void widen(int dtype, const uint16_t *halves, int64_t step, int64_t count, float *out) {
  if (step == 1)
    bd_rt_widen_run(dtype, halves, out, count);
  else
    for (int64_t i = 0; i < count; i++)
      out[i] = bd_rt_from_half(dtype, halves[i * step]);
}

static void narrow(int dtype, const float *in, int64_t count, int64_t step, uint16_t *halves) {
  if (step == 1)
    bd_rt_narrow_run(dtype, in, halves, count);
  else
    for (int64_t i = 0; i < count; i++)
      halves[i * step] = bd_rt_to_half(dtype, in[i]);
}

// One row of a block of `count` channels; `step` points of the planes are one of the tile.
static void pack_row(const bd_rt_tile *t, const float *from, int64_t count, int64_t length,
                     float *to) {
  const int64_t step = t->step[2] * t->point;
  if (step == 1 && t->block == 1)
    memcpy(to, from, (size_t)length * sizeof *to);
  else if (step == 1 && t->block == 16 && count == 16)
    spread(from, t->plane, 1, 16, length, 16, to);
  else
    spread(from, t->plane, step, count, length, t->block, to);
}

static void pack_half_row(const bd_rt_tile *t, const uint16_t *from, int64_t count, int64_t length,
                          float *to) {
  const int64_t step = t->step[2] * t->point;
  float run[RUN];
  if (t->plane == 1) {
    for (int64_t i = 0; i < length; i++)
      widen(t->dtype, from + i * step, 1, count, to + i * t->block);
    return;
  }
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < length; i += RUN) {
      const int64_t some = bd_rt_least(RUN, length - i);
      widen(t->dtype, from + c * t->plane + i * step, step, some, run);
      spread(run, 0, 1, 1, some, t->block, to + i * t->block + c);
    }
}

static void unpack_row(const bd_rt_tile *t, const float *from, int64_t count, int64_t length,
                       float *to) {
  const int64_t step = t->step[2] * t->point;
  if (step == 1 && t->block == 1)
    memcpy(to, from, (size_t)length * sizeof *to);
  else if (step == 1 && t->block == 16 && count == 16)
    collect(from, 16, 16, length, t->plane, 1, to);
  else
    collect(from, t->block, count, length, t->plane, step, to);
}

static void unpack_half_row(const bd_rt_tile *t, const float *from, int64_t count, int64_t length,
                            uint16_t *to) {
  const int64_t step = t->step[2] * t->point;
  float run[RUN];
  if (t->plane == 1) {
    for (int64_t i = 0; i < length; i++)
      narrow(t->dtype, from + i * t->block, count, 1, to + i * step);
    return;
  }
  for (int64_t c = 0; c < count; c++)
    for (int64_t i = 0; i < length; i += RUN) {
      const int64_t some = bd_rt_least(RUN, length - i);
      collect(from + i * t->block + c, t->block, 1, some, 0, 1, run);
      narrow(t->dtype, run, some, step, to + c * t->plane + i * step);
    }
}

void bd_rt_tile_pack(const bd_rt_tile *t, const void *planes, float *out) {
  const int64_t points = bd_rt_points(t->extents);
  if (!is_inside(t)) memset(out, 0, (size_t)bd_rt_tile_floats(t) * sizeof *out);
  for (int64_t c = 0; c < t->channels; c += t->block)
    for (int64_t row = 0; row < t->extents[0] * t->extents[1]; row++) {
      const rows at = row_at(t, row);
      const int64_t from = c * t->plane + at.plane * t->point;
      const int64_t count = bd_rt_least(t->block, t->channels - c);
      float *const to = out + c * points + at.tile * t->block;
      if (bd_rt_is_half(t->dtype))
        pack_half_row(t, (const uint16_t *)planes + from, count, at.length, to);
      else
        pack_row(t, (const float *)planes + from, count, at.length, to);
    }
}

void bd_rt_tile_unpack(const bd_rt_tile *t, const float *packed, void *planes) {
  const int64_t points = bd_rt_points(t->extents);
  for (int64_t c = 0; c < t->channels; c += t->block)
    for (int64_t row = 0; row < t->extents[0] * t->extents[1]; row++) {
      const rows at = row_at(t, row);
      const int64_t to = c * t->plane + at.plane * t->point;
      const int64_t count = bd_rt_least(t->block, t->channels - c);
      const float *const from = packed + c * points + at.tile * t->block;
      if (bd_rt_is_half(t->dtype))
        unpack_half_row(t, from, count, at.length, (uint16_t *)planes + to);
      else
        unpack_row(t, from, count, at.length, (float *)planes + to);
    }
}
