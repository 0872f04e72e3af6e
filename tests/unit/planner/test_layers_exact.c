// Layer graphs against enumeration of every plan: schedule, micro-batches, stages, chunks, cuts,
// devices and options. What a plan costs is written here once more, from the schedules'
// definitions.
#include "planner/graph/construct.h"
#include "planner/graph/interleave.h"
#include "planner/graph/sketch.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
  TRIALS = 4000,
  MOST_LAYERS = 6,
  MOST_MODES = 4,
  MOST_FORMS = 2,
  MOST_OPTIONS = 6,
  LINKS = 3
};

static double random_seconds(double base) {
  return base * random_below(4000) / 1000.0;
}

// An instance as a person would state it; the problem of the solver is made of it.
typedef struct instance {
  bd_layers_problem problem;
  int layers, groups, modes, forms;
  bd_layers_group group[3];
  bd_layers_mode mode[MOST_MODES];
  bd_layers_option option[MOST_LAYERS][MOST_OPTIONS];
  bd_layers_layer layer[MOST_LAYERS];
  // Values by producer and last consumer; the chain's own and skips.
  int links, from[MOST_LAYERS + LINKS], to[MOST_LAYERS + LINKS];
  int64_t bytes[MOST_LAYERS + LINKS];
  double latency, bytes_per_second, change_seconds;
  bd_layers_cut cut[MOST_LAYERS];
  double change[MOST_MODES * MOST_FORMS * MOST_FORMS];
  double hand[MOST_LAYERS][MOST_MODES * MOST_MODES * MOST_FORMS * MOST_FORMS];
  int64_t held[MOST_LAYERS][MOST_MODES];
  int micro_batches[2], chunks[2];
  int stage[MOST_LAYERS]; // that are fixed
  bool forbidden_stages[5];
} instance;

// Bytes and messages that pass from layers before `layer` to it or later ones.
static double hand_seconds(const instance *in, int layer) {
  double seconds = 0;
  for (int i = 0; i < in->links; i++)
    if (in->from[i] < layer && in->to[i] >= layer)
      seconds += 2 * (in->latency + (double)in->bytes[i] / in->bytes_per_second);
  return seconds;
}

static int64_t skip_bytes(const instance *in, int layer, int mode) {
  int64_t bytes = 0, devices = in->mode[mode].devices;
  for (int i = 0; i < in->links; i++)
    if (in->from[i] < layer && in->to[i] >= layer && in->to[i] > in->from[i] + 1)
      bytes += (in->bytes[i] + devices - 1) / devices;
  return bytes;
}

static void make_cuts(instance *in) {
  int F = in->forms;
  for (int n = 0; n < in->modes; n++)
    for (int i = 0; i < F * F; i++)
      in->change[n * F * F + i] = i % (F + 1) ? in->change_seconds : 0;
  for (int l = 0; l < in->layers; l++) {
    for (int i = 0; i < in->modes * in->modes * F * F; i++)
      in->hand[l][i] = hand_seconds(in, l);
    for (int n = 0; n < in->modes; n++)
      in->held[l][n] = skip_bytes(in, l, n);
    in->cut[l] = (bd_layers_cut){in->change, in->hand[l], in->hand[l], in->held[l]};
  }
}

static void make_options(instance *in, int layer, double seconds, int64_t bytes) {
  bool equal = layer && random_below(2) && in->links == in->layers - 1;
  int count = 0;
  for (int i = 0; i < MOST_OPTIONS; i++) {
    if (i >= 2 * in->modes || (i % 2 && random_below(3)) || !random_below(12)) continue;
    int k = count++;
    bd_layers_option *o = &in->option[layer][k];
    *o = (bd_layers_option){.mode = i / 2, .form = (int)random_below((unsigned)in->forms)};
    if (!random_below(16)) o->micro_batches = in->micro_batches[0];
    o->forward_seconds = random_seconds(seconds);
    o->backward_seconds = random_seconds(2 * seconds);
    o->weight_seconds = o->backward_seconds * random_below(4) / 4;
    o->sync_seconds = random_seconds(seconds);
    o->fixed_bytes = bytes * random_below(100) / 100;
    o->micro_batch_bytes = bytes * random_below(50) / 100;
    o->weight_input_bytes = bytes * random_below(30) / 100;
    o->workspace_bytes = bytes * random_below(100) / 100;
  }
  in->layer[layer] = (bd_layers_layer){layer, count, in->option[layer]};
  if (equal) in->layer[layer] = in->layer[layer - 1];
}

