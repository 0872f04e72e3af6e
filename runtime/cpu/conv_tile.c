#include "runtime/cpu/conv_tile.h"
#include "runtime/cpu/windows.h"
#include "runtime/rank.h"

#include <string.h>

int64_t bd_rt_tile_floats(const bd_rt_tile *t) {
  return (t->all_channels + t->block - 1) / t->block * t->block * bd_rt_points(t->extents);
}

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

void bd_rt_tile_pack(const bd_rt_tile *t, const float *planes, float *out) {
  const int64_t points = bd_rt_points(t->extents), plane = bd_rt_points(t->image),
                step = t->step[2];
  if (!is_inside(t)) memset(out, 0, (size_t)bd_rt_tile_floats(t) * sizeof *out);
  for (int64_t c = 0; c < t->channels; c += t->block)
    for (int64_t row = 0; row < t->extents[0] * t->extents[1]; row++) {
      const rows at = row_at(t, row);
      const float *const from = planes + c * plane + at.plane;
      float *const to = out + c * points + at.tile * t->block;
      const int64_t count = bd_rt_least(t->block, t->channels - c);
      if (step == 1 && t->block == 1)
        memcpy(to, from, (size_t)at.length * sizeof *to);
      else if (step == 1 && t->block == 16 && count == 16)
        spread(from, plane, 1, 16, at.length, 16, to);
      else
        spread(from, plane, step, count, at.length, t->block, to);
    }
}

void bd_rt_tile_unpack(const bd_rt_tile *t, const float *packed, float *planes) {
  const int64_t points = bd_rt_points(t->extents), plane = bd_rt_points(t->image),
                step = t->step[2];
  for (int64_t c = 0; c < t->channels; c += t->block)
    for (int64_t row = 0; row < t->extents[0] * t->extents[1]; row++) {
      const rows at = row_at(t, row);
      const float *const from = packed + c * points + at.tile * t->block;
      float *const to = planes + c * plane + at.plane;
      const int64_t count = bd_rt_least(t->block, t->channels - c);
      if (step == 1 && t->block == 1)
        memcpy(to, from, (size_t)at.length * sizeof *to);
      else if (step == 1 && t->block == 16 && count == 16)
        collect(from, 16, 16, at.length, plane, 1, to);
      else
        collect(from, t->block, count, at.length, plane, step, to);
    }
}
