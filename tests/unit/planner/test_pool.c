// Layers whose experts drop no token: whatever counts over the samples of a rank has them cut alike.
#include "ir/pool.h"
#include "planner/layer/pool.h"
#include "tests/unit/planner/support_layer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int mended, cut[2]; // choices; layers whose best one has the samples whole, and in parts

static double seconds_of(const bd_layer *layer, const int *option) {
  double seconds, bytes;
  bd_choice_evaluate(&layer->problem, option, &seconds, &bytes);
  return seconds;
}

static void count_cuts(const bd_layer *layer, const int *option) {
  const bd_layer_space *space = &layer->space;
  for (int c = 0; c < space->cluster_count; c++) {
    int op = space->clusters[c].ops[0];
    if (!bd_op_is_grouped(space->forward->ops[op].kind)) continue;
    bool parts = bd_split_sample_axes(&space->map[op], &space->request->cost.mesh,
                                      space->clusters[c].options[option[c]].split) != 0;
    cut[parts]++;
    return;
  }
}

// The best choice agrees, and where one cluster leaves it so that pools do not, another is found
// that does.
static void disturb(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_point best;
  assert_int_equal(bd_layer_open(ctx, request, NULL, &layer), BD_OK);
  if (!bd_layer_price(ctx, layer, 1, 0, 1, &best)) return;
  const bd_layer_space *space = &layer->space;
  double least = seconds_of(layer, best.option);
  assert_true(isfinite(least) && bd_layer_pools_agree(space, best.option));
  count_cuts(layer, best.option);
  size_t bytes = sizeof *best.option * (size_t)layer->problem.nodes;
  int *option = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
  for (int c = 0; c < space->cluster_count; c++)
    for (int o = 0; o < space->clusters[c].option_count; o++) {
      memcpy(option, best.option, bytes);
      option[c] = o;
      if (bd_layer_pools_agree(space, option)) continue;
      assert_true(isinf(seconds_of(layer, option)));
      assert_true(bd_layer_mend_pools(ctx, layer, 1, 0, option));
      assert_true(bd_layer_pools_agree(space, option));
      assert_true(isfinite(seconds_of(layer, option)));
      assert_true(seconds_of(layer, option) >= least * (1 - 1e-9));
      mended++;
    }
}

// Candidates are lowered, which holds them to it.
static void lower(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer *layer;
  bd_layer_candidate *list;
  int count;
  assert_int_equal(bd_layer_open(ctx, request, NULL, &layer), BD_OK);
  assert_int_equal(bd_layer_candidates(ctx, layer, 1, 0, &list, &count), BD_OK);
  for (int k = 0; k < count; k++)
    assert_true(bd_layer_pools_agree(&layer->space, list[k].option));
}

static void test_pools_agree(void **unused) {
  (void)unused;
  layer_visit_model("tests/unit/planner/experts", "h100:1x4", 0, AS_IT_IS, disturb);
  assert_true(mended > 0 && cut[0] > 0 && cut[1] > 0);
}

static void test_candidates_agree(void **unused) {
  (void)unused;
  layer_visit_model("tests/unit/planner/experts", "h100:1x4", -1, AS_IT_IS, lower);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pools_agree),
                                     cmocka_unit_test(test_candidates_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
