// The replay against the planner's predictions on random plans: seconds to 3 %, bytes exactly.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/planner.h"
#include "planner/simulate/source.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static double between(double low, double high) { // evenly over the logarithm
  return low * pow(high / low, random_below(1u << 20) / (double)(1u << 20));
}

static bd_cluster random_cluster(bd_ctx *ctx) {
  static const char *const names[] = {"cpu:1x1", "a100-80gb:1x1", "v100:1x1", "h100:1x1"};
  bd_cluster c;
  assert_int_equal(bd_cluster_load(ctx, names[random_below(4)], &c), BD_OK);
  c.nodes = 1 + (int)random_below(6);
  c.devices_per_node = 1 + (int)random_below(8);
  c.intra.latency_seconds = between(1e-7, 1e-5);
  c.intra.bytes_per_second = between(3e7, 4e11);
  c.inter.latency_seconds = c.intra.latency_seconds * between(1, 10);
  c.inter.bytes_per_second = c.intra.bytes_per_second / between(1, 30);
  if (c.devices_per_node % 4 == 0 && random_below(2)) { // pairs with a bridge
    c.node.island_devices = 2;
    c.node.island = c.intra;
    c.intra.bytes_per_second /= between(1, 8);
    c.inter.bytes_per_second = fmin(c.inter.bytes_per_second, c.intra.bytes_per_second);
  }
  c.kernel_seconds *= between(0.01, 1);
  return c;
}

// One or two axes with as many ranks.
static bd_mesh random_mesh(int devices) {
  int far = 1 + (int)random_below(4);
  if (far == 1 || far >= devices || devices % far) return (bd_mesh){1, {devices}};
  return (bd_mesh){2, {far, devices / far}};
}

typedef struct model {
  const char *spec;
  int sequence;
} model;

static const model chains[] = {{"gpt2-tiny", 16},        {"gpt2-tiny", 32},
                               {"llama-tiny", 32},       {"gpt2-tiny-25h", 24},
                               {"examples/mlp.json", 0}, {"examples/cnn.json", 0}};
// Values pass over layers.
static const model skips[] = {{"unet3d-tiny", 0}, {"unet3d", 0}, {"tests/oracle/t5", 16}};

static bool random_plan(bd_ctx *ctx, const model *m, bd_module **out_train, bd_cluster *out_cluster,
                        bd_plan *out) {
  bd_model_options options = {.sequence = m->sequence};
  bd_module *graph;
  assert_int_equal(bd_model_load(ctx, m->spec, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(ctx, graph, out_train), BD_OK);
  *out_cluster = random_cluster(ctx);
  int stages = 1 + (int)random_below(8), devices = bd_cluster_devices(out_cluster);
  if (devices % stages) return false;
  bd_plan_request request = {.model = m->spec,
                             .target = out_cluster->gpu ? "cuda" : "cpu",
                             .optimizer = random_below(3) ? "adamw" : "sgd",
                             .precision = BD_F32,
                             .sequence = bd_module_sequence(*out_train),
                             .limit_seconds = 5,
                             .stages = stages,
                             .mesh = random_mesh(devices / stages),
                             .schedule = (int)random_below(2),
                             .zero = (int)random_below(3) - 1,
                             .recompute = (int)random_below(3) - 1};
  request.micro_batch = 1 << random_below(5);
  request.global_batch = request.micro_batch
                         << (random_below(4) ? 3 + random_below(4) : random_below(3));
  return bd_plan_search(ctx, *out_train, out_cluster, &request, out) == BD_OK;
}

static void check_bytes(const bd_plan *plan, const bd_sim_result *result) {
  for (int s = 0; s < plan->stages; s++) {
    const bd_memory *told = &plan->predicted[s].memory, *peak = &result->peak[s];
    for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++)
      assert_true(told->bytes[segment] == peak->bytes[segment]);
    assert_true(told->total_bytes == peak->total_bytes);
  }
}

// Seconds of the step, from the program or from the plan alone.
static double replay(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                     const bd_plan *plan, bool program) {
  bd_sim_problem problem;
  bd_sim_result result;
  assert_int_equal(program ? bd_sim_lower(ctx, train, cluster, plan, &problem)
                           : bd_sim_tell(ctx, plan, &problem),
                   BD_OK);
  assert_int_equal(bd_sim_run(ctx, &problem, NULL, &result), BD_OK);
  check_bytes(plan, &result);
  return result.step_seconds;
}

static void check(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                  const bd_plan *plan) {
  for (int program = 0; program < 2; program++) {
    double error = replay(ctx, train, cluster, plan, program) / plan->step_seconds - 1;
    if (fabs(error) > 0.03) {
      bd_text text = bd_text_init(ctx->arena);
      bd_plan_print(plan, train, &text);
      fail_msg("the %s takes %+.2f %%:\n%s", program ? "program" : "plan", 100 * error, text.data);
    }
  }
}

static void check_random_plans(const model *models, int model_count) {
  int plans = 0;
  for (int round = 0; plans < 100 && round < 4000; round++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_cluster cluster;
    bd_module *train;
    bd_plan plan;
    if (random_plan(ctx, &models[random_below((unsigned)model_count)], &train, &cluster, &plan)) {
      check(ctx, train, &cluster, &plan);
      plans++;
    }
    bd_ctx_destroy(ctx);
  }
  assert_int_equal(plans, 100);
}

static void test_chains(void **state) {
  (void)state;
  check_random_plans(chains, sizeof chains / sizeof *chains);
}

static void test_skips(void **state) {
  (void)state;
  check_random_plans(skips, sizeof skips / sizeof *skips);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chains),
      cmocka_unit_test(test_skips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
