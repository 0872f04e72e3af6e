// Additions hand their result's gradient on as it is: which operands answer for bringing it there,
// and for which results of other ops it is wanted.
#include "planner/layer/gradient.h"
#include "tests/unit/planner/support_layer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static int visited;

static bd_id named(const bd_function *f, const char *name) {
  for (bd_id v = 0; v < f->value_count; v++)
    if (strcmp(f->values[v].name, name) == 0) return v;
  fail_msg("%s has no value %s", f->name, name);
  return BD_NO_ID;
}

static double share(const bd_layer_space *space, const char *sum, const char *operand) {
  const bd_function *f = space->forward;
  const bd_op *op = &f->ops[f->values[named(f, sum)].producer];
  for (int k = 0; k < op->in_count; k++)
    if (op->in[k] == named(f, operand))
      return bd_layer_handed_share(space, f->values[op->out[0]].producer, k);
  fail_msg("%s is no operand of %s", operand, sum);
  return -1;
}

// Of what is read beside the sum as well, the branch has it all; a weight has its own.
static void look_at_block(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer_space space;
  if (strcmp(request->function->name, "block") != 0) return;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  assert_true(share(&space, "middle", "c_proj_dropped") == 1);
  assert_true(share(&space, "middle", "x") == 0);
  assert_true(share(&space, "q", "q_product") == 1);
  assert_true(share(&space, "q", "bq") == 1);
  bd_id product = named(space.forward, "q_product");
  assert_int_equal(space.passes_to[named(space.forward, "q")], product);
  assert_true(space.is_passed[product]);
  // A GELU's gradient is another one than that of its operand.
  assert_int_equal(space.passes_to[named(space.forward, "activated")], BD_NO_ID);
  assert_false(space.is_passed[named(space.forward, "c_fc_product")]);
  visited++;
}

static void test_of_a_block(void **unused) {
  (void)unused;
  visited = 0;
  layer_visit_model("gpt2-tiny", "cpu:1x2", -1, AS_IT_IS, look_at_block);
  assert_true(visited > 0);
}

// Two branches that nothing else reads share it.
static void look_at_stage(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer_space space;
  if (strcmp(request->function->name, "stage2_first") != 0) return;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  assert_true(share(&space, "sum", "bn3.planes") == 0.5);
  assert_true(share(&space, "sum", "downsample.1.planes") == 0.5);
  visited++;
}

static void test_of_two_branches(void **unused) {
  (void)unused;
  visited = 0;
  layer_visit_model("resnet-tiny", "cpu:1x2", -1, AS_IT_IS, look_at_stage);
  assert_true(visited > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_a_block),
                                     cmocka_unit_test(test_of_two_branches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
