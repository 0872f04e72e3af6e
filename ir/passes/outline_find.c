#include "ir/passes/outline.h"
#include "ir/passes/signature.h"

#include <stdlib.h>
#include <string.h>

// How many periods are tried in one range, the likeliest first; the shortest worth a function; and
// how deep ranges are searched again.
enum { MAX_TRIES = 16, MIN_PERIOD = 2, MAX_DEPTH = 24 };

typedef struct finder {
  bd_ctx *ctx;
  const bd_function *function;
  const int *last_use;
  uint64_t *signature; // per op
  int *width;          // per op: values alive just before it, weights and parameters aside
  int *weights_before; // per op: how many ops before it read a weight
  bd_piece *pieces;
  int piece_count, shape_count;
  int depth; // of ranges being cut
} finder;

typedef struct run {
  int period, first, length; // ops i and i + period are alike for i in [first, first + length)
} run;

static void measure(finder *f) {
  const bd_function *function = f->function;
  int n = function->op_count;
  bool *weight = BD_NEW_ARRAY(f->ctx->arena, bool, function->value_count);
  for (int i = 0; i < function->param_count; ++i)
    weight[function->params[i]] = function->is_weight && function->is_weight[i];
  f->signature = BD_NEW_ARRAY(f->ctx->arena, uint64_t, n);
  f->width = BD_NEW_ARRAY(f->ctx->arena, int, n + 2);
  f->weights_before = BD_NEW_ARRAY(f->ctx->arena, int, n + 1);
  for (int i = 0; i < n; ++i) {
    const bd_op *op = &function->ops[i];
    bool reads_weight = false;
    f->signature[i] = bd_op_signature(function, op, false);
    for (int k = 0; k < op->in_count; ++k)
      reads_weight = reads_weight || weight[op->in[k]];
    f->weights_before[i + 1] = f->weights_before[i] + reads_weight;
    for (int r = 0; r < op->out_count; ++r) {
      int last = f->last_use[op->out[r]];
      if (last <= i) continue;
      ++f->width[i + 1];
      --f->width[last + 1];
    }
  }
  for (int i = 1; i <= n; ++i)
    f->width[i] += f->width[i - 1];
}

// A hash of some ops in a row, and where it stands.
typedef struct window {
  uint64_t hash;
  int at;
} window;

static int by_hash(const void *a, const void *b) {
  const window *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

// Votes for the distance between each window and its next equal one.
static void vote(finder *f, int first, int end, int wide, int *votes) {
  int count = end - first - wide + 1;
  if (count < 2) return;
  window *windows = BD_NEW_ARRAY(f->ctx->arena, window, count);
  for (int i = 0; i < count; ++i)
    windows[i] = (window){
        bd_hash_bytes(BD_HASH_START, f->signature + first + i, (size_t)wide * sizeof *f->signature),
        first + i};
  qsort(windows, (size_t)count, sizeof *windows, by_hash);
  for (int i = 1; i < count; ++i)
    if (windows[i].hash == windows[i - 1].hash) ++votes[windows[i].at - windows[i - 1].at];
}

// The period with the most ops behind its votes; the shorter of equals. 0: none is left.
static int take_best(int *votes, int longest) {
  int best = 0;
  for (int period = MIN_PERIOD; period <= longest; ++period)
    if (votes[period] > 0 && (best == 0 || votes[period] > votes[best])) best = period;
  if (best) votes[best] = 0;
  return best;
}

// The longest run of `period` in [first, end) whose periods read weights.
static run find_longest(const finder *f, int first, int end, int period) {
  run best = {.period = period};
  int start = first;
  for (int i = first; i + period <= end; ++i) {
    if (i + period < end && f->signature[i] == f->signature[i + period]) continue;
    bool weighty = f->weights_before[start + period] > f->weights_before[start];
    if (weighty && i - start > best.length) {
      best.first = start;
      best.length = i - start;
    }
    start = i + 1;
  }
  return best;
}

// Whole repetitions beyond the first, in ops: what outlining saves.
static int saved_ops(run r) {
  return r.length / r.period * r.period;
}

static run find_run(finder *f, int first, int end) {
  static const int widths[] = {1, 4, 16};
  int longest = (end - first) / 2;
  run best = {0};
  if (longest < MIN_PERIOD) return best;
  int *votes = BD_NEW_ARRAY(f->ctx->arena, int, end - first + 1);
  for (int i = 0; i < 3; ++i)
    vote(f, first, end, widths[i], votes);
  for (int tries = 0; tries < MAX_TRIES; ++tries) {
    int period = take_best(votes, longest);
    if (period == 0) break;
    run found = find_longest(f, first, end, period);
    int gain = saved_ops(found), top = best.period ? saved_ops(best) : 0;
    if (gain > top || (gain == top && gain > 0 && period < best.period)) best = found;
  }
  return best;
}

// Where the first repetition starts: of the offsets that lose none, the one where the fewest values
// cross from each repetition to the next.
static int find_phase(const finder *f, run r) {
  int slack = r.length % r.period, best = r.first;
  for (int start = r.first; start <= r.first + slack; ++start)
    if (f->width[start + r.period] < f->width[best + r.period]) best = start;
  return best;
}

static void add_piece(finder *f, int first, int count, int shape) {
  if (count > 0) f->pieces[f->piece_count++] = (bd_piece){first, count, shape};
}

static void cut(finder *f, int first, int end);

// Groups neighbouring repetitions that truly compute alike; a lone one joins what stands around it.
static void cut_run(finder *f, int first, int end, run r) {
  int start = find_phase(f, r), total = (r.first + r.length - start) / r.period + 1;
  int plain = first, found = 0;
  for (int i = 0; i < total;) {
    int at = start + i * r.period, same = 1;
    while (i + same < total &&
           bd_outline_alike(f->ctx, f->function, f->last_use, at, at + same * r.period, r.period))
      ++same;
    i += same;
    if (same < 2) continue;
    if (found++)
      add_piece(f, plain, at - plain, f->shape_count++);
    else
      cut(f, plain, at);
    int shape = f->shape_count++;
    for (int k = 0; k < same; ++k)
      add_piece(f, at + k * r.period, r.period, shape);
    plain = at + same * r.period;
  }
  if (found)
    cut(f, plain, end);
  else
    add_piece(f, plain, end - plain, f->shape_count++);
}

// What is left around a run is searched in its turn, so many different runs nest: a bound on the
// depth keeps stack and time small.
static void cut(finder *f, int first, int end) {
  run r = {0};
  if (f->depth < MAX_DEPTH) r = find_run(f, first, end);
  ++f->depth;
  if (r.period && saved_ops(r) > 0)
    cut_run(f, first, end, r);
  else
    add_piece(f, first, end - first, f->shape_count++);
  --f->depth;
}

int bd_outline_find(bd_ctx *ctx, const bd_function *function, bd_piece **out_pieces) {
  finder f = {.ctx = ctx, .function = function, .last_use = bd_outline_last_uses(ctx, function)};
  f.pieces = BD_NEW_ARRAY(ctx->arena, bd_piece, function->op_count + 1);
  measure(&f);
  cut(&f, 0, function->op_count);
  *out_pieces = f.pieces;
  return f.piece_count;
}
