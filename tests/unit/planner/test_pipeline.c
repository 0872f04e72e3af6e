// Pipelines by counts against enumeration of every assignment that keeps the order of layers, and
// of every order of forms.
#include "planner/pipeline/construct.h"
#include "planner/pipeline/core.h"
#include "planner/pipeline/label.h"
#include "planner/pipeline/pipeline.h"
#include "planner/pipeline/refill.h"
#include "planner/step/step.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { TRIALS = 240, LARGEST = 3 * 3 * 3, CELLS = 3 * 3, SHARED = 2, PADDING = 80 };

// The first numbers of neighbouring trials are much alike.
static void begin_trial(uint64_t seed, int trial) {
  random_begin(seed + 31u * (uint64_t)trial);
  for (int i = 0; i < 4; i++)
    random_below(2);
}

static double random_seconds(double base) {
  return base * (1 + random_below(4000) / 1000.0);
}
static int64_t random_bytes(int64_t base) {
  return bd_align(base + base * random_below(400) / 100);
}

// A candidate of a layer between a microsecond and tens of milliseconds, kibibytes and gibibytes.
static bd_layer_candidate random_candidate(double seconds, int64_t bytes) {
  bd_layer_candidate c = {0};
  c.forward_seconds = random_seconds(seconds);
  c.backward_seconds = random_seconds(2 * seconds);
  for (int zero = 0; zero < 2; zero++)
    c.sync_seconds[zero] = random_seconds(seconds / 2);
  c.tape_bytes = random_bytes(bytes);
  c.boundary_bytes = random_bytes(bytes / 8);
  c.weight_bytes = c.gradient_bytes = random_bytes(bytes);
  c.optimizer_bytes[0] = 2 * c.weight_bytes;
  c.optimizer_bytes[1] = bd_align(c.weight_bytes / (1 + random_below(3)));
  c.passing_bytes = random_bytes(bytes / 8);
  c.workspace_bytes = random_bytes(bytes / 2);
  return c;
}

static const bd_both_ways *random_table(bd_ctx *ctx, int forms, double least, double seconds) {
  bd_both_ways *table = BD_NEW_ARRAY(ctx->arena, bd_both_ways, forms * forms);
  for (int i = 0; i < forms * forms; i++) {
    double all = least + (i % (forms + 1) ? random_seconds(seconds) : 0);
    table[i].forward = all * random_below(1000) / 1000;
    table[i].backward = all - table[i].forward;
  }
  return table;
}

static const double *random_handed(bd_ctx *ctx, int forms, int64_t bytes) {
  double *table = BD_NEW_ARRAY(ctx->arena, double, forms);
  for (int f = 0; f < forms; f++)
    table[f] = (double)random_bytes(bytes / 8);
  return table;
}

static const bd_pipeline_shared *random_shared(bd_ctx *ctx, const bd_pipeline_problem *p,
                                               int64_t bytes) {
  bd_pipeline_shared *shared = BD_NEW_ARRAY(ctx->arena, bd_pipeline_shared, SHARED);
  for (int w = 0; w < p->shared_count; w++) {
    bool *used = BD_NEW_ARRAY(ctx->arena, bool, p->run_count);
    for (int r = 0; r < p->run_count; r++)
      used[r] = random_below(2);
    shared[w] = (bd_pipeline_shared){(double)random_bytes(bytes), used};
  }
  return shared;
}

static bd_pipeline_problem random_problem(bd_ctx *ctx) {
  static const double scale_seconds[] = {1e-6, 5e-5, 2e-3, 1e-2};
  static const int64_t scale_bytes[] = {4096, 1 << 20, 200 << 20};
  double seconds = scale_seconds[random_below(4)];
  int64_t bytes = scale_bytes[random_below(3)];
  bd_pipeline_problem p = {.stages = 1 + (int)random_below(3),
                           .run_count = 1 + (int)random_below(3),
                           .form_count = 1 + (int)random_below(2)};
  double send = random_below(3) ? seconds / 10 : 0, change = seconds / (1 + random_below(20));
  bd_pipeline_run *runs = BD_NEW_ARRAY(ctx->arena, bd_pipeline_run, p.run_count);
  for (int r = 0; r < p.run_count; r++) {
    runs[r] = (bd_pipeline_run){.calls = 1 + (int)random_below(4),
                                .candidate_count = 1 + (int)random_below(3),
                                .change = random_table(ctx, p.form_count, 0, change),
                                .send = random_table(ctx, p.form_count, send, change),
                                .receive = random_table(ctx, p.form_count, send, change),
                                .handed_bytes = random_handed(ctx, p.form_count, bytes)};
    bd_layer_candidate *list =
        BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, runs[r].candidate_count);
    for (int k = 0; k < runs[r].candidate_count; k++) {
      list[k] = random_candidate(seconds, bytes);
      list[k].form = (int)random_below((unsigned)p.form_count);
    }
    runs[r].candidates = list;
  }
  p.runs = runs;
  p.shared_count = (int)random_below(SHARED + 1);
  p.shared = random_shared(ctx, &p, bytes);
  p.micro_batches = 1 + (int)random_below(16);
  p.schedule = random_below(2) ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE;
  p.zero = (int)random_below(2);
  p.cap_bytes = INT64_MAX / 4;
  p.sends_held = random_below(2);
  return p;
}

