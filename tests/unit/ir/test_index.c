// Index rules: what they say of shapes and splits, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ir/support_index.h"

static void test_pointwise_aligns_at_the_end(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 768));
  operand(b, BD_F32, DIMS(768));
  bd_id out = make(b, BD_OP_ADD);
  expect_type(b, out, BD_F32, DIMS(B, 64, 768));
  assert_int_equal(b->map.loops, 3);
  assert_int_equal(at_operand(b, 'A', 0), 0);
  assert_int_equal(at_operand(b, 'A', 1), BD_REPLICATED);
  assert_int_equal(at_operand(b, 'C', 1), 0);
  assert_int_equal(at_result(b, 'C', 0), 2);
  assert_string_equal(b->function->values[out].name, "2");
  assert_int_equal(b->function->values[out].producer, 0);
  fresh(b);
  operand(b, BD_F32, DIMS(768));
  operand(b, BD_F32, DIMS(B, 64, 768));
  expect_type(b, make(b, BD_OP_MUL), BD_F32, DIMS(B, 64, 768));
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64));
  operand(b, BD_F32, DIMS(B, 32));
  expect_fail(b, BD_OP_ADD, "operand 2 is f32[B,32], which does not align");
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64));
  operand(b, BD_I32, DIMS(B, 64));
  expect_fail(b, BD_OP_ADD, "operand 2 must be f32 to go with operand 1, not i32");
}

static void test_contract(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 768));
  operand(b, BD_F32, DIMS(768, 3, 12, 64));
  set_rule(b, "btc,cphd->btphd");
  expect_type(b, make(b, BD_OP_CONTRACT), BD_F32, DIMS(B, 64, 3, 12, 64));
  assert_int_equal(loop_of(b, 'c')->kind, BD_LOOP_SUM);
  assert_int_equal(at_operand(b, 'c', 0), 2);
  assert_int_equal(at_operand(b, 'c', 1), 0);
  assert_int_equal(at_result(b, 'c', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'h', 0), BD_REPLICATED);
  assert_int_equal(at_operand(b, 'h', 1), 2);
  assert_int_equal(at_result(b, 'h', 0), 3);
  bd_mesh mesh = {.axes = 2, .size = {2, 3}};
  int8_t split[BD_MAX_AXES] = {(int8_t)bd_index_find(&b->map, 'b'),
                               (int8_t)bd_index_find(&b->map, 'h'), -1, -1};
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, split, 8) ==
              2.0 * 4 * 64 * 768 * 3 * 4 * 64);
  assert_true(bd_op_bytes(b->function, b->op, &b->map, &mesh, split, 8) ==
              4.0 * (4 * 64 * 768 + 768 * 3 * 4 * 64 + 4 * 64 * 3 * 4 * 64));
}

