// Kernels of the CPU runtime against naive double loops, from inside a program of the form that the
// compiler emits. Run: mpirun --allow-run-as-root --oversubscribe -n 1 check_kernels. Exit 0: all
// agree. Link: every source of runtime/cpu.mk, with its flags.
#include "runtime/backend.h"
#include "runtime/cpu/exp.h"
#include "runtime/cpu/halves.h"
#include "runtime/float8.h"
#include "tests/runtime/check.h"
#include "tests/runtime/check_step.h"
#include "tests/runtime/halves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_gemm(bd_rt *rt, bd_rt_gemm s) {
  const int64_t a_size = (s.m + 1) * (s.k + 3) * (s.batch + 1);
  const int64_t b_size = (s.k + 1) * (s.n + 3) * (s.batch + 1),
                size = s.m * (s.n + 3) * (s.batch + 1);
  float *const a = numbers(a_size, 1), *const b = numbers(b_size, 2), *const out = numbers(size, 3);
  float *const expected = numbers(size, 3);
  for (int64_t z = 0; z < s.batch; z++)
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        double sum = s.accumulate ? expected[z * s.out_batch + i * s.out_m + j] : 0;
        for (int64_t k = 0; k < s.k; k++)
          sum += (double)a[z * s.a_batch + i * s.a_m + k * s.a_k] *
                 b[z * s.b_batch + k * s.b_k + j * s.b_n];
        expected[z * s.out_batch + i * s.out_m + j] = (float)sum;
      }
  bd_rt_matmul(rt, &s, a, b, out);
  check_near("gemm", out, expected, size, 1e-4);
  free(a), free(b), free(out), free(expected);
}

// The product of halves is the product of the floats they stand for, rounded at most once.
static void check_half_gemm(bd_rt *rt, bd_rt_gemm s, int dtype, int out_dtype) {
  const int64_t a_size = (s.m + 1) * (s.k + 3) * (s.batch + 1);
  const int64_t b_size = (s.k + 1) * (s.n + 3) * (s.batch + 1),
                size = s.m * (s.n + 3) * (s.batch + 1);
  float *const a = numbers(a_size, 1), *const b = numbers(b_size, 2), *const out = numbers(size, 3);
  uint16_t *const half_a = to_halves(dtype, a, a_size), *const half_b = to_halves(dtype, b, b_size);
  uint16_t *const half_out = to_halves(dtype, out, size);
  from_halves(dtype, half_a, a_size, a), from_halves(dtype, half_b, b_size, b);
  const int rounds = out_dtype == dtype;
  if (rounds) from_halves(dtype, half_out, size, out);
  float *const got = numbers(size, 3);
  bd_rt_matmul(rt, &s, a, b, out);
  s.dtype = dtype, s.out_dtype = out_dtype;
  bd_rt_matmul(rt, &s, half_a, half_b, rounds ? (void *)half_out : (void *)got);
  if (rounds) from_halves(dtype, half_out, size, got);
  check_near("gemm of halves", got, out, size, rounds ? rounding_of(dtype) : 1e-5);
  free(a), free(b), free(out), free(half_a), free(half_b), free(half_out), free(got);
}

static void round_all(int format, float *x, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; i++)
    if ((bd_rt_bits_of(x[i]) & 0x7FFFFFFF) > most) most = bd_rt_bits_of(x[i]) & 0x7FFFFFFF;
  const float scale = bd_rt_f8_scale(format, most);
  for (int64_t i = 0; i < count; i++)
    x[i] = bd_rt_from_f8(format, bd_rt_to_f8(format, x[i] * scale)) / scale;
}

