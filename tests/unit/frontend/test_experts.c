// Experts on the interpreter against the same routing written as loops.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/experts.h"
#include "ir/interpret.h"
#include "tests/unit/context.h"
#include <math.h>

enum { BATCH = 3, TOKENS = 7, WIDTH = 4, INNER = 5, EXPERTS = 3, CHOICES = 2, LAYERS = 2 };
enum { X, ROUTER, W1, W2, W3, PARAMS };

typedef struct expected {
  double y[BATCH][TOKENS][WIDTH], routed[BATCH][2][EXPERTS];
  int left_out; // choices without a place
} expected;

static bd_llama_config config_of(int64_t capacity) {
  return (bd_llama_config){.width = WIDTH,
                           .inner = INNER,
                           .layers = LAYERS,
                           .activation = BD_OP_SILU,
                           .experts = EXPERTS,
                           .choices = CHOICES,
                           .capacity = capacity,
                           .balance = 0.25};
}

// The parameters of `function`, of numbers that route tokens unevenly.
static bd_tensor *fill_params(bd_ctx *ctx, const bd_function *function) {
  bd_tensor *in = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->param_count);
  for (int i = 0; i < function->param_count; ++i) {
    bd_type type = function->values[function->params[i]].type;
    if (type.dims[0] == BD_DIM_BATCH) type.dims[0] = BATCH;
    int64_t elements = bd_type_elements(&type, BATCH);
    in[i] = (bd_tensor){.type = type, .data = BD_NEW_ARRAY(ctx->arena, double, elements)};
    for (int64_t e = 0; e < elements; ++e)
      in[i].data[e] = (float)(sin(1.7 * (double)e + i) + (i == ROUTER && e % EXPERTS == 0));
  }
  return in;
}

static double run_expert(const bd_tensor *in, int expert, const double *x, int column) {
  double y = 0;
  for (int f = 0; f < INNER; ++f) {
    double gate = 0, up = 0;
    for (int c = 0; c < WIDTH; ++c) {
      gate += x[c] * in[W1].data[(expert * WIDTH + c) * INNER + f];
      up += x[c] * in[W3].data[(expert * WIDTH + c) * INNER + f];
    }
    y += gate / (1 + exp(-gate)) * up * in[W2].data[(expert * INNER + f) * WIDTH + column];
  }
  return y;
}

static void share_out(const bd_tensor *in, const double *x, double *share) {
  double sum = 0;
  for (int e = 0; e < EXPERTS; ++e) {
    double score = 0;
    for (int c = 0; c < WIDTH; ++c)
      score += x[c] * in[ROUTER].data[c * EXPERTS + e];
    sum += share[e] = exp(score);
  }
  for (int e = 0; e < EXPERTS; ++e)
    share[e] /= sum;
}

// The experts of a token, the best first.
static void choose(const double *share, int *out) {
  for (int k = 0; k < CHOICES; ++k) {
    out[k] = -1;
    for (int e = 0; e < EXPERTS; ++e)
      if ((k == 0 || e != out[0]) && (out[k] < 0 || share[e] > share[out[k]])) out[k] = e;
  }
}

// Of one sample.
static void route(const bd_tensor *in, int sample, int64_t capacity, expected *out) {
  double share[TOKENS][EXPERTS];
  int chosen[TOKENS][CHOICES], taken[EXPERTS] = {0};
  const double *x = in[X].data + (size_t)sample * TOKENS * WIDTH;
  for (int t = 0; t < TOKENS; ++t) {
    share_out(in, x + t * WIDTH, share[t]);
    choose(share[t], chosen[t]);
    for (int e = 0; e < EXPERTS; ++e)
      out->routed[sample][1][e] += share[t][e] / (TOKENS * LAYERS);
  }
  for (int k = 0; k < CHOICES; ++k)
    for (int t = 0; t < TOKENS; ++t) {
      int e = chosen[t][k];
      out->routed[sample][0][e] += 1.0 / (TOKENS * LAYERS);
      if (taken[e]++ >= capacity) {
        out->left_out++;
        continue;
      }
      double weight = share[t][e] / (share[t][chosen[t][0]] + share[t][chosen[t][1]]);
      for (int c = 0; c < WIDTH; ++c)
        out->y[sample][t][c] += weight * run_expert(in, e, x + t * WIDTH, c);
    }
}

static void check_room(bd_ctx *ctx, int64_t capacity, bool leaves_out) {
  bd_llama_config config = config_of(capacity);
  bd_graph_build build = bd_graph_begin(ctx, "experts", BD_NOWHERE);
  bd_layer layer = {.function = bd_graph_function(&build, "f")};
  bd_id routed, x = bd_graph_param(&build, "x", bd_transformer_activations(TOKENS, WIDTH), false);
  bd_graph_result(&build, bd_experts_perceive(&build, &layer, &config, TOKENS, x, &routed));
  bd_graph_result(&build, routed);
  assert_int_equal(build.status, BD_OK);
  assert_int_equal(layer.function->param_count, PARAMS);

  bd_tensor *in = fill_params(ctx, layer.function), *out;
  const bd_random_key key = {0};
  assert_int_equal(bd_interpret_function(ctx, build.module, layer.function, BATCH, in, &key, &out, NULL),
                   BD_OK);
  expected *want = BD_NEW_ARRAY(ctx->arena, expected, 1);
  for (int sample = 0; sample < BATCH; ++sample)
    route(in, sample, capacity > 0 ? capacity : TOKENS, want);
  assert_int_equal(want->left_out > 0, leaves_out);
  const double *y = &want->y[0][0][0], *load = &want->routed[0][0][0];
  for (int i = 0; i < BATCH * TOKENS * WIDTH; ++i)
    assert_true(fabs(out[0].data[i] - y[i]) < 1e-5);
  for (int i = 0; i < BATCH * 2 * EXPERTS; ++i)
    assert_true(fabs(out[1].data[i] - load[i]) < 1e-5);
}

static void test_every_token_finds_room(void **state) {
  check_room(*state, 0, false);
  check_room(*state, TOKENS + 5, false);
}

static void test_late_choices_find_none(void **state) {
  check_room(*state, 3, true);
  check_room(*state, 1, true);
}

static void test_balance(void **state) {
  bd_ctx *ctx = *state;
  bd_llama_config config = config_of(0);
  bd_graph_build build = bd_graph_begin(ctx, "balance", BD_NOWHERE);
  bd_function *function = bd_graph_function(&build, "f");
  bd_id routed = bd_graph_param(&build, "routed", bd_experts_routed(&config), false);
  bd_graph_result(&build, bd_experts_balance(&build, &config, TOKENS, routed));
  assert_int_equal(build.status, BD_OK);
  bd_tensor *in = fill_params(ctx, function), *out;
  const bd_random_key key = {0};
  assert_int_equal(bd_interpret_function(ctx, build.module, function, BATCH, in, &key, &out, NULL), BD_OK);
  double want = 0;
  for (int e = 0; e < EXPERTS; ++e) {
    double chosen = 0, share = 0;
    for (int sample = 0; sample < BATCH; ++sample) {
      chosen += in[0].data[(sample * 2 + 0) * EXPERTS + e];
      share += in[0].data[(sample * 2 + 1) * EXPERTS + e];
    }
    want += EXPERTS * (chosen / BATCH) * (share / BATCH);
  }
  assert_true(fabs(out[0].data[0] - 0.25 * want * BATCH * TOKENS) < 1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_every_token_finds_room, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_late_choices_find_none, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_balance, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
