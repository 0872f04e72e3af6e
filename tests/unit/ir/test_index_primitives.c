// Index rules and element types of primitive ops.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ir/support_index.h"

static void test_element_types(void **state) {
  bench *b = *state;
  operand(b, BD_U8, DIMS(B, 64));
  operand(b, BD_U8, DIMS(64));
  expect_type(b, make(b, BD_OP_ADD), BD_U8, DIMS(B, 64));
  expect_type(b, make(b, BD_OP_LT), BD_BOOL, DIMS(B, 64));
  expect_fail(b, BD_OP_AND, "operand 1 must hold bools, not u8");
  b->in_count = 1;
  expect_fail(b, BD_OP_EXP, "operand 1 must hold floating-point numbers, not u8");
  fresh(b);
  operand(b, BD_BOOL, DIMS(B, 64));
  operand(b, BD_I64, DIMS(64));
  operand(b, BD_I64, DIMS(B, 64));
  expect_type(b, make(b, BD_OP_SELECT), BD_I64, DIMS(B, 64));
  b->in[2] = b->in[0];
  expect_fail(b, BD_OP_SELECT, "operand 3 must be i64 to go with operand 2, not bool");
  b->in[0] = b->in[1];
  expect_fail(b, BD_OP_SELECT, "operand 1 must hold bools, not i64");
}

static void name_dtype(bench *b, const char *dtype) {
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "dtype", dtype);
}

static void test_constants(void **state) {
  bench *b = *state;
  name_dtype(b, "i32");
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dims", DIMS(2, 3));
  expect_fail(b, BD_OP_CONSTANT, "needs either value or values");
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "values", DIMS(1, 2, 3, 4, 5, -6));
  expect_type(b, make(b, BD_OP_CONSTANT), BD_I32, DIMS(2, 3));
  assert_int_equal(at_result(b, 'B', 0), 1);
  b->attrs[0] = bd_attr_string(b->ctx, "dtype", "u8");
  expect_fail(b, BD_OP_CONSTANT, "-6 is no u8");
  b->attrs[0] = bd_attr_string(b->ctx, "dtype", "f32");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(2, 2));
  expect_fail(b, BD_OP_CONSTANT, "6 values are given for 4 elements");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(B, 2));
  expect_fail(b, BD_OP_CONSTANT, "has no batch");
  b->attrs[2] = bd_attr_real(b->ctx, "value", 0.5);
  expect_type(b, make(b, BD_OP_CONSTANT), BD_F32, DIMS(B, 2));
  b->attrs[0] = bd_attr_string(b->ctx, "dtype", "i64");
  expect_fail(b, BD_OP_CONSTANT, "a value of i64 must be an integer that it has, not 0.5");
  b->attr_count = 2;
  set_int(b, "dim", 1);
  expect_type(b, make(b, BD_OP_IOTA), BD_I64, DIMS(B, 2));
  b->attrs[2] = bd_attr_int(b->ctx, "dim", 0);
  expect_fail(b, BD_OP_IOTA, "dim is 0, which is not a dimension of fixed extent");
  static const int64_t many[129] = {0};
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(129));
  b->attrs[2] = bd_attr_ints(b->ctx, "values", 129, many);
  expect_fail(b, BD_OP_CONSTANT, "129 values of i64 are more than 1024 bytes");
}

static void test_steps(void **state) {
  bench *b = *state;
  operand(b, BD_BOOL, DIMS(B, 9));
  set_int(b, "dim", 1);
  set_int(b, "start", 8);
  set_int(b, "size", 5);
  set_int(b, "step", -2);
  expect_type(b, make(b, BD_OP_SLICE), BD_BOOL, DIMS(B, 5));
  b->attrs[3] = bd_attr_int(b->ctx, "step", -3);
  expect_fail(b, BD_OP_SLICE, "elements 8 to -4 are outside an extent of 9");
  b->attrs[3] = bd_attr_int(b->ctx, "step", 0);
  expect_fail(b, BD_OP_SLICE, "step must not be 0");
  b->attrs[3] = bd_attr_int(b->ctx, "step", (int64_t)1 << 46);
  expect_fail(b, BD_OP_SLICE, "are outside an extent of 9");
  b->attrs[1] = bd_attr_int(b->ctx, "start", 0);
  b->attrs[2] = bd_attr_int(b->ctx, "size", 17);
  b->attrs[3] = bd_attr_int(b->ctx, "step", 2);
  expect_type(b, make(b, BD_OP_PAD), BD_BOOL, DIMS(B, 17));
  set_int(b, "value", 2);
  expect_fail(b, BD_OP_PAD, "2 is no bool");
  b->attrs[4] = bd_attr_real(b->ctx, "value", 0.5);
  expect_fail(b, BD_OP_PAD, "a value of bool must be an integer that it has, not 0.5");
}

