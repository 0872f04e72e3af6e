// The pass `recover` on the graphs of tests/lit/ir: the interpreter computes the same before and
// after, of weights that are stored as they were.
#include "ir/base/file.h"
#include "ir/init.h"
#include "ir/interpret.h"
#include "ir/pass.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3 };
static const bd_random_key key = {.seed = 5, .step = 1};

static bd_module *read_module(bd_ctx *ctx, const char *path) {
  char *data;
  size_t bytes;
  bd_module *module;
  assert_int_equal(bd_file_read(ctx, path, 1 << 20, &data, &bytes), BD_OK);
  assert_int_equal(bd_module_parse(ctx, path, data, bytes, &module), BD_OK);
  return module;
}

// A number in (-1, 1) that looks like any other.
static double noise(uint64_t seed, int64_t i) {
  uint64_t mixed = (seed * 0x9E3779B97F4A7C15u) ^ ((uint64_t)i * 0xBF58476D1CE4E5B9u);
  mixed = (mixed ^ mixed >> 29) * 0x94D049BB133111EBu;
  return (double)(mixed >> 11) * 0x1p-52 - 1;
}

static bd_tensor make_tensor(bd_ctx *ctx, bd_type type) {
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = bd_extent(type.dims[d], BATCH);
  double *data = BD_NEW_ARRAY(ctx->arena, double, bd_type_elements(&type, BATCH));
  return (bd_tensor){type, data};
}

static void expect_same(const bd_tensor *found, const bd_tensor *wanted, const char *name) {
  assert_true(bd_type_equal(&found->type, &wanted->type));
  for (int64_t i = 0; i < bd_type_elements(&wanted->type, BATCH); i++)
    if (!(fabs(found->data[i] - wanted->data[i]) <= 1e-6 * (1 + fabs(wanted->data[i]))))
      fail_msg("%s, element %lld: %.9g, expected %.9g", name, (long long)i, found->data[i],
               wanted->data[i]);
}

static void run_function(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                         bd_tensor **out) {
  bd_tensor *in = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->param_count);
  for (int i = 0; i < function->param_count; i++) {
    in[i] = make_tensor(ctx, function->values[function->params[i]].type);
    for (int64_t k = 0; k < bd_type_elements(&in[i].type, BATCH); k++)
      in[i].data[k] = noise((uint64_t)i + 1, k);
  }
  assert_int_equal(bd_interpret_function(ctx, module, function, BATCH, in, &key, out, NULL), BD_OK);
}

// An attention numbers what it drops otherwise than `dropout` does.
static void drop_nothing(bd_ctx *ctx, bd_module *module) {
  for (int f = 0; f < module->function_count; f++)
    for (int i = 0; i < module->functions[f]->op_count; i++) {
      bd_op *op = &module->functions[f]->ops[i];
      if (op->kind == BD_OP_DROPOUT) bd_op_set_attr(ctx, op, bd_attr_real(ctx, "p", 0));
    }
}

static void functions_compute_the_same(void **state) {
  (void)state;
  static const char *const paths[] = {"tests/lit/ir/recover.braid",
                                      "tests/lit/ir/recover-attention.braid",
                                      "tests/lit/ir/recover-relative.braid",
                                      "tests/lit/ir/recover-experts.braid"};
  bd_ctx *ctx = bd_ctx_create();
  for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
    bd_module *before = read_module(ctx, paths[p]), *after;
    drop_nothing(ctx, before);
    assert_int_equal(bd_pass_run_list(ctx, "recover", NULL, stderr, before, &after), BD_OK);
    assert_int_equal(before->function_count, after->function_count);
    for (int f = 0; f < before->function_count; f++) {
      bd_tensor *wanted, *found;
      run_function(ctx, before, before->functions[f], &wanted);
      run_function(ctx, after, after->functions[f], &found);
      for (int r = 0; r < before->functions[f]->result_count; r++)
        expect_same(&found[r], &wanted[r], before->functions[f]->name);
    }
  }
  bd_ctx_destroy(ctx);
}

// A weight's elements from where it is stored, whatever slice or shape it has.
static void fill_weight(const bd_weight *weight, bd_tensor *tensor) {
  const bd_storage *storage = &weight->storage;
  int64_t elements = 1;
  uint64_t seed = 0;
  for (const char *at = storage->name; *at; at++)
    seed = seed * 31 + (unsigned char)*at;
  for (int d = 0; d < storage->rank; d++)
    elements *= storage->dims[d];
  for (int64_t i = 0; i < elements; i++) {
    int64_t at = bd_storage_to_logical(storage, i);
    if (at >= 0) tensor->data[at] = noise(seed, i);
  }
}

static double run_main(bd_ctx *ctx, const bd_module *module) {
  const bd_function *main = module->main;
  bd_tensor *in = BD_NEW_ARRAY(ctx->arena, bd_tensor, main->param_count), *out;
  for (int i = 0; i < main->param_count; i++) {
    in[i] = make_tensor(ctx, main->values[main->params[i]].type);
    if (i >= module->input_count) fill_weight(&module->weights[i - module->input_count], &in[i]);
    for (int64_t k = 0; i < module->input_count && k < bd_type_elements(&in[i].type, BATCH); k++)
      in[i].data[k] = noise((uint64_t)i + 1, k);
  }
  assert_int_equal(bd_interpret_main(ctx, module, BATCH, in, 1, &key, &out), BD_OK);
  return out[0].data[0];
}

static void weights_stay_what_is_stored(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *before = read_module(ctx, "tests/lit/ir/recover-weights.braid"), *after;
  assert_int_equal(bd_pass_run_list(ctx, "recover", NULL, stderr, before, &after), BD_OK);
  assert_true(after->weight_count > before->weight_count);
  double wanted = run_main(ctx, before);
  assert_true(fabs(wanted) > 1e-3);
  assert_true(fabs(run_main(ctx, after) - wanted) <= 1e-9 * fabs(wanted));
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_compute_the_same),
      cmocka_unit_test(weights_stay_what_is_stored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
