// Index rules of what layers are made of: normalizations, embeddings, losses, attention and
// windows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ir/support_index.h"

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
  assert_false(allowed(b, 's', 2, 8));
  assert_int_equal(at_operand(b, 'k', 1), 2);
  assert_int_equal(at_result(b, 'k', 1), 2);
  bd_mesh one = {0};
  int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1};
  double flops = bd_op_flops(b->function, b->op, &b->map, &one, none, 2);
  assert_true(flops == 4.0 * 2 * 25 * 64 * 64 * 64);
}

// Parts of the queries read all keys and values, whose gradients they add to. Of n parts under a
// causal mask the last has 2n - 1 times the work of the first, and counts.
static void test_queries(void **state) {
  bench *b = *state;
  static const bd_mesh mesh = {2, {2, 2}};
  operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(B, 64, 4, 32));
  operand(b, BD_F32, DIMS(B, 64, 4, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  set_int(b, "causal", 1);
  bd_id out = make(b, BD_OP_ATTENTION);
  assert_true(allowed(b, 't', 2, 8));
  assert_false(allowed(b, 't', 3, 8));
  assert_int_equal(at_operand(b, 't', 0), 1);
  assert_int_equal(at_operand(b, 't', 1), BD_REPLICATED);
  assert_int_equal(at_operand(b, 't', 2), BD_REPLICATED);
  assert_int_equal(at_result(b, 't', 0), 1);
  assert_int_equal(at_result(b, 't', 1), 1);
  int8_t t = (int8_t)bd_index_find(&b->map, 't');
  const int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1}, half[] = {t, -1, -1, -1},
               quarter[] = {t, t, -1, -1};
  double whole = bd_op_flops(b->function, b->op, &b->map, &mesh, none, 2);
  assert_true(whole == 0.5 * 4.0 * 2 * 12 * 64 * 64 * 32);
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, half, 2) == whole * 3 / 4);
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, quarter, 2) == whole * 7 / 16);
  bd_id in[] = {out, b->in[0], b->in[1], b->in[2], out, out + 1};
  b->in_count = 6;
  memcpy(b->in, in, sizeof in);
  make(b, BD_OP_ATTENTION_GRAD);
  for (int operand = 0; operand < 6; ++operand)
    assert_int_equal(at_operand(b, 't', operand),
                     operand == 2 || operand == 3 ? BD_REPLICATED : 1);
  assert_int_equal(at_result(b, 't', 0), 1);
  assert_int_equal(at_result(b, 't', 1), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 't', 2), BD_PARTIAL_SUM);
}

// Of all n keys up to its own a query sees the last w: w - w^2 / 2n on average. The last part of
// the queries sees w each where its first ones do.
static void test_windows(void **state) {
  bench *b = *state;
  static const bd_mesh mesh = {2, {2, 2}};
  for (int i = 0; i < 3; ++i)
    operand(b, BD_F32, DIMS(B, 64, 4, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  set_int(b, "causal", 1);
  set_int(b, "window", 48);
  make(b, BD_OP_ATTENTION);
  int8_t t = (int8_t)bd_index_find(&b->map, 't');
  const int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1}, half[] = {t, -1, -1, -1},
               quarter[] = {t, t, -1, -1};
  double point = 4.0 * 2 * 4 * 32;
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, none, 2) ==
              point * (48 * 64 - 48 * 48 / 2));
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, half, 2) ==
              point * (48 * 32 - 16 * 16 / 2));
  assert_true(bd_op_flops(b->function, b->op, &b->map, &mesh, quarter, 2) == point * 48 * 16);
  double before = 0;
  for (int window = 1; window <= 80; ++window) { // a longer one is more, up to all keys
    b->attrs[2] = bd_attr_int(b->ctx, "window", window);
    b->op->attrs = b->attrs;
    double flops = bd_op_flops(b->function, b->op, &b->map, &mesh, half, 2);
    assert_true(window <= 64 ? flops > before : flops == before);
    before = flops;
  }
  assert_true(before == point * (64 * 32 - 32 * 32 / 2));
}

