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
                      uint64_t block, int word) {
  uint32_t c[4] = {(uint32_t)block, (uint32_t)((block >> 32) & 0xFFFF) | call << 16,
                   (uint32_t)sample, (uint32_t)step};
  uint32_t k[2] = {(uint32_t)seed ^ site * 0x9E3779B9u, (uint32_t)(seed >> 32)};
  for (int i = 0; i < 10; i++) {
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                              (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
  }
  return (c[word] >> 8) * 0x1p-24;
}

// Of the probability of query i and key j.
static double uniform_of(const bd_rt_attention *s, const bd_rt_random *random, int64_t sample,
                         int64_t head, int64_t i, int64_t j) {
  const int64_t queries = (s->total_queries + 15) / 16 * 8, keys = (s->tk + 15) / 16 * 8;
  const int64_t query = i / 16 * 8 + i % 8, key = j / 16 * 8 + j % 8;
  const int64_t block = (head * queries + query) * keys + key;
  return uniform(random->seed, random->step, s->site, (uint32_t)random->call, (uint64_t)sample,
                 (uint64_t)block, (int)(i / 8 % 2 * 2 + j / 8 % 2));
}

// Masks of two queries and of keys whose blocks cross 2^32; what lies behind stays.
static void check_masks(void) {
  const bd_rt_random random = {.seed = 0x123456789ABCull, .step = 7, .call = 3};
  const int64_t first = (int64_t)UINT32_MAX - 15;
  const bd_rt_dropout_site site = bd_rt_dropout_at(&random, 5, 11, 0.4f);
  for (int64_t blocks = 0; blocks <= 32; blocks += 8) {
    float mask[2][65];
    for (int i = 0; i < 2 * 65; i++)
      mask[i / 65][i % 65] = -1;
    bd_rt_dropout_rows(&site, first, blocks, mask[0], mask[1]);
    int good = 1;
    for (int64_t i = 0; i < 2; i++)
      for (int64_t j = 0; j < 65; j++) {
        const uint64_t block = (uint64_t)(first + j / 16 * 8 + j % 8);
        const double u = uniform(random.seed, 7, 5, 3, 11, block, (int)(2 * i + j / 8 % 2));
        good &= mask[i][j] == (j >= 2 * blocks ? -1 : u < 0.4f ? 0 : 1 / (1 - 0.4f));
      }
    check_true("dropout mask", good);
  }
}

// Bounds of probability 0 and of what is 1 in f32 drop nothing and all.
static void check_bounds(void) {
  const bd_rt_random random = {.seed = 5};
  float mask[2][64];
  for (int all = 0; all < 2; all++) {
    bd_rt_dropout_site site = bd_rt_dropout_at(&random, 1, 2, (float)all);
    site.keep = 3;
    bd_rt_dropout_rows(&site, 0, 32, mask[0], mask[1]);
    int good = 1;
    for (int i = 0; i < 128; i++)
      good &= mask[i / 64][i % 64] == (all ? 0 : 3);
    check_true("dropout of none and of all", good);
  }
}

typedef struct attention_case {
  bd_rt_attention s;
  bd_rt_random random;
  int64_t q_size, k_size, v_size, out_size, lse_size, bias_size, sinks_size; // without sinks 0
  float *q, *k, *v, *dout, *biases, *sinks;
} attention_case;

static int64_t bias_at(const bd_rt_attention *s, int64_t h, int64_t i, int64_t j) {
  int64_t place = j - i + (s->causal ? s->places - 1 : (s->places - 1) / 2);
  if (place < 0) place = 0;
  if (place > s->places - 1) place = s->places - 1;
  return h * s->places + place;
}

// Output, log-sum-exp and the gradients of sum(dout * out), in double.
static void naive_attention(const attention_case *c, double *out, double *lse, double *dq,
                            double *dk, double *dv, double *dbiases) {
  const bd_rt_attention *const s = &c->s;
  double *const p = calloc((size_t)s->tk, sizeof *p), *const dp = calloc((size_t)s->tk, sizeof *dp);
  double *const mask = calloc((size_t)s->tk, sizeof *mask);
  double *const slopes = calloc((size_t)s->tk, sizeof *slopes);
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t h = 0; h < s->heads; h++)
      for (int64_t row = 0; row < s->tq; row++) {
        const int64_t q = b * s->q_batch + row * s->q_row + h * s->d;
        const int64_t o = b * s->out_batch + row * s->out_row + h * s->d_v;
        const int64_t k = b * s->k_batch + h / (s->heads / s->kv_heads) * s->d;
        const int64_t v = b * s->v_batch + h / (s->heads / s->kv_heads) * s->d_v;
        const int64_t i = s->first_query + row;
        const int64_t seen = s->causal && i + 1 < s->tk ? i + 1 : s->tk;
        const int64_t from = s->window && i >= s->window ? i + 1 - s->window : 0;
        double most = -INFINITY, sum = 0, inner = 0;
        for (int64_t j = from; j < seen; j++) {
          p[j] = 0;
          for (int64_t e = 0; e < s->d; e++)
            p[j] += (double)c->q[q + e] * c->k[k + j * s->k_row + e];
          p[j] *= s->scale;
          if (s->softcap > 0) p[j] = s->softcap * tanh(p[j] / s->softcap);
          slopes[j] = s->softcap > 0 ? 1 - p[j] * p[j] / s->softcap / s->softcap : 1;
          if (s->places) p[j] += c->biases[bias_at(s, h, i, j)];
          most = p[j] > most ? p[j] : most;
          mask[j] = 1;
          if (s->dropout > 0)
            mask[j] = uniform_of(s, &c->random, s->first_sample + b, s->first_head + h, i, j) <
                              (double)s->dropout
                          ? 0
                          : 1 / (1 - (double)s->dropout);
        }
        if (c->sinks_size) {
          most = fmax(most, (double)c->sinks[h]);
          sum = exp(c->sinks[h] - most);
        }
        for (int64_t j = from; j < seen; j++)
          sum += p[j] = exp(p[j] - most);
        lse[b * s->lse_batch + row * s->lse_row + h] = most + log(sum);
        for (int64_t j = from; j < seen; j++) {
          p[j] /= sum;
          dp[j] = 0;
          for (int64_t e = 0; e < s->d_v; e++) {
            out[o + e] += p[j] * mask[j] * c->v[v + j * s->v_row + e];
            dv[v + j * s->v_row + e] += p[j] * mask[j] * c->dout[o + e];
            dp[j] += mask[j] * c->dout[o + e] * c->v[v + j * s->v_row + e];
          }
          inner += p[j] * dp[j];
        }
        for (int64_t j = from; j < seen; j++) {
          const double slope = p[j] * (dp[j] - inner), ds = slope * slopes[j] * s->scale;
          if (s->places) dbiases[bias_at(s, h, i, j)] += slope;
          for (int64_t e = 0; e < s->d; e++) {
            dq[q + e] += ds * c->k[k + j * s->k_row + e];
            dk[k + j * s->k_row + e] += ds * c->q[q + e];
          }
        }
      }
  free(p), free(dp), free(mask), free(slopes);
}

