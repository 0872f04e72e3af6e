// What a plan loses by computing a value at most twice: the best schedules in which a layer runs
// forward at most twice, against the optimum without that limit (docs/decisions/005).
#include "ir/base/file.h"
#include "tests/unit/planner/support_chain.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Slots of s..t when everything is kept.
static int64_t kept_slots(const bd_chain *c, int s, int t) {
  int64_t slots = c->value[t] + c->tape[t];
  for (int i = t - 1; i >= s; i--)
    slots = larger(sweep_slots(c, i, t), larger(c->value[i] + c->tape[i], c->tape[i] + slots));
  return slots;
}

// Row s: least times of s to the end in 0..budget slots. A layer's tape is kept from its forward
// on, or the layers s..k-1 run forward again, once, from the kept input of s; they lie in one block
// of `block` layers.
static void fill(const bd_chain *c, int64_t budget, int block, int s, double *const *row) {
  int last = c->layers - 1;
  int64_t sweep = s < last ? sweep_slots(c, s, last) : 0;
  for (int64_t m = 0; m <= budget; m++)
    row[s][m] = INFINITY;
  double own = c->forward[s] + c->backward[s], ahead = 0;
  for (int64_t m = larger(sweep, c->value[s] + c->tape[s]); m <= budget; m++)
    row[s][m] = own + (s < last ? row[s + 1][m - c->tape[s]] : 0);
  for (int k = s + 1; k <= last && (k - 1) / block == s / block; k++) {
    int64_t from = larger(larger(sweep, kept_slots(c, s, k - 1)), c->value[k]);
    ahead += 2 * c->forward[k - 1] + c->backward[k - 1];
    for (int64_t m = from; m <= budget; m++)
      row[s][m] = fmin(row[s][m], ahead + row[k][m - c->value[k]]);
  }
}

static double once(bd_ctx *ctx, const bd_chain *c, int64_t budget, int block) {
  double **row = BD_NEW_ARRAY(ctx->arena, double *, c->layers);
  for (int s = c->layers - 1; s >= 0; s--) {
    row[s] = BD_NEW_ARRAY(ctx->arena, double, budget + 1);
    fill(c, budget, block, s, row);
  }
  return row[0][budget];
}

static double optimum(bd_ctx *ctx, const bd_chain *c, int64_t budget) {
  bd_remat_answer answer = {0};
  if (bd_chain_solve(ctx, c, budget, 1e4, NULL, &answer) != BD_OK) return INFINITY;
  assert_true(answer.bound == answer.cost);
  return answer.cost;
}

// Checks that at `percent` of what keeping everything takes, running layers of a block forward at
// most twice costs at most `within` times the optimum, and layers of any segment 1 % over it, where
// either fits at all. Prints a row of the table.
static void compare(bd_ctx *ctx, const char *name, const bd_chain *c, int block, int percent,
                    double within) {
  int64_t all = kept_slots(c, 0, c->layers - 1), budget = (all * percent + 99) / 100;
  double base = bd_chain_base(c), best = optimum(ctx, c, budget);
  double any = once(ctx, c, budget, c->layers), blocks = once(ctx, c, budget, block);
  assert_true(best <= any && any <= blocks);
  print_message("| %s | %d | %.2f | %.2f | %.2f |\n", name, percent, 100 * (best / base - 1),
                100 * (any / base - 1), 100 * (blocks / base - 1));
  assert_true(isinf(any) || any <= best * 1.01);
  assert_true(blocks <= best * within);
}

static void compare_file(const char *name, int block, const int *percent, const double *within) {
  bd_ctx *ctx = bd_ctx_create();
  const char *path = bd_intern_f(ctx, "tests/data/remat/%s.txt", name);
  char *data;
  size_t bytes;
  bd_chain c;
  assert_int_equal(bd_file_read(ctx, path, 1 << 20, &data, &bytes), BD_OK);
  assert_int_equal(bd_chain_read(ctx, path, data, bytes, &c), BD_OK);
  for (int i = 0; percent[i]; i++)
    compare(ctx, name, &c, block, percent[i], within[i]);
  bd_ctx_destroy(ctx);
}

static void test_chains_of_the_data(void **unused) {
  (void)unused;
  static const int percent[] = {75, 50, 25, 15, 0};
  static const double within[] = {1.04, 1.04, INFINITY, INFINITY};
  compare_file("homog50", 1, percent, within);
  compare_file("hetero20_s1", 1, percent, within);
  compare_file("hetero100_s1", 1, percent, within);
  compare_file("gpt175b_layers24", 2, percent, within);
}

// A transformer as braid's layers see it, op for op: times in hundredths of h * h flops per token,
// sizes in activations of one token, for h = 12288, 2048 tokens and 295 flops per byte of memory
// traffic.
static bd_chain transformer(bd_ctx *ctx, int blocks) {
  // norm, q k v, attention, projection, norm, up, activation, down.
  static const double forward[] = {10, 600, 33, 200, 10, 800, 38, 800};
  static const int64_t output[] = {1, 3, 1, 1, 1, 4, 4, 1};
  int layers = 8 * blocks + 1;
  bd_chain c = {.layers = layers,
                .forward = BD_NEW_ARRAY(ctx->arena, double, layers),
                .backward = BD_NEW_ARRAY(ctx->arena, double, layers),
                .value = BD_NEW_ARRAY(ctx->arena, int64_t, layers + 1),
                .tape = BD_NEW_ARRAY(ctx->arena, int64_t, layers)};
  c.value[0] = 1;
  for (int i = 0; i + 1 < layers; i++) {
    c.forward[i] = forward[i % 8];
    c.backward[i] = 2 * forward[i % 8];
    c.value[i + 1] = c.tape[i] = output[i % 8];
  }
  return c;
}

static void test_transformers(void **unused) {
  (void)unused;
  static const int percent[] = {90, 75, 60, 45, 30, 20, 0};
  bd_ctx *ctx = bd_ctx_create();
  for (int blocks = 4; blocks <= 16; blocks += 12) {
    bd_chain c = transformer(ctx, blocks);
    for (int i = 0; percent[i]; i++)
      compare(ctx, bd_intern_f(ctx, "transformer, %d blocks", blocks), &c, 8, percent[i],
              percent[i] < 30 ? INFINITY : 1.006);
  }
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chains_of_the_data),
      cmocka_unit_test(test_transformers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