static int slots_of(const bd_pipeline_problem *p, int stage) {
  return bd_schedule_in_flight(p->schedule, stage, p->stages, p->micro_batches);
}

// An assignment, told layer by layer.
typedef struct walk {
  const bd_pipeline_problem *problem;
  bd_stage_seconds seconds[3];
  double bytes[3], workspace[3];
  bool holds[3][SHARED]; // shared weights
  int stage, run, form;  // of the layer before; no layer: run -1
} walk;

static void add_seconds(walk *w, int stage, bd_both_ways seconds) {
  w->seconds[stage].forward += seconds.forward;
  w->seconds[stage].backward += seconds.backward;
}

static void change_form(walk *w, int stage, int form) {
  const bd_pipeline_run *before = &w->problem->runs[w->run];
  double old = before->handed_bytes[w->form], fresh = before->handed_bytes[form];
  int forms = w->problem->form_count, at = w->form * forms + form;
  bool changes = form != w->form;
  if (w->stage == stage) {
    add_seconds(w, stage, before->change[at]);
    if (changes) w->bytes[stage] += slots_of(w->problem, stage) * fresh + old;
    return;
  }
  if (w->problem->link) at += w->problem->link[w->stage] * forms * forms;
  add_seconds(w, w->stage, before->send[at]);
  add_seconds(w, stage, before->receive[at]);
  w->bytes[w->stage] += fresh + (changes ? old : 0) + (w->problem->sends_held ? old : 0) -
                        (slots_of(w->problem, w->stage) - 1) * old;
  w->bytes[stage] += slots_of(w->problem, stage) * fresh + (changes ? old : 0) +
                     (w->problem->sends_held ? fresh : 0);
}

static void walk_to(walk *w, int stage, int run, const bd_layer_candidate *c) {
  if (w->run >= 0) change_form(w, stage, c->form);
  w->stage = stage;
  w->run = run;
  w->form = c->form;
  add_seconds(w, stage, (bd_both_ways){c->forward_seconds, c->backward_seconds});
  w->seconds[stage].sync += c->sync_seconds[w->problem->zero];
  w->seconds[stage].apply += c->apply_seconds[w->problem->zero];
  w->bytes[stage] += (double)(c->weight_bytes + c->gradient_bytes + c->passing_bytes +
                              c->optimizer_bytes[w->problem->zero] +
                              slots_of(w->problem, stage) * (c->tape_bytes + c->boundary_bytes));
  for (int i = 0; i < w->problem->shared_count; i++) {
    const bd_pipeline_shared *shared = &w->problem->shared[i];
    if (!shared->used[run] || w->holds[stage][i]) continue;
    w->holds[stage][i] = true;
    w->bytes[stage] += shared->bytes;
  }
  w->workspace[stage] = fmax(w->workspace[stage], (double)c->workspace_bytes);
}

static walk walk_all(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = {.problem = p, .run = -1};
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      for (int part = 0; part < 2; part++)
        for (int k = 0; k < p->runs[r].candidate_count; k++) {
          const bd_layer_candidate *c = &p->runs[r].candidates[k];
          bool enters = c->form == entry[s * p->run_count + r];
          for (int n = count[bd_pipeline_index(p, s, r, k)]; n > 0 && enters == !part; n--)
            walk_to(&w, s, r, c);
        }
  return w;
}

