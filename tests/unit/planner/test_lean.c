// The leanest pipeline, values that skip layers included, against every assignment of layers to
// stages and candidates, told layer by layer.
#include "planner/pipeline/pipeline.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { TRIALS = 2000, LAYERS = 6, STAGES = 4, FORMS = 3, CANDIDATES = 3, SKIPS = 6 };

static int64_t random_bytes(int64_t base) {
  return bd_align(base + base * random_below(400) / 100);
}

// Mostly of about as many bytes, some of nearly none.
static const double *random_handed(bd_ctx *ctx, int forms, int64_t bytes) {
  double *table = BD_NEW_ARRAY(ctx->arena, double, forms);
  int64_t scale = random_below(3) ? bytes : bytes / 16 + BD_ALIGNMENT;
  for (int f = 0; f < forms; f++)
    table[f] = (double)random_bytes(scale);
  return table;
}

static void random_runs(bd_ctx *ctx, bd_pipeline_problem *p, int layers, int64_t bytes) {
  bd_pipeline_run *runs = BD_NEW_ARRAY(ctx->arena, bd_pipeline_run, layers);
  for (int placed = 0; placed < layers; p->run_count++) {
    bd_pipeline_run *run = &runs[p->run_count];
    const bd_both_ways *table =
        BD_NEW_ARRAY(ctx->arena, bd_both_ways, p->form_count * p->form_count);
    int most = layers - placed < 3 ? layers - placed : 3, count = 1 + random_below(CANDIDATES);
    bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, count);
    for (int k = 0; k < count; k++) {
      list[k].form = random_below(p->form_count);
      list[k].tape_bytes = random_bytes(bytes);
      list[k].boundary_bytes = random_bytes(bytes / 8);
      list[k].weight_bytes = list[k].gradient_bytes = random_bytes(bytes);
      list[k].optimizer_bytes[0] = 2 * list[k].weight_bytes;
      list[k].optimizer_bytes[1] = bd_align(list[k].weight_bytes / 2);
      list[k].workspace_bytes = random_bytes(bytes);
    }
    *run = (bd_pipeline_run){.calls = 1 + random_below(most),
                             .candidate_count = count,
                             .candidates = list,
                             .change = table,
                             .send = table,
                             .receive = table,
                             .handed_bytes = random_handed(ctx, p->form_count, bytes / 2)};
    placed += run->calls;
  }
  p->runs = runs;
}

// In the order of their makers, their values and their readers; readers of one value share tables.
static void random_skips(bd_ctx *ctx, bd_pipeline_problem *p, int layers, int64_t bytes) {
  bd_pipeline_skip *skips = BD_NEW_ARRAY(ctx->arena, bd_pipeline_skip, SKIPS);
  int wanted = random_below(SKIPS + 1);
  for (int from = 0; from + 2 < layers; from++)
    for (int result = 0; result < 2; result++) {
      bd_pipeline_skip value = {.from = from, .result = result, .next_too = random_below(2)};
      value.change = value.send = value.receive = p->runs[0].change;
      value.handed_bytes = random_handed(ctx, p->form_count, bytes);
      value.sum_seconds = BD_NEW_ARRAY(ctx->arena, double, p->form_count);
      for (value.to = from + 2; value.to < layers; value.to++)
        if (p->skip_count < wanted && !random_below(3)) skips[p->skip_count++] = value;
    }
  p->skips = skips;
}

static void random_cuts(bd_ctx *ctx, bd_pipeline_problem *p, int layers) {
  int *least = BD_NEW_ARRAY(ctx->arena, int, p->stages);
  int *most = BD_NEW_ARRAY(ctx->arena, int, p->stages);
  for (int s = 0; s < p->stages; s++) {
    least[s] = s + 1 == p->stages ? layers : (int)random_below(s + 2);
    most[s] = s + 1 == p->stages ? layers : layers - (int)random_below(p->stages - s);
  }
  p->cut_least = least;
  p->cut_most = most;
}

