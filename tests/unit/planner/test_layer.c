// Layer problems of real functions: solved as well as by brute force, lowered without complaint,
// and never promising more than the lowered functions keep.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/choice/eliminate.h"
#include "planner/layer/key.h"
#include "planner/layer/options.h"
#include "planner/layer/problem.h"
#include "planner/layer/sketch.h"
#include "planner/layer/workspace.h"
#include "planner/space.h"
#include "tests/unit/planner/support_choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const bd_mesh meshes[] = {{1, {1}}, {1, {2}}, {2, {2, 2}}, {3, {2, 1, 2}}};
enum { MESHES = sizeof meshes / sizeof *meshes, MICRO_BATCH = 4 };

static bd_module *load(bd_ctx *ctx, const char *model) {
  bd_model_options options = {0};
  if (strncmp(model, "gpt2", 4) == 0 || strncmp(model, "llama", 5) == 0)
    options = (bd_model_options){.sequence = 8, .vocabulary = 64};
  bd_module *graph = NULL, *train = NULL;
  bd_status status = bd_model_load(ctx, model, &options, &graph);
  if (status == BD_OK) status = bd_pass_autodiff(ctx, graph, &train);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return train;
}

static bd_layer_request request_of(const bd_module *train, const bd_cluster *cluster,
                                   const bd_mesh *mesh, const bd_run *run, int recompute) {
  return (bd_layer_request){.train = train,
                            .cost = {cluster, *mesh, MICRO_BATCH},
                            .function = run->function,
                            .weight_uses = run->weight_uses,
                            .passes = 2,
                            .optimizer = "adamw",
                            .zero = -1,
                            .recompute = recompute};
}

typedef void (*request_visit)(bd_ctx *ctx, const bd_layer_request *request);

static void visit_runs(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_mesh *mesh, int recompute, request_visit visit) {
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  bd_sharding *forms, *tied;
  int form_count = bd_space_forms(ctx, mesh, MICRO_BATCH, 8, &forms);
  int tied_count = bd_space_tied_forms(ctx, mesh, runs.any_tied, &tied);
  for (int r = 0; r < runs.count; r++)
    for (int t = 0; t < tied_count; t++) {
      bd_layer_request request = request_of(train, cluster, mesh, &runs.runs[r], recompute);
      request.form_count = form_count;
      request.forms = forms;
      request.tied_form = tied[t];
      visit(ctx, &request);
    }
}

// Whether products are done in parts: small ones pay where nothing takes time to start.
static bool in_parts;

static void start_at_once(bd_cluster *cluster) {
  cluster->kernel_seconds = 1e-9;
  cluster->intra = (bd_link){.bytes_per_second = 50e9};
  cluster->node.switch_sum = (bd_link){0};
  cluster->flops.f32 = 2e12;
  cluster->work = (bd_work_rates){.product_beside = 0.8};
}

static void visit_model(const char *model, const char *preset, int recompute, request_visit visit) {
  for (int m = 0; m < MESHES; m++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_module *train = load(ctx, model);
    bd_cluster cluster;
    assert_int_equal(bd_cluster_load(ctx, preset, &cluster), BD_OK);
    train->cuda = in_parts;
    if (in_parts) start_at_once(&cluster);
    visit_runs(ctx, train, &cluster, &meshes[m], recompute, visit);
    bd_ctx_destroy(ctx);
  }
}

// Product of the options, as far as it matters.
static double product(const bd_choice_problem *p) {
  double size = 1;
  for (int i = 0; i < p->nodes; i++)
    size *= p->node[i].options;
  return size;
}

static int compared, capped;

static void compare(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer_space space;
  bd_choice_problem problem;
  bd_choice choice;
  double **tape;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  bd_layer_space_enumerate(ctx, &space, NULL);
  bd_layer_problem(ctx, &space, &problem, &tape);
  for (int i = 0; i < problem.nodes; i++)
    for (int o = 0; o < problem.node[i].options; o++)
      problem.node[i].usage[o] += tape[i][o];
  if (product(&problem) > 3e5) return;
  assert_int_equal(bd_choice_solve(ctx, &problem, 20, &choice), BD_OK);
  double best = exhaustive_choice(ctx, &problem);
  compared++;
  assert_int_equal(choice.feasible, isfinite(best));
  if (!choice.feasible) return;
  assert_true(choice.optimal);
  assert_true(fabs(choice.cost - best) <= 1e-6 * best);
  assert_true(choice.bound <= best * (1 + 1e-6));
  problem.budget = choice.usage * 0.8;
  assert_int_equal(bd_choice_solve(ctx, &problem, 20, &choice), BD_OK);
  best = exhaustive_choice(ctx, &problem);
  assert_true(choice.bound <= best * (1 + 1e-6));
  assert_int_equal(choice.feasible, isfinite(best));
  if (!choice.feasible) return;
  capped++;
  assert_true(choice.usage <= problem.budget);
  if (choice.optimal) assert_true(fabs(choice.cost - best) <= 1e-6 * best);
}

