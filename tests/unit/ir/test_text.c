// Modules made by the builder print, read back, and print to the same bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/print.h"
#include <string.h>

static bd_module *build_module(bd_ctx *ctx) {
  bd_module *module = bd_module_create(ctx, BD_STAGE_GRAPH, "na\"me\n\xc3\xa9");
  bd_type x_type = bd_type_make(BD_F32, 2, (int64_t[]){BD_DIM_BATCH, 4});
  bd_type w_type = bd_type_make(BD_F32, 1, (int64_t[]){4});
  bd_weight weight = {.name = "w",
                      .type = w_type,
                      .storage = {.name = "*/ \x01",
                                  .rank = 1,
                                  .dims = {8},
                                  .slice_dim = 0,
                                  .slice_start = 4,
                                  .slice_size = 4},
                      .init = BD_INIT_UNIFORM,
                      .init_scale = 0.1,
                      .decay = true};
  bd_module_add_weight(ctx, module, weight);
  bd_function *f = bd_function_create(ctx, "f");
  bd_id in[] = {bd_function_add_param(ctx, f, "x", x_type),
                bd_function_add_param(ctx, f, "w", w_type)};
  f->is_weight[1] = true;
  bd_id y, z, loss;
  bd_attr value = bd_attr_real(ctx, "value", 1.0 / 3), rule = bd_attr_string(ctx, "rule", "AB->");
  assert_int_equal(bd_build(ctx, f, BD_OP_MUL, 2, in, 0, NULL, BD_NOWHERE, &y), BD_OK);
  assert_int_equal(bd_build(ctx, f, BD_OP_SCALE, 1, &y, 1, &value, BD_NOWHERE, &z), BD_OK);
  assert_int_equal(bd_build(ctx, f, BD_OP_REDUCE_SUM, 1, &z, 1, &rule, BD_NOWHERE, &loss), BD_OK);
  bd_function_add_result(ctx, f, loss);
  bd_module_add_function(ctx, module, f);
  bd_id main_in[] = {bd_function_add_param(ctx, module->main, "x", x_type),
                     bd_function_add_param(ctx, module->main, "w", w_type)};
  module->main->is_weight[1] = true;
  static bd_input_kind kinds[] = {BD_INPUT_REALS};
  module->inputs = kinds;
  module->input_count = 1;
  bd_id out = bd_function_add_value(ctx, module->main, "loss", bd_type_make(BD_F32, 0, NULL));
  bd_function_add_op(ctx, module->main, BD_OP_CALL, 2, main_in, 1, &out, BD_NOWHERE)->callee = "f";
  bd_function_add_result(ctx, module->main, out);
  return module;
}

static void test_round_trip(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = build_module(ctx), *read;
  assert_int_equal(bd_module_verify(ctx, module), BD_OK);
  bd_text once = bd_text_init(ctx->arena), again = bd_text_init(ctx->arena);
  bd_module_print(module, &once);
  assert_int_equal(bd_module_parse(ctx, "text", once.data, once.length, &read), BD_OK);
  bd_module_print(read, &again);
  assert_string_equal(once.data, again.data);
  assert_string_equal(read->weights[0].storage.name, "*/ \x01");
  assert_true(read->functions[0]->ops[1].attrs[0].real == 1.0 / 3);
  bd_ctx_destroy(ctx);
}

// Every prefix of a valid text is one diagnostic.
static void test_truncated(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(build_module(ctx), &text);
  for (size_t bytes = 0; bytes + 2 < text.length; ++bytes) {
    bd_module *read;
    int before = ctx->error_count;
    assert_int_equal(bd_module_parse(ctx, "text", text.data, bytes, &read), BD_INVALID);
    assert_int_equal(ctx->error_count, before + 1);
    assert_true(ctx->last_diag->loc.line > 0 && ctx->last_diag->loc.column > 0);
  }
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_truncated)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
