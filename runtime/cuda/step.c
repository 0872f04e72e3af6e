// What a step asks for besides collectives and messages.
#include "runtime/cuda/rt.h"
#include "runtime/half.h"

#include <string.h>

void bd_rt_launch(bd_rt *rt, int number, int buffer_count, char *const *buffers, int range_count,
                  const int64_t *range, const bd_rt_random *random) {
  bd_rt_device *const device = rt->device;
  const int threads = rt->program->kernels[number].threads;
  bd_rt_random none = {0};
  if (device->rehearsing) return;
  void *arguments[] = {(void *)(uintptr_t)(buffer_count ? (const void *)buffers : &none),
                       (void *)(uintptr_t)(range_count ? (const void *)range : &none),
                       random ? (void *)(uintptr_t)random : &none};
  const unsigned per_processor = threads > 1024 ? 1 : 2048 / (unsigned)threads;
  const dim3 grid = {(unsigned)device->processors * per_processor, 1, 1};
  BD_CUDA(cudaLaunchKernel((const void *)device->kernels[number], grid,
                           (dim3){(unsigned)threads, 1, 1}, arguments, 0, device->stream));
}

void bd_rt_loss_gradient(bd_rt *rt, float *out) {
  if (rt->device->rehearsing) return;
  bd_cuda_set(&rt->device->queue, out, rt->target_share * rt->loss_scale);
  bd_cuda_check_launch();
}

void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial) {
  if (rt->device->rehearsing || !bd_rt_loss_counts(rt, partial)) return;
  bd_cuda_add_loss(&rt->device->queue, rt->sums, loss);
  bd_cuda_check_launch();
}

// Pinned memory for one copy of `bytes`: waits for the copy that used it last.
static bd_cuda_staging *next_staging(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  bd_cuda_staging *const s = &device->staging[device->staging_next];
  device->staging_next = (device->staging_next + 1) % BD_CUDA_STAGINGS;
  while (s->used) {
    const cudaError_t state = cudaEventQuery(s->copied);
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) bd_cuda_check(state, "cudaEventQuery");
    bd_cuda_watch(rt);
  }
  return s;
}

static void hand_over(bd_rt *rt, bd_cuda_staging *s, void *out, int64_t bytes) {
  BD_CUDA(cudaMemcpyAsync(out, s->data, (size_t)bytes, cudaMemcpyHostToDevice, rt->device->stream));
  BD_CUDA(cudaEventRecord(s->copied, rt->device->stream));
  s->used = 1;
}

// How many rows of `row_bytes` one staging buffer takes; notes its size while rehearsing.
static int64_t rows_at_once(bd_rt_device *device, int64_t row_bytes) {
  const int64_t least = row_bytes > BD_CUDA_STAGING_BYTES ? row_bytes : BD_CUDA_STAGING_BYTES;
  if (device->rehearsing && device->staging_bytes < least) device->staging_bytes = least;
  return row_bytes > 0 ? device->staging_bytes / row_bytes : 0;
}

static void bring_samples(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int shift,
                          int32_t *out) {
  const int64_t length = rt->program->sequence, row_bytes = length * (int64_t)sizeof *out;
  const int64_t most = rows_at_once(rt->device, row_bytes);
  if (rt->device->rehearsing) return;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = rows - row < most ? rows - row : most;
    bd_cuda_staging *const s = next_staging(rt);
    bd_rt_read_samples(rt, micro_batch, start + row, count, shift, (int32_t *)(void *)s->data);
    hand_over(rt, s, out + row * length, count * row_bytes);
  }
}

void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  bring_samples(rt, micro_batch, start, rows, 0, out);
}

void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  bring_samples(rt, micro_batch, start, rows, 1, out);
}

void bd_rt_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
               int32_t *out) {
  const int64_t elements = rt->program->ids[input].elements;
  const int64_t row_bytes = elements * (int64_t)sizeof *out;
  const int64_t most = rows_at_once(rt->device, row_bytes);
  if (rt->device->rehearsing) return;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = rows - row < most ? rows - row : most;
    bd_cuda_staging *const s = next_staging(rt);
    bd_rt_read_ids(rt, input, micro_batch, start + row, count, (int32_t *)(void *)s->data);
    hand_over(rt, s, out + row * elements, count * row_bytes);
  }
}

// In place: halves lie before the floats that are still to be read.
static void narrow(int dtype, char *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, data + i * (int64_t)sizeof value, sizeof value);
    const uint16_t half = bd_rt_to_half(dtype, value);
    memcpy(data + i * (int64_t)sizeof half, &half, sizeof half);
  }
}

