// What no pipeline of whole layers within its devices' caps beats, against every pipeline of small
// instances: all cuts, sizes, meshes and options of layers, run pass by pass.
#include "planner/full/whole.h"
#include "planner/step/step.h"
#include "tests/unit/random.h"
// cmocka.h wants these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum {
  TRIALS = 6000,
  MOST_KINDS = 2,
  MOST_MODES = 3,
  OPTIONS = 2,
  MOST_LAYERS = 5,
  LEVELS = 3,
  PRICES = 3,
  MOST_SHARES = 64
};

typedef struct option {
  bd_stage_seconds seconds;
  double fixed, tape;
} option;

// A mesh of so many devices. Two modes may be of one size.
typedef struct instance {
  bd_schedule schedule;
  int chunks, micro_batches, devices, unit, kinds, layers, modes, size_count;
  int calls[MOST_KINDS], kind_of[MOST_LAYERS];
  int size_of[MOST_MODES], size[MOST_MODES];
  option options[MOST_KINDS][MOST_MODES][OPTIONS];
  double workspace[MOST_KINDS][MOST_MODES], handing[MOST_MODES], cap;
  double changing[MOST_MODES]; // per size: see bd_whole
  double tie[MOST_MODES];      // per size: see bd_whole
  // A weight that layers share.
  int uses[MOST_KINDS];
  double once, each;
} instance;

static double some(unsigned most) {
  return (double)random_below(most);
}

static void make_options(instance *in, int mode) {
  double size = in->size[in->size_of[mode]], scale = size < in->unit ? 1 : in->unit / size;
  bool alike = random_below(2); // weight passes are the same part of every option
  // Some meshes have no time for layers of one kind.
  double hampered[MOST_KINDS] = {1, 1};
  if (!random_below(16)) hampered[random_below(MOST_KINDS)] = 50;
  if (size < in->unit) hampered[0] = 1000;
  for (int k = 0; k < in->kinds; k++) {
    in->workspace[k][mode] = some(4);
    for (int o = 0; o < OPTIONS; o++) {
      option *out = &in->options[k][mode][o];
      double slower = scale * hampered[k];
      double forward = slower * (1 + some(4)), backward = slower * (1 + some(8)),
             sync = scale * some(4);
      out->seconds =
          (bd_stage_seconds){forward, backward, backward * some(10) / 10, sync, sync * some(4) / 3};
      if (alike) out->seconds.backward = 3 * forward;
      if (alike) out->seconds.weight = forward;
      out->fixed = 1 + some(6);
      out->tape = some(7);
    }
  }
}

static void make_instance(instance *in) {
  memset(in, 0, sizeof *in);
  in->schedule = (bd_schedule)random_below(BD_SCHEDULE_COUNT);
  in->chunks = in->schedule == BD_SCHEDULE_INTERLEAVED ? 2 : 1;
  in->micro_batches = 1 + (int)random_below(8);
  in->unit = random_below(4) ? 1 : 1000;
  in->devices = (1 + (int)random_below(4)) * in->unit + (int)random_below(2);
  in->kinds = 1 + (int)random_below(MOST_KINDS);
  int most = 2 + (int)random_below(MOST_LAYERS - 1);
  for (int i = 0; i < most; i++) {
    int kind = (int)random_below((unsigned)in->kinds);
    in->calls[kind]++;
    in->kind_of[in->layers++] = kind;
  }
  in->modes = 1 + (int)random_below(MOST_MODES);
  for (int m = 0; m < in->modes; m++) {
    int size = (int)random_below((unsigned)(in->devices / in->unit + 1)) * in->unit, at = 0;
    if (!size) size = 1;
    while (at < in->size_count && in->size[at] != size)
      at++;
    if (at == in->size_count) in->size[in->size_count++] = size;
    in->size_of[m] = at;
    make_options(in, m);
  }
  for (int i = 0; i < in->size_count; i++) {
    in->handing[i] = random_below(3) ? 0 : 0.1 * (1 + some(4));
    in->changing[i] = random_below(2) ? 0 : 0.2 * (1 + some(4));
    in->tie[i] = random_below(2) ? 0 : 5 + some(20);
  }
  for (int k = 0; k < in->kinds; k++)
    in->uses[k] = (int)random_below(2);
  in->once = some(6);
  in->each = some(3);
  in->cap = 10 + some(60);
}

typedef struct trial {
  const instance *in;
  bd_ctx *ctx;
  int stages, mode[MOST_LAYERS], part[MOST_LAYERS], option[MOST_LAYERS];
  double best;
} trial;