static void make_links(instance *in, int64_t bytes) {
  for (int l = 0; l + 1 < in->layers; l++) {
    in->from[in->links] = l;
    in->to[in->links] = l + 1;
    in->bytes[in->links++] = bytes;
  }
  for (int skips = random_below(2) ? (int)random_below(LINKS + 1) : 0; skips > 0; skips--) {
    if (in->layers < 3) return;
    int from = (int)random_below((unsigned)in->layers - 2);
    in->from[in->links] = from;
    in->to[in->links] = from + 2 + (int)random_below((unsigned)(in->layers - from - 2));
    in->bytes[in->links++] = bytes * random_below(200) / 100;
  }
}

// Now and then a layer is fixed to a stage, or a number of stages is forbidden.
static void make_pins(instance *in) {
  for (int l = 0; l < in->layers; l++)
    in->stage[l] = random_below(3) ? -1 : (int)random_below(3);
  if (!random_below(6)) in->problem.stage = in->stage;
  if (random_below(8)) return;
  in->forbidden_stages[1 + random_below(4)] = true;
  in->problem.forbidden_stages = in->forbidden_stages;
}

static void make_instance(instance *in) {
  static const double seconds_of[] = {1e-5, 1e-2, 3};
  static const int64_t bytes_of[] = {100, 1 << 20, (int64_t)1 << 33};
  double seconds = seconds_of[random_below(3)];
  int64_t bytes = bytes_of[random_below(3)];
  memset(in, 0, sizeof *in);
  in->layers = random_below(10) ? 3 + (int)random_below(MOST_LAYERS - 2) : 1 + (int)random_below(2);
  in->groups = 1 + (int)random_below(3);
  in->forms = 1 + (int)random_below(MOST_FORMS);
  for (int g = 0; g < in->groups; g++)
    in->group[g] =
        (bd_layers_group){"g", 2 + (int)random_below(4), bytes * (100 + random_below(900)) / 100};
  in->modes = 1 + (int)random_below(MOST_MODES);
  for (int n = 0; n < in->modes; n++) {
    int g = (int)random_below((unsigned)in->groups);
    in->mode[n] =
        (bd_layers_mode){g, 1 + (int)random_below((unsigned)(in->group[g].count + 1) / 2)};
  }
  in->latency = random_below(2) ? 0 : seconds / 50;
  in->bytes_per_second = (double)bytes / seconds * (1 + random_below(100)) / 2;
  in->change_seconds = random_below(4) ? random_seconds(seconds / 3) : INFINITY;
  in->micro_batches[0] = 1 + (int)random_below(6);
  in->micro_batches[1] = in->micro_batches[0] + 1 + (int)random_below(4);
  in->chunks[0] = 2;
  in->chunks[1] = 3;
  make_links(in, bytes / 10);
  for (int l = 0; l < in->layers; l++)
    make_options(in, l, seconds, bytes);
  make_cuts(in);
  in->problem = (bd_layers_problem){.layer_count = in->layers,
                                    .layers = in->layer,
                                    .cuts = in->cut,
                                    .group_count = in->groups,
                                    .groups = in->group,
                                    .mode_count = in->modes,
                                    .modes = in->mode,
                                    .form_count = in->forms,
                                    .schedules = 1 + random_below(15),
                                    .micro_batch_count = 1 + (int)random_below(2),
                                    .micro_batches = in->micro_batches,
                                    .chunk_count = 1 + (int)random_below(2),
                                    .chunks = in->chunks,
                                    .max_stages = 1 + (int)random_below(4)};
  make_pins(in);
}

// The enumeration: what is chosen so far.
typedef struct trial {
  const instance *in;
  int schedule, m, p, v;
  int mode[4], part[MOST_LAYERS], option[MOST_LAYERS];
  double best;
  int64_t lacking; // of the plan that lacks least
} trial;

// The most chunk tapes that stage s holds: by running its order.
static void count_held(const trial *t, int s, int *out_tapes, int *out_inputs) {
  int forwards = t->m * t->v, p = t->p;
  *out_tapes = forwards;
  *out_inputs = 0;
  if (t->schedule == BD_SCHEDULE_1F1B) *out_tapes = p - s;
  if (t->schedule == BD_SCHEDULE_INTERLEAVED)
    *out_tapes = t->v == 1 ? p - s : 2 * (p - s - 1) + (t->v - 1) * p + 1;
  if (t->schedule == BD_SCHEDULE_ZERO_BUBBLE) {
    *out_tapes = p;
    *out_inputs = s + 1 < forwards ? s + 1 : forwards;
  }
  if (*out_tapes > forwards) *out_tapes = forwards;
}