static void test_bad_windows(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 4, 32));
  operand(b, BD_F32, DIMS(B, 63, 4, 32));
  operand(b, BD_F32, DIMS(B, 63, 4, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  set_int(b, "window", 8);
  expect_fail(b, BD_OP_ATTENTION, "attribute window needs causal=1");
  set_int(b, "causal", 1);
  expect_fail(b, BD_OP_ATTENTION,
              "attribute window needs as many keys as queries, not 63 for 64");
  operand(b, BD_F32, DIMS(4, 5));
  expect_fail(b, BD_OP_RELATIVE_ATTENTION, "takes no attribute window");
  b->in_count = 3;
  b->attrs[1] = bd_attr_int(b->ctx, "window", 0);
  expect_fail(b, BD_OP_ATTENTION, "attribute window is 0");
}

// With dropout queries that share random blocks stay together: 16 of them.
static void test_queries_with_dropout(void **state) {
  bench *b = *state;
  for (int i = 0; i < 3; ++i)
    operand(b, BD_F32, DIMS(B, 96, 2, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "dropout", 0.1);
  set_int(b, "site", 1);
  make(b, BD_OP_ATTENTION);
  assert_true(allowed(b, 't', 3, 8));
  assert_true(allowed(b, 't', 6, 8));
  assert_false(allowed(b, 't', 4, 8));
  assert_false(allowed(b, 't', 12, 8));
}

// Query heads of each key-value head: cut further where that one is alone on a rank.
static void test_heads_within_a_group(void **state) {
  bench *b = *state;
  static const bd_mesh mesh = {3, {2, 3, 2}};
  operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(B, 64, 2, 32));
  operand(b, BD_F32, DIMS(B, 64, 2, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  bd_id out = make(b, BD_OP_ATTENTION);
  int8_t k = (int8_t)bd_index_find(&b->map, 'k'), g = (int8_t)bd_index_find(&b->map, 'g');
  assert_int_equal(loop_of(b, 'g')->extent, 6);
  assert_int_equal(loop_of(b, 'g')->within, k);
  assert_true(allowed(b, 'g', 3, 8));
  assert_false(allowed(b, 'g', 4, 8));
  const struct {
    int8_t split[BD_MAX_AXES];
    bool valid;
  } cases[] = {
      {{k, g, -1, -1}, true},  {{k, g, g, -1}, true},   {{k, -1, g, -1}, true},
      {{-1, g, -1, -1}, false}, {{-1, g, k, -1}, false}, {{g, g, k, -1}, false},
      {{g, -1, -1, -1}, false}, {{k, g, k, -1}, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    assert_int_equal(bd_split_valid(&b->map, &mesh, 8, cases[i].split), cases[i].valid);
  bd_sharding q = bd_split_operand(&b->map, &mesh, cases[1].split, 0),
              key = bd_split_operand(&b->map, &mesh, cases[1].split, 1),
              lse = bd_split_result(&b->map, &mesh, cases[1].split, 1);
  assert_true(bd_sharding_equal(&q, &(bd_sharding){{2, 2, 2, -1}}));
  assert_true(bd_sharding_equal(&key, &(bd_sharding){{2, -1, -1, -1}}));
  assert_true(bd_sharding_equal(&lse, &q));
  int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1};
  assert_true(12 * bd_op_flops(b->function, b->op, &b->map, &mesh, cases[1].split, 8) ==
              bd_op_flops(b->function, b->op, &b->map, &mesh, none, 8));
  bd_id in[] = {out, b->in[0], b->in[1], b->in[2], out, out + 1};
  b->in_count = 6;
  memcpy(b->in, in, sizeof in);
  make(b, BD_OP_ATTENTION_GRAD);
  bd_sharding dq = bd_split_result(&b->map, &mesh, cases[0].split, 0),
              dv = bd_split_result(&b->map, &mesh, cases[0].split, 2);
  assert_true(bd_sharding_equal(&dq, &(bd_sharding){{2, 2, -1, -1}}));
  assert_true(bd_sharding_equal(&dv, &(bd_sharding){{2, BD_PARTIAL_SUM, -1, -1}}));
}

// A lone key-value head: whatever cuts its query heads. Biases go with these.
static void test_heads_of_one_group(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 8, 32));
  operand(b, BD_F32, DIMS(B, 64, 1, 32));
  operand(b, BD_F32, DIMS(B, 64, 1, 32));
  operand(b, BD_F32, DIMS(8, 9));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  bd_id out = make(b, BD_OP_RELATIVE_ATTENTION);
  int8_t g = (int8_t)bd_index_find(&b->map, 'g');
  bd_mesh mesh = {2, {2, 4}};
  assert_true(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){-1, g, -1, -1}));
  assert_true(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){g, g, -1, -1}));
  assert_true(bd_split_valid(&b->map, &mesh, 8, (const int8_t[]){g, 0, -1, -1}));
  assert_int_equal(at_operand(b, 'g', 0), 2);
  assert_int_equal(at_operand(b, 'g', 2), BD_REPLICATED);
  assert_int_equal(at_operand(b, 'g', 3), 0);
  bd_id in[] = {out, b->in[0], b->in[1], b->in[2], out, out + 1, b->in[3]};
  b->in_count = 7;
  memcpy(b->in, in, sizeof in);
  make(b, BD_OP_RELATIVE_ATTENTION_GRAD);
  assert_int_equal(at_result(b, 'g', 0), 2);
  assert_int_equal(at_result(b, 'g', 1), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 'g', 3), 0);
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

