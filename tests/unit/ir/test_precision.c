// Rounding to halves, and what the pass `precision` makes of a model: close to f32, and every value
// of type bf16 a bf16 number.
#include "ir/pass.h"
#include "ir/print.h"
#include "tests/unit/ir/support_arguments.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_round(bd_dtype dtype, double value, double expected) {
  double found = bd_dtype_round(dtype, value);
  if (found != expected || signbit(found) != signbit(expected))
    fail_msg("%.17g becomes %.17g, not %.17g", value, found, expected);
}

static void rounds_to_nearest_even(void **state) {
  (void)state;
  expect_round(BD_BF16, 1.0, 1.0);
  expect_round(BD_BF16, 1 + 0x1p-8, 1.0);                  // tie, down to even
  expect_round(BD_BF16, 1 + 0x3p-8, 1 + 0x1p-6);           // tie, up to even
  expect_round(BD_BF16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7); // over the tie
  expect_round(BD_BF16, -(1 + 0x1p-8), -1.0);
  expect_round(BD_BF16, 0x1.ffp0, 2.0); // carries into the exponent
  expect_round(BD_BF16, -0.0, -0.0);
  expect_round(BD_BF16, 0x1.fep127, 0x1.fep127);
  expect_round(BD_BF16, 0x1.fefp127, 0x1.fep127);
  expect_round(BD_BF16, FLT_MAX, INFINITY);
  expect_round(BD_BF16, -1e300, -INFINITY);
  expect_round(BD_BF16, INFINITY, INFINITY);
  expect_round(BD_BF16, 0x1p-133, 0x1p-133); // the least
  expect_round(BD_BF16, 0x1p-134, 0.0);      // half of it: to even
  expect_round(BD_BF16, 0x3p-134, 0x1p-132);
  assert_true(isnan(bd_dtype_round(BD_BF16, NAN)));
  expect_round(BD_F16, 1 + 0x1p-11, 1.0); // tie, down to even
  expect_round(BD_F16, 65519.0, 65504.0);
  expect_round(BD_F16, 65520.0, INFINITY);
  expect_round(BD_F16, 0x1p-24, 0x1p-24);
  expect_round(BD_F32, 1 + 0x1p-24, 1.0);
  expect_round(BD_I32, -2.75, -2.0);
}

static const char graph_text[] =
    "braid graph \"g\" {\n"
    "  weight @a : f32[8,16] stored \"a\" [8,16] init normal 0.3 decay\n"
    "  weight @b : f32[16] stored \"b\" [16] init zeros\n"
    "  weight @c : f32[16,5] stored \"c\" [16,5] init normal 0.3 decay\n"
    "  func @f(%x: f32[B,8], %t: i32[B], %a: f32[8,16] weight, %b: f32[16] weight, %c: f32[16,5] "
    "weight) {\n"
    "    %p = contract(%x, %a) {rule=\"bi,ij->bj\"} : f32[B,16]\n"
    "    %q = add(%p, %b) : f32[B,16]\n"
    "    %h = gelu(%q) : f32[B,16]\n"
    "    %l = contract(%h, %c) {rule=\"bj,jv->bv\"} : f32[B,5]\n"
    "    %s = lse(%l) : f32[B]\n"
    "    %loss = xent(%l, %t, %s) : f32[]\n"
    "    return %loss\n"
    "  }\n"
    "  main(%x: f32[B,8] reals, %t: i32[B] targets, %a: f32[8,16] weight, %b: f32[16] weight, %c: "
    "f32[16,5] weight) {\n"
    "    %loss = call @f(%x, %t, %a, %b, %c) : f32[]\n"
    "    return %loss\n"
    "  }\n"
    "}\n";

enum { SAMPLES = 6 };

static bd_tensor *run(bd_ctx *ctx, const char *passes, bd_module **out_module) {
  bd_module *graph, *module;
  assert_int_equal(bd_module_parse(ctx, "text", graph_text, strlen(graph_text), &graph), BD_OK);
  assert_int_equal(bd_pass_run_list(ctx, passes, NULL, stderr, graph, &module), BD_OK);
  static const bd_random_key key = {.seed = 1};
  bd_tensor *results;
  assert_int_equal(bd_interpret_main(ctx, module, SAMPLES, bf16_arguments(ctx, module, SAMPLES),
                                     1.0 / SAMPLES, &key, &results),
                   BD_OK);
  *out_module = module;
  return results;
}

static void check_closeness(const char *passes, double bound) {
  bd_ctx *ctx = bd_ctx_create();
  bd_module *wide_module, *module;
  bd_tensor *wide = run(ctx, "autodiff", &wide_module);
  bd_tensor *narrow = run(ctx, passes, &module);
  assert_int_equal(module->main->result_count, wide_module->main->result_count);
  for (int i = 0; i < module->main->result_count; i++) {
    assert_int_equal(narrow[i].type.dtype, BD_F32); // the loss, and gradients of weights
    double error = 0, norm = 0;
    for (int64_t e = 0; e < bd_type_elements(&wide[i].type, 1); e++) {
      error += pow(narrow[i].data[e] - wide[i].data[e], 2);
      norm += pow(wide[i].data[e], 2);
    }
    assert_true(sqrt(error) <= bound * sqrt(norm));
    assert_true(error > 0); // the activations were rounded
  }
  bd_ctx_destroy(ctx);
}

static void stays_close_to_f32(void **state) {
  (void)state;
  check_closeness(bd_training_passes(BD_BF16, BD_MASTERS_F32, BD_GRADIENTS_F32, "cpu"), 0.01);
  check_closeness(bd_training_passes(BD_F16, BD_MASTERS_F32, BD_GRADIENTS_F32, "cpu"), 0.00125);
}

static void check_rounded(bd_dtype half) {
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module;
  (void)run(ctx, bd_training_passes(half, BD_MASTERS_F32, BD_GRADIENTS_F32, "cpu"), &module);
  const bd_function *f = bd_module_find(module, "f");
  bd_tensor *results, *values;
  static const bd_random_key key = {.seed = 1};
  assert_int_equal(bd_interpret_function(ctx, module, f, SAMPLES, bf16_arguments(ctx, module, SAMPLES), &key,
                                         &results, &values),
                   BD_OK);
  int narrow = 0;
  for (bd_id v = 0; v < f->value_count; v++) {
    if (f->values[v].type.dtype != half) continue;
    narrow++;
    for (int64_t e = 0; e < bd_type_elements(&values[v].type, 1); e++)
      assert_true(values[v].data[e] == bd_dtype_round(half, values[v].data[e]));
  }
  assert_int_equal(narrow, 4 + 4); // x, a, b, c; p, q, h, l
  bd_ctx_destroy(ctx);
}

static void values_are_rounded(void **state) {
  (void)state;
  check_rounded(BD_BF16);
  check_rounded(BD_F16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounds_to_nearest_even),
      cmocka_unit_test(stays_close_to_f32),
      cmocka_unit_test(values_are_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
