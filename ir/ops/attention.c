// attention(q, k, v) -> out, lse: softmax(scale q k') v per head, with dropout on the
// probabilities. Query head h reads key/value head h / (heads / kv_heads). Causal: query i sees
// keys j <= i; with a window w, of those the last w. With a softcap c a score s is c tanh(s / c).
// relative_attention(q, k, v, bias) adds bias[h, place] to the scores: key j is at place
// j - i + far of query i, or the nearest that there is; the last place is the query's own where it
// is causal, else as far behind as the first is before.
#include "ir/ops/ops.h"
#include <math.h>

typedef struct shape {
  int64_t batch, tq, tk, heads, kv_heads, d, d_v; // d_v: the width of values and of what they give
  int64_t window;                                 // 0: none
  int64_t chunk;                  // queries are every other chunk of all; 0: they are all
  bool mirrored;                  // ... the second ones, from the last on
  int64_t places, far;            // of biases; 0: there are none
  double scale, dropout, softcap; // softcap 0: scores stay
  bool causal;
} shape;

static shape shape_of(const bd_op *op, const bd_tensor *in, const bd_tensor *bias) {
  const int64_t *dims = in[0].type.dims;
  bool causal = bd_op_int(op, "causal", 0) != 0;
  int64_t places = bias ? bias->type.dims[1] : 0;
  return (shape){
      .batch = dims[0],
      .tq = dims[1],
      .heads = dims[2],
      .d = dims[3],
      .d_v = in[2].type.dims[3],
      .tk = in[1].type.dims[1],
      .kv_heads = in[1].type.dims[2],
      .scale = bd_op_real(op, "scale", 1 / sqrt((double)dims[3])),
      .dropout = bd_op_real(op, "dropout", 0),
      .softcap = bd_op_real(op, "softcap", 0),
      .window = bd_op_int(op, "window", 0),
      .chunk = bd_op_int(op, "chunk", 0),
      .mirrored = bd_op_int(op, "half", 0) != 0,
      .places = places,
      .far = causal ? places - 1 : places / 2,
      .causal = causal,
  };
}

// The number among all queries of query i. Of 2n chunks of all the op has n: c is number 2c of
// them, or where it is mirrored 2n - 1 - 2c.
static int64_t place_of(const shape *s, int64_t i) {
  if (!s->chunk) return i;
  int64_t before = i / s->chunk * s->chunk, here = i % s->chunk;
  return here + (s->mirrored ? 2 * s->tq - s->chunk - 2 * before : 2 * before);
}
static int64_t all_queries(const shape *s) {
  return s->chunk ? 2 * s->tq : s->tq;
}
// Query i sees keys from the first to before the end.
static int64_t first_seen(const shape *s, int64_t i) {
  return s->window > 0 && i >= s->window ? i + 1 - s->window : 0;
}
static int64_t end_seen(const shape *s, int64_t i) {
  int64_t end = place_of(s, i) + 1;
  return s->causal && end < s->tk ? end : s->tk;
}
static int64_t q_row(const shape *s, int64_t b, int64_t i, int64_t h) {
  return (b * s->tq + i) * s->heads + h;
}
static int64_t k_row(const shape *s, int64_t b, int64_t j, int64_t h) {
  return (b * s->tk + j) * s->kv_heads + h / (s->heads / s->kv_heads);
}
static int64_t bias_at(const shape *s, int64_t h, int64_t i, int64_t j) {
  int64_t place = j - place_of(s, i) + s->far;
  place = place < 0 ? 0 : place >= s->places ? s->places - 1 : place;
  return h * s->places + place;
}
static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}
static double score_of(const shape *s, const double *q, const double *k, const bd_tensor *bias,
                       int64_t h, int64_t i, int64_t j) {
  double score = s->scale * dot(q, k, s->d);
  if (s->softcap > 0) score = s->softcap * tanh(score / s->softcap);
  return bias ? score + bias->data[bias_at(s, h, i, j)] : score;
}
// By what it was before it was capped.
static double score_slope(const shape *s, double score) {
  if (s->softcap == 0) return 1;
  double share = score / s->softcap;
  return 1 - share * share;
}
// What a probability is multiplied by: 0 when dropped, else 1/(1-p).
static double kept(const bd_op *op, const bd_random_key *key, const shape *s, int64_t b, int64_t h,
                   int64_t i, int64_t j) {
  if (s->dropout == 0) return 1;
  int64_t element = bd_random_score(h, place_of(s, i), j, all_queries(s), s->tk);
  return bd_dropped(op, key, s->dropout, b, element) ? 0 : 1 / (1 - s->dropout);
}