// What one direction or the other reads or writes: q, k, v, dout, biases and sinks, which are NULL
// where there are none; out and lse; the gradients of the first three and of biases.
enum { Q, K, V, DOUT, BIASES, SINKS, OPERANDS };
enum { OUT, DQ, DK, DV, RESULTS };

static void forward(bd_rt *rt, const bd_rt_attention *s, const bd_rt_random *random,
                    void *const in[OPERANDS], void *const made[RESULTS], float *lse,
                    void *workspace) {
  if (in[SINKS])
    bd_rt_sink_attention_forward(rt, s, random, in[Q], in[K], in[V], in[SINKS], made[OUT], lse,
                                 workspace);
  else if (s->places)
    bd_rt_relative_attention_forward(rt, s, random, in[Q], in[K], in[V], in[BIASES], made[OUT], lse,
                                     workspace);
  else
    bd_rt_attention_forward(rt, s, random, in[Q], in[K], in[V], made[OUT], lse, workspace);
}

static void backward(bd_rt *rt, const bd_rt_attention *s, const bd_rt_random *random,
                     void *const in[OPERANDS], void *const made[RESULTS], const float *lse,
                     float *dbiases, void *workspace) {
  if (s->places)
    bd_rt_relative_attention_backward(rt, s, random, in[DOUT], in[Q], in[K], in[V], made[OUT], lse,
                                      in[BIASES], made[DQ], made[DK], made[DV], dbiases, workspace);
  else
    bd_rt_attention_backward(rt, s, random, in[DOUT], in[Q], in[K], in[V], made[OUT], lse, made[DQ],
                             made[DK], made[DV], workspace);
}