// A row counts once, whatever the groups; of a gradient too, which has a matrix for each.
static void test_grouped_contract(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 30));
  operand(b, BD_F32, DIMS(8, 30, 20));
  operand(b, BD_I32, DIMS(B, 8));
  expect_type(b, make(b, BD_OP_GROUPED_CONTRACT), BD_F32, DIMS(B, 64, 20));
  assert_int_equal(loop_of(b, 'c')->kind, BD_LOOP_SUM);
  assert_int_equal(loop_of(b, 'r')->kind, BD_LOOP_WHOLE);
  assert_int_equal(loop_of(b, 'e')->kind, BD_LOOP_WHOLE);
  assert_int_equal(at_result(b, 'c', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'f', 1), 2);
  assert_int_equal(at_operand(b, 'b', 2), 0);
  bd_mesh mesh = {.axes = 2, .size = {2, 4}};
  int8_t split[BD_MAX_AXES] = {(int8_t)bd_index_find(&b->map, 'b'),
                               (int8_t)bd_index_find(&b->map, 'f'), -1, -1};
  const double points = 3 * 64 * 30 * 5;
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, split, 6) == 2 * points);
  assert_true(bd_op_bytes(b->function, b->op, &b->map, &mesh, split, 6) ==
              4.0 * (3 * 64 * 30 + 8 * 30 * 5 + 3 * 8 + 3 * 64 * 5));
  set_int(b, "filled", 16); // the others are known to be 0
  make(b, BD_OP_GROUPED_CONTRACT);
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, split, 6) == points / 2);
  b->attr_count = 0;
  set_int(b, "filled", 65);
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "filled is 65, of 64 rows");
  b->attr_count = 0;
  set_int(b, "grain", 16);
  make(b, BD_OP_GROUPED_CONTRACT);
  b->attr_count = 0;
  set_int(b, "grain", 24);
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "the grain 24 does not divide 64 rows");
  b->attr_count = 0;
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "fp8", "e4m3,e4m3");
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "fp8=\"e4m3,e4m3\" on f32: products of bf16 take");
  b->attr_count = 0;
  set_int(b, "transpose", 1);
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "'f' of rule");
  b->attr_count = 0;
  operand(b, BD_F32, DIMS(B, 64, 20));
  b->in[1] = b->in[3];
  b->in_count = 3;
  expect_type(b, make(b, BD_OP_GROUPED_CONTRACT_DW), BD_F32, DIMS(8, 30, 20));
  assert_int_equal(at_result(b, 'b', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'c', 0), 1);
  assert_int_equal(loop_of(b, 'e')->kind, BD_LOOP_WHOLE);
  split[1] = (int8_t)bd_index_find(&b->map, 'f');
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, split, 6) == 2 * points);
}

static void test_grouped_operands(void **state) {
  bench *b = *state;
  operand(b, BD_BF16, DIMS(B, 64, 20));
  operand(b, BD_BF16, DIMS(8, 30, 20));
  operand(b, BD_I64, DIMS(B, 8));
  set_int(b, "transpose", 1);
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "operand 3 must hold the ends of groups in i32, not i64");
  operand(b, BD_I32, DIMS(B, 8));
  b->in[2] = b->in[3];
  b->in_count = 3;
  expect_type(b, make(b, BD_OP_GROUPED_CONTRACT), BD_BF16, DIMS(B, 64, 30));
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "dtype", "f32");
  expect_type(b, make(b, BD_OP_GROUPED_CONTRACT), BD_F32, DIMS(B, 64, 30));
  b->attrs[1] = bd_attr_string(b->ctx, "dtype", "f16");
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "a result of bf16 cannot be f16");
  fresh(b);
  operand(b, BD_F32, DIMS(4, B, 20));
  operand(b, BD_F32, DIMS(8, 20, 20));
  operand(b, BD_I32, DIMS(4, 8));
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "dimension 2 of operand 1 may not be the batch");
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64, 20));
  operand(b, BD_F32, DIMS(B, 64, 20));
  operand(b, BD_I32, DIMS(B, B));
  expect_fail(b, BD_OP_GROUPED_CONTRACT_DW, "dimension 2 of operand 3 may not be the batch");
  operand(b, BD_I32, DIMS(B, 8));
  b->in[2] = b->in[3];
  b->in_count = 3;
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "dimension 1 of operand 2 may not be the batch");
  fresh(b);
  operand(b, BD_F64, DIMS(B, 64, 20));
  operand(b, BD_F64, DIMS(8, 20, 20));
  operand(b, BD_I32, DIMS(B, 8));
  expect_fail(b, BD_OP_GROUPED_CONTRACT, "f64");
}