static void test_concat(void **state) {
  bench *b = *state;
  set_int(b, "dim", 1);
  expect_fail(b, BD_OP_CONCAT, "takes 1 to 8 operands, not 0");
  operand(b, BD_I64, DIMS(B, 3, 4));
  operand(b, BD_I64, DIMS(B, 2, 4));
  operand(b, BD_I64, DIMS(B, 1, 4));
  expect_type(b, make(b, BD_OP_CONCAT), BD_I64, DIMS(B, 6, 4));
  assert_int_equal(loop_of(b, 'B')->kind, BD_LOOP_WHOLE);
  assert_int_equal(at_operand(b, 'C', 2), 2);
  operand(b, BD_I64, DIMS(B, 1, 5));
  expect_fail(b, BD_OP_CONCAT, "operand 4 is i64[B,1,5], which does not go with i64[B,3,4]");
  b->attrs[0] = bd_attr_int(b->ctx, "dim", 0);
  expect_fail(b, BD_OP_CONCAT, "dim is 0, which is not a dimension of fixed extent");
}

static void test_reductions(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64));
  set_rule(b, "AB->A");
  expect_type(b, make(b, BD_OP_REDUCE_MAX), BD_F32, DIMS(B));
  assert_int_equal(at_result(b, 'B', 0), BD_PARTIAL_MAX);
  expect_type(b, make(b, BD_OP_REDUCE_PROD), BD_F32, DIMS(B));
  assert_false(allowed(b, 'B', 2, 8));
  fresh(b);
  operand(b, BD_I32, DIMS(B, 64));
  set_rule(b, "AB->A");
  expect_type(b, make(b, BD_OP_REDUCE_SUM), BD_I32, DIMS(B));
  assert_false(allowed(b, 'B', 2, 8));
}

static void test_lookups(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 50, 6));
  operand(b, BD_I64, DIMS(B, 7));
  set_int(b, "dim", 1);
  set_int(b, "batch", 1);
  bd_id found = make(b, BD_OP_GATHER);
  expect_type(b, found, BD_F32, DIMS(B, 7, 6));
  assert_true(loop_of(b, 'v')->gather);
  assert_int_equal(at_result(b, 'v', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'A', 1), 0);
  assert_int_equal(at_result(b, 'i', 0), 1);
  b->in[2] = found;
  b->in_count = 3;
  expect_type(b, make(b, BD_OP_SCATTER), BD_F32, DIMS(B, 50, 6));
  assert_int_equal(loop_of(b, 'i')->kind, BD_LOOP_WHOLE);
  assert_int_equal(at_result(b, 'v', 0), 1);
  b->in[2] = b->in[0];
  expect_fail(b, BD_OP_SCATTER, "operand 3 is f32[B,50,6], which operand 2 does not look up");
  b->attrs[2] = bd_attr_string(b->ctx, "reduction", "avg");
  b->attr_count = 3;
  expect_fail(b, BD_OP_SCATTER, "reduction \"avg\" is unknown");
  b->in[0] = found;
  b->in_count = 2;
  b->attr_count = 2;
  set_int(b, "rows", 50);
  expect_type(b, make(b, BD_OP_GATHER_DX), BD_F32, DIMS(B, 50, 6));
  assert_int_equal(at_result(b, 'i', 0), BD_PARTIAL_SUM);
  b->attrs[1] = bd_attr_int(b->ctx, "batch", 2);
  expect_fail(b, BD_OP_GATHER, "batch is 2: more than dim");
  b->attrs[1] = bd_attr_int(b->ctx, "batch", 0);
  expect_type(b, make(b, BD_OP_GATHER), BD_F32, DIMS(B, B, 7, 6));
}