static double peak_bytes(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = walk_all(p, count, entry);
  double most = 0;
  for (int s = 0; s < p->stages; s++)
    most = fmax(most, w.bytes[s] + w.workspace[s]);
  return most;
}

static double step_seconds(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = walk_all(p, count, entry);
  return bd_step_emitted_seconds(p->schedule, p->stages, p->micro_batches, w.seconds);
}

static bool every_stage_works(const bd_pipeline_problem *p, const int *count) {
  int width = bd_pipeline_candidates(p);
  for (int s = 0; s < p->stages; s++) {
    int layers = 0;
    for (int i = 0; i < width; i++)
      layers += count[s * width + i];
    if (!layers) return false;
  }
  return true;
}

static bool keeps_cuts(const bd_pipeline_problem *p, const int *count) {
  int width = bd_pipeline_candidates(p), before = 0;
  for (int s = 0; p->cut_least && s < p->stages; s++) {
    for (int i = 0; i < width; i++)
      before += count[s * width + i];
    if (before < p->cut_least[s] || before > p->cut_most[s]) return false;
  }
  return true;
}

typedef struct enumeration {
  const bd_pipeline_problem *problem;
  int count[LARGEST], entry[CELLS];
  double fastest_seconds, leanest_bytes;
} enumeration;

static bool has_form(const enumeration *e, int cell, int form) {
  const bd_pipeline_problem *p = e->problem;
  int s = cell / p->run_count, r = cell % p->run_count;
  for (int k = 0; k < p->runs[r].candidate_count; k++)
    if (p->runs[r].candidates[k].form == form && e->count[bd_pipeline_index(p, s, r, k)])
      return true;
  return false;
}

// Every order of the forms that share a stage and a run.
static void enumerate_entries(enumeration *e, int cell) {
  const bd_pipeline_problem *p = e->problem;
  if (cell == p->stages * p->run_count) {
    double bytes = peak_bytes(p, e->count, e->entry);
    e->leanest_bytes = fmin(e->leanest_bytes, bytes);
    if (bytes <= (double)p->cap_bytes)
      e->fastest_seconds = fmin(e->fastest_seconds, step_seconds(p, e->count, e->entry));
    return;
  }
  bool any = false;
  for (int form = 0; form < p->form_count; form++) {
    if (!has_form(e, cell, form)) continue;
    any = true;
    e->entry[cell] = form;
    enumerate_entries(e, cell + 1);
  }
  if (any) return;
  e->entry[cell] = -1;
  enumerate_entries(e, cell + 1);
}

// Gives `left` calls of run `r`, from candidate `k` on, to stage `s` and those after it.
static void enumerate(enumeration *e, int r, int k, int s, int left) {
  const bd_pipeline_problem *p = e->problem;
  if (r == p->run_count) {
    if (!every_stage_works(p, e->count) || !keeps_cuts(p, e->count)) return;
    enumerate_entries(e, 0);
    return;
  }
  if (k < p->runs[r].candidate_count) {
    int *cell = &e->count[bd_pipeline_index(p, s, r, k)];
    for (*cell = 0; *cell <= left; ++*cell)
      enumerate(e, r, k + 1, s, left - *cell);
    *cell = 0;
    return;
  }
  if (left == 0) enumerate(e, r + 1, 0, s, r + 1 < p->run_count ? p->runs[r + 1].calls : 0);
  if (left > 0 && s + 1 < p->stages) enumerate(e, r, 0, s + 1, left);
  // A run that ends with its stage lets the next begin on the next one: the next run gives this
  // stage nothing and moves on.
}

static enumeration enumerate_all(const bd_pipeline_problem *p) {
  enumeration e = {.problem = p, .fastest_seconds = INFINITY, .leanest_bytes = INFINITY};
  enumerate(&e, 0, 0, 0, p->runs[0].calls);
  return e;
}

static void check_order(const bd_pipeline_problem *p, const int *count) {
  int last = 0;
  for (int r = 0; r < p->run_count; r++) {
    int first = p->stages, end = 0, calls = 0;
    for (int s = 0; s < p->stages; s++)
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int n = count[bd_pipeline_index(p, s, r, k)];
        calls += n;
        if (n && s < first) first = s;
        if (n) end = s;
      }
    assert_int_equal(calls, p->runs[r].calls);
    assert_true(first >= last);
    last = end;
  }
}

