#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ir/support_index.h"
#include <string.h>

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

static void test_normalizations(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 768));
  operand(b, BD_F32, DIMS(768));
  operand(b, BD_F32, DIMS(768));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "eps", 1e-5);
  bd_id y = make(b, BD_OP_LAYERNORM);
  expect_type(b, y, BD_F32, DIMS(B, 64, 768));
  expect_type(b, y + 1, BD_F32, DIMS(B, 64));
  expect_type(b, y + 2, BD_F32, DIMS(B, 64));
  assert_int_equal(loop_of(b, 'c')->kind, BD_LOOP_WHOLE);
  assert_false(allowed(b, 'c', 2, 8));
  assert_int_equal(at_result(b, 'B', 1), 1);
  bd_id x = b->in[0];
  fresh(b);
  b->in[0] = y, b->in[1] = x, b->in[2] = y + 1, b->in[3] = y + 2;
  b->in_count = 4;
  expect_type(b, make(b, BD_OP_LAYERNORM_DW), BD_F32, DIMS(768));
  assert_int_equal(at_result(b, 'A', 1), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'c', 1), 0);
  fresh(b);
  operand(b, BD_BF16, DIMS(B, 16));
  operand(b, BD_BF16, DIMS(16));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "eps", 1e-5);
  y = make(b, BD_OP_RMSNORM);
  expect_type(b, y, BD_BF16, DIMS(B, 16));
  expect_type(b, y + 1, BD_F32, DIMS(B));
}

static void test_embedding(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(50257, 768));
  operand(b, BD_I32, DIMS(B, 64));
  expect_type(b, make(b, BD_OP_EMBED), BD_F32, DIMS(B, 64, 768));
  assert_true(loop_of(b, 'v')->gather);
  assert_int_equal(at_operand(b, 'v', 0), 0);
  assert_int_equal(at_result(b, 'v', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'A', 1), 0);
  bd_mesh one = {0};
  int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1};
  assert_true(bd_op_bytes(b->function, b->op, &b->map, &one, none, 2) ==
              4.0 * (2 * 2 * 64 * 768 + 2 * 64));
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64, 768));
  operand(b, BD_I32, DIMS(B, 64));
  set_int(b, "rows", 50257);
  expect_type(b, make(b, BD_OP_EMBED_DW), BD_F32, DIMS(50257, 768));
  assert_int_equal(loop_of(b, 'v')->kind, BD_LOOP_PARALLEL);
  assert_true(loop_of(b, 'v')->gather);
  assert_int_equal(at_result(b, 'A', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'v', 0), 0);
  b->attrs[0] = bd_attr_int(b->ctx, "rows", 0);
  expect_fail(b, BD_OP_EMBED_DW, "attribute rows is 0");
  fresh(b);
  operand(b, BD_F32, DIMS(50257, 768));
  operand(b, BD_F32, DIMS(B, 64));
  expect_fail(b, BD_OP_EMBED, "operand 2 must hold integers, not f32");
}

static void test_losses(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 50257));
  bd_id lse = make(b, BD_OP_LSE);
  expect_type(b, lse, BD_F32, DIMS(B, 64));
  assert_int_equal(at_result(b, 'v', 0), BD_PARTIAL_LSE);
  assert_true(allowed(b, 'v', 4, 8));
  operand(b, BD_I32, DIMS(B, 64));
  b->in[b->in_count++] = lse;
  bd_id loss = make(b, BD_OP_XENT);
  expect_type(b, loss, BD_F32, 0, NULL);
  assert_int_equal(at_result(b, 'v', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'A', 0), BD_PARTIAL_SUM);
  b->in[b->in_count++] = loss;
  expect_type(b, make(b, BD_OP_XENT_GRAD), BD_F32, DIMS(B, 64, 50257));
  assert_int_equal(at_operand(b, 'v', 3), BD_REPLICATED);
  assert_int_equal(at_result(b, 'v', 0), 2);
}