static void test_routes(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 4, 10, 6));
  operand(b, BD_I32, DIMS(B, 7, 2));
  operand(b, BD_I32, DIMS(B, 4, 10, 1));
  set_int(b, "rows", 2);
  bd_id back = make(b, BD_OP_ROUTE);
  expect_type(b, back, BD_F32, DIMS(B, 7, 6));
  assert_true(loop_of(b, 'v')->gather && loop_of(b, 'w')->gather);
  assert_int_equal(at_result(b, 'v', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'w', 2), 2);
  assert_int_equal(at_result(b, 'i', 0), 1);
  assert_int_equal(at_result(b, 'B', 0), 2);
  assert_int_equal(loop_of(b, 'k')->kind, BD_LOOP_WHOLE);
  set_int(b, "inverse", 1);
  make(b, BD_OP_ROUTE);
  assert_int_equal(at_result(b, 'i', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'v', 0), 1);
  b->attrs[0] = bd_attr_int(b->ctx, "rows", 1);
  expect_fail(b, BD_OP_ROUTE, "operand 3 must have 3 dimensions");
  b->attrs[0] = bd_attr_int(b->ctx, "rows", 4);
  expect_fail(b, BD_OP_ROUTE, "operand 1, f32[B,4,10,6], has too few dimensions");
}

static void test_search(void **state) {
  bench *b = *state;
  operand(b, BD_I32, DIMS(B, 50, 6));
  set_int(b, "dim", 1);
  set_int(b, "places", 9);
  expect_type(b, make(b, BD_OP_SEARCH), BD_I32, DIMS(B, 6, 9));
  assert_int_equal(loop_of(b, 'B')->kind, BD_LOOP_WHOLE);
  assert_int_equal(at_result(b, 'C', 0), 1);
  assert_int_equal(at_result(b, 'p', 0), 2);
  b->attrs[0] = bd_attr_int(b->ctx, "dim", 0);
  expect_fail(b, BD_OP_SEARCH, "dim is 0, which is not a dimension of fixed extent");
}

// What counts over samples is cut by them, each rank having a pool of its own.
static void test_pools(void **state) {
  bench *b = *state;
  operand(b, BD_I32, DIMS(B, 8));
  set_int(b, "dim", 0);
  set_int(b, "pooled", 1);
  expect_type(b, make(b, BD_OP_CUMSUM), BD_I32, DIMS(B, 8));
  assert_int_equal(loop_of(b, 'A')->kind, BD_LOOP_PARALLEL);
  assert_int_equal(at_operand(b, 'A', 0), 0);
  b->attrs[0] = bd_attr_int(b->ctx, "dim", 1);
  expect_fail(b, BD_OP_CUMSUM, "pooled sums are of integers along the batch, dimension 0, not along "
                               "dimension 1 of i32[B,8]");
  set_int(b, "places", 9);
  expect_type(b, make(b, BD_OP_SEARCH), BD_I32, DIMS(B, 9));
  fresh(b);
  operand(b, BD_F32, DIMS(B, 8));
  set_int(b, "dim", 0);
  set_int(b, "pooled", 1);
  expect_fail(b, BD_OP_CUMSUM, "dimension 0 of f32[B,8]");
  fresh(b);
  operand(b, BD_I32, DIMS(6, 8));
  set_int(b, "dim", 1);
  set_int(b, "places", 9);
  set_int(b, "pooled", 1);
  expect_fail(b, BD_OP_SEARCH, "the first dimension of operand 1, i32[6,8], is not the batch");
  fresh(b);
  operand(b, BD_F32, DIMS(5, 10, 6));
  operand(b, BD_I32, DIMS(5, 7, 2));
  operand(b, BD_I32, DIMS(5, 10, 1));
  set_int(b, "pooled", 1);
  expect_fail(b, BD_OP_ROUTE, "the first dimension of operand 1, f32[5,10,6], is not the batch");
}

