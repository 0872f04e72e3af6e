// Sums of squares of many tensors by the runtime's own kernels: each has the bits that it has
// alone, under any grid, and nothing is written behind the partial sums.
#include "runtime/cuda/kernels.h"
#include "tests/device/must.h"
#include "tests/runtime/check.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

// The last two have as many lanes as there are for one tensor: a launch takes sixteen of them.
static const int64_t counts[] = {1,     31,     256,    4096,    4097,   65535,
                                 65537, 300001, 262144, 2 << 20, 2100001};
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 2100001, SHIFT = 3, GUARDED = 64 };
enum { ROOM = BD_CUDA_SQUARE_LANES + BD_RT_MOST_SQUARES * BD_CUDA_SQUARE_GROUPS };

typedef struct memory {
  bd_cuda_queue queue;
  float *data, *host;
  uint16_t *halves, *host_halves;
  double *partials, *sums; // sums: pinned
} memory;

static void set_up(memory *m) {
  const size_t bytes = (MOST + SHIFT) * sizeof(float);
  uint64_t seed = 7;
  MUST(cudaSetDevice(0));
  MUST(cudaStreamCreateWithPriority(&m->queue.stream, cudaStreamNonBlocking, 0));
  m->queue.code = bd_cuda_open_code();
  MUST(cudaMalloc((void **)&m->data, bytes));
  MUST(cudaMalloc((void **)&m->partials, (ROOM + GUARDED) * sizeof(double)));
  MUST(cudaMallocHost((void **)&m->host, bytes));
  MUST(cudaMalloc((void **)&m->halves, bytes / 2));
  MUST(cudaMallocHost((void **)&m->host_halves, bytes / 2));
  MUST(cudaMallocHost((void **)&m->sums, BD_RT_MOST_SQUARES * sizeof(double)));
  for (int64_t i = 0; i < MOST + SHIFT; i++) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    m->host[i] = (float)((double)(seed >> 40) / (1 << 24) - 0.5);
    m->host_halves[i] = bd_rt_to_bf16(m->host[i]);
  }
  MUST(cudaMemcpyAsync(m->data, m->host, bytes, cudaMemcpyHostToDevice, m->queue.stream));
  MUST(cudaMemcpyAsync(m->halves, m->host_halves, bytes / 2, cudaMemcpyHostToDevice,
                       m->queue.stream));
  settle(m->queue.stream);
}

// Tensor t begins at element t % (SHIFT + 1), so that some begin at no multiple of 16 bytes; of
// WAYS that follow one another some are in bf16.
enum { WAYS = 2 * (SHIFT + 1) };
static bool is_narrow(int t) {
  return t % WAYS > SHIFT;
}

static bd_rt_squares tensor(const memory *m, int t, int64_t count) {
  const int first = t % (SHIFT + 1);
  return (bd_rt_squares){is_narrow(t) ? (const void *)(m->halves + first) : m->data + first, count,
                         m->sums + t, is_narrow(t) ? BD_RT_BF16 : BD_RT_F32};
}

static double plain_sum(const memory *m, int t, int64_t count) {
  long double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = i + t % (SHIFT + 1);
    const long double x = is_narrow(t) ? bd_rt_from_bf16(m->host_halves[at]) : m->host[at];
    sum += x * x;
  }
  return (double)sum;
}

static void sum(memory *m, int blocks, int tensors, const bd_rt_squares *list) {
  double guards[GUARDED], after[GUARDED];
  double *const behind = m->partials + ROOM;
  for (int i = 0; i < GUARDED; i++)
    guards[i] = i;
  m->queue.most_blocks = blocks;
  MUST(cudaMemcpyAsync(behind, guards, sizeof guards, cudaMemcpyHostToDevice, m->queue.stream));
  bd_cuda_square_sums(&m->queue, tensors, list, m->partials);
  MUST(cudaMemcpyAsync(after, behind, sizeof after, cudaMemcpyDeviceToHost, m->queue.stream));
  settle(m->queue.stream);
  check_true("nothing behind the partial sums is written", !memcmp(guards, after, sizeof after));
}

static void check_alone(memory *m, double alone[COUNTS][WAYS]) {
  for (int c = 0; c < COUNTS; c++)
    for (int t = 0; t < WAYS; t++) {
      const bd_rt_squares one = tensor(m, t, counts[c]);
      const double plain = plain_sum(m, t, counts[c]);
      sum(m, 40, 1, &one);
      alone[c][t] = m->sums[t];
      check_true("a sum of squares", fabs(m->sums[t] - plain) <= 1e-13 * plain);
    }
}

// As many as one call takes; `first` is the first one's count, and each has the next one's.
static void check_many(memory *m, int blocks, int tensors, int first, int step,
                       double alone[COUNTS][WAYS]) {
  bd_rt_squares list[BD_RT_MOST_SQUARES];
  for (int t = 0; t < tensors; t++)
    list[t] = tensor(m, t, counts[(first + t * step) % COUNTS]);
  memset(m->sums, 0xff, BD_RT_MOST_SQUARES * sizeof *m->sums);
  sum(m, blocks, tensors, list);
  for (int t = 0; t < tensors; t++)
    check_true("a sum has the bits that it has alone",
               !memcmp(&m->sums[t], &alone[(first + t * step) % COUNTS][t % WAYS], sizeof(double)));
}

int main(void) {
  memory m;
  static double alone[COUNTS][WAYS];
  set_up(&m);
  check_alone(&m, alone);
  check_many(&m, 1, 2, 0, 1, alone);
  check_many(&m, 528, BD_RT_MOST_SQUARES, 0, 1, alone);
  check_many(&m, 13, BD_RT_MOST_SQUARES, 5, 0, alone);
  check_many(&m, 528, 20, COUNTS - 1, 0, alone);
  sum(&m, 528, 0, NULL);
  MUST(cudaFree(m.data));
  MUST(cudaFree(m.partials));
  MUST(cudaFreeHost(m.host));
  MUST(cudaFree(m.halves));
  MUST(cudaFreeHost(m.host_halves));
  MUST(cudaFreeHost(m.sums));
  bd_cuda_close_code(m.queue.code);
  MUST(cudaStreamDestroy(m.queue.stream));
  return check_result(0);
}