static bd_pipeline_problem random_problem(bd_ctx *ctx, int *out_layers) {
  int64_t bytes = random_below(2) ? 4096 : 1 << 20;
  int layers = 2 + random_below(LAYERS - 1);
  bd_pipeline_problem p = {.stages = 1 + random_below(layers < STAGES ? layers : STAGES),
                           .form_count = 1 + random_below(FORMS),
                           .micro_batches = 1 + random_below(6),
                           .schedule = random_below(4) ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE,
                           .zero = random_below(2),
                           .cap_bytes = INT64_MAX / 4,
                           .sends_held = random_below(2)};
  random_runs(ctx, &p, layers, bytes);
  random_skips(ctx, &p, layers, bytes);
  if (!random_below(4)) random_cuts(ctx, &p, layers);
  double *beside = BD_NEW_ARRAY(ctx->arena, double, p.stages);
  for (int s = 0; s < p.stages; s++)
    beside[s] = (double)random_bytes(bytes / 2);
  if (random_below(2)) p.beside_bytes = beside;
  bool *used = BD_NEW_ARRAY(ctx->arena, bool, p.run_count);
  for (int r = 0; r < p.run_count; r++)
    used[r] = random_below(2);
  bd_pipeline_shared *shared = BD_NEW(ctx->arena, bd_pipeline_shared);
  *shared = (bd_pipeline_shared){(double)random_bytes(bytes), used};
  p.shared = shared;
  p.shared_count = random_below(2);
  *out_layers = layers;
  return p;
}

typedef struct oracle {
  const bd_pipeline_problem *problem;
  int layers, run[LAYERS], stage[LAYERS], candidate[LAYERS];
  double least;
} oracle;

static const bd_layer_candidate *at(const oracle *o, int layer) {
  return &o->problem->runs[o->run[layer]].candidates[o->candidate[layer]];
}

static int slots(const oracle *o, int stage) {
  const bd_pipeline_problem *p = o->problem;
  return bd_schedule_in_flight(p->schedule, stage, p->stages, p->micro_batches);
}

// From a layer to the next one.
static void hand_on(const oracle *o, int layer, double *bytes) {
  const double *handed = o->problem->runs[o->run[layer]].handed_bytes;
  int from = o->stage[layer], to = o->stage[layer + 1];
  int f = at(o, layer)->form, g = at(o, layer + 1)->form;
  if (from == to) {
    if (f != g) bytes[to] += slots(o, to) * handed[g] + handed[f];
    return;
  }
  bytes[from] -= (slots(o, from) - 1) * handed[f];
  bytes[from] += handed[g];
  bytes[to] += slots(o, to) * handed[g];
  if (f != g) {
    bytes[from] += handed[f];
    bytes[to] += handed[f];
  }
  if (!o->problem->sends_held) return;
  bytes[from] += handed[f];
  bytes[to] += handed[g];
}

static bool was_brought(const oracle *o, int index) {
  const bd_pipeline_skip *skip = &o->problem->skips[index];
  int to = o->stage[skip->to];
  if (skip->next_too && o->stage[skip->from + 1] == to) return true;
  for (int i = 0; i < index; i++) {
    const bd_pipeline_skip *other = &o->problem->skips[i];
    if (other->from == skip->from && other->result == skip->result && o->stage[other->to] == to)
      return true;
  }
  return false;
}

// A reader adds a gradient to those of others where the value was made; the value itself is brought
// to a stage once, and held there in the reader's form for every micro-batch in flight.
static void pass_by(const oracle *o, int index, double *bytes) {
  const bd_pipeline_skip *skip = &o->problem->skips[index];
  const double *handed = skip->handed_bytes;
  int from = o->stage[skip->from], to = o->stage[skip->to];
  int f = at(o, skip->from)->form, g = at(o, skip->to)->form;
  bool brought = was_brought(o, index);
  int held = o->problem->sends_held ? to - from : 0; // a copy for each stage that it goes on
  bytes[from] += handed[f];
  if (from == to) {
    if (f != g) bytes[to] += slots(o, to) * handed[g] + handed[f];
    return;
  }
  bytes[from] += handed[g] + (f != g ? handed[f] : 0) + (brought ? 0 : held * handed[f]);
  bytes[to] += held * handed[g];
  if (!brought) bytes[to] += slots(o, to) * handed[g] + (f != g ? handed[f] : 0);
}