static int64_t over_cap(const trial *t, int s) {
  const instance *in = t->in;
  int64_t fixed = 0, tape = 0, largest = 0, workspace = 0;
  int tapes, inputs;
  count_held(t, s, &tapes, &inputs);
  for (int c = 0; c < t->v; c++) {
    tape = 0;
    for (int l = 0; l < in->layers; l++) {
      const bd_layers_option *o = &in->layer[l].options[t->option[l]];
      if (t->part[l] != c * t->p + s) continue;
      if (l && t->part[l - 1] != t->part[l]) tape += tapes * skip_bytes(in, l, t->mode[s]);
      fixed += o->fixed_bytes;
      tape += tapes * o->micro_batch_bytes + inputs * o->weight_input_bytes;
      if (o->workspace_bytes > workspace) workspace = o->workspace_bytes;
    }
    if (tape > largest) largest = tape;
  }
  return fixed + largest + workspace - in->group[in->mode[t->mode[s]].group].cap_bytes;
}

// Forward, input gradient, weight gradient, sync of stage s; false when forms cannot change.
static bool time_stage(const trial *t, int s, double out[4]) {
  const instance *in = t->in;
  memset(out, 0, 4 * sizeof *out);
  for (int l = 0; l < in->layers; l++) {
    const bd_layers_option *o = &in->layer[l].options[t->option[l]];
    bool mine = t->part[l] % t->p == s, crosses = l && t->part[l] != t->part[l - 1];
    double extra = 0;
    if (mine) {
      out[0] += o->forward_seconds;
      out[1] += o->backward_seconds - o->weight_seconds;
      out[2] += o->weight_seconds;
      out[3] += o->sync_seconds;
    }
    if (mine && l && !crosses && o->form != in->layer[l - 1].options[t->option[l - 1]].form) {
      if (isinf(in->change_seconds)) return false;
      extra += in->change_seconds;
    }
    if (mine && crosses) extra += hand_seconds(in, l);
    if (crosses && t->part[l - 1] % t->p == s) extra += hand_seconds(in, l);
    out[0] += extra / 2;
    out[1] += extra / 2;
  }
  return true;
}

static double step_of(const trial *t) {
  double at[4][4], sum = 0, longest = 0, sync = 0, forward = 0, backward = 0;
  for (int s = 0; s < t->p; s++) {
    if (!time_stage(t, s, at[s])) return INFINITY;
    sync = fmax(sync, at[s][3]);
    sum += at[s][0] + at[s][1] + (t->schedule == BD_SCHEDULE_ZERO_BUBBLE ? 0 : at[s][2]);
  }
  for (int s = 0; s < t->p; s++) {
    double f = at[s][0], b = at[s][1], w = at[s][2];
    forward = fmax(forward, f);
    backward = fmax(backward, b + w);
    int k = t->m < t->p ? t->m : t->p;
    double seconds = (sum - f - b - w) / t->v + t->m * (f + b + w);
    if (t->schedule == BD_SCHEDULE_ZERO_BUBBLE)
      seconds =
          sum - f - b + t->m * (f + b) + (t->m - k + 1) * w + (k - 1) * fmax(0, w - fmin(f, b));
    longest = fmax(longest, seconds);
  }
  if (t->schedule == BD_SCHEDULE_GPIPE) longest = sum + (t->m - 1) * (forward + backward);
  return longest + sync;
}

static void try_layer(trial *t, int l) {
  const instance *in = t->in;
  if (l == in->layers) {
    if (t->part[l - 1] != t->p * t->v - 1) return;
    int64_t lacking = 0;
    for (int s = 0; s < t->p; s++) {
      int64_t over = over_cap(t, s);
      if (over > lacking) lacking = over;
    }
    double seconds = step_of(t);
    if (isinf(seconds)) return;
    if (lacking < t->lacking) t->lacking = lacking;
    if (!lacking) t->best = fmin(t->best, seconds);
    return;
  }
  for (int part = l ? t->part[l - 1] : 0; part <= (l ? t->part[l - 1] + 1 : 0); part++)
    for (int k = 0; part < t->p * t->v && k < in->layer[l].option_count; k++) {
      const bd_layers_option *o = &in->layer[l].options[k];
      if (o->mode != t->mode[part % t->p]) continue;
      if (in->problem.stage && in->stage[l] >= 0 && in->stage[l] != part % t->p) continue;
      if (o->micro_batches && o->micro_batches != t->m) continue;
      t->part[l] = part;
      t->option[l] = k;
      try_layer(t, l + 1);
    }
}

