// How a convolution is cut: into blocks of channels, and along images into tiles.
#ifndef BD_RT_CPU_CONV_PLAN_H
#define BD_RT_CPU_CONV_PLAN_H
#include "runtime/cpu/conv_kernel.h"

enum { BD_RT_CONV_GRAIN = 16 }; // channels that kernels take together, floats of a cache line

static inline int64_t bd_rt_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static inline int64_t bd_rt_aligned(int64_t floats) {
  return bd_rt_up(floats, BD_RT_CONV_GRAIN) * BD_RT_CONV_GRAIN;
}

// Tile i along a dimension begins at first + i * step, of the image and of the result.
typedef struct bd_rt_conv_axis {
  int64_t parts, x_first, x_step, y_first, y_step;
} bd_rt_conv_axis;

// Where windows are a point long, only the points that a result has are an image: those `step`
// apart from `start` on, of `whole`. Elsewhere these are all.
typedef struct bd_rt_conv_job {
  bd_rt_conv s;
  int64_t whole[3], start[3], step[3];
  enum bd_rt_conv_kind kind;
  const bd_rt_conv_kernel *kernel;
  bd_rt_conv tile;
  bd_rt_conv_axis axes[3];
  int64_t groups, c, o;       // groups, and channels of each
  int64_t c_blocks, o_blocks; // of the tile's channels, in a group
  int64_t tiles, run;         // tiles of images and points; those of one chunk
  int64_t scratch_floats;     // of a worker
  float *scratch;
  const void *x, *w, *y; // of `dtype`; `out` of out_dtype
  void *out;
  int dtype, out_dtype;
  int accumulate;
} bd_rt_conv_job;

// A job without its data. All but the scratch follows from the shape and the processor; how images
// and filters lie, and of what type they are, changes nothing about it.
bd_rt_conv_job bd_rt_conv_plan(bd_rt *rt, enum bd_rt_conv_kind kind, const bd_rt_conv *shape);
// Floats of a block of filters in rows.
int64_t bd_rt_conv_filter_floats(const bd_rt_conv_job *job);
// Blocks of results, each of which a chunk makes from all tiles or from some.
int64_t bd_rt_conv_blocks(const bd_rt_conv_job *job);
#endif