static double bytes_of(const trial *t, int stage) {
  const instance *in = t->in;
  bd_schedule_hold hold =
      bd_schedule_held(in->schedule, stage, t->stages, in->chunks, in->micro_batches);
  double fixed = 0, workspace = 0, tape[2] = {0};
  int uses = 0;
  for (int l = 0; l < in->layers; l++) {
    if (t->part[l] % t->stages != stage) continue;
    const option *of = &in->options[in->kind_of[l]][t->mode[stage]][t->option[l]];
    fixed += of->fixed;
    uses += in->uses[in->kind_of[l]];
    workspace = fmax(workspace, in->workspace[in->kind_of[l]][t->mode[stage]]);
    tape[t->part[l] / t->stages] += of->tape;
  }
  if (uses) fixed += in->once + uses * in->each;
  return fixed + workspace + fmax(tape[0], tape[1]) * (hold.tapes + hold.weight_inputs);
}

static double handing_of(const instance *in, int stages, int size) {
  return (stages > 1 ? 2 * in->chunks - 1 : 0) * in->handing[size];
}

// Neighbours are stages of other meshes.
static bool changes(const trial *t, int stage, int neighbour) {
  return neighbour >= 0 && neighbour < t->stages && t->mode[neighbour] != t->mode[stage];
}

static void add_messages(const trial *t, int stage, bd_stage_seconds *out) {
  const instance *in = t->in;
  int size = in->size_of[t->mode[stage]];
  double handing = handing_of(in, t->stages, size), change = in->chunks * in->changing[size];
  out->forward += handing / 2 + (changes(t, stage, stage - 1) ? change : 0);
  out->backward += handing / 2 + (changes(t, stage, stage + 1) ? change : 0);
}

static void measure(trial *t) {
  const instance *in = t->in;
  bd_stage_seconds stage[MOST_LAYERS] = {{0}};
  double seconds;
  for (int s = 0; s < t->stages; s++)
    if (bytes_of(t, s) > in->cap) return;
  for (int l = 0; l < in->layers; l++) {
    int s = t->part[l] % t->stages;
    const bd_stage_seconds *of = &in->options[in->kind_of[l]][t->mode[s]][t->option[l]].seconds;
    stage[s].forward += of->forward;
    stage[s].backward += of->backward;
    if (in->schedule == BD_SCHEDULE_ZERO_BUBBLE) stage[s].weight += of->weight;
    stage[s].sync += of->sync;
    stage[s].apply += of->apply;
  }
  for (int s = 0; s < t->stages; s++)
    add_messages(t, s, &stage[s]);
  for (int end = 0; end < 2 && t->stages > 1; end++) {
    int s = t->part[end ? in->layers - 1 : 0] % t->stages;
    stage[s].sync += in->tie[in->size_of[t->mode[s]]];
  }
  assert_int_equal(bd_step_ordered_seconds(t->ctx, in->schedule, t->stages, in->chunks,
                                           in->micro_batches, stage, &seconds),
                   BD_OK);
  t->best = fmin(t->best, seconds);
}

static void try_options(trial *t, int layer) {
  if (layer == t->in->layers) {
    measure(t);
    return;
  }
  for (t->option[layer] = 0; t->option[layer] < OPTIONS; t->option[layer]++)
    try_options(t, layer + 1);
}

static void try_parts(trial *t, int layer, int part) {
  int parts = t->stages * t->in->chunks;
  if (layer == t->in->layers) {
    if (part == parts - 1) try_options(t, 0);
    return;
  }
  for (int next = layer ? part : 0; next <= (layer ? part + 1 : 0) && next < parts; next++) {
    t->part[layer] = next;
    try_parts(t, layer + 1, next);
  }
}

static void try_modes(trial *t, int stage, int used) {
  const instance *in = t->in;
  if (stage == t->stages) {
    try_parts(t, 0, 0);
    return;
  }
  for (int m = 0; m < in->modes; m++) {
    if (used + in->size[in->size_of[m]] > in->devices) continue;
    t->mode[stage] = m;
    try_modes(t, stage + 1, used + in->size[in->size_of[m]]);
  }
}

