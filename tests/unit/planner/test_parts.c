// What a product and the sum of its result over ranks take in parts, and how little is left of it.
#include "ir/parts.h"
#include "ir/print.h"
#include "planner/cost/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PRODUCT, COLLECTIVE };

typedef struct size {
  int samples, tokens, terms, columns;
  const char *summed, *form;
} size;

#define SUM "all_reduce(%part) {axis=0, combiner=\"sum\"}"
#define SCATTER "reduce_scatter(%part) {axis=0, dim=1}"

static bd_module *make(bd_ctx *ctx, const size *s) {
  char source[4096];
  bd_module *module = NULL;
  int t = s->tokens, k = s->terms, c = s->columns;
  int length =
      snprintf(source, sizeof source,
               "braid spmd \"one\" {\n"
               "  mesh [2] stages 1 micro_batch %d cuda\n"
               "  weight @w : bf16[%d,%d] stored \"w\" [%d,%d] init zeros\n"
               "  func @f(%%x: bf16[B,%d,%d] sharded [2], %%w: bf16[%d,%d] sharded [0] weight) {\n"
               "    %%part = contract(%%x, %%w) {rule=\"btk,kc->btc\"} split [2] : bf16[B,%d,%d] "
               "sharded [sum]\n"
               "    %%sum = %s : bf16[B,%d,%d] sharded [%s]\n"
               "    return %%sum\n"
               "  }\n"
               "  func @l(%%s: f32[B,8] sharded [-]) {\n"
               "    %%loss = reduce_sum(%%s) {rule=\"AB->\"} split [-] : f32[] sharded [-]\n"
               "    return %%loss\n"
               "  }\n"
               "  main(%%s: f32[B,8] sharded [-] reals, %%w: bf16[%d,%d] sharded [0] weight, "
               "%%dloss: f32[] sharded [-]) {\n"
               "    %%loss = call @l(%%s) stage 0 : f32[] sharded [-]\n"
               "    return %%loss\n"
               "  }\n"
               "}\n",
               s->samples, k, c, k, c, t, k, k, c, t, c, s->summed, t, c, s->form, k, c);
  assert_true(length > 0 && length < (int)sizeof source);
  bd_status status = bd_module_parse(ctx, "one", source, (size_t)length, &module);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return module;
}

static bd_cluster cluster_of(bd_ctx *ctx, const char *name, double beside) {
  bd_cluster cluster;
  assert_int_equal(bd_cluster_load(ctx, name, &cluster), BD_OK);
  cluster.work.product_beside = beside;
  return cluster;
}

typedef struct seconds {
  double product, collective, parts[BD_MAX_PARTS + 1]; // INFINITY: it cannot be done so
  bd_cut_product cut;
  int chosen;
} seconds;

static seconds price(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module) {
  const bd_function *f = module->functions[0];
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  seconds out;
  assert_int_equal(bd_op_infer(ctx, f, &f->ops[PRODUCT], &map, types), BD_OK);
  out.product = bd_cost_op(model, f, &f->ops[PRODUCT], &map, f->ops[PRODUCT].split);
  out.cut = bd_cost_cut_product(model, f, &f->ops[PRODUCT], &map, f->ops[PRODUCT].split);
  assert_true(out.cut.seconds == out.product);
  out.collective = bd_cost_collective(model, f, &f->ops[COLLECTIVE]);
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2) {
    bd_parts parts = bd_parts_of(module, f, PRODUCT, count);
    out.parts[count] = parts.count == 1 ? INFINITY : bd_cost_in_parts(model, f, PRODUCT, &parts);
  }
  assert_int_equal(bd_cost_choose_parts(ctx, model, module, f, PRODUCT, &out.chosen), BD_OK);
  return out;
}

// What is hidden stays below the bound, which grows; the least that saves enough is chosen.
static void check(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module, int *cut) {
  seconds s = price(ctx, model, module);
  double whole = s.product + s.collective, least = INFINITY;
  double most = bd_cost_hidden_at_most(model, &s.cut, s.collective);
  const bd_cut_product longer = {2 * s.cut.seconds, s.cut.start_seconds / 2};
  assert_true(most >= 0 && most < fmin(s.product, s.collective));
  assert_true(most <= bd_cost_hidden_at_most(model, &longer, s.collective));
  assert_true(most <= bd_cost_hidden_at_most(model, &s.cut, 2 * s.collective));
  assert_true(2 * s.collective - bd_cost_hidden_at_most(model, &s.cut, 2 * s.collective) >=
              s.collective - most);
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2) {
    if (isinf(s.parts[count])) continue;
    assert_true(s.parts[count] > fmax(s.product, s.collective));
    if (whole - s.parts[count] > most * (1 + 1e-9))
      fail_msg(
          "%g seconds of a product of %g (%g) and a sum of %g are hidden in %d parts, at most %g",
          whole - s.parts[count], s.product, s.cut.start_seconds, s.collective, count, most);
    least = fmin(least, s.parts[count]);
  }
  assert_int_equal(s.chosen > 1, least < 0.98 * whole);
  if (s.chosen == 1) return;
  assert_true(s.parts[s.chosen] == least);
  ++*cut;
}

