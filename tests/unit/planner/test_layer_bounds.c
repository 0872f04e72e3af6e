// Layer problems of real functions never promise more than the lowered functions keep.
#include "ir/partition.h"
#include "planner/choice/eliminate.h"
#include "planner/constraints/constraints.h"
#include "planner/layer/options.h"
#include "planner/layer/problem.h"
#include "planner/layer/sketch.h"
#include "planner/layer/work.h"
#include "planner/layer/workspace.h"
#include "planner/step/behind.h"
#include "tests/unit/planner/support_layer.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int cut_candidates;    // with products in parts
static int hidden_candidates; // with sums of gradients that are hidden in part

static int64_t held_bytes(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[1] + c->tape_bytes +
         c->boundary_bytes + c->passing_bytes;
}

static bool is_hidden_in_part(bd_ctx *ctx, const bd_layer_request *request,
                              const bd_layer_candidate *c) {
  bd_cluster exposed = *request->cost.cluster;
  bd_layer_request without = *request;
  bd_layer_candidate all = {.form = c->form, .strategy = c->strategy};
  exposed.work.gradients_exposed = 1;
  without.cost.cluster = &exposed;
  assert_int_equal(bd_layer_measure(ctx, &without, &all), BD_OK);
  assert_true(c->sync_seconds[0] <= all.sync_seconds[0]);
  return c->sync_seconds[0] < 0.99 * all.sync_seconds[0] &&
         c->sync_seconds[0] > 0.2 * all.sync_seconds[0];
}

static int in_8_bits, in_bf16;

// Of those that are marked in the forward function.
static void count_products(const bd_layer_request *request, const bd_strategy *strategy) {
  for (int i = 0; i < request->function->op_count; i++) {
    if (!bd_op_find_attr(&request->function->ops[i], "fp8")) continue;
    bool stays = strategy->bf16 && strategy->bf16[i] >> BD_PRODUCT_FORWARD & 1;
    *(stays ? &in_bf16 : &in_8_bits) += 1;
  }
}

// Lowering verifies what it makes; the exact seconds and bytes are those of the lowered functions.
static void hold_bounds(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_candidate *candidates;
  int count;
  bd_layer_point fastest = {0}, leanest = {0};
  assert_int_equal(bd_layer_open(ctx, request, NULL, &layer), BD_OK);
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
    assert_true(c->backward_seconds >= bd_layer_backward_seconds(layer) * (1 - 1e-9));
    assert_true((double)held_bytes(c) >= leanest.bytes * (1 - 1e-9));
    cut_candidates += c->strategy.parts != NULL;
    hidden_candidates += is_hidden_in_part(ctx, request, c);
    count_products(request, &c->strategy);
  }
}

// Without options that take too long, prices promise no more than with them, and as much of what is
// fast enough.
static void hold_below(bd_ctx *ctx, bd_layer *all, const bd_layer_sketch *sketch, double enough) {
  bd_layer *below = bd_layer_open_below(ctx, sketch, enough);
  bd_layer_point full, some;
  if (!bd_layer_price(ctx, all, 1, 0, 1, &full)) return;
  assert_true(bd_layer_price(ctx, below, 1, 0, 1, &some));
  assert_true(some.least <= full.least * (1 + 1e-9));
  assert_true(some.least >= fmin(full.least, enough) * (1 - 1e-9));
  assert_true(bd_layer_least_bytes(below) <= bd_layer_least_bytes(all) * (1 + 1e-9));
  double worth = full.seconds / fmax(full.bytes, 1);
  for (int in_flight = 1; in_flight <= 3; in_flight++)
    for (double price = worth / 100; price < 200 * worth; price *= 10) {
      assert_true(bd_layer_price(ctx, all, 1, price, in_flight, &full));
      assert_true(bd_layer_price(ctx, below, 1, price, in_flight, &some));
      assert_true(some.least <= full.least * (1 + 1e-9));
    }
  assert_true(bd_layer_price(ctx, all, 0, 1, 1, &full));
  assert_true(bd_layer_price(ctx, below, 0, 1, 1, &some));
  assert_true(some.bytes <= full.bytes * (1 + 1e-9));
}