static void try_modes(trial *t, int s) {
  const instance *in = t->in;
  if (s == t->p) {
    try_layer(t, 0);
    return;
  }
  for (int n = 0; n < in->modes; n++) {
    int used = 0;
    t->mode[s] = n;
    for (int i = 0; i <= s; i++)
      if (in->mode[t->mode[i]].group == in->mode[n].group) used += in->mode[t->mode[i]].devices;
    if (used <= in->group[in->mode[n].group].count) try_modes(t, s + 1);
  }
}

static trial enumerate(const instance *in) {
  trial t = {.in = in, .best = INFINITY, .lacking = INT64_MAX};
  for (t.schedule = 0; t.schedule < BD_SCHEDULE_COUNT; t.schedule++)
    for (int m = 0; m < in->problem.micro_batch_count; m++)
      for (t.p = 1; t.p <= in->problem.max_stages; t.p++)
        for (t.v = 1; t.v <= 3 && !in->forbidden_stages[t.p]; t.v++) {
          t.m = in->micro_batches[m];
          bool listed = t.schedule != BD_SCHEDULE_INTERLEAVED && t.v == 1;
          for (int i = 0; t.schedule == BD_SCHEDULE_INTERLEAVED && i < in->problem.chunk_count; i++)
            listed = listed || in->chunks[i] == t.v;
          if (!listed || !(in->problem.schedules >> t.schedule & 1)) continue;
          if (t.v > 1 && (t.m % t.p || t.p == 1)) continue;
          try_modes(&t, 0);
        }
  return t;
}

static void check_instance(const instance *in, int *out_found) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_answer answer;
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  trial t = enumerate(in);
  assert_int_equal(bd_layers_solve(ctx, &in->problem, BD_NO_DEADLINE, INFINITY, false, &answer),
                   BD_OK);
  assert_int_equal(answer.found, isfinite(t.best));
  assert_true(answer.proven);
  if (answer.found) {
    *out_found += 1;
    assert_true(fabs(answer.seconds - t.best) <= 1e-9 * t.best);
    assert_true(answer.bound <= t.best * (1 + 1e-12));
    double measured = bd_layers_measure(&in->problem, &answer.plan, stages);
    assert_true(fabs(measured - t.best) <= 1e-9 * t.best);
    for (int s = 0; s < answer.plan.stages; s++)
      assert_true(stages[s].bytes <= in->group[in->mode[answer.plan.mode[s]].group].cap_bytes);
  } else {
    assert_true(answer.least_lacking);
    assert_int_equal(answer.lacking_bytes, t.lacking == INT64_MAX ? 0 : t.lacking);
  }
  bd_ctx_destroy(ctx);
}

static void test_equals_enumeration(void **unused) {
  static instance in;
  int found = 0;
  for (int i = 0; i < TRIALS; i++) {
    random_begin((uint64_t)i * 0x9e3779b97f4a7c15u);
    make_instance(&in);
    check_instance(&in, &found);
  }
  // Neither all feasible nor all infeasible.
  assert_in_range(found, TRIALS / 4, TRIALS - TRIALS / 20);
}

// What is constructed is a plan within the caps, and the setting's bound is one.
static void check_construction(const instance *in, const trial *t, bd_ctx *ctx,
                               const bd_layers_setting *setting) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  bd_layers_outcome outcome;
  bd_layers_construct(ctx, setting, INFINITY, &outcome);
  assert_true(outcome.bound <= t->best * (1 + 1e-12));
  if (!outcome.found) return;
  double measured = bd_layers_measure(&in->problem, &outcome.plan, stages);
  assert_true(fabs(measured - outcome.seconds) <= 1e-9 * measured);
  assert_true(measured >= t->best * (1 - 1e-9));
  for (int s = 0; s < outcome.plan.stages; s++)
    assert_true(stages[s].bytes <=
                in->problem.groups[in->problem.modes[outcome.plan.mode[s]].group].cap_bytes);
}

// Of settings that have plans: whose sketch is within 2 % of the best, and its bound within 10 %.
typedef struct sketch_tally {
  int count, found, close;
} sketch_tally;