static void check_fastest(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline got;
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, INFINITY, &got), BD_OK);
  assert_int_equal(got.feasible, isfinite(best));
  if (!got.feasible) return;
  check_order(p, got.count);
  assert_true(got.optimal);
  assert_true(fabs(got.seconds - best) <= 1e-6 * best);
  assert_true(fabs(step_seconds(p, got.count, got.entry) - got.seconds) <= 1e-9 * best);
  assert_true(peak_bytes(p, got.count, got.entry) <= (double)p->cap_bytes);
  assert_true(got.bound <= best * (1 + 1e-6));
  // A cutoff below the optimum leaves nothing, one above it changes nothing.
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, best * 0.999, &got), BD_OK);
  assert_false(got.feasible);
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, best * 1.001, &got), BD_OK);
  assert_true(got.feasible && fabs(got.seconds - best) <= 1e-6 * best);
}

// What is constructed keeps its word and comes close.
static double check_construction(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline got;
  bd_pipeline_construct(ctx, p, &got);
  if (!got.feasible) return INFINITY;
  check_order(p, got.count);
  assert_true(got.seconds >= best * (1 - 1e-9));
  assert_true(fabs(step_seconds(p, got.count, got.entry) - got.seconds) <= 1e-9 * best);
  assert_true(peak_bytes(p, got.count, got.entry) <= (double)p->cap_bytes);
  return got.seconds / best;
}

static void check_leanest(bd_ctx *ctx, const bd_pipeline_problem *p, double least) {
  bd_pipeline got;
  bd_pipeline_leanest(ctx, p, &got);
  assert_int_equal(got.feasible, isfinite(least));
  if (!got.feasible) return;
  check_order(p, got.count);
  assert_true(fabs(peak_bytes(p, got.count, got.entry) - least) <= 1e-6 * least);
}

static void test_equals_enumeration(void **unused) {
  (void)unused;
  int tight = 0, impossible = 0, empty = 0, close = 0, feasible = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    begin_trial(1009u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    enumeration loose = enumerate_all(&p);
    check_fastest(ctx, &p, loose.fastest_seconds);
    check_leanest(ctx, &p, loose.leanest_bytes);
    empty += !isfinite(loose.leanest_bytes);
    static const double room[] = {1.0, 1.02, 1.1, 1.3};
    for (int i = 0; i < 4 && isfinite(loose.leanest_bytes); i++) {
      p.cap_bytes = (int64_t)(loose.leanest_bytes * room[i]);
      enumeration capped = enumerate_all(&p);
      tight += capped.fastest_seconds > loose.fastest_seconds;
      check_fastest(ctx, &p, capped.fastest_seconds);
      if (!isfinite(capped.fastest_seconds)) continue;
      feasible++;
      close += check_construction(ctx, &p, capped.fastest_seconds) <= 1.1;
    }
    p.cap_bytes = isfinite(loose.leanest_bytes) ? (int64_t)loose.leanest_bytes - 256 : 1;
    check_fastest(ctx, &p, INFINITY);
    impossible++;
    bd_ctx_destroy(ctx);
  }
  assert_true(tight > TRIALS / 4);
  assert_int_equal(impossible, TRIALS);
  assert_in_range(empty, 1, TRIALS / 3);
  assert_true(close > feasible * 6 / 10);
}

// Layers whose stage is given.
static void test_cuts(void **unused) {
  (void)unused;
  int possible = 0, binding = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(77u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    double open = enumerate_all(&p).fastest_seconds;
    int least[3], most[3], layers = 0;
    for (int r = 0; r < p.run_count; r++)
      layers += p.runs[r].calls;
    int layer = (int)random_below((unsigned)layers), stage = (int)random_below((unsigned)p.stages);
    for (int s = 0; s < p.stages; s++) {
      least[s] = s >= stage ? layer + 1 : 0;
      most[s] = s < stage ? layer : layers;
    }
    p.cut_least = least;
    p.cut_most = most;
    enumeration cut = enumerate_all(&p);
    check_fastest(ctx, &p, cut.fastest_seconds);
    check_leanest(ctx, &p, cut.leanest_bytes);
    possible += isfinite(cut.fastest_seconds);
    binding += isfinite(cut.fastest_seconds) && cut.fastest_seconds > open * (1 + 1e-9);
    bd_ctx_destroy(ctx);
  }
  assert_true(possible > TRIALS / 4 && binding > TRIALS / 20);
}