// What is priced apart is a bound as well.
static void hold_apart(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_sketch *sketch;
  bd_layer_point fastest;
  assert_int_equal(bd_layer_open(ctx, request, NULL, &layer), BD_OK);
  assert_int_equal(bd_layer_sketch_open(ctx, request, &sketch), BD_OK);
  double without_weights = bd_layer_sketch_apart(sketch);
  bd_layer_sketch_weigh(sketch);
  double apart = bd_layer_sketch_apart(sketch);
  assert_true(without_weights > 0 && without_weights <= apart);
  if (bd_layer_price(ctx, layer, 1, 0, 1, &fastest))
    assert_true(apart <= fastest.seconds * (1 + 1e-9));
  for (double more = 1; more < 2; more += 0.23)
    hold_below(ctx, layer, sketch, apart * more);
}

static void test_bounds_hold(void **unused) {
  (void)unused;
  for (int recompute = -1; recompute <= 1; recompute++) {
    layer_visit_model("examples/mlp.json", "cpu:1x4", recompute, AS_IT_IS, hold_bounds);
    layer_visit_model("gpt2-tiny", "cpu:1x4", recompute, AS_IT_IS, hold_bounds);
    layer_visit_model("gpt2-tiny", "h100:4x1", recompute, AS_IT_IS, hold_bounds);
    layer_visit_model("llama-tiny", "h100:1x4", recompute, AS_IT_IS, hold_bounds);
  }
  layer_visit_model("tests/oracle/qwen2", "h100:1x4", -1, AS_IT_IS, hold_bounds);
  layer_visit_model("tests/oracle/bert", "h100:1x4", -1, AS_IT_IS, hold_bounds);
  layer_visit_model("tests/oracle/windows", "h100:1x4", -1, AS_IT_IS, hold_bounds);
}

enum { DRAWS = 20 };
static int drawn, offloaded, worst_permille, queries_in_parts, swaps, in_order;

static bool cuts_queries(const bd_function *function, const bd_strategy *strategy) {
  for (int i = 0; i < function->op_count; i++)
    if (bd_op_attends(function->ops[i].kind) && memchr(strategy->split[i], 't', BD_MAX_AXES))
      return true;
  return false;
}

// Of workspaces: the largest share of one that the problem knows of, and all shares.
static double fullest, known;
static int workspaces;
static int products_in_8_bits; // that make gradients of weights

// The workspace is no smaller than the problem says it is at any moment.
static void hold_workspace(const bd_layer_request *request, const bd_layer_space *space,
                           const bd_choice_problem *problem, const int *option,
                           const bd_layer_candidate *c) {
  const bd_layer_workspace *w = bd_layer_workspace_create(space);
  double most = 0;
  for (int m = 0; m < bd_layer_workspace_moments(w); m++) {
    double bytes = bd_layer_workspace_fixed(w, m);
    for (int i = 0; i + 1 < problem->nodes; i++)
      bytes += bd_layer_workspace_added(w, m, i, &space->clusters[i].options[option[i]]);
    if (bytes > (double)c->workspace_bytes)
      fail_msg("%s on %d devices, moment %d: a workspace of %lld bytes, the problem says %g",
               request->function->name, bd_mesh_devices(&request->cost.mesh), m,
               (long long)c->workspace_bytes, bytes);
    most = fmax(most, bytes);
  }
  if (!c->workspace_bytes) return;
  fullest = fmax(fullest, most / (double)c->workspace_bytes);
  known += most / (double)c->workspace_bytes;
  workspaces++;
}

