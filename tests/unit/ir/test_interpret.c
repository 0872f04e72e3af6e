// Reference evaluation against numbers worked out by hand, and what randomness depends on.
#include "ir/interpret.h"
#include "ir/print.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const bd_random_key plain_key = {.seed = 1, .step = 2, .call = 3};

static bd_type f32(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t dims[4] = {a, b, c, d};
  return bd_type_make(BD_F32, rank, dims);
}

// Runs one op on operands of the given types and contents; result 0.
static const double *evaluate(bd_ctx *ctx, bd_op_kind kind, int operands, const bd_type *types,
                              double *const *data, int attr_count, const bd_attr *attrs) {
  bd_function *f = bd_function_create(ctx, "f");
  bd_id in[4], out[BD_MAX_RESULTS];
  bd_tensor arguments[4], *results = NULL;
  for (int i = 0; i < operands; i++) {
    in[i] = bd_function_add_param(ctx, f, NULL, types[i]);
    arguments[i] = (bd_tensor){types[i], data[i]};
  }
  bd_status status = bd_build(ctx, f, kind, operands, in, attr_count, attrs, BD_NOWHERE, out);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_function_add_result(ctx, f, out[0]);
  assert_int_equal(bd_interpret_function(ctx, NULL, f, 1, arguments, &plain_key, &results, NULL),
                   BD_OK);
  return results[0].data;
}

static void expect(const double *found, int count, const double *expected) {
  for (int i = 0; i < count; i++)
    if (fabs(found[i] - expected[i]) > 1e-9)
      fail_msg("element %d: %.12g, expected %.12g", i, found[i], expected[i]);
}

static void activations(void **state) {
  (void)state;
  static const struct {
    bd_op_kind kind;
    double expected[3];
  } cases[] = {
      {BD_OP_RELU, {1, 0, 0}},
      {BD_OP_GELU, {0.841191990608, 0, -0.158808009392}},
      {BD_OP_GELU_ERF, {0.841344746069, 0, -0.158655253931}},
      {BD_OP_SILU, {0.731058578630, 0, -0.268941421370}},
  };
  bd_ctx *ctx = bd_ctx_create();
  bd_type type = f32(1, 3, 0, 0, 0);
  double x[3] = {1, 0, -1}, *data[1] = {x};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect(evaluate(ctx, cases[i].kind, 1, &type, data, 0, NULL), 3, cases[i].expected);
  bd_ctx_destroy(ctx);
}

// Half-split pairs: (x0, x2) turn by the position, (x1, x3) by position / 10; of the first two numbers,
// (x0, x1) by the position.
static void rope_turns_pairs(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_type type = f32(4, 1, 2, 1, 4);
  double x[8] = {1, 1, 0, 0, 1, 1, 0, 0}, *data[1] = {x};
  bd_attr theta = bd_attr_real(ctx, "theta", 100);
  const double expected[8] = {1, 1, 0, 0, cos(1), cos(0.1), sin(1), sin(0.1)};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 1, &theta), 8, expected);
  const bd_attr some[2] = {theta, bd_attr_int(ctx, "turned", 2)};
  const double first[8] = {1, 1, 0, 0, cos(1) - sin(1), cos(1) + sin(1), 0, 0};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 2, some), 8, first);
  // Neighbours: (x0, x1) by the position, (x2, x3) by position / 10.
  x[6] = 1;
  const bd_attr neighbours[2] = {theta, bd_attr_int(ctx, "interleaved", 1)};
  const double near[8] = {1, 1, 0, 0, cos(1) - sin(1), cos(1) + sin(1), cos(0.1), sin(0.1)};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 2, neighbours), 8, near);
  // The last two; and all, where a ramp from pair -1 to pair 2 divides frequencies by 4.
  const bd_attr end[3] = {theta, bd_attr_int(ctx, "turned", 2), bd_attr_int(ctx, "last", 1)};
  const double last[8] = {1, 1, 0, 0, 1, 1, cos(1), sin(1)};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 3, end), 8, last);
  const bd_attr ramp[5] = {theta, bd_attr_int(ctx, "interleaved", 1),
                           bd_attr_real(ctx, "factor", 4), bd_attr_real(ctx, "ramp_low", -1),
                           bd_attr_real(ctx, "ramp_high", 2)};
  const double slow = 1.0 / 4 / 3 + 2.0 / 3, slower = 0.1 * (1.0 / 4 * 2 / 3 + 1.0 / 3);
  const double ramped[8] = {1, 1, 0, 0, cos(slow) - sin(slow), cos(slow) + sin(slow), cos(slower),
                            sin(slower)};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 5, ramp), 8, ramped);
  // Both pairs by a number of their own, and twice as long.
  const bd_attr divided[4] = {theta, bd_attr_int(ctx, "interleaved", 1),
                              bd_attr_reals(ctx, "divisors", 2, (const double[]){2, 0.25}),
                              bd_attr_real(ctx, "amplitude", 2)};
  const double longer[8] = {2,
                            2,
                            0,
                            0,
                            2 * (cos(0.5) - sin(0.5)),
                            2 * (cos(0.5) + sin(0.5)),
                            2 * cos(0.4),
                            2 * sin(0.4)};
  expect(evaluate(ctx, BD_OP_ROPE, 1, &type, data, 4, divided), 8, longer);
  bd_ctx_destroy(ctx);
}