static void test_equals_brute_force(void **unused) {
  (void)unused;
  visit_model("examples/mlp.json", "cpu:1x4", 0, compare);
  visit_model("gpt2-tiny", "cpu:1x4", 0, compare);
  visit_model("llama-tiny", "h100:1x4", 0, compare);
  assert_true(compared > 20);
  assert_true(capped > 0);
}

static int cut_candidates; // with products in parts

static int64_t held_bytes(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[1] + c->tape_bytes +
         c->boundary_bytes + c->passing_bytes;
}

// Lowering verifies what it makes; the exact seconds and bytes are those of the lowered functions.
static void hold_bounds(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_candidate *candidates;
  int count;
  bd_layer_point fastest = {0}, leanest = {0};
  assert_int_equal(bd_layer_open(ctx, request, &layer), BD_OK);
  bool any = bd_layer_price(ctx, layer, 1, 0, 1, &fastest);
  assert_int_equal(bd_layer_price(ctx, layer, 0, 1, 1, &leanest), any);
  bd_status status = bd_layer_candidates(ctx, layer, 2, 0, &candidates, &count);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  assert_int_equal(count > 0, any);
  if (any) assert_true(bd_layer_least_bytes(layer) <= leanest.bytes * (1 + 1e-9));
  for (int k = 0; k < count; k++) {
    const bd_layer_candidate *c = &candidates[k];
    double exact =
        c->forward_seconds + c->backward_seconds + fmin(c->sync_seconds[0], c->sync_seconds[1]) / 2;
    assert_true(c->proven_seconds > 0);
    assert_true(fabs(c->proven_seconds - fastest.seconds) <= 1e-9 * fastest.seconds);
    if (exact < fastest.seconds * (1 - 1e-9))
      fail_msg("%s in form %d on %d devices, recompute %d: %g seconds, less than the bound of %g",
               request->function->name, c->form, bd_mesh_devices(&request->cost.mesh),
               request->recompute, exact, fastest.seconds);
    assert_true((double)held_bytes(c) >= leanest.bytes * (1 - 1e-9));
    cut_candidates += c->strategy.parts != NULL;
  }
}

// What is priced apart is a bound as well.
static void hold_apart(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_sketch *sketch;
  bd_layer_point fastest;
  assert_int_equal(bd_layer_open(ctx, request, &layer), BD_OK);
  assert_int_equal(bd_layer_sketch_open(ctx, request, &sketch), BD_OK);
  double without_weights = bd_layer_sketch_apart(sketch);
  bd_layer_sketch_weigh(sketch);
  double apart = bd_layer_sketch_apart(sketch);
  assert_true(without_weights > 0 && without_weights <= apart);
  if (bd_layer_price(ctx, layer, 1, 0, 1, &fastest))
    assert_true(apart <= fastest.seconds * (1 + 1e-9));
}

static void test_bounds_hold(void **unused) {
  (void)unused;
  for (int recompute = -1; recompute <= 1; recompute++) {
    visit_model("examples/mlp.json", "cpu:1x4", recompute, hold_bounds);
    visit_model("gpt2-tiny", "cpu:1x4", recompute, hold_bounds);
    visit_model("gpt2-tiny", "h100:4x1", recompute, hold_bounds);
    visit_model("llama-tiny", "h100:1x4", recompute, hold_bounds);
  }
}

enum { DRAWS = 20 };
static int drawn, offloaded, worst_permille;
static uint64_t random_state = 1;

// xorshift64 (Marsaglia 2003).
static int draw(int count) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (int)(random_state % (uint64_t)count);
}

static double fullest;

