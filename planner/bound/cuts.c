#include "planner/bound/cuts.h"
#include "planner/bound/between.h"
#include "planner/bound/cut_prices.h"
#include "planner/bound/stages.h"
#include "planner/pipeline/shared.h"
#include <math.h>
#include <string.h>

enum {
  ALONE, // stands for bytes alone
  FREE,  // where they cost nothing
  FOUND, // the first of the prices that are looked for
  PRICES = FOUND + BD_CUT_PRICES,
  TAPES = 17,           // numbers of tapes that layers are priced with, at most
  STEP_CELLS = 1 << 18, // of stages, and of layers that they begin and end with
};

// Of seconds that count as equal.
#define NEAR 1e-9

// Of the price that is given, where fewer are found.
static const double multiple[] = {1, 4, 0.25, 16, 64};
enum { MULTIPLES = sizeof multiple / sizeof *multiple };

// What layers take at a price: the least of seconds and priced bytes, and how much more it is where
// a share of the layer's workspace is charged.
typedef struct priced {
  double least, charge;
  const int *option; // chosen without a charge
} priced;

typedef struct cutting {
  bd_ctx *ctx;
  const bd_scene *scene;
  const bd_setting *setting;
  const bd_setting_layers *layers;
  int layer_count, shared_count;
  int *run_of; // per layer
  bd_shared_use *shared;
  bd_between *between;
  bool seconds_wanted;          // else bytes alone
  int tape_count, tapes[TAPES]; // ascending
  int price_count[TAPES];       // that layers with so many tapes are priced at
  double price[TAPES][PRICES];
  priced (*of)[TAPES][PRICES]; // per run
  double *fixed;               // per run: bytes of workspace
  int *sharing;                // per run: layers that the workspace is charged to
} cutting;

static int in_flight(const cutting *c, int stage) {
  int micro_batches = bd_scene_micro_batches(c->scene, c->setting->micro_batch);
  return bd_schedule_in_flight(bd_scene_schedule(c->scene), stage, c->setting->stages,
                               micro_batches);
}

// Those of all stages; where they are many, 1, 2, 3, 4, 6, 8, 12 and so on.
static void list_tapes(cutting *c) {
  bool many = c->setting->stages > TAPES;
  for (int s = c->setting->stages - 1, next = 1; s >= 0 && c->tape_count < TAPES; s--) {
    int n = in_flight(c, s);
    if (n < next) continue;
    c->tapes[c->tape_count++] = n;
    next = n + (!many || n < 3 ? 1 : n & (n - 1) ? n / 3 : n / 2);
  }
}

// Tapes that a stage has at least, among those.
static int tapes_of(const cutting *c, int stage) {
  int slots = in_flight(c, stage), i = 0;
  while (i + 1 < c->tape_count && c->tapes[i + 1] <= slots)
    i++;
  return i;
}

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

// The stage in the middle of those with so many tapes.
static int stage_with(const cutting *c, int micro_batches) {
  int stages = c->setting->stages, first = 0, last = stages - 1;
  while (first < last && in_flight(c, first) > micro_batches)
    first++;
  while (last > first && in_flight(c, last) < micro_batches)
    last--;
  return (first + last) / 2;
}

// In an even cut, with `layers` of them.
static bd_cut_stage even_stage(const cutting *c, int micro_batches, int layers) {
  int stages = c->setting->stages, stage = stage_with(c, micro_batches);
  int first = (int)((int64_t)c->layer_count * stage / stages), last = c->layer_count - layers;
  bd_cut_stage out = {c->run_of, first < last ? first : last, layers, micro_batches, 0};
  double beside = 0, workspace = 0;
  bd_between_begin(c->between, out.first, micro_batches);
  for (int l = out.first; l < out.first + layers; l++) {
    beside = bd_between_add(c->between, l);
    workspace = fmax(workspace, c->fixed[c->run_of[l]]);
  }
  beside += shared_bytes(c, out.first, out.first + layers);
  out.room = (double)c->scene->layers_cap_bytes - beside - workspace;
  return out;
}

// Of stages of as many layers as they have on the average, and of one and two more.
static void find_prices(cutting *c, int tapes, double given) {
  int *count = &c->price_count[tapes], least = c->layer_count / c->setting->stages;
  double *price = c->price[tapes];
  *count = FOUND;
  for (int more = 0; more < BD_CUT_SIZES && least + more <= c->layer_count; more++) {
    bd_cut_stage stage = even_stage(c, c->tapes[tapes], least + more);
    *count += bd_cut_prices_of(c->ctx, c->layers, &stage, &price[*count]);
  }
  for (int i = 0; i < MULTIPLES && *count < FOUND + MULTIPLES; i++)
    price[(*count)++] = multiple[i] * given;
}

