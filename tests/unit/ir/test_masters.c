// Weights in bf16 without masters: the rounding of their updates, its random bits, and training
// with them on the interpreter.
#include "ir/memory.h"
#include "ir/pass.h"
#include "ir/print.h"
#include "runtime/rounding.h"
#include "tests/unit/ir/support_arguments.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 1 << 16 }; // of 16 random bits

static void keeps_what_bf16_has(void **state) {
  (void)state;
  for (uint32_t half = 0; half < CASES; half++) {
    const float value = bd_rt_from_bf16((uint16_t)half);
    for (uint32_t bits = 0; bits < CASES; bits += 0x5555) {
      const float rounded = bd_rt_from_bf16(bd_rt_round_bf16(value, bits));
      const double defined = bd_round_stochastically((double)value, bits);
      if (isnan(value)) {
        assert_true(isnan(rounded) && isnan(defined));
        continue;
      }
      assert_int_equal(bd_rt_bits_of(rounded), half << 16);
      assert_true(defined == (double)value && !signbit(defined) == !signbit(value));
    }
  }
}

// Over all random bits the mean is the number itself, to the last digit: 2^16 numbers of bf16 that
// are neighbours add up exactly.
static void is_unbiased(void **state) {
  (void)state;
  const float values[] = {1.0001f, -3.14159f,        1e-3f,     -0x1.FFFFFEp3f, 0x1.000002p-126f,
                          1e30f,   -0x1.23456p-130f, 0x1p-149f, 6.02e23f,       0x1.7FFFFEp7f};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    double sum = 0, defined = 0;
    int differ = 0;
    for (uint32_t bits = 0; bits < CASES; bits++) {
      const double rounded = (double)bd_rt_from_bf16(bd_rt_round_bf16(values[i], bits));
      differ += rounded != bd_round_stochastically((double)values[i], bits);
      sum += rounded;
      defined += bd_round_stochastically((double)values[i], bits);
    }
    assert_int_equal(differ, 0);
    assert_true(sum == (double)values[i] * CASES && defined == sum);
  }
}

static void ends_of_the_range(void **state) {
  (void)state;
  const float most = 0x1.FFFFFEp127f, largest = 0x1.FEp127f;
  assert_true(bd_rt_from_bf16(bd_rt_round_bf16(most, 0)) == largest);
  assert_true(isinf(bd_rt_from_bf16(bd_rt_round_bf16(most, 1))));
  assert_true(bd_round_stochastically((double)most, 0) == (double)largest);
  assert_true(isinf(bd_round_stochastically((double)most, 1)));
  assert_true(bd_round_stochastically(-(double)most, 1) == -INFINITY);
}

// The bits that ranks draw for their parts are those of the logical elements, of the definition.
static void parts_draw_the_same_bits(void **state) {
  (void)state;
  // A weight of [7, 300, 5]; a rank has rows 100 to 149 of the middle, padded to 60.
  const bd_rt_draws part = {.seed = 0x123456789ABCDEF,
                            .step = 12,
                            .weight = 34,
                            .first = 11,
                            .rank = 2,
                            .dims = {7, 1500},
                            .start = {0, 500},
                            .extent = {7, 300}};
  for (int64_t i = 0; i < 7 * 300 - 11; i++) {
    const int64_t at = i + 11, element = at / 300 * 1500 + 500 + at % 300;
    assert_int_equal(bd_rt_drawn_element(&part, i), element);
    const bd_philox_words draw = bd_rt_draw(&part, part.step, bd_rt_draw_number(element));
    const int k = bd_rt_draw_part(element);
    assert_int_equal(draw.word[k / 2] >> k % 2 * 16 & 0xFFFF,
                     bd_random_rounding(part.seed, 12, 34, (uint64_t)element));
  }
}