// With zero queries every visible key weighs the same; two query heads share one key head.
static void attention_averages_what_it_sees(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const bd_type types[3] = {f32(4, 1, 3, 2, 1), f32(4, 1, 3, 1, 1), f32(4, 1, 3, 1, 1)};
  double q[6] = {0}, k[3] = {5, 6, 7}, v[3] = {1, 2, 6}, *data[3] = {q, k, v};
  const bd_attr attrs[2] = {bd_attr_real(ctx, "scale", 1), bd_attr_int(ctx, "causal", 1)};
  const double causal[6] = {1, 1, 1.5, 1.5, 3, 3}, full[6] = {3, 3, 3, 3, 3, 3};
  expect(evaluate(ctx, BD_OP_ATTENTION, 3, types, data, 2, attrs), 6, causal);
  expect(evaluate(ctx, BD_OP_ATTENTION, 3, types, data, 1, attrs), 6, full);
  bd_ctx_destroy(ctx);
}

// Weights of keys by where they stand alone: 1 far before, 2 just before, 3 at and 4, 5 behind the
// query. Causal, the same numbers are those of keys up to four before it.
static void relative_attention_weighs_places(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const bd_type types[4] = {f32(4, 1, 4, 1, 1), f32(4, 1, 4, 1, 1), f32(4, 1, 4, 1, 1),
                            f32(2, 1, 5, 0, 0)};
  double q[4] = {0}, k[4] = {5, 6, 7, 8}, v[4] = {1, 10, 100, 1000};
  double bias[5] = {log(1), log(2), log(3), log(4), log(5)}, *data[4] = {q, k, v, bias};
  const bd_attr attrs[2] = {bd_attr_real(ctx, "scale", 1), bd_attr_int(ctx, "causal", 1)};
  const double both[4] = {5543.0 / 17, 5432.0 / 14, 4321.0 / 10, 3211.0 / 7};
  const double causal[4] = {1, 54.0 / 9, 543.0 / 12, 5432.0 / 14};
  expect(evaluate(ctx, BD_OP_RELATIVE_ATTENTION, 4, types, data, 1, attrs), 4, both);
  expect(evaluate(ctx, BD_OP_RELATIVE_ATTENTION, 4, types, data, 2, attrs), 4, causal);
  bd_ctx_destroy(ctx);
}

// Of sinks that weigh nothing, as much as one key, and as two, what is left of the values' mean.
static void sinks_take_their_share(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const bd_type types[4] = {f32(4, 1, 1, 3, 1), f32(4, 1, 2, 3, 1), f32(4, 1, 2, 3, 1),
                            f32(1, 3, 0, 0, 0)};
  double q[3] = {0}, k[6] = {0}, v[6] = {2, 20, 200, 4, 40, 400};
  double sinks[3] = {-1000, 0, log(2)}, *data[4] = {q, k, v, sinks};
  const bd_attr scale = bd_attr_real(ctx, "scale", 1);
  const double left[3] = {3, 20, 150};
  expect(evaluate(ctx, BD_OP_SINK_ATTENTION, 4, types, data, 1, &scale), 3, left);
  bd_ctx_destroy(ctx);
}

static void xent_skips_negative_targets(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const int64_t dims[1] = {3};
  const bd_type types[3] = {f32(2, 3, 4, 0, 0), bd_type_make(BD_I32, 1, dims), f32(1, 3, 0, 0, 0)};
  double logits[12] = {0}, targets[3] = {2, -1, 0}, lse[3] = {log(4), log(4), log(4)};
  double *data[3] = {logits, targets, lse};
  const double expected[1] = {2 * log(4)};
  expect(evaluate(ctx, BD_OP_XENT, 3, types, data, 0, NULL), 1, expected);
  bd_ctx_destroy(ctx);
}