// Halves of the same numbers, and what comes of them, against attention on floats.
static void check_half_attention(bd_rt *rt, int dtype, const attention_case *c, void *workspace) {
  bd_rt_attention s = c->s;
  const int64_t sizes[OPERANDS] = {c->q_size,   c->k_size,    c->v_size,
                                   c->out_size, c->bias_size, c->sinks_size};
  float *const values[OPERANDS] = {c->q, c->k, c->v, c->dout, c->biases, c->sinks};
  void *floats[OPERANDS] = {0}, *halves[OPERANDS] = {0};
  for (int i = 0; i < OPERANDS && values[i]; i++) {
    halves[i] = to_halves(dtype, values[i], sizes[i]);
    from_halves(dtype, halves[i], sizes[i], values[i]);
    floats[i] = values[i];
  }
  float *const lse = cleared(c->lse_size), *const half_lse = cleared(c->lse_size);
  float *const dbiases = cleared(c->bias_size), *const half_dbiases = cleared(c->bias_size);
  float *got[RESULTS];
  void *wide[RESULTS], *half[RESULTS];
  const int64_t results[RESULTS] = {c->out_size, c->q_size, c->k_size, c->v_size};
  for (int i = 0; i < RESULTS; i++) {
    wide[i] = cleared(results[i]), got[i] = cleared(results[i]);
    half[i] = to_halves(dtype, got[i], results[i]);
  }
  forward(rt, &s, &c->random, floats, wide, lse, workspace);
  s.dtype = dtype;
  forward(rt, &s, &c->random, halves, half, half_lse, workspace);
  check_near("lse of halves", half_lse, lse, c->lse_size, 1e-5);
  from_halves(dtype, half[OUT], results[OUT], got[OUT]);
  check_near("attention of halves", got[OUT], wide[OUT], results[OUT], rounding_of(dtype));
  s.dtype = BD_RT_F32; // from the rounded output, as the halves' gradient
  from_halves(dtype, half[OUT], results[OUT], wide[OUT]);
  backward(rt, &s, &c->random, floats, wide, lse, dbiases, workspace);
  s.dtype = dtype;
  backward(rt, &s, &c->random, halves, half, half_lse, half_dbiases, workspace);
  for (int i = DQ; i < RESULTS; i++) {
    from_halves(dtype, half[i], results[i], got[i]);
    check_near("attention's gradient of halves", got[i], wide[i], results[i],
               1.1 * rounding_of(dtype));
  }
  check_near("gradient of halves of biases", half_dbiases, dbiases, c->bias_size, 1e-4);
  for (int i = 0; i < OPERANDS; i++)
    free(halves[i]);
  for (int i = 0; i < RESULTS; i++)
    free(half[i]), free(wide[i]), free(got[i]);
  free(lse), free(half_lse), free(dbiases), free(half_dbiases);
}