static void test_hidden(void **state) {
  (void)state;
  static const char *const clusters[] = {"h100:1x2", "a100-80gb:2x1", "v100:1x2", "rtx-4090:1x2"};
  static const struct { const char *summed, *form; } sums[] = {{SUM, "-"}, {SCATTER, "1"}};
  int cut = 0, whole = 0;
  for (int i = 0; i < 4; ++i)
    for (int form = 0; form < 2; ++form)
      for (int samples = 1; samples <= 16; samples *= 4)
        for (int terms = 64; terms <= 16384; terms *= 16)
          for (int beside = 1; beside <= 2; ++beside) {
            bd_ctx *ctx = bd_ctx_create();
            size s = {samples, 2048, terms, 4096, sums[form].summed, sums[form].form};
            bd_cluster cluster = cluster_of(ctx, clusters[i], beside / 2.0);
            bd_cost_model model = {&cluster, {1, {2}}, samples};
            int before = cut;
            check(ctx, &model, make(ctx, &s), &cut);
            whole += cut == before;
            bd_ctx_destroy(ctx);
          }
  assert_true(cut > 20 && whole > 10);
}

// Both together take what is said, in a function, too; nothing else changes.
static void test_function(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  size s = {4, 2048, 8192, 4096, SUM, "-"};
  bd_module *module = make(ctx, &s);
  bd_cluster cluster = cluster_of(ctx, "h100:1x2", 0.8);
  bd_cost_model model = {&cluster, {1, {2}}, 4};
  seconds priced = price(ctx, &model, module);
  double all, exposed;
  assert_true(priced.chosen > 1);
  assert_int_equal(bd_cost_function(ctx, &model, module, module->functions[0], &all), BD_OK);
  assert_true(fabs(all - priced.product - priced.collective) < 1e-12);
  bd_op_set_attr(ctx, &module->functions[0]->ops[PRODUCT],
                 bd_attr_int(ctx, BD_PARTS_ATTR, priced.chosen));
  assert_int_equal(bd_cost_function(ctx, &model, module, module->functions[0], &all), BD_OK);
  assert_true(fabs(all - priced.parts[priced.chosen]) < 1e-12);
  assert_int_equal(bd_cost_exposed(ctx, &model, module, module->functions[0], COLLECTIVE, &exposed),
                   BD_OK);
  assert_true(fabs(exposed - (all - priced.product)) < 1e-12);
  cluster.work.product_beside = 0; // nothing runs beside
  assert_int_equal(bd_cost_function(ctx, &model, module, module->functions[0], &all), BD_OK);
  assert_true(fabs(all - priced.product - priced.collective) < 1e-12);
  bd_ctx_destroy(ctx);
}

// Where both take as long and nothing takes time to start, all but an eighth of one is hidden.
static void test_ideal(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  size s = {8, 2048, 8192, 4096, SUM, "-"};
  bd_module *module = make(ctx, &s);
  bd_cluster cluster = cluster_of(ctx, "h100:1x2", 1);
  cluster.work = (bd_work_rates){.product_beside = 1};
  cluster.kernel_seconds = 0;
  cluster.memory_bytes_per_second = 1e18;
  cluster.intra = (bd_link){.bytes_per_second = 100e9};
  bd_cost_model model = {&cluster, {1, {2}}, 8};
  seconds before = price(ctx, &model, module);
  cluster.flops.bf16 *= before.product / before.collective;
  seconds priced = price(ctx, &model, module);
  assert_true(fabs(priced.product - priced.collective) < 1e-9 * priced.product);
  assert_int_equal(priced.chosen, BD_MAX_PARTS);
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2)
    assert_true(fabs(priced.parts[count] - priced.product * (1 + 1.0 / count)) <
                1e-9 * priced.product);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hidden), cmocka_unit_test(test_function),
                                     cmocka_unit_test(test_ideal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