static double fullest_stage(const oracle *o) {
  const bd_pipeline_problem *p = o->problem;
  double bytes[STAGES] = {0}, workspace[STAGES] = {0}, most = 0;
  for (int i = 0; i < o->layers; i++) {
    const bd_layer_candidate *c = at(o, i);
    int s = o->stage[i];
    bytes[s] += (double)(c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[p->zero]) +
                slots(o, s) * (double)(c->tape_bytes + c->boundary_bytes);
    workspace[s] = fmax(workspace[s], (double)c->workspace_bytes);
    if (i + 1 < o->layers) hand_on(o, i, bytes);
  }
  for (int i = 0; i < p->skip_count; i++)
    pass_by(o, i, bytes);
  for (int s = 0; s < p->stages; s++) {
    for (int i = 0; i < o->layers && p->shared_count; i++)
      if (o->stage[i] == s && p->shared->used[o->run[i]]) {
        bytes[s] += p->shared->bytes;
        break;
      }
    most = fmax(most, bytes[s] + workspace[s] + (p->beside_bytes ? p->beside_bytes[s] : 0));
  }
  return most;
}

static bool keeps_cuts(const oracle *o) {
  const bd_pipeline_problem *p = o->problem;
  for (int s = 0; p->cut_least && s < p->stages; s++) {
    int upto = 0;
    for (int i = 0; i < o->layers; i++)
      upto += o->stage[i] <= s;
    if (upto < p->cut_least[s] || upto > p->cut_most[s]) return false;
  }
  return true;
}

// Whether the layers of each run on each stage change their form at most once.
static bool changes_once(const oracle *o) {
  int changes = 0;
  for (int i = 1; i < o->layers; i++) {
    bool together = o->stage[i] == o->stage[i - 1] && o->run[i] == o->run[i - 1];
    changes = together ? changes + (at(o, i)->form != at(o, i - 1)->form) : 0;
    if (changes > 1) return false;
  }
  return true;
}

static void enumerate(oracle *o, int layer, int stage) {
  const bd_pipeline_problem *p = o->problem;
  if (layer == o->layers) {
    if (stage == p->stages - 1 && keeps_cuts(o) && changes_once(o))
      o->least = fmin(o->least, fullest_stage(o));
    return;
  }
  for (int s = stage; s <= stage + (layer > 0) && s < p->stages; s++)
    for (int k = 0; k < p->runs[o->run[layer]].candidate_count; k++) {
      o->stage[layer] = s;
      o->candidate[layer] = k;
      enumerate(o, layer + 1, s);
    }
}

// What an assignment by counts holds, with the layers of a run's first form on a stage first.
static double bytes_of(oracle *o, const bd_pipeline *got) {
  const bd_pipeline_problem *p = o->problem;
  int placed = 0;
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      for (int part = 0; part < 2; part++)
        for (int k = 0; k < p->runs[r].candidate_count; k++) {
          bool enters = p->runs[r].candidates[k].form == got->entry[s * p->run_count + r];
          for (int n = got->count[bd_pipeline_index(p, s, r, k)]; n > 0 && enters == !part; n--) {
            assert_true(placed < o->layers && o->run[placed] == r);
            o->stage[placed] = s;
            o->candidate[placed++] = k;
          }
        }
  assert_int_equal(placed, o->layers);
  assert_true(keeps_cuts(o) && changes_once(o));
  return fullest_stage(o);
}

static void test_leanest(void **unused) {
  (void)unused;
  int feasible = 0, by_skips = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    random_begin(77u + 31u * (uint64_t)trial);
    for (int i = 0; i < 4; i++)
      random_below(2);
    bd_ctx *ctx = bd_ctx_create();
    oracle o = {.least = INFINITY};
    bd_pipeline_problem p = random_problem(ctx, &o.layers), plain = p;
    o.problem = &p;
    for (int r = 0, layer = 0; r < p.run_count; r++)
      for (int i = 0; i < p.runs[r].calls; i++)
        o.run[layer++] = r;
    enumerate(&o, 0, 0);
    bd_pipeline got, without;
    bd_pipeline_leanest(ctx, &p, &got);
    assert_int_equal(got.feasible, isfinite(o.least));
    feasible += got.feasible;
    if (got.feasible) {
      assert_true(got.optimal);
      assert_true(bytes_of(&o, &got) == o.least);
      assert_true((double)got.bytes == o.least);
      plain.skip_count = 0;
      bd_pipeline_leanest(ctx, &plain, &without);
      by_skips += bytes_of(&o, &without) > o.least;
    }
    bd_ctx_destroy(ctx);
  }
  // Skips decide often enough to be tested.
  assert_true(feasible > TRIALS * 3 / 4 && by_skips > TRIALS / 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_leanest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
