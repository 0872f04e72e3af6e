// Starts the kernels of optimizer.cu.
#include "runtime/cuda/launch.h"

enum { WARP = 32 };

void bd_cuda_narrow(const bd_cuda_queue *queue, int dtype, const float *wide, uint16_t *halves,
                    int64_t count) {
  if (count > 0)
    bd_cuda_start_narrow(queue, bd_cuda_over(queue, count), dtype, wide, halves, count);
}

void bd_cuda_add(const bd_cuda_queue *queue, float *sum, const float *more, int64_t count) {
  if (count > 0) bd_cuda_start_add(queue, bd_cuda_over(queue, count), sum, more, count);
}

static int64_t lanes_of(int64_t count) {
  const int64_t groups = BD_CUDA_SQUARE_GROUPS;
  const int64_t lanes = (count / 16 + groups - 1) / groups * groups;
  if (lanes < groups) return groups;
  return bd_rt_least(lanes, BD_CUDA_LANES);
}

static void sum_list(const bd_cuda_queue *queue, const bd_cuda_square_list *list,
                     double *partials) {
  double *const sums = partials + BD_CUDA_SQUARE_LANES;
  const int warps = list->tensors * BD_CUDA_SQUARE_GROUPS / WARP;
  bd_cuda_start_square_lanes(queue, bd_cuda_over(queue, list->start[list->tensors]), *list,
                             partials);
  bd_cuda_start_sum_groups(queue, (bd_cuda_grid){warps, WARP}, *list, partials, sums);
  bd_cuda_start_sum_tensors(queue, (bd_cuda_grid){list->tensors, 1}, *list, sums);
}

void bd_cuda_square_sums(const bd_cuda_queue *queue, int tensors, const bd_rt_squares *squares,
                         double *partials) {
  bd_cuda_square_list list = {0};
  for (int t = 0; t < tensors; t++) {
    const int64_t lanes = lanes_of(squares[t].count), start = list.start[list.tensors];
    if (start + lanes > BD_CUDA_SQUARE_LANES) {
      sum_list(queue, &list, partials);
      list = (bd_cuda_square_list){0};
    }
    list.of[list.tensors++] = squares[t];
    list.start[list.tensors] = list.start[list.tensors - 1] + lanes;
  }
  if (list.tensors > 0) sum_list(queue, &list, partials);
}

void bd_cuda_add_loss(const bd_cuda_queue *queue, double *sum, const float *loss) {
  bd_cuda_start_add_loss(queue, (bd_cuda_grid){1, 1}, sum, loss);
}

void bd_cuda_set(const bd_cuda_queue *queue, float *out, float value) {
  bd_cuda_start_set(queue, (bd_cuda_grid){1, 1}, out, value);
}
