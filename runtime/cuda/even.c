#include "runtime/cuda/even.h"
#include "runtime/rank.h"

enum {
  GRAIN = 8,    // halves in 16 bytes
  LEAST = 1024, // of an extent that is worth a product more
};

static int is_uneven(int64_t extent) {
  return extent >= LEAST && extent % GRAIN;
}

// Whether elements lie side by side along an extent of stride `along`, in rows `from_row` apart
// that keep the alignment.
static int fits(int64_t along, int64_t from_row) {
  return along == 1 && from_row % GRAIN == 0;
}

static int split_n(const bd_rt_gemm *s, bd_cuda_part parts[2]) {
  const int64_t first = s->n / GRAIN * GRAIN;
  if (!is_uneven(s->n) || s->out_m % GRAIN || (s->b_n == 1 && !fits(s->b_n, s->b_k))) return 0;
  parts[0].shape.n = first;
  parts[1].shape.n = s->n - first;
  parts[1].b = first * s->b_n;
  parts[1].out = parts[1].n = first;
  return 1;
}

static int split_m(const bd_rt_gemm *s, bd_cuda_part parts[2]) {
  const int64_t first = s->m / GRAIN * GRAIN;
  if (!is_uneven(s->m) || !fits(s->a_m, s->a_k)) return 0;
  parts[0].shape.m = first;
  parts[1].shape.m = s->m - first;
  parts[1].a = first * s->a_m;
  parts[1].out = first * s->out_m;
  return 1;
}

static int split_k(const bd_rt_gemm *s, bd_cuda_part parts[2]) {
  const int64_t first = s->k / GRAIN * GRAIN;
  if (!is_uneven(s->k) || (!fits(s->a_k, s->a_m) && !fits(s->b_k, s->b_n))) return 0;
  parts[0].shape.k = s->k - first;
  parts[0].a = first * s->a_k;
  parts[0].b = first * s->b_k;
  parts[1].shape.k = first;
  parts[1].shape.accumulate = 1;
  return 1;
}

int bd_cuda_even_parts(const bd_rt_gemm *s, bd_cuda_part parts[2]) {
  parts[0] = parts[1] = (bd_cuda_part){.shape = *s};
  if (!bd_rt_is_half(s->dtype) || s->f8[0] || s->f8[1]) return 1;
  return 1 + (split_n(s, parts) || split_m(s, parts) || split_k(s, parts));
}