void bd_rt_reals(bd_rt *rt, int dtype, int64_t micro_batch, int64_t start, int64_t rows,
                 int64_t elements, void *out) {
  const int64_t size = bd_rt_element_bytes(dtype);
  const int64_t most = rows_at_once(rt->device, elements * (int64_t)sizeof(float));
  if (rt->device->rehearsing) return;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = rows - row < most ? rows - row : most;
    bd_cuda_staging *const s = next_staging(rt);
    float *const values = (float *)(void *)s->data;
    for (int64_t i = 0; i < count; i++)
      bd_rt_read_reals(rt, micro_batch, start + row + i, elements, values + i * elements);
    if (bd_rt_is_half(dtype)) narrow(dtype, s->data, count * elements);
    hand_over(rt, s, (char *)out + row * elements * size, count * elements * size);
  }
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, float *dtable) {
  bd_rt_device *const device = rt->device;
  int32_t *const links = (int32_t *)(void *)device->room;
  const int64_t most = device->room_bytes / (2 * (int64_t)sizeof *links);
  const int64_t size = bd_rt_element_bytes(dtype);
  if (!accumulate) bd_rt_zero(rt, dtable, rows * c * (int64_t)sizeof *dtable);
  if (device->rehearsing) return;
  for (int64_t done = 0; done < count; done += most) {
    bd_cuda_embed_dw(&device->queue, dtype, ids + done, (const char *)dout + done * c * size,
                     count - done < most ? count - done : most, c, row_start, rows, dtable, links);
    bd_cuda_check_launch();
  }
}

void bd_rt_conv2d_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *w, float *y) {
  if (rt->device->rehearsing) return;
  bd_cuda_conv2d(&rt->device->queue, s, x, w, y);
  bd_cuda_check_launch();
}

void bd_rt_conv2d_dx_f32(bd_rt *rt, const bd_rt_conv *s, const float *dy, const float *w,
                         float *dx) {
  if (rt->device->rehearsing) return;
  bd_cuda_conv2d_dx(&rt->device->queue, s, dy, w, dx);
  bd_cuda_check_launch();
}

void bd_rt_conv2d_dw_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                         int32_t accumulate, float *dw) {
  if (rt->device->rehearsing) return;
  bd_cuda_conv2d_dw(&rt->device->queue, s, x, dy, accumulate, dw);
  bd_cuda_check_launch();
}

void bd_rt_maxpool2d_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, float *y) {
  if (rt->device->rehearsing) return;
  bd_cuda_maxpool2d(&rt->device->queue, s, x, y);
  bd_cuda_check_launch();
}

void bd_rt_maxpool2d_grad_f32(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                              float *dx) {
  if (rt->device->rehearsing) return;
  bd_cuda_maxpool2d_grad(&rt->device->queue, s, x, dy, dx);
  bd_cuda_check_launch();
}

void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count) {
  if (rt->device->rehearsing) return;
  bd_cuda_narrow(&rt->device->queue, dtype, wide, halves, count);
  bd_cuda_check_launch();
}

void bd_rt_add(bd_rt *rt, float *sum, const float *more, int64_t count) {
  if (rt->device->rehearsing) return;
  bd_cuda_add(&rt->device->queue, sum, more, count);
  bd_cuda_check_launch();
}

void bd_rt_square_sum(bd_rt *rt, const float *data, int64_t count, double *out) {
  if (rt->device->rehearsing) return;
  bd_cuda_square_sum(&rt->device->queue, data, count, (double *)(void *)rt->device->room, out);
  bd_cuda_check_launch();
}

void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule) {
  if (rt->device->rehearsing) return;
  bd_cuda_apply(&rt->device->queue, rule);
  bd_cuda_check_launch();
}

void bd_rt_add_rows(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  if (rt->device->rehearsing) return;
  bd_cuda_add_rows(&rt->device->queue, rule, mixing, (double *)(void *)rt->device->room);
  bd_cuda_check_launch();
}

void bd_rt_add_columns(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  if (rt->device->rehearsing) return;
  bd_cuda_add_columns(&rt->device->queue, rule, mixing, (double *)(void *)rt->device->room);
  bd_cuda_check_launch();
}

void bd_rt_add_squares(bd_rt *rt, const bd_rt_rule *rule, int which, bd_rt_mixing mixing) {
  if (rt->device->rehearsing) return;
  bd_cuda_add_squares(&rt->device->queue, rule, which, mixing, (double *)(void *)rt->device->room);
  bd_cuda_check_launch();
}
