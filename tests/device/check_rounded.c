// Factors in 8 bits by the runtime's own kernels: one scale for all matrices of a factor, of the
// largest number in them and of nothing that lies between, and their rows one after another.
#include "runtime/cuda/kernels.h"
#include "runtime/float8.h"
#include "tests/device/must.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <string.h>

enum { NUMBERS = 1 << 17, GUARD = 64 };

typedef struct memory {
  bd_cuda_queue queue;
  uint16_t *data;
  uint32_t *room;
  float *scales;
  uint8_t *out;
} memory;

typedef struct problem {
  const char *name;
  int64_t batch, rows, terms, row_stride, term_stride, batch_stride, first;
} problem;

static const problem problems[] = {
    {"a matrix", 1, 48, 64, 64, 1, 0, 0},
    {"a transposed matrix", 1, 48, 64, 1, 48, 0, 0},
    {"rows with gaps", 1, 48, 64, 72, 1, 0, 0},
    {"columns with gaps", 1, 48, 64, 1, 56, 0, 0},
    {"a matrix off the grain", 1, 48, 64, 64, 1, 0, 3},
    {"a large matrix", 1, 256, 400, 400, 1, 0, 0},
    {"matrices", 3, 48, 64, 64, 1, 48 * 64, 0},
    {"transposed matrices", 3, 48, 64, 1, 48, 48 * 64, 0},
    {"matrices with gaps", 3, 48, 64, 64, 1, 48 * 64 + 16, 0},
    {"transposed matrices with gaps", 3, 48, 64, 1, 48, 48 * 64 + 8, 0},
    {"matrices off the grain", 3, 48, 64, 64, 1, 48 * 64 + 1, 0},
    {"matrices whose rows interleave", 3, 48, 64, 3 * 64, 1, 64, 0},
    {"large matrices", 8, 64, 192, 1, 64, 64 * 192, 0},
};

static uint16_t numbers[NUMBERS];
static uint8_t expected[NUMBERS + GUARD], got[NUMBERS + GUARD];

static int64_t place_of(const problem *p, int64_t matrix, int64_t row, int64_t term) {
  return p->first + matrix * p->batch_stride + row * p->row_stride + term * p->term_stride;
}

// What lies between is larger than all else; the last matrix has the largest number of those that
// count, 3 or so, which the others' are far below.
static void set_numbers(const problem *p) {
  for (int i = 0; i < NUMBERS; i++)
    numbers[i] = bd_rt_to_bf16(1000);
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t row = 0; row < p->rows; row++)
      for (int64_t term = 0; term < p->terms; term++) {
        const int64_t at = (b * p->rows + row) * p->terms + term;
        numbers[place_of(p, b, row, term)] =
            bd_rt_to_bf16((float)(at * 37 % 211 - 105) * (b + 1 < p->batch ? 1e-3f : 0.03f));
      }
}

static void expect(const problem *p, int format, float *out_scale) {
  uint32_t most = 0;
  memset(expected, 0xEE, sizeof expected);
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t row = 0; row < p->rows; row++)
      for (int64_t term = 0; term < p->terms; term++) {
        const uint32_t size = numbers[place_of(p, b, row, term)] & 0x7FFF;
        most = size > most ? size : most;
      }
  *out_scale = bd_rt_f8_scale(format, most << 16);
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t row = 0; row < p->rows; row++)
      for (int64_t term = 0; term < p->terms; term++)
        expected[(b * p->rows + row) * p->terms + term] =
            bd_rt_to_f8(format, bd_rt_from_bf16(numbers[place_of(p, b, row, term)]) * *out_scale);
}

static void set_up(memory *m) {
  MUST(cudaSetDevice(0));
  MUST(cudaStreamCreateWithPriority(&m->queue.stream, cudaStreamNonBlocking, 0));
  m->queue.code = bd_cuda_open_code();
  MUST(cudaMalloc((void **)&m->data, sizeof numbers));
  MUST(cudaMalloc((void **)&m->room, BD_CUDA_F8_ROOM * sizeof *m->room));
  MUST(cudaMalloc((void **)&m->scales, BD_CUDA_F8_SCALES * sizeof *m->scales));
  MUST(cudaMalloc((void **)&m->out, sizeof got));
}

static void tear_down(memory *m) {
  MUST(cudaFree(m->data));
  MUST(cudaFree(m->room));
  MUST(cudaFree(m->scales));
  MUST(cudaFree(m->out));
  bd_cuda_close_code(m->queue.code);
  MUST(cudaStreamDestroy(m->queue.stream));
}

static void copy(const memory *m, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind) {
  MUST(cudaMemcpyAsync(to, from, bytes, kind, m->queue.stream));
  settle(m->queue.stream);
}

static void check(memory *m, const problem *p, int format) {
  const bd_cuda_factor factor = {.data = m->data + p->first,
                                 .rows = p->batch * p->rows,
                                 .terms = p->terms,
                                 .row_stride = p->row_stride,
                                 .term_stride = p->term_stride,
                                 .each = p->rows,
                                 .batch_stride = p->batch_stride,
                                 .format = format};
  float scale, scales[BD_CUDA_F8_SCALES];
  char what[128];
  set_numbers(p);
  expect(p, format, &scale);
  memset(got, 0xEE, sizeof got);
  copy(m, m->data, numbers, sizeof numbers, cudaMemcpyHostToDevice);
  copy(m, m->out, got, sizeof got, cudaMemcpyHostToDevice);
  bd_cuda_round_f8(&m->queue, &factor, m->room, m->scales, m->out);
  copy(m, scales, m->scales, sizeof scales, cudaMemcpyDeviceToHost);
  copy(m, got, m->out, sizeof got, cudaMemcpyDeviceToHost);
  snprintf(what, sizeof what, "the scale of %s, format %d", p->name, format);
  check_true(what, scales[0] == scale && scales[BD_CUDA_F8_INVERSE] * scale == 1);
  snprintf(what, sizeof what, "%s in format %d", p->name, format);
  check_true(what, !memcmp(got, expected, sizeof got));
}

int main(void) {
  memory m = {.queue = {.most_blocks = 7}};
  set_up(&m);
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
    for (int format = BD_RT_E4M3; format <= BD_RT_E5M2; format++)
      check(&m, &problems[i], format);
  tear_down(&m);
  return check_result(0);
}