// Messages of a second link take three times as long.
static const bd_both_ways *with_slow_link(bd_ctx *ctx, const bd_both_ways *table, int cells) {
  bd_both_ways *both = BD_NEW_ARRAY(ctx->arena, bd_both_ways, 2 * cells);
  for (int i = 0; i < cells; i++) {
    both[i] = table[i];
    both[cells + i] = (bd_both_ways){3 * table[i].forward, 3 * table[i].backward};
  }
  return both;
}

// A part of the synchronization is the update.
static const bd_layer_candidate *with_updates(bd_ctx *ctx, const bd_pipeline_run *run) {
  bd_layer_candidate *list =
      bd_arena_copy(ctx->arena, run->candidates, run->candidate_count, sizeof *list);
  for (int k = 0; k < run->candidate_count; k++)
    for (int zero = 0; zero < 2; zero++)
      list[k].apply_seconds[zero] = list[k].sync_seconds[zero] * (1 + random_below(3)) / 4;
  return list;
}

// One of the stages' links is slow, as between nodes; stages update together.
static void test_links(void **unused) {
  (void)unused;
  int slower = 0, tried = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(41u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    double near = enumerate_all(&p).fastest_seconds;
    bd_pipeline_run *runs = bd_arena_copy(ctx->arena, p.runs, p.run_count, sizeof *runs);
    int link[3] = {0}, cells = p.form_count * p.form_count;
    for (int r = 0; r < p.run_count; r++) {
      runs[r].send = with_slow_link(ctx, runs[r].send, cells);
      runs[r].receive = with_slow_link(ctx, runs[r].receive, cells);
      runs[r].candidates = with_updates(ctx, &runs[r]);
    }
    if (p.stages > 1) link[random_below((unsigned)p.stages - 1)] = 1;
    p.runs = runs;
    p.link = link;
    double best = enumerate_all(&p).fastest_seconds;
    check_fastest(ctx, &p, best);
    if (isfinite(best)) check_construction(ctx, &p, best);
    slower += isfinite(best) && best > near * (1 + 1e-9);
    tried += p.stages > 1 && isfinite(best);
    bd_ctx_destroy(ctx);
  }
  assert_true(slower > tried / 2 && slower > TRIALS / 10);
}

// Labels alone come to the best nearly always, whatever is known before.
static void test_labels(void **unused) {
  (void)unused;
  int best = 0, feasible = 0, tight = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(2027u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    enumeration open = enumerate_all(&p);
    if (random_below(2) && isfinite(open.leanest_bytes))
      p.cap_bytes = (int64_t)(1.1 * open.leanest_bytes);
    double fastest = enumerate_all(&p).fastest_seconds;
    bd_pipeline got = {.seconds = INFINITY};
    bd_pipeline_label(ctx, &p, INFINITY, NULL, &got);
    if (got.feasible) {
      check_order(&p, got.count);
      assert_true(got.seconds >= fastest * (1 - 1e-9));
      assert_true(fabs(step_seconds(&p, got.count, got.entry) - got.seconds) <= 1e-9 * fastest);
      assert_true(peak_bytes(&p, got.count, got.entry) <= (double)p.cap_bytes);
      bd_pipeline none = {.seconds = INFINITY};
      bd_pipeline_label(ctx, &p, fastest * 0.999, NULL, &none);
      assert_false(none.feasible);
    }
    feasible += isfinite(fastest);
    best += isfinite(fastest) && got.seconds <= fastest * (1 + 1e-9);
    tight += isfinite(fastest) && fastest > open.fastest_seconds * (1 + 1e-9);
    bd_ctx_destroy(ctx);
  }
  assert_true(best * 100 >= feasible * 95);
  assert_true(tight > TRIALS / 40);
}

// The problem among so many candidates that are of no use that only its core is solved.
static bd_pipeline_problem padded(bd_ctx *ctx, const bd_pipeline_problem *problem) {
  bd_pipeline_problem p = *problem;
  bd_pipeline_run *runs = bd_arena_copy(ctx->arena, p.runs, p.run_count, sizeof *runs);
  for (int r = 0; r < p.run_count; r++) {
    int own = runs[r].candidate_count, count = own + PADDING;
    bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, count);
    for (int k = 0; k < count; k++) {
      list[k] = runs[r].candidates[k < PADDING ? k % own : k - PADDING];
      if (k >= PADDING) continue;
      list[k].forward_seconds *= 11 + k;
      list[k].backward_seconds *= 11 + k;
      list[k].tape_bytes += BD_ALIGNMENT;
    }
    runs[r].candidates = list;
    runs[r].candidate_count = count;
  }
  p.runs = runs;
  return p;
}