static void test_attention_heads(void **state) {
  bench *b = *state;
  for (int i = 0; i < 3; ++i)
    operand(b, BD_F32, DIMS(B, 64, 25, 64));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  bd_id out = make(b, BD_OP_ATTENTION);
  expect_type(b, out, BD_F32, DIMS(B, 64, 25, 64));
  expect_type(b, out + 1, BD_F32, DIMS(B, 64, 25));
  assert_true(allowed(b, 'k', 2, 8));
  assert_true(allowed(b, 'b', 4, 8));
  assert_false(allowed(b, 'b', 3, 8));
  assert_false(allowed(b, 't', 2, 8));
  assert_int_equal(at_operand(b, 'k', 1), 2);
  assert_int_equal(at_result(b, 'k', 1), 2);
  bd_mesh one = {0};
  int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1};
  double flops = bd_op_flops(b->function, b->op, &b->map, &one, none, 2);
  assert_true(flops == 4.0 * 2 * 25 * 64 * 64 * 64);
}

static void test_grouped_heads(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(B, 64, 3, 32));
  operand(b, BD_F32, DIMS(B, 64, 3, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  bd_id out = make(b, BD_OP_ATTENTION);
  assert_int_equal(loop_of(b, 'k')->extent, 3);
  assert_false(allowed(b, 'k', 2, 8));
  assert_true(allowed(b, 'k', 3, 8));
  bd_id q = b->in[0], k = b->in[1], v = b->in[2];
  b->in_count = 6;
  b->in[0] = out, b->in[1] = q, b->in[2] = k, b->in[3] = v, b->in[4] = out, b->in[5] = out + 1;
  bd_id dq = make(b, BD_OP_ATTENTION_GRAD);
  expect_type(b, dq, BD_F32, DIMS(B, 64, 12, 32));
  expect_type(b, dq + 2, BD_F32, DIMS(B, 64, 3, 32));
  assert_int_equal(at_operand(b, 'k', 5), 2);
  b->in[5] = out;
  expect_fail(b, BD_OP_ATTENTION_GRAD, "operand 6 must have 3 dimensions");
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(B, 64, 5, 32));
  operand(b, BD_F32, DIMS(B, 64, 5, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  expect_fail(b, BD_OP_ATTENTION, "12 query heads are not a multiple of 5");
}

static void test_convolution(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 3, 28, 28));
  operand(b, BD_F32, DIMS(16, 3, 5, 5));
  set_ints(b, "strides", 2, (const int64_t[]){2, 2});
  set_ints(b, "pads", 4, (const int64_t[]){2, 2, 2, 2});
  bd_id y = make(b, BD_OP_CONV);
  expect_type(b, y, BD_F32, DIMS(B, 16, 14, 14));
  assert_int_equal(at_result(b, 'c', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_operand(b, 'o', 1), 0);
  bd_id x = b->in[0], w = b->in[1];
  b->in[0] = y;
  set_ints(b, "dims", 2, (const int64_t[]){28, 28});
  expect_type(b, make(b, BD_OP_CONV_DX), BD_F32, DIMS(B, 3, 28, 28));
  assert_int_equal(at_result(b, 'o', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'c', 0), 1);
  b->in[0] = x, b->in[1] = y;
  b->attrs[2] = bd_attr_ints(b->ctx, "kernel", 2, (const int64_t[]){5, 5});
  expect_type(b, make(b, BD_OP_CONV_DW), BD_F32, DIMS(16, 3, 5, 5));
  assert_int_equal(at_result(b, 'n', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'o', 0), 0);
  b->in[1] = w;
  b->attr_count = 0;
  set_ints(b, "strides", 2, (const int64_t[]){1, 0});
  expect_fail(b, BD_OP_CONV, "attribute strides holds 0, not in 1 to 1048576");
  b->attrs[0] = bd_attr_ints(b->ctx, "pads", 2, (const int64_t[]){1, 1});
  expect_fail(b, BD_OP_CONV, "attribute pads has 2 numbers, not 4");
  b->attrs[0] = bd_attr_int(b->ctx, "groups", 2);
  expect_fail(b, BD_OP_CONV, "2 groups do not divide 3 input and 16 output channels");
  fresh(b);
  operand(b, BD_F32, DIMS(B, 3, 28, 28, 28, 2));
  operand(b, BD_F32, DIMS(3, 3, 1, 1, 1, 1));
  expect_fail(b, BD_OP_CONV, "operand 1 must have 3 to 5 dimensions");
}

static void test_channels_last(void **state) {
  bench *b = *state;
  operand(b, BD_BF16, DIMS(B, 9, 8));
  operand(b, BD_BF16, DIMS(12, 2, 3));
  set_int(b, "groups", 4);
  set_int(b, "channels_last", 1);
  bd_id y = make(b, BD_OP_CONV), x = b->in[0];
  expect_type(b, y, BD_BF16, DIMS(B, 7, 12));
  assert_int_equal(at_operand(b, 'g', 0), 2);
  assert_int_equal(at_operand(b, 'g', 1), 0);
  assert_int_equal(at_result(b, 'g', 0), 2);
  b->in[0] = y;
  set_ints(b, "dims", 1, (const int64_t[]){9});
  expect_type(b, make(b, BD_OP_CONV_DX), BD_BF16, DIMS(B, 9, 8));
  b->in[0] = x, b->in[1] = y;
  b->attrs[2] = bd_attr_ints(b->ctx, "kernel", 1, (const int64_t[]){3});
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "dtype", "f32");
  expect_type(b, make(b, BD_OP_CONV_DW), BD_F32, DIMS(12, 2, 3));
  b->attrs[b->attr_count - 1] = bd_attr_string(b->ctx, "dtype", "f16");
  expect_fail(b, BD_OP_CONV_DW, "a result of bf16 cannot be f16");
  fresh(b);
  operand(b, BD_F16, DIMS(B, 28, 14, 3));
  set_ints(b, "kernel", 2, (const int64_t[]){2, 2});
  set_int(b, "channels_last", 1);
  y = make(b, BD_OP_MAXPOOL);
  expect_type(b, y, BD_F16, DIMS(B, 27, 13, 3));
  b->in[b->in_count++] = y;
  expect_type(b, make(b, BD_OP_MAXPOOL_GRAD), BD_F16, DIMS(B, 28, 14, 3));
  assert_int_equal(at_operand(b, 'c', 1), 3);
}

