// The pass `autodiff` on a module with a tied weight, a repeated function and a value that skips
// calls: the weights' gradients against central differences of the loss.
#include "ir/interpret.h"
#include "ir/pass.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char source[] =
    "braid graph \"tied\" {\n"
    "weight @table : f32[7,4] stored \"table\" [7,4] init normal 0.1\n"
    "weight @w0 : f32[4,4] stored \"w0\" [4,4] init normal 0.1\n"
    "weight @g0 : f32[4] stored \"g0\" [4] init ones\n"
    "weight @w1 : f32[4,4] stored \"w1\" [4,4] init normal 0.1\n"
    "weight @g1 : f32[4] stored \"g1\" [4] init ones\n"
    "func @embed(%ids: i32[B,3], %table: f32[7,4] weight) {\n"
    "  %h = embed(%table, %ids) : f32[B,3,4]\n"
    "  return %h\n"
    "}\n"
    "func @block(%x: f32[B,3,4], %w: f32[4,4] weight, %g: f32[4] weight) {\n"
    "  %n, %rstd = rmsnorm(%x, %g) {eps=0.001} : f32[B,3,4], f32[B,3]\n"
    "  %m = contract(%n, %w) {rule=\"btc,cn->btn\"} : f32[B,3,4]\n"
    "  %t = tanh(%m) : f32[B,3,4]\n"
    "  %d = dropout(%t) {p=0.25, site=5} : f32[B,3,4]\n"
    "  %y = add(%x, %d) : f32[B,3,4]\n"
    "  %extra = mul(%t, %t) : f32[B,3,4]\n"
    "  return %y, %extra\n"
    "}\n"
    "func @head(%x: f32[B,3,4], %skip: f32[B,3,4], %table: f32[7,4] weight, %targets: i32[B,3]) {\n"
    "  %s = add(%x, %skip) : f32[B,3,4]\n"
    "  %logits = contract(%s, %table) {rule=\"btc,vc->btv\"} : f32[B,3,7]\n"
    "  %lse = lse(%logits) : f32[B,3]\n"
    "  %loss = xent(%logits, %targets, %lse) : f32[]\n"
    "  return %loss\n"
    "}\n"
    "main(%tokens: i32[B,3] tokens, %targets: i32[B,3] targets, %table: f32[7,4] weight,\n"
    "     %w0: f32[4,4] weight, %g0: f32[4] weight, %w1: f32[4,4] weight, %g1: f32[4] weight) {\n"
    "  %h0 = call @embed(%tokens, %table) : f32[B,3,4]\n"
    "  %h1, %e1 = call @block(%h0, %w0, %g0) : f32[B,3,4], f32[B,3,4]\n"
    "  %h2, %e2 = call @block(%h1, %w1, %g1) : f32[B,3,4], f32[B,3,4]\n"
    "  %loss = call @head(%h2, %e1, %table, %targets) : f32[]\n"
    "  return %loss\n"
    "}\n"
    "}\n";

enum { BATCH = 2, ARGUMENTS = 7, INPUTS = 2 };
static const double scale = 0.2;
static const bd_random_key key = {.seed = 9, .step = 4, .first_sample = 6};

static bd_module *parse(bd_ctx *ctx) {
  bd_module *module = NULL;
  bd_status status = bd_module_parse(ctx, "tied", source, strlen(source), &module);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return module;
}

static bd_module *differentiate(bd_ctx *ctx, const bd_module *graph) {
  bd_module *train = NULL;
  assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
  bd_status status = bd_module_verify(ctx, train);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return train;
}

static void fill_arguments(bd_ctx *ctx, const bd_module *module, bd_tensor in[ARGUMENTS]) {
  uint64_t position = 0;
  for (int i = 0; i < ARGUMENTS; i++) {
    bd_type type = module->main->values[module->main->params[i]].type;
    for (int d = 0; d < type.rank; d++)
      type.dims[d] = bd_extent(type.dims[d], BATCH);
    int64_t count = bd_type_elements(&type, 1);
    in[i] = (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, count)};
    for (int64_t k = 0; k < count; k++) {
      double u = bd_random_uniform(1, 0, 0, 0, 0, position++);
      in[i].data[k] = i < INPUTS ? floor(8 * u) - (i == 1) : 2 * u - 1;
      if (i == 0 && in[i].data[k] == 7) in[i].data[k] = 6;
    }
  }
}

