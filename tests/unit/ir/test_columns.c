// In how many chunks GPUs sum rows, and what the chunks' sums take.
#include "ir/columns.h"
#include "ir/index.h"
#include "ir/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct sums {
  bd_module *module;
  bd_function *function;
  const bd_op *op;
} sums;

static sums open(bd_ctx *ctx) {
  sums s = {bd_module_create(ctx, BD_STAGE_SPMD, "m"), bd_function_create(ctx, "f"), NULL};
  s.module->mesh = (bd_mesh){.axes = 1, .size = {1}};
  s.module->micro_batch = 1;
  s.module->cuda = true;
  return s;
}

static bd_id add_param(bd_ctx *ctx, sums *s, bd_type type) {
  bd_id id = bd_function_add_param(ctx, s->function, NULL, type);
  s->function->values[id].sharding = bd_sharding_replicated();
  return id;
}

static void add_op(bd_ctx *ctx, sums *s, bd_op_kind kind, int count, const bd_id *in,
                   const char *rule) {
  bd_id out[BD_MAX_RESULTS];
  bd_attr attr = bd_attr_string(ctx, "rule", rule ? rule : "");
  assert_int_equal(
      bd_build(ctx, s->function, kind, count, in, rule ? 1 : 0, &attr, BD_NOWHERE, out), BD_OK);
  s->op = &s->function->ops[s->function->op_count - 1];
  for (int i = 0; i < s->op->out_count; i++)
    s->function->values[s->op->out[i]].sharding = bd_sharding_replicated();
}

static sums gradient_of_norm(bd_ctx *ctx, int64_t rows, int64_t columns) {
  sums s = open(ctx);
  bd_type row = {.dtype = BD_F32, .rank = 2, .dims = {rows / 2, 2}};
  bd_type whole = {.dtype = BD_BF16, .rank = 3, .dims = {rows / 2, 2, columns}};
  const bd_id in[] = {add_param(ctx, &s, whole), add_param(ctx, &s, whole), add_param(ctx, &s, row),
                      add_param(ctx, &s, row)};
  add_op(ctx, &s, BD_OP_LAYERNORM_DW, 4, in, NULL);
  return s;
}

static sums sum(bd_ctx *ctx, bd_dtype dtype, int64_t rows, int64_t columns, const char *rule) {
  sums s = open(ctx);
  bd_id in = add_param(ctx, &s, (bd_type){.dtype = dtype, .rank = 2, .dims = {rows, columns}});
  add_op(ctx, &s, BD_OP_REDUCE_SUM, 1, &in, rule);
  return s;
}

// The scratch is that of the chunks' sums.
static void expect(const sums *s, int64_t chunks, int64_t sums_of_chunk) {
  assert_int_equal(bd_column_chunks(s->module, s->function, s->op), chunks);
  int64_t bytes = chunks > 1 ? chunks * sums_of_chunk * 8 : 0;
  assert_int_equal(bd_column_chunk_bytes(s->module, s->function, s->op), bytes);
  assert_int_equal(bd_memory_scratch_bytes(s->module, s->function, s->op), bd_align(bytes));
}

// 64 columns of halves are a group, 32 of f32; where rows are not multiples of 16 bytes, 16 and 8.
static void chunks_make_blocks(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  sums s = gradient_of_norm(ctx, 32768, 768); // 12 groups
  expect(&s, 86, 2 * 768);
  s = sum(ctx, BD_F32, 32768, 768, "AB->B"); // 24
  expect(&s, 43, 768);
  s = gradient_of_norm(ctx, 100352, 64); // 1
  expect(&s, 784, 2 * 64);
  s = gradient_of_norm(ctx, 32768, 70); // 5
  expect(&s, 128, 2 * 70);
  bd_ctx_destroy(ctx);
}

static void columns_may_be_enough(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  sums s = gradient_of_norm(ctx, 32768, 4070);
  expect(&s, 5, 2 * 4070);
  s = gradient_of_norm(ctx, 32768, 4090);
  expect(&s, 1, 0);
  s = gradient_of_norm(ctx, 32768, 4096);
  expect(&s, 16, 2 * 4096);
  s = gradient_of_norm(ctx, 32768, 16384);
  expect(&s, 1, 0);
  bd_ctx_destroy(ctx);
}

static void rows_may_be_few(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  sums s = gradient_of_norm(ctx, 510, 768);
  expect(&s, 1, 0);
  s = gradient_of_norm(ctx, 512, 768);
  expect(&s, 4, 2 * 768);
  s = gradient_of_norm(ctx, 512, 70);
  expect(&s, 2, 2 * 70);
  s.module->cuda = false;
  expect(&s, 1, 0);
  bd_ctx_destroy(ctx);
}

static void other_sums_have_none(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  sums s = sum(ctx, BD_F32, 768, 32768, "AB->A");
  expect(&s, 0, 0);
  s = sum(ctx, BD_F64, 32768, 768, "AB->B");
  expect(&s, 0, 0);
  s = sum(ctx, BD_BF16, 32768, 768, "AB->B");
  expect(&s, 86, 768);
  bd_ctx_destroy(ctx);
}

// Parts of rows are packed as whole rows are, if each rank's is a multiple of 16 bytes.
static void parts_may_be_even(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  const struct {
    int64_t columns;
    int parts;
    int64_t chunks, part;
  } cases[] = {
      {1536, 2, 86, 768}, // 12 groups
      {3072, 4, 86, 768},
      {2300, 3, 22, 767}, // 48: parts are none
      {2302, 3, 22, 768}, // the last is none
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sums s = sum(ctx, BD_BF16, 32768, cases[i].columns, "AB->B");
    s.module->mesh.size[0] = cases[i].parts;
    s.function->values[s.op->in[0]].sharding.at[0] = 1;
    s.function->values[s.op->out[0]].sharding.at[0] = 0;
    expect(&s, cases[i].chunks, cases[i].part);
    bool even = cases[i].chunks == 86;
    assert_int_equal(bd_column_bytes(s.module, s.function, s.op), even ? 16 : 4);
    assert_int_equal(bd_column_threads(s.module, s.function, s.op), 8);
  }
  bd_ctx_destroy(ctx);
}

// A product sums what it reads at its own step, if that is the gradient of a bias, in f32.
static void a_product_may_have_the_sum(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  sums s = sum(ctx, BD_BF16, 32768, 768, "AB->B");
  const bd_id operand = s.op->in[0], in[] = {operand, operand};
  add_op(ctx, &s, BD_OP_CONTRACT, 2, in, "km,kn->mn");
  s.op = &s.function->ops[0];
  expect(&s, 86, 768);
  s.function->role = BD_ROLE_BACKWARD;
  expect(&s, 86, 768);
  bd_function_add_result(ctx, s.function, s.op->out[0]);
  expect(&s, 86, 768);
  s.function->values[s.op->out[0]].type.dtype = BD_F32;
  expect(&s, 1, 0);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_make_blocks),
      cmocka_unit_test(columns_may_be_enough),
      cmocka_unit_test(rows_may_be_few),
      cmocka_unit_test(other_sums_have_none),
      cmocka_unit_test(parts_may_be_even),
      cmocka_unit_test(a_product_may_have_the_sum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