// Values have a width of their own, and what attention gives has it: one of two products forward is
// as wide, and two of five backward.
static void test_width_of_values(void **state) {
  bench *b = *state;
  operand(b, BD_F32, DIMS(B, 64, 12, 48));
  operand(b, BD_F32, DIMS(B, 64, 4, 48));
  operand(b, BD_F32, DIMS(B, 64, 4, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  bd_id out = make(b, BD_OP_ATTENTION);
  expect_type(b, out, BD_F32, DIMS(B, 64, 12, 32));
  expect_type(b, out + 1, BD_F32, DIMS(B, 64, 12));
  const bd_mesh one = {0};
  const int8_t none[BD_MAX_AXES] = {-1, -1, -1, -1};
  double point = 2.0 * 2 * 12 * 64 * 64;
  assert_true(bd_op_flops(b->function, b->op, &b->map, &one, none, 2) == point * (48 + 32));
  bd_id q = b->in[0], k = b->in[1], v = b->in[2];
  memcpy(b->in, (bd_id[]){out, q, k, v, out, out + 1}, 6 * sizeof *b->in);
  b->in_count = 6;
  bd_id dq = make(b, BD_OP_ATTENTION_GRAD);
  expect_type(b, dq, BD_F32, DIMS(B, 64, 12, 48));
  expect_type(b, dq + 1, BD_F32, DIMS(B, 64, 4, 48));
  expect_type(b, dq + 2, BD_F32, DIMS(B, 64, 4, 32));
  assert_true(bd_op_flops(b->function, b->op, &b->map, &one, none, 2) ==
              point * (3 * 48 + 2 * 32));
  b->in[0] = q;
  expect_fail(b, BD_OP_ATTENTION_GRAD, "dimension 4 of operand 1 has extent 48, expected 32");
  fresh(b);
  operand(b, BD_F32, DIMS(B, 64, 12, 48));
  operand(b, BD_F32, DIMS(B, 64, 4, 48));
  operand(b, BD_F32, DIMS(B, 64, 6, 32));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 0.125);
  expect_fail(b, BD_OP_ATTENTION, "dimension 3 of operand 3 has extent 6, expected 4");
}

// A part of the samples or queries has a part of what the sinks' gradient adds up to.
static void test_sink_attention(void **state) {
  bench *b = *state;
  operand(b, BD_BF16, DIMS(B, 64, 12, 32));
  for (int i = 0; i < 2; ++i)
    operand(b, BD_BF16, DIMS(B, 64, 4, 32));
  operand(b, BD_BF16, DIMS(12));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 1);
  b->attrs[b->attr_count++] = bd_attr_int(b->ctx, "causal", 1);
  b->attrs[b->attr_count++] = bd_attr_int(b->ctx, "window", 8);
  bd_id out = make(b, BD_OP_SINK_ATTENTION);
  expect_type(b, out, BD_BF16, DIMS(B, 64, 12, 32));
  expect_type(b, out + 1, BD_F32, DIMS(B, 64, 12));
  assert_int_equal(at_operand(b, 'k', 3), 0);
  assert_int_equal(at_operand(b, 'b', 3), BD_REPLICATED);
  assert_int_equal(at_operand(b, 't', 3), BD_REPLICATED);
  b->attr_count = 0;
  b->attrs[b->attr_count++] = bd_attr_int(b->ctx, "group", 3);
  memcpy(b->in, (bd_id[]){out, out}, 2 * sizeof *b->in);
  b->in_count = 2;
  bd_id products = make(b, BD_OP_ROW_PRODUCTS);
  expect_type(b, products, BD_F32, DIMS(B, 64, 12));
  assert_int_equal(at_result(b, 't', 0), 1);
  assert_int_equal(at_result(b, 'k', 0), 2);
  fresh(b);
  for (int i = 0; i < 2; ++i)
    operand(b, BD_F32, DIMS(B, 64, 12));
  operand(b, BD_F32, DIMS(12));
  b->attrs[b->attr_count++] = bd_attr_int(b->ctx, "group", 3);
  expect_type(b, make(b, BD_OP_SINKS_GRAD), BD_F32, DIMS(12));
  assert_int_equal(at_result(b, 'k', 0), 0);
  assert_int_equal(at_result(b, 'b', 0), BD_PARTIAL_SUM);
  assert_int_equal(at_result(b, 't', 0), BD_PARTIAL_SUM);
  b->attrs[0] = bd_attr_int(b->ctx, "group", 5);
  expect_fail(b, BD_OP_SINKS_GRAD, "group 5 does not divide 12 heads");
  fresh(b);
  for (int i = 0; i < 3; ++i)
    operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(12));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 1);
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "softcap", 50);
  expect_fail(b, BD_OP_SINK_ATTENTION, "takes no attribute softcap");
  b->attrs[1] = bd_attr_int(b->ctx, "chunk", 16);
  expect_fail(b, BD_OP_SINK_ATTENTION, "attribute chunk needs causal=1");
  set_int(b, "causal", 1);
  set_int(b, "window", 8);
  expect_fail(b, BD_OP_SINK_ATTENTION, "attribute chunk goes with no window");
  fresh(b);
  for (int i = 0; i < 3; ++i)
    operand(b, BD_F32, DIMS(B, 64, 12, 32));
  operand(b, BD_F32, DIMS(11));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 1);
  expect_fail(b, BD_OP_SINK_ATTENTION, "dimension 1 of operand 4 has extent 11, expected 12");
}

