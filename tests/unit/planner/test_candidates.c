// A pipeline takes as long as the plan that it becomes, pass by pass: what the layers of a stage
// share is paid once, and messages take what their own links do.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/candidates.h"
#include "planner/step/traffic.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int compared;

// What the stages of a plan take together, messages as parts of their passes.
static double ordered_seconds(const bd_plan *plan) {
  bd_stage_seconds stage[BD_MAX_STAGES];
  for (int s = 0; s < plan->stages; s++) {
    const bd_stage_prediction *p = &plan->predicted[s];
    stage[s] = (bd_stage_seconds){p->forward_seconds, p->backward_seconds, 0, p->sync_seconds,
                                  p->apply_seconds};
  }
  return bd_step_emitted_seconds(plan->schedule, plan->stages, bd_plan_micro_batches(plan), stage);
}

static void compare(bd_ctx *ctx, const bd_scene *scene, const bd_candidates *candidates, int zero) {
  bd_pipeline_problem problem = bd_candidates_pose(ctx, candidates, zero);
  bd_pipeline pipeline;
  bd_plan plan;
  bd_pipeline_estimate(ctx, &problem, &pipeline);
  assert_true(pipeline.feasible);
  assert_int_equal(bd_plan_assemble(ctx, scene->request, scene->cluster, &problem,
                                    &candidates->setting, &pipeline, &plan),
                   BD_OK);
  assert_int_equal(bd_plan_predict(ctx, scene->train, scene->cluster, &plan), BD_OK);
  double seconds = bd_step_has_detours(&plan) ? ordered_seconds(&plan) : plan.step_seconds;
  if (fabs(pipeline.seconds - seconds) > 1e-6 * seconds)
    fail_msg("%s, %d devices, zero %d: a pipeline of %.9g s becomes a plan of %.9g s",
             scene->request->model, bd_mesh_devices(&candidates->setting.mesh), zero,
             pipeline.seconds, seconds);
  compared++;
}

static void compare_model(const char *model, int64_t sequence, const char *on, int stages,
                          int devices) {
  bd_ctx *ctx = bd_ctx_create();
  bd_model_options options = {.sequence = sequence};
  bd_cluster cluster;
  bd_module *graph, *train;
  assert_int_equal(bd_model_load(ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
  assert_int_equal(bd_cluster_load(ctx, on, &cluster), BD_OK);
  bd_plan_request request = {.model = model,
                             .target = "cpu",
                             .optimizer = "adamw",
                             .precision = BD_F32,
                             .global_batch = 8,
                             .sequence = sequence,
                             .schedule = -1,
                             .zero = -1,
                             .recompute = -1};
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  bd_scene scene = {.train = train,
                    .cluster = &cluster,
                    .request = &request,
                    .runs = &runs,
                    .sequence = sequence,
                    .cap_bytes = INT64_MAX / 4,
                    .layers_cap_bytes = INT64_MAX / 4};
  bd_setting setting = {stages, {1, {devices}}, 4, bd_sharding_replicated()};
  bd_candidates candidates;
  bool possible;
  assert_int_equal(
      bd_candidates_measure(ctx, &scene, &setting, 0, INFINITY, NULL, &candidates, &possible),
      BD_OK);
  assert_true(possible);
  for (int zero = 0; zero < 2; zero++)
    compare(ctx, &scene, &candidates, zero);
  bd_ctx_destroy(ctx);
}

static void test_one_stage(void **unused) {
  (void)unused;
  for (int devices = 1; devices <= 4; devices *= 2) {
    compare_model("gpt2-tiny", 16, "cpu:1x4", 1, devices);
    compare_model("llama-tiny", 16, "cpu:1x4", 1, devices);
    compare_model("examples/mlp.json", 0, "cpu:1x4", 1, devices);
  }
  assert_int_equal(compared, 18);
}

// Of four stages, the second and the third are on two nodes.
static void test_links(void **unused) {
  (void)unused;
  compared = 0;
  compare_model("llama-tiny", 16, "cpu:2x2", 4, 1);
  compare_model("llama-tiny", 16, "h100:2x4", 4, 2);
  assert_int_equal(compared, 4);
}

// What a later layer reads passes by the stages between, and its gradient is added where it was
// made.
static void test_skips(void **unused) {
  (void)unused;
  compared = 0;
  compare_model("unet3d-tiny", 0, "cpu:1x4", 1, 2);
  compare_model("unet3d-tiny", 0, "cpu:1x4", 2, 2);
  compare_model("unet3d-tiny", 0, "cpu:2x2", 4, 1);
  compare_model("unet3d-tiny", 0, "h100:2x4", 4, 2);
  compare_model("unet3d-tiny", 0, "h100:1x8", 8, 1);
  assert_int_equal(compared, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_stage), cmocka_unit_test(test_links),
                                     cmocka_unit_test(test_skips)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