static void test_row_items(void **state) {
  bench *b = *state;
  operand(b, BD_I32, DIMS(B, 20, 6));
  operand(b, BD_I32, DIMS(B, 6));
  set_int(b, "rows", 24);
  expect_type(b, make(b, BD_OP_ROW_ITEMS), BD_I32, DIMS(B, 24));
  assert_int_equal(at_operand(b, 'b', 1), 0);
  assert_int_equal(at_result(b, 'r', 0), 1);
  assert_int_equal(loop_of(b, 'i')->kind, BD_LOOP_WHOLE);
  assert_true(loop_of(b, 'i')->gather && loop_of(b, 'e')->gather);
  operand(b, BD_I32, DIMS(B, 7));
  b->in[1] = b->in[2];
  b->in_count = 2;
  expect_fail(b, BD_OP_ROW_ITEMS, "'e' of rule");
  fresh(b);
  operand(b, BD_I32, DIMS(4, 20, 6));
  operand(b, BD_I32, DIMS(4, 6));
  set_int(b, "rows", 24);
  expect_fail(b, BD_OP_ROW_ITEMS, "dimension 1 of operand 1 has extent 4, expected B");
  fresh(b);
  operand(b, BD_I64, DIMS(B, 20, 6));
  operand(b, BD_I64, DIMS(B, 6));
  set_int(b, "rows", 24);
  expect_fail(b, BD_OP_ROW_ITEMS, "operand 1 must hold i32, not i64");
}

static void test_windows(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 3, 9, 8));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "kernel", DIMS(3, 2));
  expect_type(b, make(b, BD_OP_UNFOLD), BD_F32, DIMS(B, 3, 6, 7, 7));
  assert_int_equal(at_operand(b, 'B', 0), 1);
  assert_false(allowed(b, 'p', 2, 8));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "strides", DIMS(2, 1));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dilations", DIMS(1, 3));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "pads", DIMS(1, 0, 2, 1));
  bd_id windows = make(b, BD_OP_UNFOLD);
  expect_type(b, windows, BD_F32, DIMS(B, 3, 6, 5, 6));
  b->attrs[3] = bd_attr_ints(b->ctx, "pads", DIMS(1, 0));
  expect_fail(b, BD_OP_UNFOLD, "attribute pads has 2 numbers, not 4");
  b->attrs[3] = bd_attr_ints(b->ctx, "pads", DIMS(1, 0, 2, -1));
  expect_fail(b, BD_OP_UNFOLD, "attribute pads holds -1");
  b->attrs[2] = bd_attr_ints(b->ctx, "dilations", DIMS(1, 9));
  b->attrs[3] = bd_attr_ints(b->ctx, "pads", DIMS(1, 0, 2, 1));
  expect_fail(b, BD_OP_UNFOLD, "a window of 2, 9 apart, does not fit in 8 with pads 0 and 1");
  b->attrs[0] = bd_attr_ints(b->ctx, "kernel", DIMS(1, 1, 1, 1));
  expect_fail(b, BD_OP_UNFOLD, "windows lie over 1 to 3 dimensions, not 4");
  b->attrs[0] = bd_attr_ints(b->ctx, "kernel", DIMS(3, 2));
  b->attrs[2] = bd_attr_ints(b->ctx, "dilations", DIMS(1, 3));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dims", DIMS(9, 8));
  b->in[0] = windows;
  expect_type(b, make(b, BD_OP_FOLD), BD_F32, DIMS(B, 3, 9, 8));
  b->attrs[4] = bd_attr_ints(b->ctx, "dims", DIMS(9, 9));
  expect_fail(b, BD_OP_FOLD, "dimension 5 of operand 1 has extent 6, expected 7");
}

static void test_topk(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 9));
  set_int(b, "k", 4);
  bd_id values = make(b, BD_OP_TOPK);
  expect_type(b, values, BD_F32, DIMS(B, 4));
  expect_type(b, values + 1, BD_I64, DIMS(B, 4));
  b->attrs[0] = bd_attr_int(b->ctx, "k", 10);
  expect_fail(b, BD_OP_TOPK, "f32[B,9] has no last dimension of at least 10");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_element_types), TEST(test_constants), TEST(test_steps),  TEST(test_concat),
      TEST(test_reductions),    TEST(test_lookups),   TEST(test_routes), TEST(test_search), TEST(test_pools), TEST(test_row_items),
      TEST(test_windows),       TEST(test_topk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