// Behind the product that makes a weight's gradient its sum is hidden: the problem knows no shorter
// one.
static void hold_products(bd_ctx *ctx, const bd_layer_request *request, const bd_layer_space *space,
                          const bd_strategy *strategy) {
  const bd_cost_model *cost = &request->cost;
  bd_function *forward, *backward;
  assert_int_equal(bd_apply_strategy(ctx, request->train, &cost->mesh, cost->micro_batch, strategy,
                                     &forward, &backward),
                   BD_OK);
  for (int r = 0; backward && r < backward->result_count; r++) {
    int param = backward->gradient_of[r], product = bd_step_product(backward, backward->results[r]);
    if (!forward->is_weight[param] || product < 0) continue;
    int group = backward->ops[product].group;
    int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
    double seconds;
    for (int axis = 0; axis < cost->mesh.axes; axis++)
      split[axis] = (int8_t)bd_index_find(&space->map[group], strategy->split[group][axis]);
    assert_int_equal(bd_step_product_of(ctx, cost, backward, backward->results[r], &seconds), BD_OK);
    double bound = bd_layer_weight_product(space, forward->params[param], split);
    assert_true(bound >= seconds * (1 - 1e-9));
    products_in_8_bits += bd_op_find_attr(&backward->ops[product], "fp8") != NULL;
  }
}

// Where ranks swap halves of their queries that is faster than the parts in order, which are no
// faster than the problem says either, and have no more workspace.
static void hold_in_order(bd_ctx *ctx, const bd_layer_request *request, const bd_layer_candidate *even,
                          double seconds) {
  bd_layer_candidate c = {.form = even->form, .strategy = even->strategy, .in_order = true};
  c.strategy.balanced = NULL;
  assert_int_equal(bd_layer_measure(ctx, request, &c), BD_OK);
  double exact = c.forward_seconds + c.backward_seconds;
  assert_true(c.strategy.balanced == NULL);
  assert_true(even->forward_seconds + even->backward_seconds < exact);
  exact += fmin(c.sync_seconds[0], c.sync_seconds[1]) / request->passes;
  assert_true(seconds <= exact * (1 + 1e-9));
  assert_true(c.workspace_bytes <= even->workspace_bytes);
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
  queries_in_parts += cuts_queries(request->function, &c.strategy);
  if (c.strategy.balanced) {
    swaps++;
    hold_in_order(ctx, request, &c, seconds);
  } else {
    in_order += cuts_queries(request->function, &c.strategy);
  }
  if (1000 * seconds / exact > worst_permille) worst_permille = (int)(1000 * seconds / exact);
  if (seconds > exact * (1 + 1e-9))
    fail_msg("%s on %d devices: %g seconds, the problem says %g", request->function->name,
             bd_mesh_devices(&request->cost.mesh), exact, seconds);
  assert_true(bytes <= (double)held_bytes(&c) * (1 + 1e-9));
  hold_workspace(request, space, problem, option, &c);
  hold_products(ctx, request, space, &c.strategy);
}

// The best choice when the costs of options are up to so many times as high, and the bytes have some
// price: what it is said to take is no more than what its lowered functions take.
static void hold_drawn(bd_ctx *ctx, const bd_layer_request *base, int times) {
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
        noisy.node[i].cost[o] = problem.node[i].cost[o] * (1 + (times - 1) * ((int)random_below(1000) / 1000.0));
    if (bd_elimination_run(e, 1, prices[k % 4], option))
      hold_choice(ctx, request, &space, &problem, tape, option);
  }
}

static void hold_near(bd_ctx *ctx, const bd_layer_request *base) {
  hold_drawn(ctx, base, 2);
}

// Such as nobody would make, where values go from form to form.
static void hold_far(bd_ctx *ctx, const bd_layer_request *base) {
  hold_drawn(ctx, base, 20);
}

// The same where an axis of two ranks is there for tokens.
static void hold_near_tokens(bd_ctx *ctx, const bd_layer_request *base) {
  bd_constraints tokens = {.degree = {[BD_CUT_TOKENS] = 2}};
  bd_layer_request request = *base;
  const bd_mesh *mesh = &base->cost.mesh;
  if (mesh->axes > 2 || bd_mesh_devices(mesh) < 2) return;
  request.constraints = &tokens;
  request.sequence = bd_module_sequence(base->train);
  for (int i = 0; i < request.function->op_count; i++)
    if (bd_op_attends(request.function->ops[i].kind)) hold_near(ctx, &request);
}

