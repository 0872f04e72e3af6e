// Changes of form between layers, and bounds that count them, against every assignment of a few
// measured candidates to stages, in every order of their forms.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/bound/slowest.h"
#include "planner/candidates.h"
#include "planner/pipeline/shared.h"
#include "tests/unit/planner/support_pipeline.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TRIALS = 40 };

typedef struct trial {
  bd_ctx *ctx;
  bd_cluster cluster;
  bd_plan_request request;
  bd_model_runs runs;
  bd_scene scene;
  bd_candidates candidates;
} trial;

static void open_trial(trial *t, const char *model, int64_t sequence, const char *cluster) {
  bd_model_options options = {.sequence = sequence, .vocabulary = sequence ? 256 : 0};
  bd_module *graph, *train;
  *t = (trial){.ctx = bd_ctx_create()};
  assert_int_equal(bd_model_load(t->ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(t->ctx, graph, &train), BD_OK);
  assert_int_equal(bd_cluster_load(t->ctx, cluster, &t->cluster), BD_OK);
  t->request = (bd_plan_request){.model = model,
                                 .target = "cpu",
                                 .optimizer = "adamw",
                                 .precision = BD_F32,
                                 .global_batch = 8,
                                 .sequence = sequence,
                                 .schedule = -1,
                                 .zero = -1,
                                 .recompute = -1};
  t->runs = bd_model_runs_find(t->ctx, train, NULL);
  t->scene = (bd_scene){.train = train,
                        .cluster = &t->cluster,
                        .request = &t->request,
                        .runs = &t->runs,
                        .sequence = sequence,
                        .cap_bytes = INT64_MAX / 4,
                        .layers_cap_bytes = INT64_MAX / 4};
}

static void measure(trial *t, const bd_setting *setting) {
  bool possible;
  assert_int_equal(bd_candidates_measure(t->ctx, &t->scene, setting, 0, INFINITY, NULL,
                                         &t->candidates, &possible),
                   BD_OK);
  assert_true(possible);
}

// Of every run at most so many candidates, drawn at random, in a pipeline, to which the first and
// the last layer add what they share. `of_form`, per run: what the best of them takes by its form
// among those of the layers.
static bd_pipeline_problem draw(trial *t, int zero, int most, double **of_form) {
  bd_pipeline_problem problem = bd_candidates_pose(t->ctx, &t->candidates, zero);
  int forms = t->candidates.layers.form_count;
  double tie = bd_shared_tie_seconds(&t->scene, &t->candidates.setting);
  bd_pipeline_run *runs =
      bd_arena_copy(t->ctx->arena, problem.runs, problem.run_count, sizeof *runs);
  for (int r = 0; r < problem.run_count; r++) {
    const bd_layer_candidate *list = t->candidates.list[t->runs.runs[r].like];
    int count = runs[r].candidate_count < most ? runs[r].candidate_count : most;
    bd_layer_candidate *drawn = BD_NEW_ARRAY(t->ctx->arena, bd_layer_candidate, count);
    of_form[r] = BD_NEW_ARRAY(t->ctx->arena, double, forms);
    for (int f = 0; f < forms; f++)
      of_form[r][f] = INFINITY;
    for (int k = 0; k < count; k++) {
      int at = random_below(runs[r].candidate_count);
      drawn[k] = runs[r].candidates[at];
      if (r == 0 || r + 1 == problem.run_count) drawn[k].sync_seconds[zero] += tie;
      double *own = &of_form[r][list[at].form];
      *own = fmin(*own, drawn[k].forward_seconds + drawn[k].backward_seconds +
                            drawn[k].sync_seconds[zero] / problem.micro_batches);
    }
    runs[r].candidates = drawn;
    runs[r].candidate_count = count;
  }
  problem.runs = runs;
  return problem;
}

static int compared, changed, predicted;

// A pipeline of one candidate for each run, as the plan that it becomes.
static double plan_seconds(trial *t, const bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  bd_pipeline_estimate(t->ctx, problem, &pipeline);
  assert_true(pipeline.feasible);
  assert_int_equal(bd_plan_assemble(t->ctx, &t->request, &t->cluster, problem,
                                    &t->candidates.setting, &pipeline, &plan),
                   BD_OK);
  assert_int_equal(bd_plan_predict(t->ctx, t->scene.train, &t->cluster, &plan), BD_OK);
  predicted++;
  return plan.step_seconds;
}

static double sum_apart(const trial *t, const bd_links *links, double *const *of_form) {
  double sum = 0;
  for (int r = 0; r < t->runs.count; r++) {
    double least = INFINITY;
    for (int f = 0; f < links->form_count; f++)
      least = fmin(least, of_form[r][f]);
    sum += t->runs.runs[r].calls * least;
  }
  return sum;
}

// On one stage the best chain of forms takes as long as the best pipeline does.
static void compare_chains(const char *model, int64_t sequence, const char *cluster, bd_mesh mesh) {
  trial t;
  open_trial(&t, model, sequence, cluster);
  bd_setting setting = {1, mesh, 4, bd_sharding_replicated()};
  measure(&t, &setting);
  const bd_links *links = t.candidates.layers.links;
  assert_int_equal(links->form_count, t.candidates.layers.form_count);
  for (int i = 0; i < TRIALS; i++) {
    random_begin(77u + (uint64_t)i);
    double *of_form[MOST_RUNS];
    int most = 1 + i % MOST_CANDIDATES;
    bd_pipeline_problem problem = draw(&t, i % 2, most, of_form);
    double best = most == 1 ? plan_seconds(&t, &problem)
                            : enumerate_pipelines(&problem).fastest_seconds;
    double chain = problem.micro_batches *
                   bd_links_sum(t.ctx, links, &t.runs, (const double *const *)of_form, 1);
    // Pipelines are charged with gradients that nothing wants; plans are not, but with values that
    // skip layers, and with bringing inputs to their layers.
    double much = most == 1 ? 0.05 : t.runs.hands_back ? 1e-6 : 1;
    if (chain > best * (1 + 1e-6) || chain < best * (1 - much))
      fail_msg("%s: a chain of %.12g s, a pipeline of %.12g s", model, chain, best);
    compared++;
    changed += chain > problem.micro_batches * sum_apart(&t, links, of_form) * (1 + 1e-9);
  }
  bd_ctx_destroy(t.ctx);
}

static void test_chains_of_forms(void **unused) {
  (void)unused;
  compare_chains("llama-tiny", 16, "cpu:1x4", (bd_mesh){1, {4}});
  compare_chains("llama-tiny", 16, "rtx-4090:2x2", (bd_mesh){2, {2, 2}});
  compare_chains("examples/mlp.json", 0, "cpu:1x4", (bd_mesh){2, {2, 2}});
  // Nothing wants the gradient of what the first layer makes, which the next one hands back as its
  // other call does.
  compare_chains("tests/unit/planner/unwanted.json", 0, "cpu:1x4", (bd_mesh){1, {4}});
  // The last layer reads what the first one makes, and the second one reads nothing of it.
  compare_chains("tests/unit/planner/past.json", 0, "cpu:1x4", (bd_mesh){1, {4}});
  assert_int_equal(compared, 5 * TRIALS);
  assert_true(changed > compared / 3 && predicted > compared / 4);
}

static int held, near, raised, with_ends;

// By the slowest stage, and by all ends, which are looked for as far as is enough.
static void raise_bound(trial *t, bd_bounded *bounded) {
  bd_bounded slowest = *bounded, some = *bounded;
  assert_int_equal(bd_bound_slowest(t->ctx, &t->scene, BD_NO_DEADLINE, 0, 1, &slowest), BD_OK);
  assert_int_equal(bd_bound_slowest(t->ctx, &t->scene, BD_NO_DEADLINE, INFINITY, 1, bounded),
                   BD_OK);
  assert_true(bounded->seconds >= slowest.seconds);
  double enough = (slowest.seconds + bounded->seconds) / 2;
  assert_int_equal(bd_bound_slowest(t->ctx, &t->scene, BD_NO_DEADLINE, enough, 1, &some), BD_OK);
  assert_true(fabs(some.seconds - enough) < 0.002 * enough);
  with_ends += bounded->seconds > slowest.seconds * 1.001;
}

// Neither what layers tell nor the slowest stage is above any pipeline.
static void hold_bounds(trial *t, const bd_setting *setting) {
  bd_bounded bounded = {.setting = *setting};
  measure(t, setting);
  bd_bound_layers(t->ctx, &t->scene, &t->candidates.layers, INFINITY, &bounded);
  double layers = bounded.seconds, best = INFINITY;
  if (setting->stages > 1) raise_bound(t, &bounded);
  for (int i = 0; i < TRIALS; i++) {
    double *of_form[MOST_RUNS];
    random_begin(99u + (uint64_t)i);
    bd_pipeline_problem problem = draw(t, i % 2, MOST_CANDIDATES, of_form);
    best = fmin(best, enumerate_pipelines(&problem).fastest_seconds);
  }
  if (best < bounded.seconds * (1 - 1e-9))
    fail_msg("%s, %d stages of %d devices, micro-batch %d: %.12g s, below the bound of %.12g s",
             t->request.model, setting->stages, bd_mesh_devices(&setting->mesh),
             (int)setting->micro_batch, best, bounded.seconds);
  held++;
  near += bounded.seconds > 0.9 * best;
  raised += bounded.seconds > layers * 1.01;
}

static void hold_model(const char *model, int64_t sequence, const char *cluster) {
  trial t;
  open_trial(&t, model, sequence, cluster);
  for (int stages = 1; stages <= MOST_STAGES; stages++)
    for (int64_t micro_batch = 1; micro_batch <= 8; micro_batch *= 2) {
      bd_setting setting = {stages, {1, {2}}, micro_batch, bd_sharding_replicated()};
      hold_bounds(&t, &setting);
    }
  bd_ctx_destroy(t.ctx);
}

static void test_bounds_of_pipelines(void **unused) {
  (void)unused;
  hold_model("gpt2-tiny", 16, "rtx-4090:3x2");
  hold_model("gpt2-tiny", 16, "cpu:1x6");
  hold_model("llama-tiny", 16, "rtx-4090:3x2");
  hold_model("llama-tiny", 16, "h100:3x2");
  hold_model("examples/mlp.json", 0, "cpu:3x2");
  // Messages are small or large, as the chain is cut.
  hold_model("tests/unit/planner/uneven.json", 0, "cpu:3x2");
  hold_model("tests/unit/planner/uneven.json", 0, "rtx-4090:3x2");
  hold_model("tests/unit/planner/past.json", 0, "cpu:3x2");
  assert_true(near > held * 4 / 5 && raised > held / 3 && with_ends > held / 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains_of_forms),
                                     cmocka_unit_test(test_bounds_of_pipelines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