static void windows(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const bd_type types[2] = {f32(4, 1, 1, 3, 3), f32(4, 1, 1, 2, 2)};
  double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[4] = {1, 0, 0, -1}, *data[2] = {x, w};
  const double valid[4] = {-4, -4, -4, -4};
  expect(evaluate(ctx, BD_OP_CONV, 2, types, data, 0, NULL), 4, valid);
  const bd_attr attrs[3] = {bd_attr_ints(ctx, "kernel", 2, (const int64_t[]){2, 2}),
                            bd_attr_ints(ctx, "strides", 2, (const int64_t[]){2, 2}),
                            bd_attr_ints(ctx, "pads", 4, (const int64_t[]){1, 1, 1, 1})};
  const double padded[4] = {-1, -3, -7, -4};
  expect(evaluate(ctx, BD_OP_CONV, 2, types, data, 2, attrs + 1), 4, padded);
  const double maxima[4] = {1, 3, 7, 9};
  expect(evaluate(ctx, BD_OP_MAXPOOL, 1, types, data, 3, attrs), 4, maxima);
  bd_ctx_destroy(ctx);
}

// Dropout of ones over `rows` samples, from global sample `first`.
static const double *drop(bd_ctx *ctx, bool batch, int64_t rows, int64_t first) {
  bd_function *f = bd_function_create(ctx, "f");
  bd_type type = f32(2, batch ? BD_DIM_BATCH : rows, 5, 0, 0);
  bd_id in = bd_function_add_param(ctx, f, NULL, type), out;
  const bd_attr attrs[2] = {bd_attr_real(ctx, "p", 0.5), bd_attr_int(ctx, "site", 4)};
  assert_int_equal(bd_build(ctx, f, BD_OP_DROPOUT, 1, &in, 2, attrs, BD_NOWHERE, &out), BD_OK);
  bd_function_add_result(ctx, f, out);
  bd_tensor ones = {f32(2, rows, 5, 0, 0), BD_NEW_ARRAY(ctx->arena, double, rows * 5)};
  for (int64_t i = 0; i < rows * 5; i++)
    ones.data[i] = 1;
  bd_random_key key = plain_key;
  key.first_sample = first;
  bd_tensor *results = NULL;
  assert_int_equal(bd_interpret_function(ctx, NULL, f, rows, &ones, &key, &results, NULL), BD_OK);
  return results[0].data;
}

static void dropout_follows_the_global_sample(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const double *whole = drop(ctx, true, 8, 0);
  expect(drop(ctx, true, 4, 0), 20, whole);
  expect(drop(ctx, true, 4, 4), 20, whole + 20);
  expect(drop(ctx, false, 4, 4), 20, whole);
  int dropped = 0;
  for (int i = 0; i < 40; i++) {
    assert_true(whole[i] == 0 || whole[i] == 2);
    dropped += whole[i] == 0;
  }
  assert_true(dropped > 8 && dropped < 32);
  bd_ctx_destroy(ctx);
}

// A function that is called without operands has as many samples as all others.
static void calls_without_operands_have_the_batch(void **state) {
  (void)state;
  static const char source[] = "braid graph \"m\" {\n"
                               "  weight @w : f32[2] stored \"w\" [2] init ones\n"
                               "  func @rows() {\n"
                               "    %r = iota() {dtype=\"f32\", dims=[-1,2], dim=1} : f32[B,2]\n"
                               "    return %r\n"
                               "  }\n"
                               "  func @sum(%r: f32[B,2], %w: f32[2] weight) {\n"
                               "    %m = mul(%r, %w) : f32[B,2]\n"
                               "    %s = reduce_sum(%m) {rule=\"ab->\"} : f32[]\n"
                               "    return %s\n"
                               "  }\n"
                               "  main(%w: f32[2] weight) {\n"
                               "    %r = call @rows() : f32[B,2]\n"
                               "    %s = call @sum(%r, %w) : f32[]\n"
                               "    return %s\n"
                               "  }\n"
                               "}\n";
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module;
  bd_status status = bd_module_parse(ctx, "text", source, strlen(source), &module);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  double ones[] = {1, 1};
  const bd_tensor w = {f32(1, 2, 0, 0, 0), ones};
  bd_tensor *results = NULL;
  assert_int_equal(bd_interpret_main(ctx, module, 4, &w, 0, &plain_key, &results), BD_OK);
  assert_true(results[0].data[0] == 4);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations),
      cmocka_unit_test(rope_turns_pairs),
      cmocka_unit_test(attention_averages_what_it_sees),
      cmocka_unit_test(relative_attention_weighs_places),
      cmocka_unit_test(sinks_take_their_share),
      cmocka_unit_test(xent_skips_negative_targets),
      cmocka_unit_test(windows),
      cmocka_unit_test(dropout_follows_the_global_sample),
      cmocka_unit_test(calls_without_operands_have_the_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