static bool price_layer(const cutting *c, int run, int tapes, int price, bd_layer_point *out) {
  return bd_layer_price(c->ctx, c->layers->layers[run], price == ALONE ? 0 : 1,
                        price == ALONE ? 1 : c->price[tapes][price], c->tapes[tapes], out);
}

static bool price_runs(cutting *c, int tapes) {
  for (int r = 0; r < c->scene->runs->count; r++) {
    int like = c->scene->runs->runs[r].like;
    for (int q = 0; q < c->price_count[tapes]; q++) {
      bd_layer_point point;
      if (like == r && !price_layer(c, r, tapes, q, &point)) return false;
      c->of[r][tapes][q] =
          like < r ? c->of[like][tapes][q] : (priced){point.least, 0, point.option};
    }
  }
  return true;
}

// At the fullest moment of what is chosen without a charge, as any may be charged.
static void charge_layer(cutting *c, int run, int tapes, int price) {
  bd_layer *layer = c->layers->layers[run];
  priced *own = &c->of[run][tapes][price];
  bd_layer_point charged;
  int moment;
  bd_layer_workspace_of(layer, own->option, &moment);
  bd_layer_hold_workspace(c->ctx, layer, moment, 1.0 / c->sharing[run]);
  if (price_layer(c, run, tapes, price, &charged))
    own->charge = fmax(charged.least - own->least, 0);
  bd_layer_hold_workspace(c->ctx, layer, 0, 0);
}

static void charge_runs(cutting *c) {
  for (int r = 0; r < c->scene->runs->count; r++)
    for (int n = 0; n < c->tape_count; n++)
      for (int q = 0; q < c->price_count[n]; q++) {
        int like = c->scene->runs->runs[r].like;
        if (q == FREE) continue;
        if (like < r)
          c->of[r][n][q] = c->of[like][n][q];
        else
          charge_layer(c, r, n, q);
      }
}

// A stage, layer by layer: its sums, and bytes that no choice changes.
typedef struct stage_sums {
  double least[PRICES], charge[PRICES]; // the latter of the layers that it is most for
  double workspace, beside;
  int *layers; // per run that others are like: those that are charged
} stage_sums;

// The workspace is that of the fullest moment of any of its layers: of those that are alike, what
// the mean of as many as share it has, or more.
static void add_layer(const cutting *c, int tapes, int from, int layer, stage_sums *sums) {
  int run = c->run_of[layer], like = c->scene->runs->runs[run].like;
  const priced *own = c->of[run][tapes];
  sums->workspace = fmax(sums->workspace, c->fixed[run]);
  if (sums->layers[like] < c->sharing[like]) sums->layers[like]++;
  for (int q = 0; q < c->price_count[tapes]; q++) {
    sums->least[q] += own[q].least;
    sums->charge[q] = fmax(sums->charge[q], sums->layers[like] * own[q].charge);
  }
  sums->beside = bd_between_add(c->between, layer);
  if (c->shared_count) sums->beside += shared_bytes(c, from, layer + 1);
}

static double bytes_of(const stage_sums *sums) {
  return sums->least[ALONE] + fmax(sums->workspace, sums->charge[ALONE]) + sums->beside;
}

// The least seconds of a stage within the cap.
static double seconds_of(const cutting *c, int tapes, const stage_sums *sums) {
  double room = (double)c->scene->layers_cap_bytes - sums->beside, most = 0;
  if (bytes_of(sums) > (double)c->scene->layers_cap_bytes) return INFINITY;
  for (int q = FREE; q < c->price_count[tapes]; q++)
    most = fmax(most, sums->least[q] + fmax(c->price[tapes][q] * sums->workspace, sums->charge[q]) -
                          c->price[tapes][q] * room);
  return most;
}