// No bound is above the best plan; what is found costs what it is said to, and keeps to the caps.
static void check_outcome(const instance *in, const trial *t, const bd_layers_outcome *outcome) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  if (isfinite(t->best)) assert_true(outcome->bound <= t->best * (1 + 1e-12));
  if (!outcome->found) return;
  assert_true(outcome->seconds >= t->best * (1 - 1e-9));
  double measured = bd_layers_measure(&in->problem, &outcome->plan, stages);
  assert_true(fabs(measured - outcome->seconds) <= 1e-9 * measured);
  for (int s = 0; s < outcome->plan.stages; s++)
    assert_true(stages[s].bytes <=
                in->problem.groups[in->problem.modes[outcome->plan.mode[s]].group].cap_bytes);
}

// One setting with hardly any effort, now and then with less work than it takes.
static void check_setting(const instance *in, trial *t, bool thorough) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_setting setting;
  bool possible;
  try_modes(t, 0);
  bd_layers_setting_open(ctx, &in->problem, (bd_schedule)t->schedule, t->p, t->v, t->m, &setting,
                         &possible);
  if (!possible) assert_true(isinf(t->best));
  if (possible) check_construction(in, t, ctx, &setting);
  for (int labels = 1; possible && labels <= 4; labels++) {
    bd_layers_meter meter = {.deadline = BD_NO_DEADLINE};
    bd_layers_effort effort = {labels, labels, &meter, labels == 4 ? 50 : INT64_MAX, thorough};
    double cutoff = labels % 2 || isinf(t->best) ? INFINITY : 1.1 * t->best;
    for (int bound_only = 0; bound_only < 2; bound_only++) {
      bd_layers_outcome outcome;
      meter.used = 0;
      bd_status status =
          t->v > 1 ? bd_layers_interleave(ctx, &setting, &effort, cutoff, &outcome)
                   : bd_layers_chain(ctx, &setting, &effort, cutoff, bound_only, &outcome);
      assert_int_equal(status, BD_OK);
      check_outcome(in, t, &outcome);
    }
  }
  bd_ctx_destroy(ctx);
}

// With much effort, bounds and plans of a setting meet, whatever was looked for before.
static void check_thorough(const instance *in, trial *t, sketch_tally *tally) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_setting setting;
  bd_layers_outcome outcome;
  bd_layers_meter meter = {.deadline = BD_NO_DEADLINE};
  bd_layers_effort effort = {1 << 10, 1 << 10, &meter, INT64_MAX, true};
  bool possible;
  bd_layers_setting_open(ctx, &in->problem, (bd_schedule)t->schedule, t->p, t->v, t->m, &setting,
                         &possible);
  if (possible && t->v == 1) {
    bd_layers_sketch(ctx, &setting, &effort, INFINITY, &outcome);
    check_outcome(in, t, &outcome);
    if (isfinite(t->best)) {
      tally->count++;
      tally->found += outcome.found && outcome.seconds <= 1.02 * t->best;
      tally->close += outcome.bound >= 0.9 * t->best;
    }
    // The windows leave all plans that are better.
    double cutoff = isfinite(t->best) ? t->best * (1 + 1e-6) : INFINITY;
    assert_int_equal(bd_layers_chain(ctx, &setting, &effort, cutoff, false, &outcome), BD_OK);
    assert_int_equal(outcome.found, isfinite(t->best));
    check_outcome(in, t, &outcome);
    if (outcome.found) assert_true(outcome.seconds <= t->best * (1 + 1e-9));
  }
  bd_ctx_destroy(ctx);
}

static void test_bounds_hold_with_little_effort(void **unused) {
  static instance in;
  sketch_tally tally = {0};
  for (int i = 0; i < TRIALS; i++) {
    random_begin((uint64_t)(i + TRIALS) * 0x9e3779b97f4a7c15u);
    make_instance(&in);
    trial t = {.in = &in, .best = INFINITY, .lacking = INT64_MAX};
    t.schedule = i % BD_SCHEDULE_COUNT;
    t.p = 1 + (int)random_below((unsigned)in.problem.max_stages);
    t.m = in.micro_batches[0];
    t.v = 1;
    if (t.schedule == BD_SCHEDULE_INTERLEAVED && t.p > 1) {
      t.v = 2;
      t.m = t.p * (1 + (int)random_below(3));
    }
    check_setting(&in, &t, i % 8 == 0);
    if (i % 8 < 2) check_thorough(&in, &t, &tally);
  }
  assert_in_range(tally.count, TRIALS / 20, TRIALS);
  assert_in_range(tally.found, tally.count * 9 / 10, tally.count);
  assert_in_range(tally.close, tally.count * 9 / 10, tally.count);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_enumeration),
                                     cmocka_unit_test(test_bounds_hold_with_little_effort)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