// Prices of a byte at random, and what options take at each.
static void price(const instance *in, int mode, bd_share_prices *out) {
  double scale = random_below(2) ? 0.01 : 0.1;
  for (int level = 0; level < LEVELS; level++)
    for (int i = 0; i < PRICES; i++) {
      double per_byte = i ? scale * (1 + some(9)) : 0;
      out->price[level * PRICES + i] = per_byte;
      for (int k = 0; k < in->kinds; k++) {
        double least = INFINITY, bytes = INFINITY;
        for (int o = 0; o < OPTIONS; o++) {
          const option *of = &in->options[k][mode][o];
          double held = of->fixed + ldexp(of->tape, level);
          double seconds =
              of->seconds.forward + of->seconds.backward + of->seconds.sync / in->micro_batches;
          least = fmin(least, seconds + per_byte * held);
          bytes = fmin(bytes, held);
        }
        out->least[(level * PRICES + i) * in->kinds + k] = least;
        out->bytes[level * in->kinds + k] = bytes;
      }
    }
  for (int k = 0; k < in->kinds; k++)
    out->workspace[k] = in->workspace[k][mode];
}

typedef struct bounding {
  const instance *in;
  bd_kinds kinds;
  int shares, layers[MOST_SHARES][MOST_KINDS];
  double seconds[MOST_LAYERS * MOST_MODES * MOST_SHARES];
  double passing[MOST_MODES * MOST_SHARES], both[MOST_MODES * MOST_SHARES], weight[MOST_SHARES];
  double passes[MOST_MODES * MOST_SHARES];
  double layer_seconds[MOST_KINDS * MOST_MODES], changing[MOST_MODES];
} bounding;

static void add_options(bounding *b) {
  const instance *in = b->in;
  double forward[MOST_KINDS][MOST_MODES], both[MOST_KINDS][MOST_MODES], most = 0;
  for (int k = 0; k < in->kinds; k++) {
    double *layer = &b->layer_seconds[k * in->size_count];
    for (int i = 0; i < in->size_count; i++)
      forward[k][i] = both[k][i] = layer[i] = INFINITY;
    for (int m = 0; m < in->modes; m++)
      for (int o = 0; o < OPTIONS; o++) {
        const bd_stage_seconds *of = &in->options[k][m][o].seconds;
        int i = in->size_of[m];
        double passes = of->forward + of->backward;
        forward[k][i] = fmin(forward[k][i], of->forward);
        both[k][i] = fmin(both[k][i], passes);
        layer[i] = fmin(layer[i], passes + of->sync / in->micro_batches);
        most = fmax(most, of->weight / passes);
      }
  }
  for (int x = 0; x < b->shares; x++) {
    b->weight[x] = most;
    for (int i = 0; i < in->size_count; i++)
      for (int k = 0; k < in->kinds; k++) {
        double own =
            in->schedule == BD_SCHEDULE_ZERO_BUBBLE ? forward[k][i] : both[k][i] / in->chunks;
        b->passing[i * b->shares + x] += b->layers[x][k] * own;
        b->both[i * b->shares + x] += b->layers[x][k] * both[k][i];
      }
  }
}

static void fill_seconds(bd_ctx *ctx, bounding *b, const bd_share_prices *prices, int least_stages,
                         int most_stages, int depths, double limit) {
  const instance *in = b->in;
  double least[MOST_SHARES] = {0};
  for (int depth = 0; depth < depths; depth++) {
    int last = depth + 1 == depths ? most_stages - 1 : depth;
    double tapes =
        bd_share_tapes(in->schedule, depth, last, least_stages, in->chunks, in->micro_batches);
    double *of_depth = &b->seconds[depth * in->size_count * b->shares];
    for (int i = 0; i < in->size_count * b->shares; i++)
      of_depth[i] = INFINITY;
    for (int m = 0; m < in->modes; m++)
      bd_share_floor(ctx, &b->kinds, &prices[m], tapes, in->cap, least, limit / in->micro_batches,
                     &of_depth[in->size_of[m] * b->shares]);
    for (int i = 0; i < in->size_count * b->shares; i++)
      of_depth[i] += handing_of(in, least_stages, i / b->shares);
  }
  for (int i = 0; i < in->size_count * b->shares; i++)
    b->passes[i] = b->both[i] + handing_of(in, least_stages, i / b->shares);
}

