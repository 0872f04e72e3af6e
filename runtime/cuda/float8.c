// Starts the kernels of float8.cu.
#include "runtime/cuda/launch.h"

enum { GROUPS = 256 };

// Whether nothing lies between rows, terms and matrices.
static int is_gapless(const bd_cuda_factor *f) {
  const int inside = f->term_stride == 1 ? f->row_stride == f->terms : f->term_stride == f->each;
  return inside && (f->rows == f->each || f->batch_stride == f->each * f->terms);
}

static int begins_even(const void *address, int64_t stride) {
  return ((uintptr_t)address | (uintptr_t)(stride * 2)) % BD_RT_F8_GRAIN == 0;
}

void bd_cuda_round_f8(const bd_cuda_queue *queue, const bd_cuda_factor *factor, uint32_t *room,
                      float *scales, void *out) {
  const int64_t count = factor->rows * factor->terms;
  const int64_t most_lanes = BD_CUDA_F8_LANES, wanted = (count + GROUPS - 1) / GROUPS;
  const int64_t each = wanted < most_lanes / GROUPS ? wanted : most_lanes / GROUPS;
  uint32_t *const lanes = room, *const groups = lanes + BD_CUDA_F8_LANES;
  uint32_t *const most = groups + GROUPS;
  const int rows = factor->term_stride == 1;
  const int64_t strides =
      factor->row_stride | (factor->rows > factor->each ? factor->batch_stride : 0);
  const bd_cuda_grid grid = bd_cuda_over(queue, each * GROUPS), one = {1, 1};
  if (is_gapless(factor) && begins_even(factor->data, 0))
    bd_cuda_start_find_most_packed(queue, grid, (const uint4 *)(const void *)factor->data,
                                   count / 8, each * GROUPS, lanes);
  else
    bd_cuda_start_find_most(queue, grid, *factor, each * GROUPS, lanes);
  bd_cuda_start_find_most_of_groups(queue, (bd_cuda_grid){1, GROUPS}, lanes, each, GROUPS, groups);
  bd_cuda_start_find_most_of_groups(queue, one, groups, GROUPS, 1, most);
  bd_cuda_start_set_scale(queue, one, factor->format, most, scales, scales + BD_CUDA_F8_INVERSE);
  bd_cuda_start_round_runs(queue, bd_cuda_over(queue, count / BD_RT_F8_GRAIN), *factor,
                           rows && begins_even(factor->data, strides), scales, out);
}
