// A collective runs beside the steps that leave its operand and its result alone.
#include "codegen/prefetch.h"
#include "ir/module.h"
#include "ir/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Where values of the backward function lie in the workspace; the operand of the product `late`.
typedef struct places {
  int copy, part, sum, other, gathered;
  const char *operand, *form, *combiner;
  int ranks, parts;
} places;

static const places apart = {0, 4096, 8192, 12288, 1 << 20, "x", "sum", "sum", 2, 1};

// Steps of the backward function, by name.
enum { COPY, EARLY, PART, LATE, SUM, OTHER, READER, GATHER, LAST, STEPS };

// What both functions take, and types.
#define PARAMS                                                                                     \
  "(%%x: f32[B,128] sharded [-] at boundary+0, %%w: " CUT " at weights+0 weight, %%u: " CUT        \
  " at weights+0 weight, %%v: f32[128,128] sharded [0] at weights+0 weight"
#define CUT "f32[128,128] sharded [1]"
#define WHOLE "f32[B,128] sharded [-] at "

// `part` is the gradient of %x that is to be summed over the ranks, `early` and `late` are products
// for gradients of weights, `other` is a product, `reader` reads the sum.
static const char text[] =
    "braid exec \"one\" {\n"
    "  mesh [%d] stages 1 micro_batch 8 cuda\n"
    "  weight @w : f32[128,128] stored \"w\" [128,128] init zeros\n"
    "  weight @u : f32[128,128] stored \"u\" [128,128] init zeros\n"
    "  weight @v : f32[128,128] stored \"v\" [128,128] init zeros\n"
    "  func @f" PARAMS ") peer @f.grad {\n"
    "    %%y = contract(%%x, %%w) {rule=\"bi,io->bo\"} split [2] : f32[B,128] sharded [1] "
    "at boundary+0\n"
    "    save %%x, %%w, %%u, %%v\n"
    "    return %%y\n"
    "  }\n"
    "  func @f.grad" PARAMS ", %%d: f32[B,128] sharded [1] at boundary+0) backward peer @f "
    "restores 4 {\n"
    "    %%copy = scale(%%x) {value=2.0} split [-] : " WHOLE "workspace+%d\n"
    "    %%early = contract(%%copy, %%d) {rule=\"bi,bo->io\"} split [2] : " CUT " at gradients+0\n"
    "    %%part = contract(%%d, %%w) {rule=\"bo,io->bi\", parts=%d} split [1] : f32[B,128] "
    "sharded [%s] at workspace+%d\n"
    "    %%late = contract(%%%s, %%d) {rule=\"bi,bo->io\"} split [2] : " CUT " at gradients+0\n"
    "    %%sum = all_reduce(%%part) {axis=0, combiner=\"%s\"} : " WHOLE "workspace+%d\n"
    "    %%other = contract(%%d, %%w) {rule=\"bo,io->bi\"} split [1] : f32[B,128] sharded [sum] "
    "at workspace+%d\n"
    "    %%reader = scale(%%sum) {value=1.0} split [-] : " WHOLE "boundary+0\n"
    "    %%gathered = all_gather(%%v) {axis=0, dim=0} : f32[128,128] sharded [-] "
    "at workspace+%d\n"
    "    %%last = contract(%%x, %%gathered) {rule=\"bi,io->bo\"} split [-] : " WHOLE
    "workspace+65536\n"
    "    return %%reader of 0, %%early of 1, %%late of 2\n"
    "  }\n"
    "  func @h(%%y: f32[B,128] sharded [1] at boundary+0) {\n"
    "    %%part = reduce_sum(%%y) {rule=\"AB->\"} split [1] : f32[] sharded [sum] at workspace+0\n"
    "    %%loss = all_reduce(%%part) {axis=0, combiner=\"sum\"} : f32[] sharded [-] at boundary+0\n"
    "    return %%loss\n"
    "  }\n"
    "  main(%%x: f32[B,128] sharded [-] at boundary+0 reals, %%w: " CUT " at weights+0 weight, "
    "%%u: " CUT " at weights+32768 weight, %%v: f32[128,128] sharded [0] at weights+65536 weight, "
    "%%dloss: f32[] sharded [-] at boundary+4096) {\n"
    "    %%y = call @f(%%x, %%w, %%u, %%v) stage 0 : f32[B,128] sharded [1] at boundary+8192\n"
    "    %%loss = call @h(%%y) stage 0 : f32[] sharded [-] at boundary+16384\n"
    "    return %%loss\n"
    "  }\n"
    "}\n";

static bd_module *make(bd_ctx *ctx, const places *at) {
  char source[8192];
  bd_module *module = NULL;
  int length = snprintf(source, sizeof source, text, at->ranks, at->copy, at->parts, at->form,
                        at->part, at->operand, at->combiner, at->sum, at->other, at->gathered);
  assert_true(length > 0 && length < (int)sizeof source);
  bd_status status = bd_module_parse(ctx, "one", source, (size_t)length, &module);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return module;
}

static const bd_prefetch *find(bd_ctx *ctx, const bd_module *module) {
  const bd_prefetch *grad = &bd_prefetch_find(ctx, module)[1];
  assert_int_equal(grad->fusion.step_count, STEPS);
  return grad;
}