// The products in 8 bits are those of the rounded factors, to the bit, under one scale for all
// matrices of a factor; what is no grain is not rounded.
static void check_f8_gemm(bd_rt *rt, int64_t batch, int64_t k, int transposed, int accumulate) {
  enum { M = 48, N = 80 };
  static const int32_t formats[] = {BD_RT_E5M2, BD_RT_E4M3};
  const int64_t a_count = batch * M * k, b_count = batch * N * k, count = batch * M * N;
  bd_rt_gemm s = {.m = M,
                  .n = N,
                  .k = k,
                  .batch = batch,
                  .a_m = k,
                  .a_k = 1,
                  .a_batch = M * k,
                  .b_k = N,
                  .b_n = 1,
                  .b_batch = N * k,
                  .out_m = N,
                  .out_batch = M * N,
                  .accumulate = accumulate,
                  .dtype = BD_RT_BF16,
                  .out_dtype = BD_RT_F32};
  if (transposed) s.a_m = 1, s.a_k = M, s.b_k = 1, s.b_n = k;
  float *const a = numbers(a_count, 1), *const b = numbers(b_count, 2);
  float *const out = numbers(count, 3), *const expected = numbers(count, 3);
  // The last matrix has the largest number, which rounds small ones of the first away.
  a[a_count - 1] = 100, b[b_count - 1] = 100;
  uint16_t *const half_a = to_halves(BD_RT_BF16, a, a_count);
  uint16_t *const half_b = to_halves(BD_RT_BF16, b, b_count);
  for (int pass = 0; pass < 2; pass++) {
    memcpy(s.f8, pass ? (int32_t[2]){0} : formats, sizeof s.f8);
    bd_rt_matmul(rt, &s, half_a, half_b, pass ? expected : out);
    from_halves(BD_RT_BF16, half_a, a_count, a), from_halves(BD_RT_BF16, half_b, b_count, b);
    if (k % BD_RT_F8_GRAIN == 0)
      round_all(formats[0], a, a_count), round_all(formats[1], b, b_count);
    uint16_t *const rounded_a = to_halves(BD_RT_BF16, a, a_count);
    uint16_t *const rounded_b = to_halves(BD_RT_BF16, b, b_count);
    memcpy(half_a, rounded_a, (size_t)a_count * sizeof *half_a);
    memcpy(half_b, rounded_b, (size_t)b_count * sizeof *half_b);
    free(rounded_a), free(rounded_b);
  }
  check_true("a product in 8 bits", memcmp(out, expected, (size_t)count * sizeof *out) == 0);
  free(a), free(b), free(out), free(expected), free(half_a), free(half_b);
}

static bd_rt_gemm gemm_of(const int64_t size[3], int how) {
  const int64_t m = size[0], n = size[1], k = size[2], batch = how & 1 ? 3 : 1;
  bd_rt_gemm s = {.m = m, .n = n, .k = k, .batch = batch, .accumulate = how >> 2 & 1};
  s.a_m = how & 2 ? 1 : k + 2, s.a_k = how & 2 ? m + 1 : 1, s.a_batch = (m + 1) * (k + 2);
  s.b_k = how & 4 ? 1 : n + 2, s.b_n = how & 4 ? k + 1 : 1, s.b_batch = (k + 1) * (n + 2);
  s.out_m = n + 1, s.out_batch = m * (n + 1);
  return s;
}

static void check_gemms(bd_rt *rt) {
  static const int64_t sizes[][3] = {{1, 1, 1},  {5, 7, 3},    {64, 100, 33}, {130, 1, 17},
                                     {1, 90, 8}, {9, 5000, 4}, {6, 5, 0}};
  static const int64_t cut[][3] = {{70, 3000, 61}, {2100, 65, 70}, {40, 70, 1023}},
                       tiled[] = {260, 530, 600};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int how = 0; how < 8; how++) {
      check_gemm(rt, gemm_of(sizes[i], how));
      for (int dtype = BD_RT_BF16; dtype <= BD_RT_F16; dtype++) {
        check_half_gemm(rt, gemm_of(sizes[i], how), dtype, BD_RT_F32);
        check_half_gemm(rt, gemm_of(sizes[i], how), dtype, dtype);
      }
    }
  for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
    for (int how = 0; how < 8; how += 3)
      check_gemm(rt, gemm_of(cut[i], how));
  for (int how = 2; how < 8; how += 2) {
    check_half_gemm(rt, gemm_of(tiled, how), BD_RT_BF16, BD_RT_F32);
    check_half_gemm(rt, gemm_of(tiled, how), BD_RT_BF16, BD_RT_BF16);
    check_half_gemm(rt, gemm_of(tiled, how), BD_RT_F16, BD_RT_F16);
  }
}