// The best cuts of the first layers into stages, stage by stage. Into `table`, unless it is NULL,
// the least seconds of every stage.
static bd_cuts_bound cut_chain(const cutting *c, double *table) {
  int stages = c->setting->stages, count = c->layer_count;
  bd_cuts_bound *best =
      bd_arena_array(c->ctx->arena, (size_t)(stages + 1) * (size_t)(count + 1), sizeof *best);
  stage_sums sums = {.layers = BD_NEW_ARRAY(c->ctx->arena, int, c->scene->runs->count)};
  for (int i = 1; i < (stages + 1) * (count + 1); i++)
    best[i] = (bd_cuts_bound){INFINITY, INFINITY, 0};
  for (int s = 0; s < stages; s++) {
    int tapes = tapes_of(c, s);
    for (int from = s; from < count && (s > 0 || from == 0); from++) {
      const bd_cuts_bound *before = &best[s * (count + 1) + from];
      sums = (stage_sums){.layers = sums.layers};
      memset(sums.layers, 0, sizeof *sums.layers * (size_t)c->scene->runs->count);
      bd_between_begin(c->between, from, in_flight(c, s));
      for (int to = from + 1; to <= count; to++) {
        bd_cuts_bound *after = &best[(s + 1) * (count + 1) + to];
        add_layer(c, tapes, from, to - 1, &sums);
        double seconds = seconds_of(c, tapes, &sums);
        if (table) table[bd_stage_cell(count, s, from, to)] = seconds;
        after->seconds = fmin(after->seconds, before->seconds + seconds);
        after->bytes = fmin(after->bytes, fmax(before->bytes, bytes_of(&sums)));
      }
    }
  }
  return best[stages * (count + 1) + count];
}

// What all layers take where bytes cost nothing.
static double free_seconds(const cutting *c) {
  double seconds = 0;
  for (int l = 0; l < c->layer_count; l++)
    seconds += c->of[c->run_of[l]][0][FREE].least;
  return seconds;
}

static bd_cuts_bound bound(const cutting *c) {
  int64_t cells = (int64_t)c->setting->stages * (c->layer_count + 1) * (c->layer_count + 1);
  bool tabled = cells <= STEP_CELLS && c->seconds_wanted;
  double *table = tabled ? BD_NEW_ARRAY(c->ctx->arena, double, cells) : NULL;
  bd_cuts_bound out = cut_chain(c, table);
  bd_moves moves = bd_bound_moves(c->scene, c->setting, c->layers);
  if (table && isfinite(out.seconds))
    out.step_seconds =
        bd_bound_stages(c->ctx, c->scene, c->setting, c->layer_count, table,
                        bd_bound_backward_before(c->ctx, c->scene, c->layers), &moves);
  return out;
}

// All but prices; false: shared weights are not known.
static bool begin(cutting *c) {
  int runs = c->scene->runs->count;
  c->shared_count = bd_shared_uses(c->ctx, c->scene, c->setting, &c->shared);
  if (c->shared_count < 0) return false;
  c->run_of = BD_NEW_ARRAY(c->ctx->arena, int, c->scene->runs->calls);
  c->fixed = BD_NEW_ARRAY(c->ctx->arena, double, runs);
  c->sharing = BD_NEW_ARRAY(c->ctx->arena, int, runs);
  c->of = bd_arena_array(c->ctx->arena, (size_t)runs, sizeof *c->of);
  for (int r = 0; r < runs; r++) {
    int calls = bd_scene_calls_like(c->scene, c->scene->runs->runs[r].like);
    c->fixed[r] = bd_layer_fixed_workspace(c->layers->layers[r]);
    c->sharing[r] = (calls + c->setting->stages - 1) / c->setting->stages;
    for (int i = 0; i < c->scene->runs->runs[r].calls; i++)
      c->run_of[c->layer_count++] = r;
  }
  list_tapes(c);
  c->between = bd_between_open(c->ctx, c->scene, c->setting, c->layers);
  return true;
}

bd_cuts_bound bd_bound_cuts(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *layers, double price, double enough) {
  cutting c = {.ctx = ctx,
               .scene = scene,
               .setting = setting,
               .layers = layers,
               .seconds_wanted = enough > 0};
  if (!begin(&c)) return (bd_cuts_bound){0, 0, 0};
  for (int n = 0; n < c.tape_count; n++) {
    c.price_count[n] = ALONE + 1;
    if (c.seconds_wanted) find_prices(&c, n, price);
    if (!price_runs(&c, n)) return (bd_cuts_bound){0, 0, 0};
  }
  bd_cuts_bound out = bound(&c);
  // Charges tell little where there is room without them.
  if (isinf(out.seconds)) return out;
  if (c.seconds_wanted && (out.seconds >= enough || out.seconds <= free_seconds(&c) * (1 + NEAR)))
    return out;
  charge_runs(&c);
  return bound(&c);
}