// One query row: its scores, their log-sum-exp, then the weighted sum of values.
static void eval_row(const bd_op *op, const bd_tensor *in, const bd_tensor *bias, bd_tensor *out,
                     const bd_random_key *key, const shape *s, double *score, int64_t b, int64_t i,
                     int64_t h) {
  int64_t first = first_seen(s, i), end = end_seen(s, i), row = q_row(s, b, i, h);
  double top = -INFINITY, sum = 0;
  for (int64_t j = first; j < end; j++) {
    score[j] =
        score_of(s, in[0].data + row * s->d, in[1].data + k_row(s, b, j, h) * s->d, bias, h, i, j);
    if (score[j] > top) top = score[j];
  }
  for (int64_t j = first; j < end; j++)
    sum += exp(score[j] - top);
  double lse = top + log(sum);
  out[1].data[row] = lse;
  for (int64_t j = first; j < end; j++) {
    double weight = exp(score[j] - lse) * kept(op, key, s, b, h, i, j);
    const double *v = in[2].data + k_row(s, b, j, h) * s->d_v;
    for (int64_t c = 0; c < s->d_v; c++)
      out[0].data[row * s->d_v + c] += weight * v[c];
  }
}

static void eval(const bd_op *op, const bd_tensor *in, const bd_tensor *bias, bd_tensor *out,
                 const bd_random_key *key, bd_arena *scratch) {
  shape s = shape_of(op, in, bias);
  double *score = BD_NEW_ARRAY(scratch, double, s.tk);
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t i = 0; i < s.tq; i++)
      for (int64_t h = 0; h < s.heads; h++)
        eval_row(op, in, bias, out, key, &s, score, b, i, h);
}

BD_EVAL(attention) {
  eval(op, in, NULL, out, key, scratch);
}

BD_EVAL(relative_attention) {
  eval(op, in, &in[3], out, key, scratch);
}

// Operands: dout, q, k, v, out, lse, bias. With P the probabilities and m the mask over 1-p:
// dP = m dout v', dS = P (dP - rowsum(dout out)), dq = scale dS k, dk = scale dS' q, dv = (m P)'
// dout; dbias is what dS of all samples adds up to at each place.
static void eval_grad(const bd_op *op, const bd_tensor *in, const bd_tensor *bias, bd_tensor *out,
                      const bd_random_key *key) {
  shape s = shape_of(op, in + 1, bias);
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t i = 0; i < s.tq; i++)
      for (int64_t h = 0; h < s.heads; h++) {
        int64_t row = q_row(&s, b, i, h);
        const double *dout = in[0].data + row * s.d_v, *q = in[1].data + row * s.d;
        double total = dot(dout, in[4].data + row * s.d_v, s.d_v);
        for (int64_t j = first_seen(&s, i); j < end_seen(&s, i); j++) {
          int64_t at = k_row(&s, b, j, h);
          const double *k = in[2].data + at * s.d, *v = in[3].data + at * s.d_v;
          double score = score_of(&s, q, k, bias, h, i, j), p = exp(score - in[5].data[row]);
          double mask = kept(op, key, &s, b, h, i, j);
          double slope = p * (mask * dot(dout, v, s.d_v) - total);
          double ds = s.scale * slope * score_slope(&s, score);
          if (bias) out[3].data[bias_at(&s, h, i, j)] += slope;
          for (int64_t c = 0; c < s.d; c++) {
            out[0].data[row * s.d + c] += ds * k[c];
            out[1].data[at * s.d + c] += ds * q[c];
          }
          for (int64_t c = 0; c < s.d_v; c++)
            out[2].data[at * s.d_v + c] += mask * p * dout[c];
        }
      }
}

BD_EVAL(attention_grad) {
  (void)scratch;
  eval_grad(op, in, NULL, out, key);
}

BD_EVAL(relative_attention_grad) {
  (void)scratch;
  eval_grad(op, in, &in[6], out, key);
}

bd_status bd_attention_gradient(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id din[4]) {
  bool biased = kind == BD_OP_RELATIVE_ATTENTION_GRAD;
  const bd_id in[7] = {g->dout[0],
                       bd_gradient_operand(g, 0),
                       bd_gradient_operand(g, 1),
                       bd_gradient_operand(g, 2),
                       bd_gradient_result(g, 0),
                       bd_gradient_result(g, 1),
                       biased ? bd_gradient_operand(g, 3) : BD_NO_ID};
  BD_TRY(bd_gradient_like(ctx, g, kind, biased ? 7 : 6, in, 0, NULL, din));
  for (int i = 0; i < 3; i++)
    if (g->need[i]) g->din[i] = din[i];
  return BD_OK;
}

BD_GRADIENT(attention) {
  bd_id din[4];
  return bd_attention_gradient(ctx, g, BD_OP_ATTENTION_GRAD, din);
}

BD_GRADIENT(relative_attention) {
  bd_id din[4];
  BD_TRY(bd_attention_gradient(ctx, g, BD_OP_RELATIVE_ATTENTION_GRAD, din));
  return g->need[3] ? bd_gradient_as_operand(ctx, g, 3, din[3], &g->din[3]) : BD_OK;
}