static void test_grouped_convolution(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 8, 9));
  operand(b, BD_F32, DIMS(12, 2, 3));
  set_int(b, "groups", 4);
  bd_id y = make(b, BD_OP_CONV);
  expect_type(b, y, BD_F32, DIMS(B, 12, 7));
  assert_true(allowed(b, 'g', 2, 8));
  assert_false(allowed(b, 'g', 8, 8));
  assert_false(allowed(b, 'o', 3, 8));
  assert_int_equal(at_operand(b, 'g', 0), 1);
  assert_int_equal(at_operand(b, 'g', 1), 0);
  assert_int_equal(at_result(b, 'g', 0), 1);
}

static void test_pooling(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 3, 28, 28));
  set_ints(b, "kernel", 2, (const int64_t[]){2, 2});
  set_ints(b, "strides", 2, (const int64_t[]){2, 2});
  bd_id y = make(b, BD_OP_MAXPOOL);
  expect_type(b, y, BD_F32, DIMS(B, 3, 14, 14));
  b->in[b->in_count++] = y;
  expect_type(b, make(b, BD_OP_MAXPOOL_GRAD), BD_F32, DIMS(B, 3, 28, 28));
  assert_int_equal(at_operand(b, 'c', 1), 1);
  b->in_count = 1;
  b->attrs[0] = bd_attr_ints(b->ctx, "kernel", 2, (const int64_t[]){29, 2});
  expect_fail(b, BD_OP_MAXPOOL, "a window of 29, 1 apart, does not fit in 28 with pads 0 and 0");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_pointwise_aligns_at_the_end),
      TEST(test_contract),
      TEST(test_hostile_rules),
      TEST(test_sum_broadcast_permute),
      TEST(test_reshape),
      TEST(test_slice_and_pad),
      TEST(test_normalizations),
      TEST(test_embedding),
      TEST(test_losses),
      TEST(test_attention_heads),
      TEST(test_grouped_heads),
      TEST(test_convolution),
      TEST(test_channels_last),
      TEST(test_grouped_convolution),
      TEST(test_pooling),
      TEST(test_split_together),
      TEST(test_arity_and_attributes),
      TEST(test_clone_is_deep),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