// A pass that keeps all has the bits of attention without dropout.
static void check_keeping(bd_rt *rt, const attention_case *c, void *const in[OPERANDS],
                          void *workspace) {
  bd_rt_attention s = c->s;
  bd_rt_random random = c->random;
  float *const lse = cleared(c->lse_size), *const want_lse = cleared(c->lse_size);
  void *const got[RESULTS] = {cleared(c->out_size)}, *const want[RESULTS] = {cleared(c->out_size)};
  random.keeps_all = 1;
  forward(rt, &s, &random, in, got, lse, workspace);
  s.dropout = 0;
  forward(rt, &s, &c->random, in, want, want_lse, workspace);
  check_true("attention that keeps all",
             !memcmp(got[OUT], want[OUT], (size_t)c->out_size * sizeof(float)) &&
                 !memcmp(lse, want_lse, (size_t)c->lse_size * sizeof(float)));
  free(lse), free(want_lse), free(got[OUT]), free(want[OUT]);
}

static void check_attention(bd_rt *rt, bd_rt_attention s, int64_t pad_heads, int has_sinks) {
  attention_case c = {.s = s, .random = {.seed = 77, .step = 3, .call = 5}};
  c.s.q_row = (s.heads + pad_heads) * s.d, c.s.q_batch = s.tq * c.s.q_row;
  c.s.k_row = (s.kv_heads + pad_heads) * s.d, c.s.k_batch = s.tk * c.s.k_row;
  c.s.v_row = (s.kv_heads + pad_heads) * s.d_v, c.s.v_batch = s.tk * c.s.v_row;
  c.s.out_row = (s.heads + pad_heads) * s.d_v, c.s.out_batch = s.tq * c.s.out_row;
  c.s.lse_row = s.heads + pad_heads, c.s.lse_batch = s.tq * c.s.lse_row;
  c.q_size = s.batch * c.s.q_batch, c.k_size = s.batch * c.s.k_batch;
  c.v_size = s.batch * c.s.v_batch, c.out_size = s.batch * c.s.out_batch;
  c.lse_size = s.batch * c.s.lse_batch;
  c.q = numbers(c.q_size, 4), c.k = numbers(c.k_size, 5), c.v = numbers(c.v_size, 6);
  c.dout = numbers(c.out_size, 7);
  c.bias_size = s.heads * s.places, c.biases = numbers(c.bias_size, 8);
  c.sinks_size = has_sinks ? s.heads : 0, c.sinks = has_sinks ? numbers(s.heads, 9) : NULL;
  // A sink that outweighs all keys, and one that none notices.
  for (int h = 0; h < 2 && h < c.sinks_size; h++)
    c.sinks[h] = h ? -60 : 6;
  double *const out = zeros(c.out_size), *const lse = zeros(c.lse_size);
  double *const dq = zeros(c.q_size), *const dk = zeros(c.k_size);
  double *const dv = zeros(c.v_size);
  double *const dbiases = zeros(c.bias_size);
  naive_attention(&c, out, lse, dq, dk, dv, dbiases);
  float *const got_lse = cleared(c.lse_size), *const got_dbiases = cleared(c.bias_size);
  void *const got[RESULTS] = {cleared(c.out_size), cleared(c.q_size), cleared(c.k_size),
                              cleared(c.v_size)};
  void *const in[OPERANDS] = {c.q, c.k, c.v, c.dout, c.biases, c.sinks};
  void *const workspace = malloc((size_t)(bd_rt_attention_workspace_bytes() +
                                          bd_rt_attention_sums_bytes(s.batch, s.heads, s.places)));
  forward(rt, &c.s, &c.random, in, got, got_lse, workspace);
  backward(rt, &c.s, &c.random, in, got, got_lse, got_dbiases, workspace);
  check_near_double("attention", got[OUT], out, c.out_size, 2e-5);
  check_near_double("attention lse", got_lse, lse, c.lse_size, 2e-5);
  check_near_double("attention dq", got[DQ], dq, c.q_size, 1e-4);
  check_near_double("attention dk", got[DK], dk, c.k_size, 1e-4);
  check_near_double("attention dv", got[DV], dv, c.v_size, 1e-4);
  check_near_double("attention dbiases", got_dbiases, dbiases, c.bias_size, 1e-4);
  if (s.dropout > 0) check_keeping(rt, &c, in, workspace);
  check_half_attention(rt, BD_RT_F16, &c, workspace);
  check_half_attention(rt, BD_RT_BF16, &c, workspace);
  for (int i = 0; i < RESULTS; i++)
    free(got[i]);
  free(out), free(lse), free(dq), free(dk), free(dv), free(dbiases), free(got_lse);
  free(got_dbiases), free(workspace), free(c.q), free(c.k), free(c.v), free(c.dout), free(c.biases);
  free(c.sinks);
}

