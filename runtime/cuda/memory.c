// The arena, between host and device.
#include "runtime/cuda/rt.h"

#include <sched.h>
#include <time.h>

enum { WATCH_TURNS = 64, BUSY_TURNS = 512 };

void bd_cuda_rest(bd_rt *rt, int64_t turn) {
  if (turn % WATCH_TURNS == 0) bd_cuda_watch(rt);
  bd_cuda_free_samples(rt);
  if (turn < BUSY_TURNS)
    sched_yield();
  else
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void bd_cuda_settle(bd_rt *rt, cudaStream_t stream) {
  for (int64_t turn = 1;; turn++) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) bd_cuda_check(state, "cudaStreamQuery");
    bd_cuda_rest(rt, turn);
  }
}

void bd_rt_settle(bd_rt *rt) {
  if (!rt->device->rehearsing) bd_cuda_settle(rt, bd_cuda_now(rt)->stream);
}

typedef struct filling {
  void *data;
  int64_t bytes;
} filling;

// What begins where the one before ends, as accumulators of gradients do, is filled with it.
static void run_zero(bd_rt *rt, const void *args) {
  for (const filling *f = args; f;) {
    char *const start = f->data;
    int64_t bytes = 0;
    for (; f && (char *)f->data == start + bytes; f = bd_cuda_take_next(rt, run_zero))
      bytes += f->bytes;
    BD_CUDA(cudaMemsetAsync(start, 0, (size_t)bytes, bd_cuda_now(rt)->stream));
  }
}

void bd_rt_zero(bd_rt *rt, void *data, int64_t bytes) {
  if (rt->device->rehearsing || bytes == 0) return;
  bd_cuda_do(rt, run_zero, &(filling){data, bytes}, sizeof(filling));
}

static void copy(bd_rt *rt, void *to, const void *from, int64_t bytes, enum cudaMemcpyKind kind) {
  if (rt->device->rehearsing || bytes == 0) return;
  BD_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, kind, bd_cuda_now(rt)->stream));
}

typedef struct copying {
  void *to;
  const void *from;
  int64_t bytes;
} copying;

static void run_copy(bd_rt *rt, const void *args) {
  const copying *const c = args;
  copy(rt, c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice);
}

void bd_rt_copy(bd_rt *rt, void *to, const void *from, int64_t bytes) {
  if (!rt->device->rehearsing && bytes > 0)
    bd_cuda_do(rt, run_copy, &(copying){to, from, bytes}, sizeof(copying));
}

void *bd_rt_map(bd_rt *rt, void *data, int64_t bytes) {
  (void)data, (void)bytes;
  return rt->device->mapped;
}

void bd_rt_unmap(bd_rt *rt, void *data, int64_t bytes) {
  copy(rt, data, rt->device->mapped, bytes, cudaMemcpyHostToDevice);
  bd_rt_settle(rt);
}

const void *bd_rt_view(bd_rt *rt, const void *data, int64_t bytes) {
  copy(rt, rt->device->mapped, data, bytes, cudaMemcpyDeviceToHost);
  bd_rt_settle(rt);
  return rt->device->mapped;
}

float *bd_rt_workspace(bd_rt *rt, int64_t *out_floats) {
  *out_floats = BD_CUDA_WORKSPACE_BYTES / (int64_t)sizeof(float);
  return (float *)(void *)rt->device->library;
}

void bd_rt_place(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                 int64_t count, const float *values, int dtype, void *buffer) {
  float *const piece = (float *)(void *)rt->device->room;
  const int64_t most = rt->device->room_bytes / (int64_t)sizeof *piece;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t part = count - done < most ? count - done : most;
    copy(rt, piece, values + done, part * (int64_t)sizeof *piece, cudaMemcpyHostToDevice);
    bd_cuda_place(bd_cuda_now(rt), weight, local, first + done, part, piece, dtype, buffer);
  }
  bd_rt_settle(rt);
}

void bd_rt_pick(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int64_t first,
                int64_t count, int dtype, const void *buffer, float *values) {
  float *const piece = (float *)(void *)rt->device->room;
  const int64_t most = rt->device->room_bytes / (int64_t)sizeof *piece;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t part = count - done < most ? count - done : most;
    copy(rt, piece, values + done, part * (int64_t)sizeof *piece, cudaMemcpyHostToDevice);
    bd_rt_settle(rt); // `values` is about to be written
    bd_cuda_pick(bd_cuda_now(rt), weight, local, first + done, part, dtype, buffer, piece);
    copy(rt, values + done, piece, part * (int64_t)sizeof *piece, cudaMemcpyDeviceToHost);
  }
  bd_rt_settle(rt);
}

void bd_rt_window(bd_rt *rt, const bd_rt_local *local, int64_t first, int64_t count, int dtype,
                  void *values, void *buffer, int store) {
  if (rt->device->rehearsing || count == 0) return;
  bd_cuda_window(bd_cuda_now(rt), local, first, count, bd_rt_element_bytes(dtype), values, buffer,
                 store);
}

void bd_rt_clear_padding(bd_rt *rt, const bd_rt_local *local, int dtype, void *buffer) {
  if (rt->device->rehearsing || !bd_rt_local_padded(local)) return;
  bd_cuda_clear_padding(bd_cuda_now(rt), local, bd_rt_element_bytes(dtype), buffer);
}

void bd_rt_fill(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_local *local, int dtype,
                void *buffer) {
  bd_cuda_fill(bd_cuda_now(rt), weight, local, rt->options.seed, dtype, buffer);
}