static void test_hostile_rules(void **state) {
  static const char *const rules[][2] = {
      {"", "malformed at character 1"},
      {"mk,kn", "malformed at character 6"},
      {"mk,kn-mn", "malformed"},
      {"mk,kn->mn->m", "malformed at character 10"},
      {"...k,kn->...n", "is malformed: it may hold letters"},
      {"mk,kn->mn|whole m", "is malformed: it may hold letters"},
      {"mk,kn->mn\n", "is malformed: it may hold letters"},
      {"mm,kn->mn", "uses letter 'm' twice"},
      {"mk,kn->mm", "uses letter 'm' twice"},
      {"mk->m", "names 1 operands, the op has 2"},
      {"mk,kn->mn,m", "names 2 results, the op has 1"},
      {"mk,kn->mn,,,,", "names more than 4 tensors"},
      {",,,,,,,,->", "names more than 8 tensors"},
      {"mk,kn->mz", "no operand of rule \"mk,kn->mz\" has the result's letter 'z'"},
      {"mk,kn->m", "letter 'n' of rule \"mk,kn->m\" is summed but not in both"},
      {"Mk,kn->Mn", "uses 'M': letters must be lower case"},
      {"mkx,kn->mn", "operand 1 must have 3 dimensions"},
      {"abcdefghi,kn->mn", "more than 8 dimensions"},
      {"mk,nk->mn", "dimension 2 of operand 2 has extent 3, but 'k'"},
  };
  bench *b = *state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
    fresh(b);
    operand(b, BD_F32, DIMS(5, 4));
    operand(b, BD_F32, DIMS(4, 3));
    set_rule(b, rules[i][0]);
    expect_fail(b, BD_OP_CONTRACT, rules[i][1]);
  }
  fresh(b);
  operand(b, BD_F32, DIMS(5, 4));
  operand(b, BD_F32, DIMS(4, 3));
  expect_fail(b, BD_OP_CONTRACT, "needs the attribute rule, a string");
  set_int(b, "rule", 1);
  expect_fail(b, BD_OP_CONTRACT, "attribute rule must be a string");
}

static void test_sum_broadcast_permute(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 768));
  set_rule(b, "ABC->C");
  expect_type(b, make(b, BD_OP_REDUCE_SUM), BD_F32, DIMS(768));
  assert_int_equal(at_result(b, 'A', 0), BD_PARTIAL_SUM);
  fresh(b);
  operand(b, BD_F32, DIMS(768));
  set_rule(b, "C->ABC");
  expect_fail(b, BD_OP_BROADCAST, "needs the attribute dims, a list of integers");
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dims", DIMS(B, 64, 768));
  expect_type(b, make(b, BD_OP_BROADCAST), BD_F32, DIMS(B, 64, 768));
  assert_int_equal(at_operand(b, 'A', 0), BD_REPLICATED);
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(B, 64, 767));
  expect_fail(b, BD_OP_BROADCAST, "result extent 3 is 767, but 'C'");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(64, 768));
  expect_fail(b, BD_OP_BROADCAST, "2 result extents are given");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS((int64_t)1 << 40, 64, 768));
  expect_fail(b, BD_OP_BROADCAST, "more than 2^46 elements");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(INT64_MAX, INT64_MAX, 768));
  expect_fail(b, BD_OP_BROADCAST, "more than 2^46 elements");
  b->attrs[1] = bd_attr_ints(b->ctx, "dims", DIMS(0, 64, 768));
  expect_fail(b, BD_OP_BROADCAST, "has an extent below 1");
  fresh(b);
  operand(b, BD_I32, DIMS(B, 64, 3));
  set_rule(b, "abc->cab");
  expect_type(b, make(b, BD_OP_PERMUTE), BD_I32, DIMS(3, B, 64));
  b->attrs[0] = bd_attr_string(b->ctx, "rule", "abc->ca");
  expect_fail(b, BD_OP_PERMUTE, "letter 'b' of rule \"abc->ca\" is missing in the result");
}

static void test_reshape(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 768));
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, "dims", DIMS(B, 64, 12, 64));
  expect_type(b, make(b, BD_OP_RESHAPE), BD_F32, DIMS(B, 64, 12, 64));
  assert_int_equal(b->map.loops, 2);
  assert_int_equal(at_result(b, 'B', 0), 1);
  assert_int_equal(b->map.in[0][2], -1);
  b->attrs[0] = bd_attr_ints(b->ctx, "dims", DIMS(B, 64, 12, 63));
  expect_fail(b, BD_OP_RESHAPE, "does not have as many elements as f32[B,64,12,63]");
  b->attrs[0] = bd_attr_ints(b->ctx, "dims", DIMS(64, 12, 64));
  expect_fail(b, BD_OP_RESHAPE, "does not have as many elements");
  b->attrs[0] = bd_attr_ints(b->ctx, "dims", DIMS(B, -2, 12, 64));
  expect_fail(b, BD_OP_RESHAPE, "dims holds -2");
  b->attrs[0] = bd_attr_ints(b->ctx, "dims", DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1));
  expect_fail(b, BD_OP_RESHAPE, "dims has 9 extents");
}