static void check_attentions(bd_rt *rt) {
  static const bd_rt_attention cases[] = {
      {.batch = 2, .tq = 5, .tk = 5, .heads = 3, .kv_heads = 3, .d = 8, .causal = 1},
      {.batch = 1, .tq = 200, .tk = 200, .heads = 4, .kv_heads = 2, .d = 16, .causal = 1},
      {.batch = 2, .tq = 130, .tk = 70, .heads = 2, .kv_heads = 1, .d = 12},
      {.batch = 1, .tq = 70, .tk = 300, .heads = 2, .kv_heads = 2, .d = 12},
      {.batch = 1, .tq = 70, .tk = 300, .heads = 2, .kv_heads = 2, .d = 12, .causal = 1},
      // Places that all keys share, that most share, and more than there are keys.
      {.batch = 3, .tq = 150, .tk = 150, .heads = 2, .kv_heads = 2, .d = 12, .places = 1},
      {.batch = 2, .tq = 200, .tk = 290, .heads = 4, .kv_heads = 2, .d = 8, .places = 7},
      {.batch = 1, .tq = 70, .tk = 65, .heads = 2, .kv_heads = 2, .d = 8, .places = 255},
      {.batch = 2,
       .tq = 150,
       .tk = 150,
       .heads = 3,
       .kv_heads = 1,
       .d = 4,
       .causal = 1,
       .dropout = 0.2f,
       .site = 2,
       .total_heads = 3,
       .places = 40},
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
      {.batch = 1,
       .tq = 77,
       .tk = 300,
       .heads = 3,
       .kv_heads = 1,
       .d = 8,
       .dropout = 0.2f,
       .site = 4,
       .total_heads = 3},
      // Windows: of a tile, or that end where a tile does; of its own key alone, that no tile
      // skips, of all but one key.
      {.batch = 1,
       .tq = 300,
       .tk = 300,
       .heads = 4,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .window = 64},
      {.batch = 2,
       .tq = 200,
       .tk = 200,
       .heads = 2,
       .kv_heads = 2,
       .d = 12,
       .causal = 1,
       .window = 65},
      {.batch = 1,
       .tq = 193,
       .tk = 250,
       .heads = 2,
       .kv_heads = 1,
       .d = 8,
       .causal = 1,
       .window = 66},
      {.batch = 1,
       .tq = 130,
       .tk = 130,
       .heads = 2,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .window = 1},
      {.batch = 2, .tq = 40, .tk = 40, .heads = 2, .kv_heads = 2, .d = 8, .causal = 1, .window = 7},
      {.batch = 1,
       .tq = 129,
       .tk = 129,
       .heads = 2,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .window = 128},
      {.batch = 2,
       .tq = 260,
       .tk = 260,
       .heads = 3,
       .kv_heads = 1,
       .d = 4,
       .causal = 1,
       .dropout = 0.3f,
       .site = 2,
       .total_heads = 3,
       .window = 100},
      // Values narrower and wider than keys.
      {.batch = 2, .tq = 70, .tk = 70, .heads = 2, .kv_heads = 2, .d = 24, .d_v = 16, .causal = 1},
      {.batch = 1, .tq = 130, .tk = 200, .heads = 4, .kv_heads = 2, .d = 8, .d_v = 20},
      {.batch = 1,
       .tq = 150,
       .tk = 150,
       .heads = 3,
       .kv_heads = 1,
       .d = 12,
       .d_v = 5,
       .causal = 1,
       .dropout = 0.2f,
       .site = 2,
       .total_heads = 3,
       .window = 80},
      {.batch = 2,
       .tq = 90,
       .tk = 90,
       .heads = 2,
       .kv_heads = 2,
       .d = 8,
       .d_v = 12,
       .causal = 1,
       .places = 17},
      // Capped scores: far below the cap, near it and at it.
      {.batch = 2,
       .tq = 90,
       .tk = 90,
       .heads = 4,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .softcap = 50},
      {.batch = 1, .tq = 70, .tk = 150, .heads = 2, .kv_heads = 1, .d = 12, .softcap = 2},
      {.batch = 1,
       .tq = 260,
       .tk = 260,
       .heads = 3,
       .kv_heads = 1,
       .d = 4,
       .causal = 1,
       .dropout = 0.3f,
       .site = 2,
       .total_heads = 3,
       .window = 100,
       .softcap = 0.5f},
      // Parts of the queries: a tile begins where one of all does or not; the first and the last.
      {.batch = 2, .tq = 64, .tk = 200, .heads = 2, .kv_heads = 1, .d = 8, .causal = 1},
      {.batch = 2, .tq = 50, .tk = 200, .heads = 4, .kv_heads = 2, .d = 8, .causal = 1},
      {.batch = 1, .tq = 70, .tk = 300, .heads = 2, .kv_heads = 2, .d = 12, .causal = 1},
      {.batch = 1, .tq = 90, .tk = 300, .heads = 2, .kv_heads = 2, .d = 8, .places = 31},
      {.batch = 2,
       .tq = 80,
       .tk = 240,
       .heads = 2,
       .kv_heads = 1,
       .d = 8,
       .causal = 1,
       .dropout = 0.3f,
       .site = 4,
       .total_heads = 2,
       .places = 17},
      {.batch = 2,
       .tq = 75,
       .tk = 300,
       .heads = 4,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .window = 30},
      {.batch = 1,
       .tq = 50,
       .tk = 200,
       .heads = 2,
       .kv_heads = 2,
       .d = 8,
       .causal = 1,
       .window = 90},
      {.batch = 1,
       .tq = 80,
       .tk = 240,
       .heads = 2,
       .kv_heads = 1,
       .d = 8,
       .causal = 1,
       .dropout = 0.3f,
       .site = 4,
       .total_heads = 2,
       .window = 70},
  };
  const size_t count = sizeof cases / sizeof cases[0], parts = 8;
  static const int64_t first[] = {0, 37, 230, 210, 160, 225, 100, 160};
  for (size_t i = 0; i < count; i++)
    for (int64_t pad = 0; pad < 2; pad++) {
      bd_rt_attention s = cases[i];
      s.total_queries = s.tq;
      if (!s.d_v) s.d_v = s.d;
      if (i + parts >= count) {
        s.first_query = first[i + parts - count];
        s.total_queries = s.tk;
      }
      s.scale = 3.0f / sqrtf((float)s.d);
      check_attention(rt, s, pad, 0);
      if (!s.places) check_attention(rt, s, pad, 1);
    }
}

static void step(bd_rt *rt) {
  check_masks();
  check_bounds();
  check_attentions(rt);
}

int main(int argc, char **argv) {
  return check_run_step(argv[0], step, argc > 1 ? 3 : 2);
}
