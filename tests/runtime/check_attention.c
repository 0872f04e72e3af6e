// Attention of the CPU runtime and the masks of dropout against naive double loops, as
// check_kernels.c. Run: mpirun --allow-run-as-root --oversubscribe -n 1 check_attention. Exit 0:
// all agree.
#include "runtime/cpu/dropout.h"
#include "tests/runtime/check.h"
#include "tests/runtime/check_step.h"
#include "tests/runtime/halves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Philox and the mask, written down once more.
static double uniform(uint64_t seed, uint64_t step, uint32_t site, uint32_t call, uint64_t sample,
                      uint64_t element) {
  uint32_t c[4] = {(uint32_t)element, (uint32_t)((element >> 32) & 0xFFFF) | call << 16,
                   (uint32_t)sample, (uint32_t)step};
  uint32_t k[2] = {(uint32_t)seed ^ site * 0x9E3779B9u, (uint32_t)(seed >> 32)};
  for (int i = 0; i < 10; i++) {
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                              (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
  }
  return (c[0] >> 8) * 0x1p-24;
}

// Masks of runs that cross 2^32, in pieces of any length.
static void check_masks(void) {
  const bd_rt_random random = {.seed = 0x123456789ABCull, .step = 7, .call = 3};
  const int64_t first = (int64_t)UINT32_MAX - 20;
  float mask[48];
  for (int64_t count = 0; count <= 48; count++) {
    bd_rt_dropout_mask(&random, 5, 11, first, 0.4f, 1.5f, count, mask);
    int good = 1;
    for (int64_t i = 0; i < count; i++)
      good &=
          mask[i] == (uniform(random.seed, 7, 5, 3, 11, (uint64_t)(first + i)) < 0.4f ? 0 : 1.5f);
    check_true("dropout mask", good);
  }
}

typedef struct attention_case {
  bd_rt_attention s;
  bd_rt_random random;
  int64_t q_size, k_size, lse_size;
  float *q, *k, *v, *dout;
} attention_case;

// Output, log-sum-exp and the gradients of sum(dout * out), in double.
static void naive_attention(const attention_case *c, double *out, double *lse, double *dq,
                            double *dk, double *dv) {
  const bd_rt_attention *const s = &c->s;
  double *const p = calloc((size_t)s->tk, sizeof *p), *const dp = calloc((size_t)s->tk, sizeof *dp);
  double *const mask = calloc((size_t)s->tk, sizeof *mask);
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t h = 0; h < s->heads; h++)
      for (int64_t i = 0; i < s->tq; i++) {
        const int64_t q = b * s->q_batch + i * s->q_row + h * s->d;
        const int64_t k = b * s->k_batch + h / (s->heads / s->kv_heads) * s->d;
        const int64_t seen = s->causal && i + 1 < s->tk ? i + 1 : s->tk;
        double most = -INFINITY, sum = 0, inner = 0;
        for (int64_t j = 0; j < seen; j++) {
          p[j] = 0;
          for (int64_t e = 0; e < s->d; e++)
            p[j] += (double)c->q[q + e] * c->k[k + j * s->k_row + e];
          p[j] *= s->scale;
          most = p[j] > most ? p[j] : most;
          mask[j] = 1;
          if (s->dropout > 0)
            mask[j] = uniform(c->random.seed, c->random.step, s->site, (uint32_t)c->random.call,
                              (uint64_t)(s->first_sample + b),
                              (uint64_t)(((s->first_head + h) * s->tq + i) * s->tk + j)) <
                              (double)s->dropout
                          ? 0
                          : 1 / (1 - (double)s->dropout);
        }
        for (int64_t j = 0; j < seen; j++)
          sum += p[j] = exp(p[j] - most);
        lse[b * s->lse_batch + i * s->lse_row + h] = most + log(sum);
        for (int64_t j = 0; j < seen; j++) {
          p[j] /= sum;
          dp[j] = 0;
          for (int64_t e = 0; e < s->d; e++) {
            out[q + e] += p[j] * mask[j] * c->v[k + j * s->k_row + e];
            dv[k + j * s->k_row + e] += p[j] * mask[j] * c->dout[q + e];
            dp[j] += mask[j] * c->dout[q + e] * c->v[k + j * s->k_row + e];
          }
          inner += p[j] * dp[j];
        }
        for (int64_t j = 0; j < seen; j++)
          for (int64_t e = 0; e < s->d; e++) {
            const double ds = p[j] * (dp[j] - inner) * s->scale;
            dq[q + e] += ds * c->k[k + j * s->k_row + e];
            dk[k + j * s->k_row + e] += ds * c->q[q + e];
          }
      }
  free(p), free(dp), free(mask);
}