// The same on devices so slow, or on links so slow, that to swap halves of the queries pays, or does
// not.
static void hold_near_swaps(bd_ctx *ctx, const bd_layer_request *base) {
  bd_cluster slow = *base->cost.cluster;
  bd_layer_request request = *base;
  request.cost.cluster = &slow;
  slow.flops = (bd_flops){.f32 = 1e8, .bf16 = 1e8, .f16 = 1e8, .f8 = 1e8};
  hold_near_tokens(ctx, &request);
  slow.intra.bytes_per_second = slow.inter.bytes_per_second = 1e6;
  hold_near_tokens(ctx, &request);
}

static void test_near_choices_are_bounded(void **unused) {
  (void)unused;
  layer_visit_model("examples/mlp.json", "cpu:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("gpt2-tiny", "h100:4x1", -1, AS_IT_IS, hold_near);
  layer_visit_model("gpt2-tiny", "cpu:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("llama-tiny", "h100:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("tests/oracle/mixtral", "h100:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("tests/oracle/deepseek_v3", "cpu:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("tests/oracle/llama", "h100:1x4", -1, AS_IT_IS, hold_near_tokens);
  layer_visit_model("tests/oracle/windows", "h100:1x4", -1, AS_IT_IS, hold_near_tokens);
  layer_visit_model("resnet-tiny", "cpu:1x4", -1, AS_IT_IS, hold_near);
  layer_visit_model("unet3d-tiny", "cpu:1x4", -1, AS_IT_IS, hold_near);
  assert_true(drawn > 1000);
  assert_true(offloaded > 10);
  assert_true(queries_in_parts > 10);
  assert_true(worst_permille > 900);
  assert_true(fullest > 0.99);
}

static void test_far_choices_are_bounded(void **unused) {
  (void)unused;
  drawn = workspaces = 0;
  for (int turn = 0; turn < 3; turn++) {
    layer_visit_model("gpt2-tiny", "h100:4x1", -1, AS_IT_IS, hold_far);
    layer_visit_model("llama-tiny", "h100:1x4", -1, AS_IT_IS, hold_far);
    layer_visit_model("tests/oracle/gpt_oss", "h100:1x4", 1, AS_IT_IS, hold_far);
    layer_visit_model("resnet-tiny", "cpu:1x4", -1, AS_IT_IS, hold_far);
  }
  assert_true(drawn > 1000 && workspaces > 1000);
}

// Where all is made again, values of experts that pointwise ops make lie where products before them
// did, which is not on the tape: the problem knows of them.
static void test_values_made_in_place_are_held(void **unused) {
  (void)unused;
  known = workspaces = 0;
  layer_visit_model("tests/oracle/gpt_oss", "h100:1x1", 1, AS_IT_IS, hold_near);
  assert_true(known > 0.74 * workspaces);
}

// What is priced before a plan says whether ranks swap halves of their queries is a bound as well.
static void test_swaps_are_bounded(void **unused) {
  (void)unused;
  swaps = in_order = 0;
  layer_visit_model("tests/oracle/llama", "h100:1x4", -1, AS_IT_IS, hold_near_swaps);
  layer_visit_model("tests/oracle/t5", "h100:1x4", -1, AS_IT_IS, hold_near_swaps);
  layer_visit_model("tests/oracle/llama", "cpu:1x4", 1, AS_IT_IS, hold_near_swaps);
  if (swaps <= 20 || in_order <= 20) fail_msg("%d strategies swap queries, %d do not", swaps, in_order);
}

// Whether any option of an attention has its queries in parts.
static bool any_cuts_queries(const bd_layer_space *space) {
  for (int c = 0; c < space->cluster_count; c++) {
    int op = space->clusters[c].ops[0];
    int8_t t = (int8_t)bd_index_find(&space->map[op], 't');
    if (!bd_op_attends(space->forward->ops[op].kind)) continue;
    for (int o = 0; o < space->clusters[c].option_count; o++)
      if (memchr(space->clusters[c].options[o].split, t, BD_MAX_AXES)) return true;
  }
  return false;
}

static int with_queries, without_queries;

// Where queries are to be whole, only a degree of tokens splits them.
static void count_queries(bd_ctx *ctx, const bd_layer_request *base) {
  bd_constraints tokens = {.degree = {[BD_CUT_TOKENS] = 2}};
  for (int way = 0; way < 3; way++) {
    bd_layer_request request = *base;
    bd_layer_space space;
    request.whole_queries = way > 0;
    request.constraints = way == 2 ? &tokens : NULL;
    assert_int_equal(bd_layer_space_read(ctx, &request, &space), BD_OK);
    bd_layer_space_enumerate(ctx, &space, NULL);
    if (way != 1)
      with_queries += any_cuts_queries(&space);
    else
      without_queries += any_cuts_queries(&space);
  }
}

static void test_queries_may_be_whole(void **unused) {
  (void)unused;
  with_queries = without_queries = 0;
  layer_visit_model("tests/oracle/llama", "h100:1x4", -1, AS_IT_IS, count_queries);
  assert_true(with_queries > 1 && with_queries % 2 == 0);
  assert_int_equal(without_queries, 0);
}

// What is hidden behind products in parts is never more than the bounds think.
static void test_parts_are_bounded(void **unused) {
  (void)unused;
  cut_candidates = 0;
  for (int recompute = -1; recompute <= 1; recompute++) {
    layer_visit_model("gpt2-tiny", "h100:1x4", recompute, IN_PARTS, hold_bounds);
    layer_visit_model("llama-tiny", "h100:1x4", recompute, IN_PARTS, hold_bounds);
  }
  layer_visit_model("gpt2-tiny", "h100:1x4", -1, IN_PARTS, hold_near);
  layer_visit_model("llama-tiny", "h100:1x4", -1, IN_PARTS, hold_near);
  layer_visit_model("gpt2-tiny", "h100:1x4", -1, IN_PARTS, hold_apart);
  layer_visit_model("llama-tiny", "h100:1x4", -1, IN_PARTS, hold_apart);
  assert_true(cut_candidates > 20);
}

// What is hidden of gradients' sums behind backward, and of weights' gathers behind forward, is never
// more than the bounds think, however long they take beside their products.
static void test_hidden_gradients_are_bounded(void **unused) {
  (void)unused;
  hidden_candidates = 0;
  for (int rate = 30000; rate <= IN_PARTS; rate *= 6) {
    layer_visit_model("gpt2-tiny", "h100:1x4", -1, rate, hold_bounds);
    layer_visit_model("llama-tiny", "h100:1x4", 1, rate, hold_bounds);
    layer_visit_model("gpt2-tiny", "h100:1x4", -1, rate, hold_near);
    layer_visit_model("resnet-tiny", "h100:1x4", -1, rate, hold_near);
    layer_visit_model("gpt2-tiny", "h100:1x4", -1, rate, hold_apart);
  }
  assert_true(hidden_candidates > 20);
}

// Nor does a product take less than the bounds think that is in 8 bits, or in bf16 where that takes
// less.
static void test_fp8_is_bounded(void **unused) {
  (void)unused;
  in_8_bits = in_bf16 = 0;
  for (int recompute = -1; recompute <= 1; recompute++) {
    layer_visit_fp8("gpt2-tiny", "h100:1x4", recompute, hold_bounds);
    layer_visit_fp8("llama-tiny", "h100:1x4", recompute, hold_bounds);
  }
  layer_visit_fp8("gpt2-tiny", "h100:1x4", -1, hold_near);
  layer_visit_fp8("llama-tiny", "h100:1x4", -1, hold_near);
  layer_visit_fp8("llama-tiny", "h100:1x4", -1, hold_apart);
  assert_true(products_in_8_bits > 20);
  if (in_8_bits <= 20 || in_bf16 <= 20)
    fail_msg("%d products in 8 bits, %d in bf16", in_8_bits, in_bf16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_hold),
                                     cmocka_unit_test(test_near_choices_are_bounded),
                                     cmocka_unit_test(test_values_made_in_place_are_held),
                                     cmocka_unit_test(test_swaps_are_bounded),
                                     cmocka_unit_test(test_queries_may_be_whole),
                                     cmocka_unit_test(test_parts_are_bounded),
                                     cmocka_unit_test(test_hidden_gradients_are_bounded),
                                     cmocka_unit_test(test_fp8_is_bounded),
                                     cmocka_unit_test(test_far_choices_are_bounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