static void every_coordinate_matters(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  double sum = 0;
  int same[4] = {0};
  for (uint64_t e = 0; e < COUNT; e++) {
    const uint32_t bits = bd_random_rounding(1, 2, 3, e);
    sum += bits;
    same[0] += bits == bd_random_rounding(2, 2, 3, e);
    same[1] += bits == bd_random_rounding(1, 3, 3, e);
    same[2] += bits == bd_random_rounding(1, 2, 4, e);
    same[3] += bits == bd_random_rounding(1, 2, 3, e + 1);
  }
  for (int i = 0; i < 4; i++)
    assert_true(same[i] < 8);
  assert_true(fabs(sum / COUNT / CASES - 0.5) < 0.02);
}

static const char graph_text[] =
    "braid graph \"g\" {\n"
    "  weight @a : f32[8,16] stored \"a\" [8,16] init normal 0.3 decay\n"
    "  weight @c : f32[16,5] stored \"c\" [16,5] init normal 0.3 decay\n"
    "  func @f(%x: f32[B,8], %t: i32[B], %a: f32[8,16] weight, %c: f32[16,5] weight) {\n"
    "    %p = contract(%x, %a) {rule=\"bi,ij->bj\"} : f32[B,16]\n"
    "    %h = gelu(%p) : f32[B,16]\n"
    "    %l = contract(%h, %c) {rule=\"bj,jv->bv\"} : f32[B,5]\n"
    "    %s = lse(%l) : f32[B]\n"
    "    %loss = xent(%l, %t, %s) : f32[]\n"
    "    return %loss\n"
    "  }\n"
    "  main(%x: f32[B,8] reals, %t: i32[B] targets, %a: f32[8,16] weight, %c: f32[16,5] weight) {\n"
    "    %loss = call @f(%x, %t, %a, %c) : f32[]\n"
    "    return %loss\n"
    "  }\n"
    "}\n";

enum { SAMPLES = 16, STEPS = 100 };
typedef enum rounding { WIDE, STOCHASTIC, NEAREST } rounding;

static double stored(rounding how, double value, uint64_t step, int weight, int64_t element) {
  if (how == WIDE) return bd_dtype_round(BD_F32, value);
  if (how == NEAREST) return bd_dtype_round(BD_BF16, value);
  return bd_round_stochastically(value,
                                 bd_random_rounding(1, step, (uint32_t)weight, (uint64_t)element));
}

// Steps of SGD; the loss at the last one. `*out_moved`: elements that differ from their first
// value.
static double train(const char *passes, rounding how, double rate, int64_t *out_moved) {
  bd_ctx *ctx = bd_ctx_create();
  bd_module *graph, *module;
  assert_int_equal(bd_module_parse(ctx, "text", graph_text, strlen(graph_text), &graph), BD_OK);
  assert_int_equal(bd_pass_run_list(ctx, passes, NULL, stderr, graph, &module), BD_OK);
  bd_tensor *in = bf16_arguments(ctx, module, SAMPLES),
            *first = bf16_arguments(ctx, module, SAMPLES);
  double loss = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    const bd_random_key key = {.seed = 1, .step = step};
    bd_tensor *results;
    assert_int_equal(bd_interpret_main(ctx, module, SAMPLES, in, 1.0 / SAMPLES, &key, &results),
                     BD_OK);
    loss = results[0].data[0] / SAMPLES;
    for (int r = 1; r < module->main->result_count; r++) {
      const int weight = module->gradient_weight[r - 1];
      bd_tensor *w = &in[module->input_count + weight];
      for (int64_t e = 0; e < bd_type_elements(&w->type, 1); e++)
        w->data[e] = stored(how, w->data[e] - rate * results[r].data[e], step, weight, e);
    }
  }
  *out_moved = 0;
  for (int i = module->input_count; i < module->input_count + module->weight_count; i++)
    for (int64_t e = 0; e < bd_type_elements(&in[i].type, 1); e++)
      *out_moved += in[i].data[e] != first[i].data[e];
  bd_ctx_destroy(ctx);
  return loss;
}

