// Products of rows in groups of the CPU runtime against naive double loops, and the same bits for
// any number of threads. Run: mpirun --allow-run-as-root --oversubscribe -n 1 check_grouped [MORE].
// Exit 0: all agree. With an argument three threads take part, else one. Link: every source of
// runtime/cpu.mk, with its flags.
#include "runtime/backend.h"
#include "runtime/float8.h"
#include "tests/runtime/check.h"
#include "tests/runtime/check_step.h"
#include "tests/runtime/halves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 5 };

// Of x, y and w, strides included.
typedef struct sizes {
  int64_t x, y, w;
} sizes;

static bd_rt_grouped shape_of(int64_t rows, int64_t n, int64_t k, int transposed, sizes *out) {
  bd_rt_grouped s = {.rows = rows, .groups = GROUPS, .n = n, .k = k, .grain = 1};
  s.x_row = k + 3, s.y_row = n + 2;
  s.w_k = transposed ? 1 : n + 1, s.w_n = transposed ? k + 1 : 1;
  s.w_group = (transposed ? n : k) * (transposed ? k + 1 : n + 1) + 5;
  *out = (sizes){rows * s.x_row, rows * s.y_row, GROUPS * s.w_group};
  return s;
}

// Ends of groups: uneven, with an empty one; all rows in one group; none; and what is no ends at
// all.
static void fill_ends(int way, int64_t rows, int32_t ends[GROUPS]) {
  for (int g = 0; g < GROUPS; g++) {
    const int64_t even = rows * (g + 1) / GROUPS;
    ends[g] = (int32_t)(way == 0   ? (g == 2 ? rows * 2 / GROUPS : even - 1)
                        : way == 1 ? (g < 2 ? 0 : rows)
                        : way == 2 ? 0
                                   : g * 7919 % (2 * rows + 3) - rows / 2);
  }
}

// The group of a row, or GROUPS; ends are rounded up to the grain.
static int group_of(const bd_rt_grouped *s, const int32_t *ends, int64_t row) {
  int g = 0;
  while (g < GROUPS && ends[g] <= row / s->grain * s->grain)
    g++;
  return g;
}

static void expect_rows(const bd_rt_grouped *s, const float *x, const float *w, const int32_t *ends,
                        float *y) {
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t j = 0; j < s->n; j++) {
      const int g = group_of(s, ends, r);
      double sum = 0;
      for (int64_t c = 0; g < GROUPS && c < s->k; c++)
        sum += (double)x[r * s->x_row + c] * w[g * s->w_group + c * s->w_k + j * s->w_n];
      y[r * s->y_row + j] = (float)sum;
    }
}

static void expect_weights(const bd_rt_grouped *s, const float *x, const float *y,
                           const int32_t *ends, float *w) {
  for (int g = 0; g < GROUPS; g++)
    for (int64_t c = 0; c < s->k; c++)
      for (int64_t j = 0; j < s->n; j++) {
        float *const at = &w[g * s->w_group + c * s->w_k + j * s->w_n];
        double sum = s->accumulate ? *at : 0;
        for (int64_t r = 0; r < s->rows; r++)
          if (group_of(s, ends, r) == g) sum += (double)x[r * s->x_row + c] * y[r * s->y_row + j];
        *at = (float)sum;
      }
}

static uint64_t digest = 0xcbf29ce484222325;

static void add_digest(const void *data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i++)
    digest = (digest ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
}

// A buffer as the product takes it: the floats, or halves of them, whose values they then have.
static void *take(int dtype, float *x, int64_t count) {
  if (dtype == BD_RT_F32) return x;
  uint16_t *const halves = to_halves(dtype, x, count);
  from_halves(dtype, halves, count, x);
  return halves;
}

static void give_back(int dtype, void *taken, float *x, int64_t count) {
  add_digest(taken, count * bd_rt_element_bytes(dtype));
  if (dtype == BD_RT_F32) return;
  from_halves(dtype, taken, count, x);
}

// The numbers of `count` matrices as 8 bits hold them, each a multiple of the scale's unit.
static void round_all(int format, float *x, int64_t count, int64_t between, int64_t rows,
                      int64_t columns, int64_t row, int64_t column) {
  float most = 0, *at;
  for (int turn = 0; turn < 2; turn++) {
    const float scale = bd_rt_f8_scale(format, bd_rt_bits_of(most));
    for (int64_t b = 0; b < count; b++)
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
          at = &x[b * between + i * row + j * column];
          if (turn)
            *at = bd_rt_from_f8(format, bd_rt_to_f8(format, *at * scale)) / scale;
          else
            most = fmaxf(most, fabsf(*at));
        }
  }
}

// The factors of a product in 8 bits.
static void round_factors(const bd_rt_grouped *s, int weights, float *x, float *w, float *y) {
  round_all(s->f8[0], x, 1, 0, s->rows, s->k, s->x_row, 1);
  if (weights)
    round_all(s->f8[1], y, 1, 0, s->rows, s->n, s->y_row, 1);
  else
    round_all(s->f8[1], w, s->groups, s->w_group, s->k, s->n, s->w_k, s->w_n);
}

static void drop(int dtype, void *taken) {
  if (dtype != BD_RT_F32) free(taken);
}