// The workspace is no smaller than the problem says it is at any moment.
static void hold_workspace(const bd_layer_request *request, const bd_layer_space *space,
                           const bd_choice_problem *problem, const int *option,
                           const bd_layer_candidate *c) {
  const bd_layer_workspace *w = bd_layer_workspace_create(space);
  for (int m = 0; m < bd_layer_workspace_moments(w); m++) {
    double bytes = bd_layer_workspace_fixed(w, m);
    for (int i = 0; i + 1 < problem->nodes; i++)
      bytes += bd_layer_workspace_added(w, m, i, &space->clusters[i].options[option[i]]);
    if (bytes > (double)c->workspace_bytes)
      fail_msg("%s on %d devices, moment %d: a workspace of %lld bytes, the problem says %g",
               request->function->name, bd_mesh_devices(&request->cost.mesh), m,
               (long long)c->workspace_bytes, bytes);
    if (c->workspace_bytes) fullest = fmax(fullest, bytes / (double)c->workspace_bytes);
  }
}

static void hold_choice(bd_ctx *ctx, const bd_layer_request *request, const bd_layer_space *space,
                        const bd_choice_problem *problem, double *const *tape, const int *option) {
  double seconds, bytes;
  bd_choice_evaluate(problem, option, &seconds, &bytes);
  if (!isfinite(seconds)) return;
  bd_layer_candidate c = {.form = option[space->cluster_count],
                          .strategy = bd_layer_strategy(ctx, space, option)};
  bd_status status = bd_layer_measure(ctx, request, &c);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  for (int i = 0; i < problem->nodes; i++)
    bytes += tape[i][option[i]];
  double exact = c.forward_seconds + c.backward_seconds +
                 fmin(c.sync_seconds[0], c.sync_seconds[1]) / request->passes;
  drawn++;
  offloaded += c.strategy.kept != NULL;
  if (1000 * seconds / exact > worst_permille) worst_permille = (int)(1000 * seconds / exact);
  if (seconds > exact * (1 + 1e-9))
    fail_msg("%s on %d devices: %g seconds, the problem says %g", request->function->name,
             bd_mesh_devices(&request->cost.mesh), exact, seconds);
  assert_true(bytes <= (double)held_bytes(&c) * (1 + 1e-9));
  hold_workspace(request, space, problem, option, &c);
}

// The best choice when the costs of options are up to twice as high, and the bytes have some price:
// what it is said to take is no more than what its lowered functions take.
static void hold_near(bd_ctx *ctx, const bd_layer_request *base) {
  bd_layer_space space;
  bd_layer_request wide = *base, *request = &wide;
  wide.aside = true;
  bd_choice_problem problem;
  double **tape;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  bd_layer_space_enumerate(ctx, &space, NULL);
  bd_layer_problem(ctx, &space, &problem, &tape);
  int *option = BD_NEW_ARRAY(ctx->arena, int, problem.nodes);
  bd_choice_problem noisy = problem;
  noisy.node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, problem.nodes);
  for (int i = 0; i < problem.nodes; i++) {
    noisy.node[i] = problem.node[i];
    noisy.node[i].cost = BD_NEW_ARRAY(ctx->arena, double, problem.node[i].options);
  }
  bd_elimination *e = bd_elimination_create(ctx, &noisy, NULL, -1);
  static const double prices[] = {0, 1e-12, 1e-10, 1e-8}; // seconds a byte
  for (int k = 0; e && k < DRAWS; k++) {
    for (int i = 0; i < problem.nodes; i++)
      for (int o = 0; o < problem.node[i].options; o++)
        noisy.node[i].cost[o] = problem.node[i].cost[o] * (1 + draw(1000) / 1000.0);
    if (bd_elimination_run(e, 1, prices[k % 4], option))
      hold_choice(ctx, request, &space, &problem, tape, option);
  }
}

static void test_near_choices_are_bounded(void **unused) {
  (void)unused;
  visit_model("examples/mlp.json", "cpu:1x4", -1, hold_near);
  visit_model("gpt2-tiny", "h100:4x1", -1, hold_near);
  visit_model("gpt2-tiny", "cpu:1x4", -1, hold_near);
  visit_model("llama-tiny", "h100:1x4", -1, hold_near);
  visit_model("resnet-tiny", "cpu:1x4", -1, hold_near);
  visit_model("unet3d-tiny", "cpu:1x4", -1, hold_near);
  assert_true(drawn > 1000);
  assert_true(offloaded > 10);
  assert_true(worst_permille > 900);
  assert_true(fullest > 0.99);
}