static void check_f8(bd_rt *rt) {
  for (int how = 0; how < 4; how++) {
    check_f8_gemm(rt, 1, 64, how & 1, how >> 1);
    check_f8_gemm(rt, 1, 528, how & 1, how >> 1);
    check_f8_gemm(rt, 1, 40, how & 1, how >> 1);
    check_f8_gemm(rt, 3, 64, how & 1, how >> 1);
  }
}

// Nearest, ties to even; NaN and infinity stay what they are.
static void check_bf16(void) {
  static const uint32_t bits[][2] = {{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82},
                                     {0x3F808001, 0x3F81}, {0x7F7FFFFF, 0x7F80},
                                     {0xFF800000, 0xFF80}, {0x80000001, 0x8000}};
  for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
    check_true("rounding to bf16", bd_rt_to_bf16(bd_rt_of_bits(bits[i][0])) == bits[i][1]);
  const float nan = bd_rt_of_bits(0x7F800001);
  check_true("NaN to bf16", isnan(bd_rt_from_bf16(bd_rt_to_bf16(nan))));
}

// What the processor converts by itself has the bits of what is computed here.
static void check_f16(void) {
  static const uint32_t bits[][2] = {
      {0x3F801000, 0x3C00}, {0x3F803000, 0x3C02}, {0x3F801001, 0x3C01}, // ties, and over one
      {0x477FEFFF, 0x7BFF}, {0x477FF000, 0x7C00},                       // below 65520, and 65520
      {0xFF800000, 0xFC00}, {0x80000001, 0x8000}, {0x33000000, 0x0000},
      {0x33000001, 0x0001},                       // half of the least
      {0x387FC000, 0x03FF}, {0x387FF000, 0x0400}, // the largest subnormal; carries over it
      {0x7F800001, 0x7E00}, {0xFFC12345, 0xFE09}, // no numbers
  };
  for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
    const float value = bd_rt_of_bits(bits[i][0]), run[8] = {value, value};
    uint16_t halves[8];
    bd_rt_narrow_run(BD_RT_F16, run, halves, 8);
    check_true("rounding to f16", bd_rt_to_f16(value) == bits[i][1] && halves[1] == bits[i][1]);
  }
  uint16_t halves[1 << 16];
  static float wide[1 << 16];
  for (int i = 0; i < 1 << 16; i++)
    halves[i] = (uint16_t)i;
  bd_rt_widen_run(BD_RT_F16, halves, wide, 1 << 16);
  int wrong = 0;
  for (int i = 0; i < 1 << 16; i++) {
    wrong += bd_rt_bits_of(wide[i]) != bd_rt_bits_of(bd_rt_from_f16(halves[i]));
    wrong += !isnan(wide[i]) && bd_rt_to_f16(wide[i]) != i;
  }
  check_true("every f16", wrong == 0 && wide[1] == 0x1p-24f && wide[0xFBFF] == -65504);
}

static void check_exp(void) {
  double worst = 0;
  for (float x = -87; x <= 0; x += 0.0007f) {
    const double error = fabs(bd_rt_exp(x) / exp((double)x) - 1);
    worst = error > worst ? error : worst;
  }
  check_true("exp within 2 ulp", worst < 2.4e-7);
  check_true("exp(0)", bd_rt_exp(0) == 1);
  check_true("exp(-inf)", bd_rt_exp(-INFINITY) == 0);
}