static double loss_of(bd_ctx *ctx, const bd_module *module, const bd_tensor *in) {
  bd_tensor *results = NULL;
  assert_int_equal(bd_interpret_main(ctx, module, BATCH, in, scale, &key, &results), BD_OK);
  return results[0].data[0];
}

static void check_weight(bd_ctx *ctx, const bd_module *graph, const bd_module *train, bd_tensor *in,
                         const bd_tensor *results, int weight) {
  const double h = 1e-5;
  double *data = in[INPUTS + weight].data;
  for (int64_t k = 0; k < bd_type_elements(&in[INPUTS + weight].type, 1); k++) {
    double found = 0, at = data[k];
    for (int i = 1; i < train->main->result_count; i++)
      if (train->gradient_weight[i - 1] == weight) found += results[i].data[k];
    data[k] = at + h;
    double above = loss_of(ctx, graph, in);
    data[k] = at - h;
    double below = loss_of(ctx, graph, in);
    data[k] = at;
    double expected = scale * (above - below) / (2 * h);
    if (fabs(found - expected) > 1e-7 * (1 + fabs(expected)))
      fail_msg("weight %d element %d: %.12g, differences say %.12g", weight, (int)k, found,
               expected);
  }
}

static void gradients_of_a_module(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *graph = parse(ctx), *train = differentiate(ctx, graph);
  bd_tensor in[ARGUMENTS], *results = NULL;
  fill_arguments(ctx, graph, in);
  assert_int_equal(bd_interpret_main(ctx, train, BATCH, in, scale, &key, &results), BD_OK);
  assert_true(results[0].data[0] == loss_of(ctx, graph, in));
  for (int w = 0; w < train->weight_count; w++)
    check_weight(ctx, graph, train, in, results, w);
  bd_ctx_destroy(ctx);
}

// The table is used twice, so it has two gradients, and the others one each. The second block's
// extra result reaches no loss: its call has a variant of its own.
static void shape_of_the_train_module(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = differentiate(ctx, parse(ctx));
  const int expected[] = {0, 0, 1, 2, 3, 4};
  assert_int_equal(train->main->result_count, 7);
  for (int i = 0; i < 6; i++)
    assert_int_equal(train->gradient_weight[i], expected[i]);
  assert_int_equal(bd_module_find(train, "block")->result_count, 2);
  assert_int_equal(bd_module_find(train, "block.2")->result_count, 1);
  const bd_op *last = &train->main->ops[train->main->op_count - 1];
  assert_string_equal(last->callee, "embed.grad");
  assert_int_equal(bd_op_int(last, "of", -1), 0);
  bd_ctx_destroy(ctx);
}

static void saves_are_params_then_what_is_read(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const bd_module *train = differentiate(ctx, parse(ctx));
  const bd_function *forward = bd_module_find(train, "block.2");
  const bd_function *backward = bd_module_find(train, forward->peer);
  const char *const expected[] = {"x", "w", "g", "n", "rstd", "t"};
  assert_int_equal(forward->save_count, 6);
  for (int i = 0; i < 6; i++) {
    assert_string_equal(forward->values[forward->saves[i]].name, expected[i]);
    assert_string_equal(backward->values[backward->params[i]].name, expected[i]);
  }
  assert_true(backward->is_weight[1] && !backward->is_weight[3]);
  bd_ctx_destroy(ctx);
}

static void text_of_train_round_trips(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_text first = bd_text_init(ctx->arena), second = bd_text_init(ctx->arena);
  bd_module_print(differentiate(ctx, parse(ctx)), &first);
  bd_module *again = NULL;
  bd_status status = bd_module_parse(ctx, "printed", first.data, first.length, &again);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_module_print(again, &second);
  assert_string_equal(first.data, second.data);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_of_a_module),
      cmocka_unit_test(shape_of_the_train_module),
      cmocka_unit_test(saves_are_params_then_what_is_read),
      cmocka_unit_test(text_of_train_round_trips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
