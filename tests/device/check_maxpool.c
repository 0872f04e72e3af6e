// Pools by the runtime's own kernels against plain loops: all bits of values and gradients, in
// every layout, with channels that are packed and not, of windows that overlap, leave gaps, are
// spread out or lie outside; and nothing beside what is theirs is written.
#include "runtime/cuda/kernels.h"
#include "runtime/half.h"
#include "tests/device/must.h"
#include "tests/runtime/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 17, GUARDED = 64 };

static const bd_rt_conv shapes[] = {
    {.n = 2,
     .c = 16,
     .x = {1, 9, 12},
     .k = {1, 3, 3},
     .y = {1, 5, 6},
     .stride = {1, 2, 2},
     .dilation = {1, 1, 1},
     .before = {0, 1, 1}},
    {.n = 2,
     .c = 8,
     .x = {1, 7, 6},
     .k = {1, 3, 3},
     .y = {1, 7, 6},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .before = {0, 1, 1}},
    {.n = 1,
     .c = 12,
     .x = {1, 8, 8},
     .k = {1, 2, 2},
     .y = {1, 4, 4},
     .stride = {1, 2, 2},
     .dilation = {1, 1, 1}},
    {.n = 3,
     .c = 5,
     .x = {5, 6, 7},
     .k = {2, 2, 3},
     .y = {3, 3, 3},
     .stride = {2, 2, 2},
     .dilation = {1, 1, 1},
     .before = {1, 0, 0}},
    {.n = 2,
     .c = 8,
     .x = {1, 11, 10},
     .k = {1, 3, 4},
     .y = {1, 4, 3},
     .stride = {1, 2, 3},
     .dilation = {1, 3, 2},
     .before = {0, 2, 3}},
    {.n = 1,
     .c = 24,
     .x = {1, 1, 13},
     .k = {1, 1, 2},
     .y = {1, 1, 4},
     .stride = {1, 1, 4},
     .dilation = {1, 1, 1},
     .before = {0, 0, 3}},
    {.n = 2,
     .c = 8,
     .x = {4, 4, 4},
     .k = {4, 5, 7},
     .y = {1, 2, 1},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .before = {0, 1, 1}},
};

typedef struct memory {
  bd_cuda_queue queue;
  char *device, *host; // both of `bytes`
  size_t bytes;
} memory;

static int64_t points_of(const int64_t *extents) {
  return extents[0] * extents[1] * extents[2];
}

static int64_t bytes_of(int dtype) {
  return dtype == BD_RT_F32 ? 4 : 2;
}

static float get(int dtype, const void *data, int64_t i) {
  return dtype == BD_RT_F32 ? ((const float *)data)[i]
                            : bd_rt_from_half(dtype, ((const uint16_t *)data)[i]);
}

static void put(int dtype, void *data, int64_t i, float value) {
  if (dtype == BD_RT_F32)
    ((float *)data)[i] = value;
  else
    ((uint16_t *)data)[i] = bd_rt_to_half(dtype, value);
}

static int64_t offset_of(const bd_rt_conv *s, const int64_t *extents, int64_t image,
                         int64_t channel, int64_t point) {
  const int64_t points = points_of(extents);
  return s->channels_last ? (image * points + point) * s->c + channel
                          : (image * s->c + channel) * points + point;
}

// The first greatest point of window `y`, or -1.
static int64_t search(const bd_rt_conv *s, const void *x, int64_t image, int64_t channel,
                      int64_t y) {
  int64_t best = -1;
  float most = 0;
  for (int64_t k = 0; k < points_of(s->k); k++) {
    int64_t place = 0, inside = 1, own = k, window = y, at[3];
    for (int d = 2; d >= 0; own /= s->k[d], window /= s->y[d], d--)
      at[d] = window % s->y[d] * s->stride[d] + own % s->k[d] * s->dilation[d] - s->before[d];
    for (int d = 0; d < 3; d++) {
      inside &= at[d] >= 0 && at[d] < s->x[d];
      place = place * s->x[d] + at[d];
    }
    if (!inside) continue;
    const float value = get(s->dtype, x, offset_of(s, s->x, image, channel, place));
    if (best < 0 || value > most) best = place, most = value;
  }
  return best;
}

