// Modules: a clone shares nothing that can be changed; free names are unlike those that are there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/free_names.h"
#include "tests/unit/ir/support_index.h"

static void test_clone_is_deep(void **state) {
  bench *b = *state;
  bd_module *module = bd_module_create(b->ctx, BD_STAGE_GRAPH, "m");
  operand(b, BD_F32, DIMS(B, 25));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dims", DIMS(B, 5, 5));
  bd_id y = make(b, BD_OP_RESHAPE);
  bd_function_add_result(b->ctx, b->function, y);
  bd_module_add_function(b->ctx, module, b->function);
  bd_weight weight = {.name = "w", .type = b->function->values[0].type};
  assert_int_equal(bd_module_add_weight(b->ctx, module, weight), 0);
  bd_module *copy = bd_module_clone(b->ctx, module);
  bd_function *f = bd_module_find(copy, "f");
  assert_non_null(f);
  assert_ptr_not_equal(f, b->function);
  assert_ptr_not_equal(f->ops[0].attrs[0].ints, b->op->attrs[0].ints);
  assert_int_equal(f->ops[0].attrs[0].ints[1], 5);
  bd_function_add_param(b->ctx, f, "extra", weight.type);
  assert_int_equal(b->function->param_count, 1);
  assert_int_equal(f->param_count, 2);
  assert_false(f->is_weight[1]);
  assert_null(bd_module_find(copy, "g"));
}

static void test_free_names(void **state) {
  bench *b = *state;
  bd_type number = {.dtype = BD_F32};
  bd_function_add_param(b->ctx, b->function, "x", number);
  bd_function_add_param(b->ctx, b->function, "x.2", number);
  bd_free_names names = bd_free_names_of(b->ctx, b->function);
  assert_string_equal(bd_free_names_take(&names, "x"), "x.3");
  assert_string_equal(bd_free_names_take(&names, "x"), "x.4");
  assert_string_equal(bd_free_names_take(&names, "x.2"), "x.2.2");
  assert_string_equal(bd_free_names_take(&names, "y"), "y");
  assert_string_equal(bd_free_names_take(&names, "y"), "y.2");
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_clone_is_deep), TEST(test_free_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