static void check_embed(bd_rt *rt, int dtype) {
  enum { COUNT = 300, C = 70, ROWS = 20, START = 5 };
  int32_t ids[COUNT];
  float *const dout = numbers(COUNT * C, 8), *const out = numbers(ROWS * C, 9);
  float *const expected = numbers(ROWS * C, 9);
  uint16_t *const halves = to_halves(dtype, dout, COUNT * C);
  float before[ROWS * C];
  memcpy(before, out, sizeof before);
  from_halves(dtype, halves, COUNT * C, dout);
  for (int i = 0; i < COUNT; i++)
    ids[i] = i * 7 % 31;
  for (int accumulate = 1; accumulate >= 0; accumulate--) {
    if (!accumulate) memset(expected, 0, ROWS * C * sizeof *expected);
    for (int i = 0; i < COUNT; i++)
      for (int j = 0; j < C && ids[i] >= START && ids[i] < START + ROWS; j++)
        expected[(ids[i] - START) * C + j] += dout[i * C + j];
    bd_rt_embed_dw(rt, BD_RT_F32, ids, dout, COUNT, C, START, ROWS, accumulate, BD_RT_F32, out);
    check_near("embed_dw", out, expected, ROWS * C, 0);
    memcpy(out, before, sizeof before);
    bd_rt_embed_dw(rt, dtype, ids, halves, COUNT, C, START, ROWS, accumulate, BD_RT_F32, out);
    check_near("embed_dw of halves", out, expected, ROWS * C, 0);
    memcpy(before, out, sizeof before);
  }
  free(dout), free(out), free(expected), free(halves);
}

// A table of bf16: what is added up in f32 is rounded once.
static void check_narrow_embed(bd_rt *rt) {
  enum { COUNT = 300, C = 70, ROWS = 20, START = 5 };
  int32_t ids[COUNT];
  float *const dout = numbers(COUNT * C, 8), *const expected = numbers(ROWS * C, 9);
  uint16_t *const halves = to_halves(BD_RT_BF16, dout, COUNT * C), *const out = to_halves(
                                                                       BD_RT_BF16, expected,
                                                                       ROWS * C);
  from_halves(BD_RT_BF16, halves, COUNT * C, dout);
  for (int i = 0; i < COUNT; i++)
    ids[i] = i * 7 % 31;
  for (int accumulate = 1; accumulate >= 0; accumulate--) {
    from_halves(BD_RT_BF16, out, ROWS * C, expected);
    if (!accumulate) memset(expected, 0, ROWS * C * sizeof *expected);
    for (int i = 0; i < COUNT; i++)
      for (int j = 0; j < C && ids[i] >= START && ids[i] < START + ROWS; j++)
        expected[(ids[i] - START) * C + j] += dout[i * C + j];
    bd_rt_embed_dw(rt, BD_RT_BF16, ids, halves, COUNT, C, START, ROWS, accumulate, BD_RT_BF16, out);
    uint16_t *const rounded = to_halves(BD_RT_BF16, expected, ROWS * C);
    check_true("embed_dw to halves", !memcmp(rounded, out, ROWS * C * sizeof *out));
    free(rounded);
  }
  free(dout), free(out), free(expected), free(halves);
}

static void check_add(bd_rt *rt) {
  enum { COUNT = 70001 };
  float *const a = numbers(COUNT, 4), *const b = numbers(COUNT, 5);
  uint16_t *const sum = to_halves(BD_RT_BF16, a, COUNT), *const more =
                                                             to_halves(BD_RT_BF16, b, COUNT);
  int64_t wrong = 0;
  bd_rt_add(rt, BD_RT_BF16, sum, more, COUNT);
  for (int i = 0; i < COUNT; i++)
    wrong +=
        sum[i] != bd_rt_to_bf16(bd_rt_from_bf16(bd_rt_to_bf16(a[i])) + bd_rt_from_bf16(more[i]));
  check_true("sums of halves are rounded once", wrong == 0);
  free(a), free(b), free(sum), free(more);
}

static void step(bd_rt *rt) {
  check_exp();
  check_bf16();
  check_f16();
  check_gemms(rt);
  check_f8(rt);
  check_embed(rt, BD_RT_BF16);
  check_embed(rt, BD_RT_F16);
  check_narrow_embed(rt);
  check_add(rt);
}

int main(int argc, char **argv) {
  return check_run_step(argv[0], step, argc > 1 ? 3 : 2);
}
