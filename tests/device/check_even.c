// Products along uneven extents: the parts add up to the product, their operands begin at multiples
// of 16 bytes, and all but the last few of the extent are one part of even extents.
#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/even.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

typedef struct problem {
  const char *name;
  bd_rt_gemm shape;
  int parts;
} problem;

#define ROWS(s) .a_m = s, .a_k = 1    // of a
#define COLUMNS(s) .a_m = 1, .a_k = s // of a, transposed
#define B_ROWS(s) .b_k = s, .b_n = 1
#define B_COLUMNS(s) .b_k = 1, .b_n = s
#define HALVES .batch = 1, .dtype = BD_RT_BF16

static const problem problems[] = {
    {"of even extents",
     {.m = 3, .n = 1032, .k = 8, ROWS(8), B_COLUMNS(8), .out_m = 1032, HALVES},
     1},
    {"of few columns",
     {.m = 3, .n = 1001, .k = 8, ROWS(8), B_COLUMNS(8), .out_m = 1008, HALVES},
     1},
    {"of f32",
     {.m = 3,
      .n = 1027,
      .k = 8,
      ROWS(8),
      B_COLUMNS(8),
      .out_m = 1032,
      .batch = 1,
      .dtype = BD_RT_F32},
     1},
    {"whose rows are uneven",
     {.m = 3, .n = 1027, .k = 8, ROWS(8), B_COLUMNS(8), .out_m = 1027, HALVES},
     1},
    {"with uneven columns",
     {.m = 3, .n = 1027, .k = 8, ROWS(8), B_COLUMNS(8), .out_m = 1032, HALVES},
     2},
    {"with uneven columns of b in rows",
     {.m = 3, .n = 1027, .k = 5, ROWS(8), B_ROWS(1032), .out_m = 1032, HALVES},
     2},
    {"with uneven terms",
     {.m = 3, .n = 7, .k = 1029, ROWS(1032), B_ROWS(8), .out_m = 8, HALVES},
     2},
    {"with uneven terms, added",
     {.m = 3, .n = 7, .k = 1029, ROWS(1032), B_ROWS(8), .out_m = 8, .accumulate = 1, HALVES},
     2},
    {"with uneven terms that lie apart",
     {.m = 8, .n = 8, .k = 1029, COLUMNS(8), B_ROWS(8), .out_m = 8, HALVES},
     1},
    {"with uneven rows",
     {.m = 1031, .n = 5, .k = 6, COLUMNS(1032), B_ROWS(8), .out_m = 8, HALVES},
     2},
};

static double number(int64_t at) {
  return (double)(at * 7 % 11 - 5);
}

// Of small integers, so that every order of a sum has the same bits.
static void multiply(const bd_cuda_part *part, double *out) {
  const bd_rt_gemm *const s = &part->shape;
  for (int64_t m = 0; m < s->m; m++)
    for (int64_t n = 0; n < s->n; n++) {
      double *const sum = &out[part->out + m * s->out_m + n];
      if (!s->accumulate) *sum = 0;
      for (int64_t k = 0; k < s->k; k++)
        *sum += number(part->a + m * s->a_m + k * s->a_k) *
                number(part->b + k * s->b_k + n * s->b_n + 3);
    }
}

static int same(const bd_rt_gemm *s, const bd_cuda_part *parts, int count) {
  static double whole[MOST], cut[MOST];
  for (int i = 0; i < MOST; i++)
    whole[i] = cut[i] = i;
  multiply(&(bd_cuda_part){.shape = *s}, whole);
  for (int i = 0; i < count; i++)
    multiply(&parts[i], cut);
  return !memcmp(whole, cut, sizeof whole);
}

static int begin_aligned(const bd_cuda_part *part) {
  return part->a % 8 == 0 && part->b % 8 == 0 && part->out % 8 == 0;
}

int main(void) {
  char what[128];
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const problem *const p = &problems[i];
    bd_cuda_part parts[2];
    const int count = bd_cuda_even_parts(&p->shape, parts);
    snprintf(what, sizeof what, "a product %s has %d parts", p->name, p->parts);
    check_true(what, count == p->parts);
    snprintf(what, sizeof what, "parts of a product %s add up to it", p->name);
    check_true(what, same(&p->shape, parts, count));
    snprintf(what, sizeof what, "parts of a product %s begin at multiples of 16 bytes", p->name);
    check_true(what, begin_aligned(&parts[0]) && begin_aligned(&parts[count - 1]));
  }
  return check_result(0);
}
