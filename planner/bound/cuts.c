#include "planner/bound/cuts.h"
#include "planner/pipeline/shared.h"
#include <math.h>

enum { PRICES = 7, TAPES = 9 };

// Of the price that is given; the last stands for bytes alone.
static const double multiple[PRICES] = {0, 0.25, 1, 4, 16, 64, INFINITY};

typedef struct cutting {
  bd_ctx *ctx;
  const bd_scene *scene;
  const bd_setting *setting;
  const bd_setting_layers *layers;
  int layer_count, shared_count;
  int *run_of; // per layer
  bd_shared_use *shared;
  double price[PRICES];
  // Per run: the least of seconds and priced bytes with 1 << n tapes; of bytes alone, the last.
  double (*least)[TAPES][PRICES];
  double *fixed; // per run: bytes of workspace
} cutting;

// Tapes that a stage has at least, as a power of two: its exponent.
static int tapes_of(const cutting *c, int stage) {
  int micro_batches = (int)(c->scene->request->global_batch / c->setting->micro_batch);
  int slots =
      bd_schedule_in_flight(bd_scene_schedule(c->scene), stage, c->setting->stages, micro_batches);
  int exponent = 0;
  while (exponent + 1 < TAPES && 2 << exponent <= slots)
    exponent++;
  return exponent;
}

static bool price_runs(cutting *c) {
  for (int r = 0; r < c->scene->runs->count; r++) {
    int like = c->scene->runs->runs[r].like;
    c->fixed[r] = bd_layer_fixed_workspace(c->layers->layers[r]);
    for (int n = 0; n <= tapes_of(c, 0); n++)
      for (int q = 0; q < PRICES; q++) {
        bd_layer_point point;
        bool alone = isinf(multiple[q]);
        if (like < r)
          point.least = c->least[like][n][q];
        else if (!bd_layer_price(c->ctx, c->layers->layers[r], alone ? 0 : 1,
                                 alone ? 1 : c->price[q], 1 << n, &point))
          return false;
        c->least[r][n][q] = point.least;
      }
  }
  return true;
}

// Bytes of a stage with the layers from `from` to before `to` that no choice changes.
typedef struct stage_sums {
  double least[PRICES], workspace, shared;
} stage_sums;

static double shared_bytes(const cutting *c, int from, int to) {
  double bytes = 0;
  for (int w = 0; w < c->shared_count; w++) {
    int uses = 0;
    for (int l = from; l < to; l++)
      uses += c->shared[w].uses[c->run_of[l]];
    if (uses) bytes += c->shared[w].once + uses * c->shared[w].each;
  }
  return bytes;
}

static void add_layer(const cutting *c, int tapes, int layer, stage_sums *sums) {
  int run = c->run_of[layer];
  for (int q = 0; q < PRICES; q++)
    sums->least[q] += c->least[run][tapes][q];
  sums->workspace = fmax(sums->workspace, c->fixed[run]);
}

static double bytes_of(const stage_sums *sums) {
  return sums->least[PRICES - 1] + sums->workspace + sums->shared;
}

// The least seconds of a stage within the cap.
static double seconds_of(const cutting *c, const stage_sums *sums) {
  double room = (double)c->scene->layers_cap_bytes - sums->workspace - sums->shared, most = 0;
  if (sums->least[PRICES - 1] > room) return INFINITY;
  for (int q = 0; q + 1 < PRICES; q++)
    most = fmax(most, sums->least[q] - c->price[q] * room);
  return most;
}

// The best cuts of the first layers into stages, stage by stage.
static bd_cuts_bound cut_chain(const cutting *c) {
  int stages = c->setting->stages, count = c->layer_count;
  bd_cuts_bound *best = BD_NEW_ARRAY(c->ctx->arena, bd_cuts_bound, (stages + 1) * (count + 1));
  for (int i = 1; i < (stages + 1) * (count + 1); i++)
    best[i] = (bd_cuts_bound){INFINITY, INFINITY};
  for (int s = 0; s < stages; s++) {
    int tapes = tapes_of(c, s);
    for (int from = s; from < count && (s > 0 || from == 0); from++) {
      const bd_cuts_bound *before = &best[s * (count + 1) + from];
      stage_sums sums = {.workspace = 0};
      for (int to = from + 1; to <= count; to++) {
        bd_cuts_bound *after = &best[(s + 1) * (count + 1) + to];
        add_layer(c, tapes, to - 1, &sums);
        sums.shared = c->shared_count ? shared_bytes(c, from, to) : 0;
        after->seconds = fmin(after->seconds, before->seconds + seconds_of(c, &sums));
        after->bytes = fmin(after->bytes, fmax(before->bytes, bytes_of(&sums)));
      }
    }
  }
  return best[stages * (count + 1) + count];
}

bd_cuts_bound bd_bound_cuts(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *layers, double price) {
  int runs = scene->runs->count;
  cutting c = {.ctx = ctx, .scene = scene, .setting = setting, .layers = layers};
  c.shared_count = bd_shared_uses(ctx, scene, setting, &c.shared);
  c.run_of = BD_NEW_ARRAY(ctx->arena, int, scene->runs->calls);
  c.fixed = BD_NEW_ARRAY(ctx->arena, double, runs);
  c.least = bd_arena_array(ctx->arena, (size_t)runs, sizeof *c.least);
  for (int r = 0; r < runs; r++)
    for (int i = 0; i < scene->runs->runs[r].calls; i++)
      c.run_of[c.layer_count++] = r;
  for (int q = 0; q + 1 < PRICES; q++)
    c.price[q] = multiple[q] * price;
  if (c.shared_count < 0 || !price_runs(&c)) return (bd_cuts_bound){0, 0};
  return cut_chain(&c);
}
