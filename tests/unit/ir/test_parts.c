// How a product and the sum over ranks behind it are cut, and where both then lie.
#include "ir/memory.h"
#include "ir/parts.h"
#include "ir/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// A product of four samples of eight tokens, of which each rank has some of the terms, and what
// sums it over the ranks.
typedef struct wanted {
  const char *x, *rule; // the first factor and the rule
  const char *attrs;    // of the product, behind its rule
  const char *between;  // ops that read the product
  const char *summed;   // the collective
  const char *form;     // of its result
  const char *cuda;
} wanted;

#define X "f32[B,8,128] sharded [2]"
#define ROWS "btk,kc->btc"
#define PART "f32[B,8,64] sharded [sum]"
#define SUM(of) "all_reduce(%" of ") {axis=0, combiner=\"sum\"}"
#define ADDED "    %added = add(%part, %t) split [-] : " PART "\n"

// What a module must have besides.
#define LOSS                                                                                       \
  "  func @l(%%s: f32[B,8] sharded [-]) {\n"                                                       \
  "    %%loss = reduce_sum(%%s) {rule=\"AB->\"} split [-] : f32[] sharded [-]\n"                   \
  "    return %%loss\n"                                                                            \
  "  }\n"                                                                                          \
  "  main(%%s: f32[B,8] sharded [-] reals, %%w: f32[128,64] sharded [0] weight, "                  \
  "%%dloss: f32[] sharded [-]) {\n"                                                                \
  "    %%loss = call @l(%%s) stage 0 : f32[] sharded [-]\n"                                        \
  "    return %%loss\n"                                                                            \
  "  }\n"                                                                                          \
  "}\n"

static const wanted plain = {X, ROWS, "", "", SUM("part"), "-", "cuda"};

static bd_module *make(bd_ctx *ctx, const wanted *w) {
  char source[4096];
  bd_module *module = NULL;
  int length = snprintf(source, sizeof source,
                        "braid spmd \"one\" {\n"
                        "  mesh [2] stages 1 micro_batch 4 %s\n"
                        "  weight @w : f32[128,64] stored \"w\" [128,64] init zeros\n"
                        "  func @f(%%x: %s, %%t: " PART ", %%w: f32[128,64] sharded [0] weight) {\n"
                        "    %%part = contract(%%x, %%w) {rule=\"%s\"%s} split [2] : " PART "\n"
                        "%s"
                        "    %%sum = %s : f32[B,8,64] sharded [%s]\n"
                        "    %%y = scale(%%sum) {value=2.0} split [-] : f32[B,8,64] sharded [%s]\n"
                        "    return %%y\n"
                        "  }\n" LOSS,
                        w->cuda, w->x, w->rule, w->attrs, w->between, w->summed, w->form, w->form);
  assert_true(length > 0 && length < (int)sizeof source);
  bd_status status = bd_module_parse(ctx, "one", source, (size_t)length, &module);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return module;
}

static bd_parts find(const wanted *w, int count) {
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = make(ctx, w);
  bd_parts parts = bd_parts_of(module, module->functions[0], 0, count);
  bd_ctx_destroy(ctx);
  return parts;
}

// Rows, and elements of the result, come out as many as there are.
static void expect(const wanted *w, int count, int64_t samples, int64_t blocks, int64_t chunks,
                   int64_t runs, int64_t rows) {
  bd_parts p = find(w, count);
  assert_int_equal(p.count, count);
  assert_int_equal(p.samples, samples);
  assert_int_equal(p.blocks, blocks);
  assert_int_equal(p.chunks, chunks);
  assert_int_equal(p.runs, runs);
  assert_int_equal(p.rows, rows);
  assert_int_equal(p.columns, 64);
  assert_int_equal(p.prefix, 2);
  assert_int_equal(count * p.runs * p.blocks * p.rows, 4 * 8);
}

static void expect_whole(const wanted *w, int count) {
  assert_int_equal(find(w, count).count, 1);
}

static void test_valid(void **state) {
  (void)state;
  for (int count = -1; count < 20; ++count)
    assert_int_equal(bd_parts_valid(count), count == 1 || count == 2 || count == 4 || count == 8);
}

static void test_all_reduce(void **state) {
  (void)state;
  for (int count = 2; count <= BD_MAX_PARTS; count *= 2)
    expect(&plain, count, 1, 1, count, 1, 32 / count);
}

