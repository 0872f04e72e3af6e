// Bounds of settings under memory caps, against the plans that are found there: from caps that
// leave all room to those under which only the leanest plan fits.
#include "frontend/frontend.h"
#include "ir/memory.h"
#include "ir/pass.h"
#include "planner/attempt.h"
#include "planner/bound/cuts.h"
#include "planner/bound/slowest.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { GLOBAL_BATCH = 4, PARTED_BATCH = 16, CAPS = 3 };

// Caps near the least that has a plan, by its bytes.
static const double tight_caps[] = {1, 1.02, 1.1, 1.3};

typedef struct trial {
  bd_ctx *ctx;
  bd_module *train;
  bd_cluster cluster;
  bd_plan_request request;
  bd_model_runs runs;
  bd_scene scene;
} trial;

static void open_trial(trial *t, const char *model, const char *cluster, int64_t sequence) {
  bd_model_options options = {.sequence = sequence, .vocabulary = sequence ? 256 : 0};
  bd_module *graph;
  *t = (trial){.ctx = bd_ctx_create()};
  assert_int_equal(bd_model_load(t->ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(t->ctx, graph, &t->train), BD_OK);
  assert_int_equal(bd_cluster_load(t->ctx, cluster, &t->cluster), BD_OK);
  t->request = (bd_plan_request){.model = model,
                                 .target = "cpu",
                                 .optimizer = "adamw",
                                 .precision = BD_F32,
                                 .global_batch = GLOBAL_BATCH,
                                 .sequence = sequence,
                                 .schedule = -1,
                                 .zero = -1,
                                 .recompute = -1};
  t->runs = bd_model_runs_find(t->ctx, t->train, NULL);
  t->scene = (bd_scene){.train = t->train,
                        .cluster = &t->cluster,
                        .request = &t->request,
                        .runs = &t->runs,
                        .sequence = sequence};
}

static void set_cap(trial *t, int64_t cap_bytes) {
  t->scene.cap_bytes = cap_bytes;
  t->scene.layers_cap_bytes = cap_bytes - bd_memory_library_bytes(t->train);
}

static bd_attempt attempt(trial *t, const bd_bounded *tied, int count, bd_attempt_kind kind,
                          int64_t cap_bytes) {
  bd_attempt a = {.scene = &t->scene,
                  .setting = tied->setting,
                  .cutoff = INFINITY,
                  .kind = kind,
                  .deadline = BD_NO_DEADLINE,
                  .tied_count = count,
                  .tied = tied};
  set_cap(t, cap_bytes);
  assert_int_equal(bd_attempt_run(t->ctx, &a), BD_OK);
  return a;
}

static int held, capped;

// A bound and the plan that is found.
static void hold_bound(trial *t, const bd_bounded *bound, const bd_attempt *found,
                       int64_t cap_bytes) {
  if (found->lacks) assert_true((double)found->leanest_bytes >= bound->bytes * (1 - 1e-9));
  if (!found->fits) return;
  assert_true((double)bd_attempt_plan_bytes(&found->fastest) >= bound->bytes * (1 - 1e-9));
  if (found->fastest.step_seconds < bound->seconds * (1 - 1e-9))
    fail_msg("%s, %d stages of %d devices, micro-batch %d, %lld bytes: %g seconds, below the bound "
             "of %g",
             t->request.model, bound->setting.stages, bd_mesh_devices(&bound->setting.mesh),
             (int)bound->setting.micro_batch, (long long)cap_bytes, found->fastest.step_seconds,
             bound->seconds);
  held++;
  capped += bound->price.seconds > 0;
}

static int short_of_room;

static double work_of(trial *t, const bd_setting *setting) {
  bd_scene_work *work;
  assert_int_equal(bd_scene_read_work(t->ctx, &t->scene, &work), BD_OK);
  return bd_bound_work(t->ctx, work, setting->stages, setting->micro_batch);
}

// Nor is the plan faster than what its ops take, with those that have to be run again.
static void hold_shortage(trial *t, const bd_setting *setting, const bd_attempt *found,
                          int64_t cap_bytes) {
  if (!found->fits) return;
  set_cap(t, INT64_MAX / 4);
  double roomy = work_of(t, setting);
  set_cap(t, cap_bytes);
  double work = work_of(t, setting);
  assert_true(work >= roomy && work <= found->fastest.step_seconds * (1 + 1e-9));
  short_of_room += work > roomy;
}

// Ops apart and sketches of all tied forms together, as far as a cutoff, tell of no more than the
// plan takes. Returns how often sketches reach `near` seconds.
static int hold_cutoffs(trial *t, const bd_setting *setting, const bd_attempt *found,
                        int64_t cap_bytes, double near, double *out_free) {
  static const double cutoffs[] = {0.9, 1.001, 1.1, 4};
  int reached = 0;
  *out_free = 0;
  set_cap(t, cap_bytes);
  for (size_t i = 0; i < sizeof cutoffs / sizeof *cutoffs; i++) {
    bd_bounded apart, sketch;
    double plan = found->fastest.step_seconds, cutoff = plan * cutoffs[i];
    assert_int_equal(bd_bound_apart(t->ctx, &t->scene, setting, cutoff, &apart), BD_OK);
    assert_int_equal(bd_bound_sketch(t->ctx, &t->scene, setting, cutoff, &sketch), BD_OK);
    assert_true(apart.seconds <= plan * (1 + 1e-9) && sketch.seconds <= plan * (1 + 1e-9));
    *out_free = fmax(*out_free, fmax(apart.free_seconds, sketch.free_seconds));
    reached += sketch.seconds > near;
  }
  return reached;
}

static int slowest, raised;

// Nor is the plan faster than what its slowest stage takes with all that follows the passes.
static void hold_slowest(trial *t, const bd_bounded *tied, const bd_attempt *found) {
  bd_bounded of = *tied;
  if (!found->fits || tied->setting.stages == 1) return;
  assert_int_equal(bd_bound_slowest(t->ctx, &t->scene, BD_NO_DEADLINE, INFINITY, 1, &of), BD_OK);
  assert_true(of.seconds >= tied->seconds);
  hold_bound(t, &of, found, t->scene.cap_bytes);
  slowest++;
  raised += of.seconds > tied->seconds * 1.02;
}

static int sketched, near_sketched;

static void hold_sketch(trial *t, const bd_setting *setting, const bd_attempt *layers,
                        const bd_attempt *found, int64_t cap_bytes) {
  double least = INFINITY, unpriced = INFINITY, sketch_unpriced;
  if (!found->fits) return;
  for (int i = 0; i < layers->bounded_count; i++) {
    least = fmin(least, layers->bounded[i].seconds);
    unpriced = fmin(unpriced, layers->bounded[i].free_seconds);
  }
  near_sketched += hold_cutoffs(t, setting, found, cap_bytes, least * 0.97, &sketch_unpriced);
  assert_true(sketch_unpriced <= unpriced * (1 + 1e-9));
  sketched += 4;
}

static void hold_setting(trial *t, const bd_setting *setting) {
  bd_bounded of = {.setting = *setting};
  bd_attempt open = attempt(t, &of, 1, BD_ATTEMPT_LAYERS, INT64_MAX / 4);
  for (int i = 0; i < open.bounded_count; i++) {
    const bd_bounded *tied = &open.bounded[i];
    bd_attempt fastest = attempt(t, tied, 1, BD_ATTEMPT_SOLVE, INT64_MAX / 4),
               leanest = attempt(t, tied, 1, BD_ATTEMPT_SOLVE, 1);
    assert_true(fastest.fits && leanest.lacks);
    hold_bound(t, tied, &fastest, INT64_MAX / 4);
    hold_slowest(t, tied, &fastest);
    int64_t most = bd_attempt_plan_bytes(&fastest.fastest), least = leanest.leanest_bytes;
    for (int c = 0; c < CAPS; c++) {
      int64_t cap_bytes = least + (most - least) * c / CAPS;
      bd_attempt layers = attempt(t, &of, 1, BD_ATTEMPT_LAYERS, cap_bytes);
      // All tied forms at once, as the search bounds them, and each alone.
      bd_attempt all = attempt(t, layers.bounded, layers.bounded_count, BD_ATTEMPT_ROOM, cap_bytes);
      bd_attempt room = attempt(t, &layers.bounded[i], 1, BD_ATTEMPT_ROOM, cap_bytes);
      bd_attempt solved = attempt(t, room.bounded, 1, BD_ATTEMPT_SOLVE, cap_bytes);
      assert_int_equal(all.bounded_count, layers.bounded_count);
      assert_true(room.bounded->tight && room.bounded_count == 1);
      hold_bound(t, &layers.bounded[i], &solved, cap_bytes);
      hold_bound(t, room.bounded, &solved, cap_bytes);
      hold_bound(t, &all.bounded[i], &solved, cap_bytes);
      hold_sketch(t, setting, &layers, &solved, cap_bytes);
      hold_shortage(t, setting, &solved, cap_bytes);
      if (layers.bounded[i].tight)
        assert_true(room.bounded->seconds <= layers.bounded[i].seconds * (1 + 1e-9));
    }
  }
}

static void hold_model(const char *model, const char *cluster, int64_t sequence) {
  trial t;
  open_trial(&t, model, cluster, sequence);
  int devices = bd_cluster_devices(&t.cluster);
  for (int stages = 1; stages <= devices; stages *= 2)
    for (int64_t micro_batch = 1; micro_batch <= GLOBAL_BATCH; micro_batch *= 4) {
      bd_setting setting = {stages, {1, {devices / stages}}, micro_batch, bd_sharding_replicated()};
      hold_setting(&t, &setting);
    }
  bd_ctx_destroy(t.ctx);
}

static void test_bounds_hold_under_caps(void **unused) {
  (void)unused;
  hold_model("gpt2-tiny", "cpu:1x2", 16);
  hold_model("llama-tiny", "h100:1x2", 16);
  hold_model("examples/mlp.json", "cpu:1x2", 0);
  assert_true(held > 24 && capped > 8);
  assert_true(sketched > 48 && near_sketched > sketched * 3 / 4);
}

// What pointwise ops in a row make again may stay in the kernel of the first gradients, and need
// not be read.
static void test_bounds_hold_where_rows_are_made_again(void **unused) {
  (void)unused;
  hold_model("tests/unit/planner/row.json", "cpu:1x1", 0);
  hold_model("tests/unit/planner/row.json", "cpu:1x4", 0);
  hold_model("tests/unit/planner/row.json", "h100:1x2", 0);
}

static int tight, near_bytes, near_seconds, above_free;

// Whichever price is given, stages take no longer than in the plan, and no less than with room.
static void hold_cuts(trial *t, const bd_setting *setting, const bd_attempt *found) {
  static const double given[] = {1e-30, 1e30};
  bd_setting_layers layers;
  bd_cuts_bound cuts[2];
  assert_int_equal(bd_setting_open(t->ctx, &t->scene, setting, NULL, &layers), BD_OK);
  for (int i = 0; i < 2; i++) {
    cuts[i] = bd_bound_cuts(t->ctx, &t->scene, setting, &layers, given[i], 1e30);
    assert_true(cuts[i].step_seconds <= found->fastest.step_seconds * (1 + 1e-9));
  }
  int64_t cap_bytes = t->scene.cap_bytes;
  set_cap(t, INT64_MAX / 4);
  bd_cuts_bound free = bd_bound_cuts(t->ctx, &t->scene, setting, &layers, 0, 1e30);
  set_cap(t, cap_bytes);
  // What is given tells nothing, so that more than that is by prices that were found.
  for (int i = 0; i < 2; i++) {
    assert_true(cuts[i].seconds >= free.seconds * (1 - 1e-9));
    above_free += cuts[i].seconds > free.seconds * (1 + 1e-6);
  }
}

// A setting with one tied form under caps that hardly any plan fits.
static void hold_tight(trial *t, const bd_bounded *tied) {
  bd_attempt leanest = attempt(t, tied, 1, BD_ATTEMPT_SOLVE, 1);
  assert_true(leanest.lacks);
  for (size_t i = 0; i < sizeof tight_caps / sizeof *tight_caps; i++) {
    int64_t cap_bytes = (int64_t)((double)leanest.leanest_bytes * tight_caps[i]);
    bd_attempt room = attempt(t, tied, 1, BD_ATTEMPT_ROOM, cap_bytes);
    bd_attempt solved = attempt(t, room.bounded, 1, BD_ATTEMPT_SOLVE, cap_bytes);
    double library = (double)(t->scene.cap_bytes - t->scene.layers_cap_bytes);
    assert_true(room.bounded->bytes + library <= (double)leanest.leanest_bytes * (1 + 1e-9));
    hold_bound(t, room.bounded, &solved, cap_bytes);
    hold_slowest(t, room.bounded, &solved);
    hold_shortage(t, &tied->setting, &solved, cap_bytes);
    if (!solved.fits) continue;
    hold_cuts(t, &tied->setting, &solved);
    double free_seconds;
    hold_cutoffs(t, &tied->setting, &solved, cap_bytes, 0, &free_seconds);
    tight++;
    near_bytes += room.bounded->bytes + library > 0.9 * (double)leanest.leanest_bytes;
    near_seconds += room.bounded->seconds > 0.8 * solved.fastest.step_seconds;
  }
}

static void hold_tight_model(const char *model, const char *cluster, int64_t sequence,
                             bd_schedule schedule, int recompute) {
  trial t;
  open_trial(&t, model, cluster, sequence);
  t.request.recompute = recompute;
  t.train->cuda = strncmp(cluster, "h100", 4) == 0;
  t.request.target = t.train->cuda ? "cuda" : "cpu";
  t.request.schedule = (int)schedule;
  int devices = bd_cluster_devices(&t.cluster);
  for (int stages = 2; stages <= devices && stages <= t.runs.calls; stages *= 2) {
    bd_bounded of = {.setting = {stages, {1, {devices / stages}}, 2, bd_sharding_replicated()}};
    bd_attempt open = attempt(&t, &of, 1, BD_ATTEMPT_LAYERS, INT64_MAX / 4);
    for (int i = 0; i < open.bounded_count; i++)
      hold_tight(&t, &open.bounded[i]);
  }
  bd_ctx_destroy(t.ctx);
}

// Several stages, skips that pass by stages, shared weights, messages that are held; results that
// their own gradients are made of, kept and run again, and a function of an input, which has no
// gradient, and of results, which have one.
static void test_bounds_hold_under_tight_caps(void **unused) {
  (void)unused;
  hold_tight_model("gpt2-tiny", "h100:1x4", 16, BD_SCHEDULE_1F1B, -1);
  hold_tight_model("llama-tiny", "cpu:1x4", 16, BD_SCHEDULE_GPIPE, -1);
  hold_tight_model("unet3d-tiny", "cpu:1x4", 0, BD_SCHEDULE_1F1B, -1);
  hold_tight_model("examples/mlp.json", "h100:1x4", 0, BD_SCHEDULE_1F1B, -1);
  hold_tight_model("tests/unit/planner/tanh.json", "h100:1x4", 0, BD_SCHEDULE_1F1B, 1);
  hold_tight_model("tests/unit/planner/tanh.json", "h100:1x4", 0, BD_SCHEDULE_1F1B, 0);
  assert_true(tight > 30 && short_of_room > 3 && above_free > tight / 4);
  assert_true(near_bytes > tight * 3 / 4 && near_seconds > tight * 2 / 3);
}

// The tied form that is bounded least, whatever it holds.
static bd_bounded least_bounded(trial *t, int stages, const bd_mesh *mesh, int64_t micro_batch) {
  bd_bounded of = {.setting = {stages, *mesh, micro_batch, bd_sharding_replicated()}};
  bd_attempt a = attempt(t, &of, 1, BD_ATTEMPT_LAYERS, INT64_MAX / 4);
  assert_true(a.bounded_count > 0);
  bd_bounded least = a.bounded[0];
  for (int i = 1; i < a.bounded_count; i++)
    if (a.bounded[i].free_seconds < least.free_seconds) least = a.bounded[i];
  for (int i = 0; i < a.bounded_count; i++)
    least.seconds = fmin(least.seconds, a.bounded[i].seconds);
  return least;
}

static int near, apart;

// Ops apart take no more than layers, and mostly not much less.
static void hold_apart(trial *t, const bd_bounded *layers) {
  bd_bounded of = {.setting = layers->setting};
  bd_attempt a = attempt(t, &of, 1, BD_ATTEMPT_APART, INT64_MAX / 4);
  double work = work_of(t, &layers->setting);
  assert_int_equal(a.bounded_count, 1);
  assert_true(a.bounded->seconds <= layers->seconds * (1 + 1e-9));
  assert_true(a.bounded->free_seconds <= layers->free_seconds * (1 + 1e-9));
  assert_true(a.bounded->seconds >= work * (1 - 1e-9));
  near += a.bounded->seconds - work > (layers->seconds - work) / 2;
  apart++;
}

// What micro-batches say of their parts is no more than what is found for the parts.
static void hold_parts(trial *t, int stages, const bd_mesh *mesh) {
  for (int64_t whole = 2; whole <= PARTED_BATCH; whole *= 2) {
    bd_bounded of_whole = least_bounded(t, stages, mesh, whole);
    hold_apart(t, &of_whole);
    for (int64_t part = 1; part < whole; part *= 2) {
      double found = least_bounded(t, stages, mesh, part).seconds;
      assert_true(bd_bound_part(&t->scene, &of_whole, part) <= found * (1 + 1e-9));
    }
  }
}

static void test_bounds_of_parts_and_apart(void **unused) {
  (void)unused;
  static const char *const models[] = {"gpt2-tiny", "llama-tiny", "examples/mlp.json",
                                       "resnet-tiny"};
  static const char *const clusters[] = {"cpu:1x8", "h100:2x4"};
  for (int i = 0; i < 8; i++) {
    trial t;
    open_trial(&t, models[i / 2], clusters[i % 2], i < 4 ? 16 : 0);
    t.request.global_batch = PARTED_BATCH;
    for (int stages = 1; stages <= 2; stages++) {
      bd_mesh line = {1, {8 / stages}}, square = {2, {2, 4 / stages}};
      hold_parts(&t, stages, &line);
      hold_parts(&t, stages, &square);
    }
    bd_mesh cube = {3, {2, 2, 2}};
    bd_bounded of_cube = least_bounded(&t, 1, &cube, PARTED_BATCH);
    hold_apart(&t, &of_cube);
    bd_ctx_destroy(t.ctx);
  }
  assert_true(near > apart * 4 / 5);
}

// A stage has its messages over the links to both its neighbours.
static void test_messages_between_stages(void **unused) {
  (void)unused;
  trial t;
  open_trial(&t, "gpt2-tiny", "rtx-4090:2x2", 16);
  bd_setting setting = {4, {1, {1}}, 1, bd_sharding_replicated()};
  bd_setting_layers layers;
  set_cap(&t, INT64_MAX / 4);
  assert_int_equal(bd_setting_sketch(t.ctx, &t.scene, &setting, NULL, &layers), BD_OK);
  bd_moves moves = bd_bound_moves(&t.scene, &setting, &layers);
  const double *of = moves.of_stage;
  double within = of[0], over = of[1] - within; // nodes
  assert_true(within > 0 && over > within);
  assert_true(fabs(of[2] - of[1]) < 1e-12 && fabs(of[3] - of[0]) < 1e-12);
  assert_true(fabs(moves.sum - (4 * within + 2 * over)) < 1e-12);
  bd_ctx_destroy(t.ctx);
}

// All tied forms of settings of several stages, whose ends are long where links are slow: of shared
// weights between the first stage and the last, and of every weight among few micro-batches.
static void hold_ends(const char *model, const char *cluster, int64_t sequence, int schedule) {
  trial t;
  open_trial(&t, model, cluster, sequence);
  t.request.schedule = schedule;
  int devices = bd_cluster_devices(&t.cluster);
  for (int stages = 2; stages <= devices && stages <= t.runs.calls; stages++)
    for (int64_t micro_batch = 1; micro_batch <= GLOBAL_BATCH; micro_batch *= 2) {
      if (devices % stages) continue;
      bd_setting setting = {stages, {1, {devices / stages}}, micro_batch, bd_sharding_replicated()};
      bd_bounded of = {.setting = setting};
      bd_attempt open = attempt(&t, &of, 1, BD_ATTEMPT_LAYERS, INT64_MAX / 4);
      bd_bounded *together =
          bd_arena_copy(t.ctx->arena, open.bounded, open.bounded_count, sizeof *together);
      assert_int_equal(
          bd_bound_slowest(t.ctx, &t.scene, BD_NO_DEADLINE, INFINITY, open.bounded_count, together), BD_OK);
      for (int i = 0; i < open.bounded_count; i++) {
        bd_attempt found = attempt(&t, &open.bounded[i], 1, BD_ATTEMPT_SOLVE, INT64_MAX / 4);
        hold_slowest(&t, &open.bounded[i], &found);
        hold_bound(&t, &together[i], &found, INT64_MAX / 4);
      }
    }
  bd_ctx_destroy(t.ctx);
}

static void test_bounds_of_the_slowest_stage(void **unused) {
  (void)unused;
  slowest = raised = 0;
  hold_ends("gpt2-tiny", "rtx-4090:2x2", 16, -1);
  hold_ends("gpt2-tiny", "h100:4x2", 16, BD_SCHEDULE_GPIPE);
  hold_ends("llama-tiny", "cpu:2x4", 16, -1);
  hold_ends("resnet-tiny", "rtx-4090:1x4", 0, -1);
  hold_ends("unet3d-tiny", "cpu:1x4", 0, BD_SCHEDULE_GPIPE);
  // Stages that no gradient comes back to, and that take nothing from the one before them.
  hold_ends("tests/unit/planner/no_way_back.json", "cpu:1x2", 0, -1);
  hold_ends("tests/unit/planner/no_way_back.json", "rtx-4090:2x1", 0, -1);
  hold_ends("tests/unit/planner/past.json", "cpu:3x1", 0, -1);
  assert_true(slowest > 30 && raised > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_hold_under_caps),
                                     cmocka_unit_test(test_bounds_hold_where_rows_are_made_again),
                                     cmocka_unit_test(test_bounds_hold_under_tight_caps),
                                     cmocka_unit_test(test_bounds_of_parts_and_apart),
                                     cmocka_unit_test(test_bounds_of_the_slowest_stage),
                                     cmocka_unit_test(test_messages_between_stages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