// Names do not count; types, attributes and how weights are shared do.
static void test_keys_tell_problems_apart(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = load(ctx, "gpt2-tiny");
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  bd_layer_request request = {.train = train, .optimizer = "adamw", .passes = 2};
  request.function = runs.runs[1].function;
  request.weight_uses = runs.runs[1].weight_uses;
  const char *key = bd_layer_key(ctx, &request);
  bd_function *other = bd_function_clone(ctx, request.function);
  other->name = bd_intern_z(ctx, "other");
  for (int v = 0; v < other->value_count; v++)
    other->values[v].name = bd_intern_f(ctx, "v%d", v);
  request.function = other;
  assert_ptr_equal(key, bd_layer_key(ctx, &request));
  request.cost.micro_batch = 2;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  request.cost.micro_batch = 0;
  int *uses = BD_NEW_ARRAY(ctx->arena, int, other->param_count);
  for (int p = 0; p < other->param_count; p++)
    uses[p] = 2;
  request.weight_uses = uses;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  request.weight_uses = runs.runs[1].weight_uses;
  other->values[0].type.dims[1]++;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  request.function = runs.runs[0].function;
  request.weight_uses = runs.runs[0].weight_uses;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  bd_ctx_destroy(ctx);
}

static int polished[2];

static double best_seconds(const bd_layer_request *request, const bd_layer_candidate *list,
                           int count, int form) {
  double best = INFINITY;
  for (int k = 0; k < count; k++) {
    double seconds = list[k].forward_seconds + list[k].backward_seconds +
                     list[k].sync_seconds[1] / request->passes;
    assert_true(list[k].proven_seconds <= seconds * (1 + 1e-9));
    if (list[k].form == form) best = fmin(best, seconds);
  }
  return best;
}

// Nothing is lost, what comes is no slower, and the same start is not gone from twice.
static void polish(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_candidate *list;
  int count;
  assert_int_equal(bd_layer_open(ctx, request, &layer), BD_OK);
  assert_int_equal(bd_layer_candidates(ctx, layer, 1, 0, &list, &count), BD_OK);
  for (int k = 0; k < 2 * count && k < 6; k++) {
    bool others = k % 2, added;
    bd_layer_candidate from = list[k / 2];
    bd_layer_stage stage = {.in_flight = 2, .layers = 1, .zero = 1, .price = k < 4 ? 0 : 1e-12};
    double before = best_seconds(request, list, count, from.form);
    assert_int_equal(bd_layer_polish(ctx, layer, &stage, others, &from, &list, &count, &added),
                     BD_OK);
    double after = best_seconds(request, list, count, from.form);
    assert_true(after <= before);
    polished[others] += after < before;
    assert_int_equal(bd_layer_polish(ctx, layer, &stage, others, &from, &list, &count, &added),
                     BD_OK);
    assert_false(added);
  }
}

static void test_polish(void **unused) {
  (void)unused;
  visit_model("gpt2-tiny", "cpu:1x4", -1, polish);
  visit_model("resnet-tiny", "h100:1x4", -1, polish);
  assert_true(polished[0] > 0 && polished[1] > 0);
}

// What is hidden behind products in parts is never more than the bounds think.
static void test_parts_are_bounded(void **unused) {
  (void)unused;
  in_parts = true;
  cut_candidates = 0;
  for (int recompute = -1; recompute <= 1; recompute++) {
    visit_model("gpt2-tiny", "h100:1x4", recompute, hold_bounds);
    visit_model("llama-tiny", "h100:1x4", recompute, hold_bounds);
  }
  visit_model("gpt2-tiny", "h100:1x4", -1, hold_near);
  visit_model("llama-tiny", "h100:1x4", -1, hold_near);
  visit_model("llama-tiny", "h100:1x4", 0, compare);
  visit_model("gpt2-tiny", "h100:1x4", -1, hold_apart);
  visit_model("llama-tiny", "h100:1x4", -1, hold_apart);
  in_parts = false;
  assert_true(cut_candidates > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_polish),
      cmocka_unit_test(test_equals_brute_force),
      cmocka_unit_test(test_bounds_hold),
      cmocka_unit_test(test_near_choices_are_bounded),
      cmocka_unit_test(test_parts_are_bounded),
      cmocka_unit_test(test_keys_tell_problems_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