// A part of the samples has a part of what the biases' gradient adds up to.
static void test_relative_attention(void **state) {
  bench *b = *state;
  for (int i = 0; i < 3; ++i)
    operand(b, BD_BF16, DIMS(B, 64, 12, 32));
  operand(b, BD_BF16, DIMS(12, 255));
  b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 1);
  bd_id out = make(b, BD_OP_RELATIVE_ATTENTION);
  expect_type(b, out, BD_BF16, DIMS(B, 64, 12, 32));
  expect_type(b, out + 1, BD_F32, DIMS(B, 64, 12));
  assert_int_equal(at_operand(b, 'k', 3), 0);
  assert_int_equal(at_operand(b, 'b', 3), BD_REPLICATED);
  bd_id q = b->in[0], k = b->in[1], v = b->in[2], bias = b->in[3];
  memcpy(b->in, (bd_id[]){out, q, k, v, out, out + 1, bias}, 7 * sizeof *b->in);
  b->in_count = 7;
  bd_id dq = make(b, BD_OP_RELATIVE_ATTENTION_GRAD);
  expect_type(b, dq + 2, BD_BF16, DIMS(B, 64, 12, 32));
  expect_type(b, dq + 3, BD_F32, DIMS(12, 255));
  assert_int_equal(at_result(b, 'k', 3), 0);
  assert_int_equal(at_result(b, 'b', 3), BD_PARTIAL_SUM);
  static const struct {
    int64_t heads, places;
    const char *message;
  } wrong[] = {
      {11, 255, "dimension 1 of operand 4 has extent 11, expected 12"},
      {12, 1025, "operand 4 has 1025 places, more than 1024"},
      {12, 8, "operand 4 has 8 places: as many before as behind, and one between"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    fresh(b);
    for (int n = 0; n < 3; ++n)
      operand(b, BD_F32, DIMS(B, 64, 12, 32));
    operand(b, BD_F32, DIMS(wrong[i].heads, wrong[i].places));
    b->attrs[b->attr_count++] = bd_attr_real(b->ctx, "scale", 1);
    expect_fail(b, BD_OP_RELATIVE_ATTENTION, wrong[i].message);
  }
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_normalizations),  TEST(test_embedding),     TEST(test_losses),
      TEST(test_attention_heads), TEST(test_grouped_heads), TEST(test_relative_attention),
      TEST(test_width_of_values), TEST(test_sink_attention),
      TEST(test_queries),         TEST(test_queries_with_dropout),
      TEST(test_windows),         TEST(test_bad_windows),
      TEST(test_heads_within_a_group), TEST(test_heads_of_one_group),
      TEST(test_convolution),     TEST(test_channels_last), TEST(test_grouped_convolution),
      TEST(test_pooling),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