// `y` or, of `dy`, `dx`.
static void expect(const bd_rt_conv *s, const void *x, const void *dy, void *out) {
  const int64_t windows = points_of(s->y), points = points_of(s->x);
  for (int64_t image = 0; image < s->n; image++)
    for (int64_t channel = 0; channel < s->c; channel++) {
      float sums[1024] = {0};
      for (int64_t w = 0; w < windows; w++) {
        const int64_t best = search(s, x, image, channel, w);
        const int64_t at = offset_of(s, s->y, image, channel, w);
        if (dy && best >= 0) sums[best] += get(s->dtype, dy, at);
        if (dy) continue;
        put(s->dtype, out, at,
            best < 0 ? -INFINITY : get(s->dtype, x, offset_of(s, s->x, image, channel, best)));
      }
      for (int64_t p = 0; dy && p < points; p++)
        put(s->dtype, out, offset_of(s, s->x, image, channel, p), sums[p]);
    }
}

// Few different numbers, so that many are equal; zeros of both signs, infinities and NaN.
static float draw(uint64_t *seed) {
  static const float numbers[] = {0, -0.0f, 1, -1, 2, 0.5f, -3, 1.25f, 7, -0.125f, 4, 3};
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const int which = (int)(*seed >> 40) % 400;
  if (which == 0) return NAN;
  if (which < 3) return which == 1 ? INFINITY : -INFINITY;
  return numbers[which % 12];
}

// Operands and results lie `shift` elements from where they would be aligned.
static void check(memory *m, bd_rt_conv s, int shift) {
  const int64_t size = bytes_of(s.dtype), x_count = s.n * s.c * points_of(s.x),
                y_count = s.n * s.c * points_of(s.y);
  const int64_t at_dy = (shift + x_count + GUARDED) / 8 * 8 + shift,
                at_y = (at_dy + y_count + GUARDED) / 8 * 8 + shift,
                at_dx = (at_y + y_count + GUARDED) / 8 * 8 + shift,
                count = at_dx + x_count + GUARDED;
  const size_t bytes = (size_t)(count * size);
  char *const expected = malloc(bytes);
  uint64_t seed = (uint64_t)(x_count + shift);
  if (!expected || bytes > m->bytes) abort();
  for (int64_t i = 0; i < count; i++)
    put(s.dtype, expected, i, draw(&seed));
  memcpy(m->host, expected, bytes);
  MUST(cudaMemcpyAsync(m->device, m->host, bytes, cudaMemcpyHostToDevice, m->queue.stream));
  char *const x = m->device + shift * size, *const dy = m->device + at_dy * size;
  bd_cuda_maxpool(&m->queue, &s, x, m->device + at_y * size);
  bd_cuda_maxpool_grad(&m->queue, &s, x, dy, m->device + at_dx * size);
  MUST(cudaMemcpyAsync(m->host, m->device, bytes, cudaMemcpyDeviceToHost, m->queue.stream));
  settle(m->queue.stream);
  expect(&s, expected + shift * size, NULL, expected + at_y * size);
  expect(&s, expected + shift * size, expected + at_dy * size, expected + at_dx * size);
  check_true("pools and their gradients, and nothing beside", !memcmp(expected, m->host, bytes));
  free(expected);
}

static void all(memory *m) {
  static const int dtypes[] = {BD_RT_F32, BD_RT_BF16, BD_RT_F16}, blocks[] = {1, 3, 1000};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int way = 0; way < 3 * 3 * 2 * 2; way++) {
      bd_rt_conv s = shapes[i];
      s.o = s.c, s.groups = 1;
      s.dtype = s.out_dtype = dtypes[way % 3];
      s.channels_last = way / 3 % 2;
      m->queue.most_blocks = blocks[way / 6 % 3];
      check(m, s, way / 18);
    }
}

int main(void) {
  memory m = {.bytes = MOST};
  MUST(cudaSetDevice(0));
  MUST(cudaStreamCreateWithPriority(&m.queue.stream, cudaStreamNonBlocking, 0));
  m.queue.code = bd_cuda_open_code();
  MUST(cudaMalloc((void **)&m.device, m.bytes));
  MUST(cudaMallocHost((void **)&m.host, m.bytes));
  all(&m);
  MUST(cudaFree(m.device));
  MUST(cudaFreeHost(m.host));
  bd_cuda_close_code(m.queue.code);
  MUST(cudaStreamDestroy(m.queue.stream));
  return check_result(0);
}
