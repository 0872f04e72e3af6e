// The gradient of an embedding by the runtime's own kernels: rows add up their tokens in order, in
// pieces where there are more, whatever the grid; rows that are elsewhere add nothing.
#include "runtime/cuda/kernels.h"
#include "runtime/half.h"
#include "tests/device/must.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <string.h>

enum { IDS = 40, NUMBERS = 1 << 21, GUARD = 8 };

typedef struct memory {
  bd_cuda_queue queue;
  int32_t *ids;
  void *dout, *table;
  char *room;
} memory;

static int32_t ids[BD_CUDA_EMBED_TOKENS];
static float values[NUMBERS], before[NUMBERS], expected[NUMBERS], got[NUMBERS];
static uint16_t halves[NUMBERS], narrow_before[NUMBERS], narrow_got[NUMBERS];

static void copy(const memory *m, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind) {
  MUST(cudaMemcpyAsync(to, from, bytes, kind, m->queue.stream));
  settle(m->queue.stream);
}

static uint32_t next_random(void) {
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

static void set_up(memory *m) {
  MUST(cudaSetDevice(0));
  MUST(cudaStreamCreateWithPriority(&m->queue.stream, cudaStreamNonBlocking, 0));
  m->queue.code = bd_cuda_open_code();
  MUST(cudaMalloc((void **)&m->ids, sizeof ids));
  MUST(cudaMalloc(&m->dout, sizeof values));
  MUST(cudaMalloc(&m->table, sizeof before));
  MUST(cudaMalloc((void **)&m->room, BD_CUDA_EMBED_BYTES));
  // Half of the tokens have one id, the others those up to IDS, few of them the last ones.
  for (int t = 0; t < BD_CUDA_EMBED_TOKENS; t++) {
    const uint32_t x = next_random() % IDS, y = next_random() % IDS;
    ids[t] = next_random() % 2 ? 3 : (int32_t)(x < y ? x : y);
  }
  for (int i = 0; i < NUMBERS; i++) {
    values[i] = (float)next_random() * 0x1p-23f - 1;
    before[i] = (float)next_random() * 0x1p-23f - 1;
  }
}

static void tear_down(memory *m) {
  MUST(cudaFree(m->ids));
  MUST(cudaFree(m->dout));
  MUST(cudaFree(m->table));
  MUST(cudaFree(m->room));
  bd_cuda_close_code(m->queue.code);
  MUST(cudaStreamDestroy(m->queue.stream));
}

typedef struct lookup {
  const char *name;
  int64_t count, c, row_start, rows;
  int shift; // of the table and of the gradient in their buffers
  int piece;
} lookup;

// One column of one row: its tokens, of which `many` have its id.
static float column_sum(const lookup *l, int64_t id, int64_t column, int64_t many, float sum) {
  float piece = 0;
  for (int64_t t = 0, nth = 0; t < l->count; t++) {
    if (ids[t] != id) continue;
    float *const to = many > l->piece ? &piece : &sum;
    *to += values[l->shift + t * l->c + column];
    nth++;
    if (many <= l->piece || (nth % l->piece > 0 && nth < many)) continue;
    sum += piece;
    piece = 0;
  }
  return sum;
}

static void expect(const lookup *l) {
  memcpy(expected, before, sizeof before);
  for (int64_t row = 0; row < l->rows; row++) {
    int64_t many = 0;
    for (int64_t t = 0; t < l->count; t++)
      many += ids[t] == l->row_start + row;
    for (int64_t column = 0; column < l->c; column++) {
      float *const to = &expected[GUARD + l->shift + row * l->c + column];
      *to = column_sum(l, l->row_start + row, column, many, *to);
    }
  }
}

static void check(memory *m, const lookup *l, int dtype) {
  static const int grids[] = {1, 5, 600};
  char what[128];
  for (int64_t i = 0; i < NUMBERS; i++) {
    halves[i] = bd_rt_to_half(dtype, values[i]);
    if (bd_rt_is_half(dtype)) values[i] = bd_rt_from_half(dtype, halves[i]);
  }
  expect(l);
  copy(m, m->ids, ids, sizeof ids, cudaMemcpyHostToDevice);
  const int size = dtype == BD_RT_F32 ? (int)sizeof(float) : (int)sizeof(uint16_t);
  copy(m, m->dout, dtype == BD_RT_F32 ? (void *)values : (void *)halves, (size_t)size * NUMBERS,
       cudaMemcpyHostToDevice);
  for (int g = 0; g < 3; g++) {
    copy(m, m->table, before, sizeof before, cudaMemcpyHostToDevice);
    m->queue.most_blocks = grids[g];
    bd_cuda_embed_dw(&m->queue, dtype, m->ids, (const char *)m->dout + l->shift * size, l->count,
                     l->c, l->row_start, l->rows, BD_RT_F32, (float *)m->table + GUARD + l->shift,
                     m->room);
    copy(m, got, m->table, sizeof got, cudaMemcpyDeviceToHost);
    snprintf(what, sizeof what, "%s, dtype %d, %d blocks", l->name, dtype, grids[g]);
    check_true(what, !memcmp(got, expected, sizeof got));
  }
}

// The same with a table of bf16: a row's sum in f32 is rounded once.
static void check_narrow(memory *m, const lookup *l) {
  static float wide[NUMBERS];
  char what[128];
  memcpy(wide, before, sizeof before);
  for (int64_t i = 0; i < NUMBERS; i++) {
    halves[i] = bd_rt_to_bf16(values[i]);
    values[i] = bd_rt_from_bf16(halves[i]);
    narrow_before[i] = bd_rt_to_bf16(before[i]);
    before[i] = bd_rt_from_bf16(narrow_before[i]);
  }
  expect(l);
  memcpy(before, wide, sizeof before);
  copy(m, m->ids, ids, sizeof ids, cudaMemcpyHostToDevice);
  copy(m, m->dout, halves, sizeof halves, cudaMemcpyHostToDevice);
  copy(m, m->table, narrow_before, sizeof narrow_before, cudaMemcpyHostToDevice);
  m->queue.most_blocks = 5;
  bd_cuda_embed_dw(&m->queue, BD_RT_BF16, m->ids, (const uint16_t *)m->dout + l->shift, l->count,
                   l->c, l->row_start, l->rows, BD_RT_BF16, (uint16_t *)m->table + GUARD + l->shift,
                   m->room);
  copy(m, narrow_got, m->table, sizeof narrow_got, cudaMemcpyDeviceToHost);
  int64_t wrong = 0;
  for (int64_t i = 0; i < NUMBERS; i++)
    wrong += narrow_got[i] != bd_rt_to_bf16(expected[i]);
  snprintf(what, sizeof what, "%s, to a table of bf16", l->name);
  check_true(what, wrong == 0);
}

static const lookup lookups[] = {
    {"all tokens", BD_CUDA_EMBED_TOKENS, 64, 0, IDS, 0, 32},
    {"some rows", 3000, 32, 2, 20, 0, 32},
    {"odd columns", 1500, 7, 0, IDS, 0, 32},
    {"an odd start", 1500, 12, 0, IDS, 1, 32},
    {"many columns", 200, 8192, 0, IDS, 0, 64},
    {"one piece", 32, 16, 0, IDS, 0, 32},
    {"one token", 1, 4, 0, IDS, 0, 32},
    {"rows elsewhere", 500, 8, 1000, 50, 0, 32},
    {"nothing", 0, 8, 0, IDS, 0, 32},
};

int main(void) {
  static const int dtypes[] = {BD_RT_F32, BD_RT_F16, BD_RT_BF16};
  memory m;
  set_up(&m);
  for (int d = 0; d < 3; d++)
    for (size_t i = 0; i < sizeof lookups / sizeof *lookups; i++)
      check(&m, &lookups[i], dtypes[d]);
  for (size_t i = 0; i < sizeof lookups / sizeof *lookups; i++)
    check_narrow(&m, &lookups[i]);
  tear_down(&m);
  return check_result(0);
}
