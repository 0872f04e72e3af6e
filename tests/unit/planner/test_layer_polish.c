// Candidates of layers that are improved.
#include "tests/unit/planner/support_layer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
  assert_int_equal(bd_layer_open(ctx, request, NULL, &layer), BD_OK);
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
  layer_visit_model("gpt2-tiny", "cpu:1x4", -1, AS_IT_IS, polish);
  layer_visit_model("resnet-tiny", "h100:1x4", -1, AS_IT_IS, polish);
  assert_true(polished[0] > 0 && polished[1] > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_polish)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