// The bound of all plans of so many stages; how many are told apart is random.
static double bound_of(bd_ctx *ctx, bounding *b, const bd_share_prices *prices, int least_stages,
                       int most_stages, double limit) {
  const instance *in = b->in;
  int depths = 1 + (int)random_below((unsigned)most_stages);
  bool used[MOST_MODES];
  fill_seconds(ctx, b, prices, least_stages, most_stages, depths, limit);
  bd_whole whole = {.kinds = &b->kinds,
                    .micro_batches = in->micro_batches,
                    .devices = in->devices,
                    .size_count = in->size_count,
                    .sizes = in->size,
                    .least_layers = in->chunks,
                    .least_stages = least_stages,
                    .most_stages = most_stages,
                    .depths = depths,
                    .seconds = b->seconds,
                    .passing = b->passing,
                    .ends = bd_share_ends(ctx, &b->kinds, in->layers, in->kind_of, in->chunks),
                    .changing = b->changing,
                    .tie = in->tie,
                    .passes = b->passes,
                    .tied =
                        bd_share_tied(ctx, &b->kinds, in->kind_of[0], in->kind_of[in->layers - 1]),
                    .layer_seconds = b->layer_seconds,
                    .limit = limit};
  double seconds = bd_whole_seconds(ctx, &whole, used);
  if (in->schedule == BD_SCHEDULE_ZERO_BUBBLE)
    seconds = fmax(seconds, bd_whole_late_seconds(ctx, &whole, b->weight, b->both, used));
  return seconds;
}

static void open(bounding *b) {
  b->shares = (int)bd_share_count(&b->kinds);
  for (int x = 1; x < b->shares; x++) {
    memcpy(b->layers[x], b->layers[x - 1], sizeof b->layers[x]);
    bd_share_next(&b->kinds, b->layers[x]);
  }
  add_options(b);
  for (int i = 0; i < b->in->size_count; i++)
    b->changing[i] = b->in->chunks * b->in->changing[i];
}

static bd_share_prices new_prices(bd_ctx *ctx, const instance *in, int mode) {
  bd_share_prices out = {
      .kinds = in->kinds,
      .levels = LEVELS,
      .count = PRICES,
      .price = BD_NEW_ARRAY(ctx->arena, double, LEVELS *PRICES),
      .least = BD_NEW_ARRAY(ctx->arena, double, LEVELS *PRICES *MOST_KINDS),
      .bytes = BD_NEW_ARRAY(ctx->arena, double, LEVELS *MOST_KINDS),
      .workspace = BD_NEW_ARRAY(ctx->arena, double, MOST_KINDS),
      .weights = 1,
      .once = BD_NEW_ARRAY(ctx->arena, double, 1),
      .each = BD_NEW_ARRAY(ctx->arena, double, 1),
      .uses = BD_NEW_ARRAY(ctx->arena, int, MOST_KINDS),
  };
  *out.once = in->once;
  *out.each = in->each;
  memcpy(out.uses, in->uses, sizeof in->uses);
  price(in, mode, &out);
  return out;
}

// Per number of stages: the least seconds of a step. Returns the least of all.
static double enumerate(bd_ctx *ctx, const instance *in, int most_stages, double *best) {
  double all = INFINITY;
  for (int stages = 1; stages <= most_stages; stages++) {
    trial t = {.in = in, .ctx = ctx, .stages = stages, .best = INFINITY};
    if (bd_schedule_allows(in->schedule, stages, in->chunks, in->micro_batches))
      try_modes(&t, 0, 0);
    all = fmin(all, best[stages] = t.best);
  }
  return all;
}

static void test_no_pipeline_is_faster(void **unused) {
  static instance in;
  static bounding b;
  int compared = 0, tight = 0;
  double ratios = 0;
  for (int i = 0; i < TRIALS; i++) {
    random_begin((uint64_t)i * 0x9e3779b97f4a7c15u);
    make_instance(&in);
    bd_ctx *ctx = bd_ctx_create();
    b = (bounding){.in = &in, .kinds = {in.kinds, in.calls}};
    open(&b);
    bd_share_prices prices[MOST_MODES];
    for (int m = 0; m < in.modes; m++)
      prices[m] = new_prices(ctx, &in, m);
    int most_stages = in.layers / in.chunks;
    double best[MOST_LAYERS + 1], all = enumerate(ctx, &in, most_stages, best);
    for (int from = 1; from <= most_stages && isfinite(all); from++) {
      double least = INFINITY;
      int to = from + (int)random_below((unsigned)(most_stages - from + 1));
      for (int stages = from; stages <= to; stages++)
        least = fmin(least, best[stages]);
      double limit = fmin(least, 2 * all) * (1 + some(30) / 100);
      double bound = bound_of(ctx, &b, prices, from, to, limit);
      assert_true(bound <= limit);
      assert_true(bound <= least * (1 + 1e-9));
      if (isinf(least)) continue;
      ratios += bound / least;
      compared++;
    }
    tight += isinf(all);
    bd_ctx_destroy(ctx);
  }
  assert_true(compared > TRIALS / 2 && tight > TRIALS / 50);
  // It is no trivial bound.
  assert_true(ratios > 0.8 * compared);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_pipeline_is_faster)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