// Each of a sample's halves of tokens is a rank's.
static void test_scatter(void **state) {
  (void)state;
  wanted w = plain;
  w.summed = "reduce_scatter(%part) {axis=0, dim=1}";
  w.form = "1";
  expect(&w, 2, 4, 2, 1, 2, 4);
  expect(&w, 4, 4, 2, 1, 1, 4);
  expect(&w, 8, 4, 2, 2, 1, 2);
  w.summed = "reduce_scatter(%part) {axis=0, dim=0}"; // each half of the samples
  w.form = "0";
  expect(&w, 2, 1, 2, 2, 1, 8);
  expect(&w, 8, 1, 2, 8, 1, 2);
  w.summed = "reduce_scatter(%part) {axis=0, dim=2}"; // of the columns
  w.form = "2";
  expect_whole(&w, 2);
}

// What is added lies row by row, as the product then must.
static void test_added(void **state) {
  (void)state;
  wanted w = plain;
  w.between = ADDED;
  w.summed = SUM("added");
  expect(&w, 8, 1, 1, 8, 1, 4);
  w.summed = "reduce_scatter(%added) {axis=0, dim=1}";
  w.form = "1";
  expect(&w, 4, 4, 2, 1, 1, 4);
  expect_whole(&w, 2);
  expect_whole(&w, 8);
}

static void test_whole(void **state) {
  (void)state;
  expect_whole(&plain, 1);
  wanted w = plain;
  w.cuda = "";
  expect_whole(&w, 2);
  w = plain;
  w.between = "    %read = scale(%part) {value=2.0} split [-] : " PART "\n";
  expect_whole(&w, 2); // others read the product
  w.summed = SUM("read");
  expect_whole(&w, 2); // or it is no sum with another tensor that does
  w = plain;
  w.x = "f32[8,B,128] sharded [2]";
  w.rule = "tbk,kc->btc";
  expect_whole(&w, 2); // rows lie in another order
}

// Factors in 8 bits are scaled by all that they hold.
static void test_float8(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = make(ctx, &plain);
  bd_op *product = &module->functions[0]->ops[0];
  bd_op_set_attr(ctx, product, bd_attr_int(ctx, BD_PARTS_ATTR, 4));
  assert_int_equal(bd_parts_asked(module, module->functions[0], 0).count, 4);
  bd_op_set_attr(ctx, product, bd_attr_string(ctx, "fp8", "e4m3,e4m3"));
  assert_int_equal(bd_parts_asked(module, module->functions[0], 0).count, 1);
  bd_ctx_destroy(ctx);
}

// While a product is done in parts, its factor and its sum lie apart.
static void test_memory(void **state) {
  (void)state;
  static const char text[] =
      "braid spmd \"one\" {\n"
      "  mesh [2] stages 1 micro_batch 4 cuda\n"
      "  weight @w : f32[128,64] stored \"w\" [128,64] init zeros\n"
      "  func @f(%%x: " X ", %%w: f32[128,64] sharded [0] weight) {\n"
      "    %%a = scale(%%x) {value=2.0} split [2] : " X "\n"
      "    %%part = contract(%%a, %%w) {rule=\"" ROWS "\", parts=%d} split [2] : " PART "\n"
      "    %%sum = all_reduce(%%part) {axis=0, combiner=\"sum\"} : f32[B,8,64] sharded [-]\n"
      "    %%z = scale(%%sum) {value=2.0} split [-] : f32[B,8,64] sharded [-]\n"
      "    return %%z\n"
      "  }\n" LOSS;
  for (int parts = 1; parts <= BD_MAX_PARTS; parts *= 2) {
    bd_ctx *ctx = bd_ctx_create();
    char source[4096];
    bd_module *module = NULL;
    int64_t bytes;
    int length = snprintf(source, sizeof source, text, parts);
    assert_int_equal(bd_module_parse(ctx, "one", source, (size_t)length, &module), BD_OK);
    bd_function *f = module->functions[0];
    assert_int_equal(bd_memory_place_workspace(ctx, module, f, &bytes), BD_OK);
    const bd_value *a = &f->values[f->ops[0].out[0]], *sum = &f->values[f->ops[2].out[0]];
    int64_t size = bd_memory_value_bytes(module, a);
    assert_int_equal(bd_memory_value_bytes(module, sum), size);
    assert_int_equal(bytes, (parts == 1 ? 2 : 3) * size);
    assert_int_equal(a->offset_bytes == sum->offset_bytes, parts == 1);
    bd_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),   cmocka_unit_test(test_all_reduce),
      cmocka_unit_test(test_scatter), cmocka_unit_test(test_added),
      cmocka_unit_test(test_whole),   cmocka_unit_test(test_float8),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