// The collective begins before `begin`, which -1 says it does not beside others, and is waited for
// before `end`; `early` comes in the order where `early_at` says.
static void expect(const places *at, int begin, int end, int early_at) {
  bd_ctx *ctx = bd_ctx_create();
  const bd_prefetch *grad = find(ctx, make(ctx, at));
  const bd_beside *beside = &grad->beside;
  bool seen[STEPS] = {false};
  assert_int_equal(beside->begin[SUM], begin);
  assert_int_equal(beside->end[SUM], end);
  assert_int_equal(beside->slot_count, begin >= 0);
  assert_int_equal(beside->order[early_at], EARLY);
  for (int i = 0, next = 0; i < STEPS; ++i) {
    seen[beside->order[i]] = true;
    if (beside->order[i] == EARLY) continue;
    next += next == EARLY;
    assert_int_equal(beside->order[i], next++); // nothing else has moved
  }
  for (int i = 0; i < STEPS; ++i)
    assert_true(seen[i]);
  bd_ctx_destroy(ctx);
}

// It begins when its operand is there; the product before that comes behind it.
static void test_between(void **state) {
  (void)state;
  expect(&apart, EARLY, READER, PART);
}

// Reading the operand meanwhile is no matter.
static void test_operand_read(void **state) {
  (void)state;
  places at = apart;
  at.operand = "part";
  expect(&at, EARLY, READER, PART);
}

static void test_operand_overwritten(void **state) {
  (void)state;
  places at = apart;
  at.other = at.part;
  expect(&at, EARLY, OTHER, PART);
}

// What the deferred product, or a step that it would pass, still has to read.
static void test_products_stay(void **state) {
  (void)state;
  places at = apart;
  at.sum = at.copy;
  expect(&at, LATE, READER, EARLY);
  at = apart;
  at.part = at.copy;
  expect(&at, LATE, READER, EARLY);
}

// What lies where the result will be is still read: the collective begins in its own place.
static void test_result_busy(void **state) {
  (void)state;
  places at = apart;
  at.operand = "copy";
  at.sum = at.copy;
  expect(&at, SUM, READER, EARLY);
  at.other = at.part; // and nothing is left to run beside
  expect(&at, -1, -1, EARLY);
}

static void test_alone(void **state) {
  (void)state;
  places at = apart;
  at.ranks = 1;
  expect(&at, -1, -1, EARLY);
  at = apart;
  at.form = at.combiner = "lse"; // combined in memory of the back end's
  expect(&at, -1, -1, EARLY);
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = make(ctx, &apart);
  module->cuda = false;
  const bd_prefetch *grad = find(ctx, module);
  assert_int_equal(grad->beside.slot_count, 0);
  for (int i = 0; i < STEPS; ++i)
    assert_int_equal(grad->beside.order[i], i);
  bd_ctx_destroy(ctx);
}

// A weight is not gathered into bytes that a collective under way uses.
static void test_gather(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  assert_int_equal(find(ctx, make(ctx, &apart))->begin[GATHER], BD_PREFETCH_AHEAD);
  places at = apart;
  at.part = at.gathered;
  assert_int_equal(find(ctx, make(ctx, &at))->begin[GATHER], READER);
  at = apart;
  at.sum = at.gathered;
  assert_int_equal(find(ctx, make(ctx, &at))->begin[GATHER], GATHER);
  at = apart;
  at.other = at.gathered;
  assert_int_equal(find(ctx, make(ctx, &at))->begin[GATHER], READER);
  bd_ctx_destroy(ctx);
}

// With every part of the product its sum, which the product's operands and whatever is read later
// must leave room for.
static void test_parts(void **state) {
  (void)state;
  places at = apart;
  at.parts = 4;
  bd_ctx *ctx = bd_ctx_create();
  const bd_beside *beside = &find(ctx, make(ctx, &at))->beside;
  for (int step = 0; step < STEPS; ++step)
    assert_int_equal(beside->summed_by[step], step == PART ? SUM : -1);
  assert_int_equal(beside->parts[PART].count, 4);
  assert_int_equal(beside->parts[PART].rows, 2);
  bd_ctx_destroy(ctx);
  expect(&at, PART, READER, EARLY + 1); // and the product for a weight's gradient comes behind it
  at.sum = at.copy;                     // unless it reads what the sum overwrites
  expect(&at, PART, READER, EARLY);
  at = apart;
  at.parts = 4;
  at.other = at.part;
  expect(&at, PART, OTHER, EARLY + 1);
  at = apart;
  at.parts = 4;
  at.operand = "part"; // which lies otherwise while it is done in parts
  ctx = bd_ctx_create();
  assert_int_equal(find(ctx, make(ctx, &at))->beside.summed_by[PART], -1);
  bd_ctx_destroy(ctx);
  at = apart;
  at.parts = 4;
  at.ranks = 1;
  expect(&at, -1, -1, EARLY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_between),
      cmocka_unit_test(test_operand_read),
      cmocka_unit_test(test_operand_overwritten),
      cmocka_unit_test(test_products_stay),
      cmocka_unit_test(test_result_busy),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