static void test_core(void **unused) {
  (void)unused;
  int solved = 0, tight = 0, cores = 0, gained = 0;
  for (int trial = 0; trial < TRIALS / 8; trial++) {
    begin_trial(5u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    enumeration open = enumerate_all(&p);
    if (random_below(2) && isfinite(open.leanest_bytes))
      p.cap_bytes = (int64_t)(1.02 * open.leanest_bytes);
    double best = enumerate_all(&p).fastest_seconds;
    bd_pipeline_problem wide = padded(ctx, &p);
    bd_pipeline got;
    assert_int_equal(bd_pipeline_solve(ctx, &wide, 20, INFINITY, &got), BD_OK);
    assert_int_equal(got.feasible, isfinite(best));
    if (got.feasible) {
      check_order(&wide, got.count);
      assert_true(fabs(got.seconds - best) <= 1e-6 * best);
      assert_true(fabs(step_seconds(&wide, got.count, got.entry) - got.seconds) <= 1e-9 * best);
      assert_true(peak_bytes(&wide, got.count, got.entry) <= (double)wide.cap_bytes);
      assert_true(got.bound <= best * (1 + 1e-6));
      bd_pipeline rough;
      bd_pipeline_core core;
      bd_pipeline_estimate(ctx, &wide, &rough);
      cores += bd_pipeline_find_core(ctx, &wide, &rough, rough.price, 180, &core);
      gained += got.seconds < rough.seconds * (1 - 1e-9);
      solved++;
      tight += best > open.fastest_seconds;
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(solved > TRIALS / 12 && tight > TRIALS / 80);
  assert_true(cores > TRIALS / 80 && gained > 0);
}

static void check_same_layers(const bd_pipeline_problem *p, const int *before, const int *after) {
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++) {
      int more = 0;
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int index = bd_pipeline_index(p, s, r, k);
        more += after[index] - before[index];
      }
      assert_int_equal(more, 0);
    }
}

// Refilled stages keep their layers, and never take longer. Returns whether they take less.
static bool check_refill(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline before, after;
  bd_pipeline_construct(ctx, p, &before);
  if (!before.feasible) before.count = NULL;
  after = before;
  bd_pipeline_refill(ctx, p, &after);
  assert_true(after.seconds <= before.seconds);
  if (!isfinite(after.seconds)) return false;
  assert_true(after.seconds >= best * (1 - 1e-9));
  check_order(p, after.count);
  if (before.count) check_same_layers(p, before.count, after.count);
  assert_true(fabs(step_seconds(p, after.count, after.entry) - after.seconds) <= 1e-9 * best);
  assert_true(peak_bytes(p, after.count, after.entry) <= (double)p->cap_bytes);
  assert_int_equal(after.bytes, (int64_t)peak_bytes(p, after.count, after.entry));
  for (int s = 0; s < p->stages; s++)
    assert_true(after.price[s] >= 0);
  return after.seconds < before.seconds;
}

// From constructions, and of one stage from nothing: what fits is found, and mostly the best of it.
static void test_refill(void **unused) {
  (void)unused;
  int better = 0, alone = 0, exact = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(901u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_problem(ctx);
    enumeration open = enumerate_all(&p);
    static const double room[] = {1.02, 1.1, 1.3};
    for (int i = 0; i < 3 && isfinite(open.leanest_bytes); i++) {
      p.cap_bytes = (int64_t)(room[i] * open.leanest_bytes);
      double best = enumerate_all(&p).fastest_seconds;
      better += check_refill(ctx, &p, best);
      if (p.stages > 1) continue;
      bd_pipeline own = {.seconds = INFINITY};
      bd_pipeline_refill(ctx, &p, &own);
      alone++;
      exact += own.seconds <= best * (1 + 1e-9);
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(better > TRIALS / 40);
  assert_true(alone > TRIALS / 10);
  assert_true(exact * 10 > alone * 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_enumeration),
                                     cmocka_unit_test(test_cuts),
                                     cmocka_unit_test(test_links),
                                     cmocka_unit_test(test_labels),
                                     cmocka_unit_test(test_core),
                                     cmocka_unit_test(test_refill)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