static void small_updates_are_not_lost(void **state) {
  (void)state;
  static const double rate = 1e-3;
  int64_t moved;
  const double wide = train("autodiff", WIDE, rate, &moved);
  const double start = train("autodiff", WIDE, 0, &moved);
  const char *none = bd_training_passes(BD_BF16, BD_MASTERS_NONE, BD_GRADIENTS_F32, "cpu");
  const double stochastic = train(none, STOCHASTIC, rate, &moved);
  assert_true(moved > 100);
  const double nearest = train(none, NEAREST, rate, &moved);
  print_message("100 steps: loss %.6f at the start, %.6f in f32, %.6f rounded stochastically, %.6f "
                "to the nearest\n",
                start, wide, stochastic, nearest);
  assert_true(start - wide > 0.02);
  assert_true(fabs(stochastic - wide) < 0.2 * (start - wide));
  assert_true(start - nearest < 0.3 * (start - wide)); // most updates are less than half a step
}

static void larger_updates_stay_close(void **state) {
  (void)state;
  int64_t moved;
  const double wide = train("autodiff", WIDE, 0.1, &moved);
  const double stochastic =
      train(bd_training_passes(BD_BF16, BD_MASTERS_NONE, BD_GRADIENTS_F32, "cpu"), STOCHASTIC, 0.1,
            &moved);
  print_message("100 steps: loss %.6f in f32, %.6f rounded stochastically\n", wide, stochastic);
  assert_true(fabs(stochastic / wide - 1) < 0.02);
}

static void gradients_in_halves_stay_close(void **state) {
  (void)state;
  int64_t moved;
  const char *halves = bd_training_passes(BD_BF16, BD_MASTERS_NONE, BD_GRADIENTS_BF16, "cpu");
  const double wide = train("autodiff", WIDE, 0.1, &moved);
  const double narrow = train(halves, STOCHASTIC, 0.1, &moved);
  print_message("100 steps: loss %.6f in f32, %.6f with gradients in bf16\n", wide, narrow);
  assert_true(fabs(narrow / wide - 1) < 0.02);
}

static void states_have_no_master(void **state) {
  (void)state;
  assert_int_equal(bd_optimizer_state_bytes("adamw", BD_MASTERS_NONE, BD_BF16), 8);
  assert_int_equal(bd_optimizer_state_bytes("momentum", BD_MASTERS_NONE, BD_BF16), 4);
  assert_int_equal(bd_optimizer_state_bytes("sgd", BD_MASTERS_NONE, BD_BF16), 0);
  assert_int_equal(bd_optimizer_state_bytes("adamw", BD_MASTERS_NONE, BD_F32), 8);
  assert_int_equal(bd_memory_update_bytes("adamw", BD_MASTERS_NONE, BD_BF16, BD_F32),
                   2 * (2 + 4 + 8));
  assert_int_equal(bd_memory_update_bytes("adamw", BD_MASTERS_NONE, BD_BF16, BD_BF16),
                   2 * (2 + 2 + 8));
  assert_int_equal(bd_gradient_dtype(BD_GRADIENTS_BF16, BD_BF16), BD_BF16);
  assert_int_equal(bd_gradient_dtype(BD_GRADIENTS_BF16, BD_F32), BD_F32);
  assert_int_equal(bd_gradient_dtype(BD_GRADIENTS_F32, BD_BF16), BD_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_what_bf16_has),
      cmocka_unit_test(is_unbiased),
      cmocka_unit_test(ends_of_the_range),
      cmocka_unit_test(parts_draw_the_same_bits),
      cmocka_unit_test(every_coordinate_matters),
      cmocka_unit_test(small_updates_are_not_lost),
      cmocka_unit_test(larger_updates_stay_close),
      cmocka_unit_test(states_have_no_master),
      cmocka_unit_test(gradients_in_halves_stay_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