// Halves of the same numbers, and what comes of them, against attention on floats.
static void check_half_attention(bd_rt *rt, int dtype, const attention_case *c, void *workspace) {
  bd_rt_attention s = c->s;
  const int64_t sizes[4] = {c->q_size, c->k_size, c->k_size, c->q_size};
  float *const values[4] = {c->q, c->k, c->v, c->dout};
  uint16_t *halves[4];
  for (int i = 0; i < 4; i++) {
    halves[i] = to_halves(dtype, values[i], sizes[i]);
    from_halves(dtype, halves[i], sizes[i], values[i]);
  }
  float *const lse = cleared(c->lse_size), *const half_lse = cleared(c->lse_size);
  float *wide[4], *got[4]; // out, dq, dk, dv
  uint16_t *half[4];
  const int64_t results[4] = {c->q_size, c->q_size, c->k_size, c->k_size};
  for (int i = 0; i < 4; i++) {
    wide[i] = cleared(results[i]), got[i] = cleared(results[i]);
    half[i] = to_halves(dtype, got[i], results[i]);
  }
  bd_rt_attention_forward(rt, &s, &c->random, c->q, c->k, c->v, wide[0], lse, workspace);
  s.dtype = dtype;
  bd_rt_attention_forward(rt, &s, &c->random, halves[0], halves[1], halves[2], half[0], half_lse,
                          workspace);
  check_near("lse of halves", half_lse, lse, c->lse_size, 1e-5);
  from_halves(dtype, half[0], results[0], got[0]);
  check_near("attention of halves", got[0], wide[0], results[0], rounding_of(dtype));
  s.dtype = BD_RT_F32; // from the rounded output, as the halves' gradient
  bd_rt_attention_backward(rt, &s, &c->random, c->dout, c->q, c->k, c->v, got[0], lse, wide[1],
                           wide[2], wide[3], workspace);
  s.dtype = dtype;
  bd_rt_attention_backward(rt, &s, &c->random, halves[3], halves[0], halves[1], halves[2], half[0],
                           half_lse, half[1], half[2], half[3], workspace);
  for (int i = 1; i < 4; i++) {
    from_halves(dtype, half[i], results[i], got[i]);
    check_near("attention's gradient of halves", got[i], wide[i], results[i],
               1.1 * rounding_of(dtype));
  }
  for (int i = 0; i < 4; i++)
    free(halves[i]), free(half[i]), free(wide[i]), free(got[i]);
  free(lse), free(half_lse);
}

static void check_attention(bd_rt *rt, bd_rt_attention s, int64_t pad_heads) {
  attention_case c = {.s = s, .random = {.seed = 77, .step = 3, .call = 5}};
  c.s.q_row = (s.heads + pad_heads) * s.d, c.s.q_batch = s.tq * c.s.q_row;
  c.s.k_row = (s.kv_heads + pad_heads) * s.d, c.s.k_batch = s.tk * c.s.k_row;
  c.s.lse_row = s.heads + pad_heads, c.s.lse_batch = s.tq * c.s.lse_row;
  c.q_size = s.batch * c.s.q_batch, c.k_size = s.batch * c.s.k_batch;
  c.lse_size = s.batch * c.s.lse_batch;
  c.q = numbers(c.q_size, 4), c.k = numbers(c.k_size, 5), c.v = numbers(c.k_size, 6);
  c.dout = numbers(c.q_size, 7);
  double *const out = zeros(c.q_size), *const lse = zeros(c.lse_size);
  double *const dq = zeros(c.q_size), *const dk = zeros(c.k_size);
  double *const dv = zeros(c.k_size);
  naive_attention(&c, out, lse, dq, dk, dv);
  float *const got = cleared(c.q_size), *const got_lse = cleared(c.lse_size);
  float *const got_dq = cleared(c.q_size), *const got_dk = cleared(c.k_size);
  float *const got_dv = cleared(c.k_size);
  void *const workspace = malloc((size_t)bd_rt_attention_workspace_bytes());
  bd_rt_attention_forward(rt, &c.s, &c.random, c.q, c.k, c.v, got, got_lse, workspace);
  bd_rt_attention_backward(rt, &c.s, &c.random, c.dout, c.q, c.k, c.v, got, got_lse, got_dq, got_dk,
                           got_dv, workspace);
  check_near_double("attention", got, out, c.q_size, 2e-5);
  check_near_double("attention lse", got_lse, lse, c.lse_size, 2e-5);
  check_near_double("attention dq", got_dq, dq, c.q_size, 1e-4);
  check_near_double("attention dk", got_dk, dk, c.k_size, 1e-4);
  check_near_double("attention dv", got_dv, dv, c.k_size, 1e-4);
  check_half_attention(rt, BD_RT_F16, &c, workspace);
  check_half_attention(rt, BD_RT_BF16, &c, workspace);
  free(out), free(lse), free(dq), free(dk), free(dv), free(got), free(got_lse), free(got_dq);
  free(got_dk), free(got_dv), free(workspace), free(c.q), free(c.k), free(c.v), free(c.dout);
}

static void check_attentions(bd_rt *rt) {
  static const bd_rt_attention cases[] = {
      {.batch = 2, .tq = 5, .tk = 5, .heads = 3, .kv_heads = 3, .d = 8, .causal = 1},
      {.batch = 1, .tq = 200, .tk = 200, .heads = 4, .kv_heads = 2, .d = 16, .causal = 1},
      {.batch = 2, .tq = 130, .tk = 70, .heads = 2, .kv_heads = 1, .d = 12},
      {.batch = 1, .tq = 70, .tk = 300, .heads = 2, .kv_heads = 2, .d = 12},
      {.batch = 1, .tq = 70, .tk = 300, .heads = 2, .kv_heads = 2, .d = 12, .causal = 1},
      {.batch = 2,
       .tq = 129,
       .tk = 129,
       .heads = 2,
       .kv_heads = 2,
       .d = 4,
       .causal = 1,
       .dropout = 0.3f,
       .site = 9,
       .first_sample = 6,
       .first_head = 2,
       .total_heads = 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int64_t pad = 0; pad < 2; pad++) {
      bd_rt_attention s = cases[i];
      s.scale = 3.0f / sqrtf((float)s.d);
      check_attention(rt, s, pad);
    }
}

static void step(bd_rt *rt) {
  check_masks();
  check_attentions(rt);
}

int main(int argc, char **argv) {
  return check_run_step(argv[0], step, argc > 1 ? 3 : 2);
}