static void test_slice_and_pad(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 3, 12));
  set_int(b, "dim", 1);
  set_int(b, "start", 2);
  set_int(b, "size", 1);
  expect_type(b, make(b, BD_OP_SLICE), BD_F32, DIMS(B, 1, 12));
  assert_int_equal(loop_of(b, 'B')->kind, BD_LOOP_WHOLE);
  assert_int_equal(b->map.in[0][1], -1);
  assert_int_equal(at_operand(b, 'C', 0), 2);
  b->attrs[1] = bd_attr_int(b->ctx, "start", 3);
  expect_fail(b, BD_OP_SLICE, "elements 3 to 3 are outside an extent of 3");
  b->attrs[2] = bd_attr_int(b->ctx, "size", 6);
  expect_type(b, make(b, BD_OP_PAD), BD_F32, DIMS(B, 6, 12));
  b->attrs[2] = bd_attr_int(b->ctx, "size", 5);
  expect_fail(b, BD_OP_PAD, "outside an extent of 5");
  b->attrs[0] = bd_attr_int(b->ctx, "dim", 0);
  expect_fail(b, BD_OP_PAD, "not a dimension of fixed extent");
  b->attrs[0] = bd_attr_int(b->ctx, "dim", -1);
  expect_fail(b, BD_OP_PAD, "attribute dim is -1");
}

static void test_split_together(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 25));
  make(b, BD_OP_RELU);
  bd_mesh mesh = {.axes = 2, .size = {2, 2}};
  assert_true(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){0, 0, -1, -1}));
  assert_false(bd_split_valid(&b->map, &mesh, 6, (const int8_t[]){0, 0, -1, -1}));
  assert_true(bd_split_valid(&b->map, &mesh, 6, (const int8_t[]){0, 1, -1, -1}));
  assert_false(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){1, 1, -1, -1}));
  assert_false(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){0, -1, 1, -1}));
  assert_true(allowed(b, 'B', 5, 8));
  assert_false(allowed(b, 'B', 8, 8));
  assert_false(allowed(b, 'B', 26, 8));
  assert_false(allowed(b, 'Z', 2, 8));
}

static void test_arity_and_attributes(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 25));
  expect_fail(b, BD_OP_ADD, "takes 2 operands, not 1");
  expect_fail(b, BD_OP_SCALE, "needs the attribute value, a number");
  set_int(b, "value", 2);
  make(b, BD_OP_SCALE);
  assert_true(bd_op_real(b->op, "value", 0) == 2.0);
  bd_op_set_attr(b->ctx, b->op, bd_attr_real(b->ctx, "value", 0.5));
  assert_int_equal(b->op->attr_count, 1);
  assert_true(bd_op_real(b->op, "value", 0) == 0.5);
  fresh(b);
  operand(b, BD_F32, DIMS(B, 25));
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "dtype", "f7");
  expect_fail(b, BD_OP_CAST, "dtype \"f7\" is unknown");
  b->attrs[0] = bd_attr_string(b->ctx, "dtype", "bf16");
  expect_type(b, make(b, BD_OP_CAST), BD_BF16, DIMS(B, 25));
  fresh(b);
  operand(b, BD_F32, DIMS(B, 25));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "p", 1.0);
  set_int(b, "site", 0);
  expect_fail(b, BD_OP_DROPOUT, "attribute p is 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_pointwise_aligns_at_the_end),
      TEST(test_contract),
      TEST(test_grouped_contract),
      TEST(test_grouped_operands),
      TEST(test_hostile_rules),
      TEST(test_sum_broadcast_permute),
      TEST(test_reshape),
      TEST(test_slice_and_pad),
      TEST(test_split_together),
      TEST(test_arity_and_attributes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