// With `weights` x' y, else x w, into the third of the buffers.
static void check_product(bd_rt *rt, bd_rt_grouped s, sizes size, int weights, int way) {
  int32_t ends[GROUPS];
  float *const x = numbers(size.x, 1), *const w = numbers(size.w, 2), *const y = numbers(size.y, 3);
  fill_ends(way, s.rows, ends);
  void *const a = take(s.dtype, x, size.x);
  void *const b = weights ? take(s.dtype, y, size.y) : take(s.dtype, w, size.w);
  float *const result = weights ? w : y;
  const int64_t count = weights ? size.w : size.y;
  void *const out = take(s.out_dtype, result, count);
  float *const expected = numbers(count, 4), *const got = numbers(count, 5);
  memcpy(expected, result, (size_t)count * sizeof *expected);
  if (bd_rt_is_f8_grouped(&s)) round_factors(&s, weights, x, w, y);
  const int32_t *const there = bd_rt_fetch_ends(rt, 0, ends, GROUPS);
  if (weights) {
    expect_weights(&s, x, y, ends, expected);
    bd_rt_grouped_weights(rt, &s, a, b, there, out);
  } else {
    expect_rows(&s, x, w, ends, expected);
    bd_rt_grouped_rows(rt, &s, a, b, there, out);
  }
  memcpy(got, out, s.out_dtype == BD_RT_F32 ? (size_t)count * sizeof *got : 0);
  give_back(s.out_dtype, out, got, count);
  check_near(weights ? "weights of groups" : "rows of groups", got, expected, count,
             s.out_dtype == BD_RT_F32 ? 1e-4 : rounding_of(s.out_dtype));
  drop(s.dtype, a), drop(s.dtype, b), drop(s.out_dtype, out);
  free(x), free(w), free(y), free(expected), free(got);
}

static void check_ways(bd_rt *rt, int64_t rows, int64_t n, int64_t k, int dtype, int out_dtype) {
  for (int way = 0; way < 4; way++)
    for (int variant = 0; variant < 6; variant++) {
      const int weights = variant >= 2;
      sizes size;
      bd_rt_grouped s = shape_of(rows, n, k, variant % 2, &size); // transposed
      s.accumulate = variant >= 4;
      s.dtype = dtype, s.out_dtype = out_dtype;
      check_product(rt, s, size, weights, way);
    }
}

// In grains of rows; in 8 bits where grains, features and the result's strides are multiples of 16.
static void check_grains(bd_rt *rt, int64_t rows, int64_t n, int64_t k, int64_t grain,
                         int in_8_bits) {
  for (int way = 0; way < 4; way++)
    for (int variant = 0; variant < 6; variant++) {
      const int weights = variant >= 2, transposed = variant % 2;
      bd_rt_grouped s = {.rows = rows,
                         .groups = GROUPS,
                         .n = n,
                         .k = k,
                         .grain = grain,
                         .accumulate = variant >= 4,
                         .dtype = BD_RT_BF16};
      s.f8[0] = weights || !transposed ? BD_RT_E4M3 : BD_RT_E5M2;
      s.f8[1] = weights ? BD_RT_E5M2 : BD_RT_E4M3;
      s.x_row = k + 3, s.y_row = n + 16;
      s.w_k = transposed ? 1 : n + 16, s.w_n = transposed ? k + 16 : 1;
      s.w_group = (transposed ? n : k) * (transposed ? k + 16 : n + 16) + 5;
      s.out_dtype = way % 2 ? BD_RT_F32 : BD_RT_BF16;
      check_true("what is in 8 bits", bd_rt_is_f8_grouped(&s) == in_8_bits);
      check_product(rt, s, (sizes){rows * s.x_row, rows * s.y_row, GROUPS * s.w_group}, weights,
                    way);
    }
}

static void step(bd_rt *rt) {
  static const int64_t sizes[][3] = {{1, 1, 1},    {7, 5, 3},   {40, 33, 17}, {24, 600, 9},
                                     {30, 4, 300}, {700, 6, 5}, {12, 5, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t *const at = sizes[i];
    check_ways(rt, at[0], at[1], at[2], BD_RT_F32, BD_RT_F32);
    for (int dtype = BD_RT_BF16; dtype <= BD_RT_F16; dtype++) {
      check_ways(rt, at[0], at[1], at[2], dtype, BD_RT_F32);
      check_ways(rt, at[0], at[1], at[2], dtype, dtype);
    }
  }
  check_ways(rt, 90, 40, 1100, BD_RT_F32, BD_RT_F32);
  check_ways(rt, 1300, 20, 40, BD_RT_BF16, BD_RT_BF16);
  check_grains(rt, 96, 32, 48, 16, 1);
  check_grains(rt, 384, 16, 272, 128, 1);
  check_grains(rt, 96, 32, 48, 8, 0);
  check_grains(rt, 96, 24, 48, 16, 0);
}

// The digest tells runs on other numbers of threads apart.
int main(int argc, char **argv) {
  const int status = check_run_step(argv[0], step, argc > 1 ? 3 : 1);
  printf("%016llx\n", (unsigned long long)digest);
  return status;
}
