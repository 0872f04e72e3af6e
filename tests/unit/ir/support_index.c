#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ir/support_index.h"
#include <string.h>

int start(void **state) {
  static bench b;
  b = (bench){.ctx = bd_ctx_create()};
  b.function = bd_function_create(b.ctx, "f");
  *state = &b;
  return 0;
}

int stop(void **state) {
  bench *b = *state;
  bd_ctx_destroy(b->ctx);
  return 0;
}

void fresh(bench *b) {
  b->in_count = b->attr_count = 0;
}

void operand(bench *b, bd_dtype dtype, int rank, const int64_t *dims) {
  b->in[b->in_count++] =
      bd_function_add_param(b->ctx, b->function, NULL, bd_type_make(dtype, rank, dims));
}

void set_int(bench *b, const char *name, int64_t value) {
  b->attrs[b->attr_count++] = bd_attr_int(b->ctx, name, value);
}

void set_ints(bench *b, const char *name, int count, const int64_t *values) {
  b->attrs[b->attr_count++] = bd_attr_ints(b->ctx, name, count, values);
}

void set_rule(bench *b, const char *rule) {
  b->attrs[b->attr_count++] = bd_attr_string(b->ctx, "rule", rule);
}

bd_status build(bench *b, bd_op_kind kind, bd_id *out) {
  return bd_build(b->ctx, b->function, kind, b->in_count, b->in, b->attr_count, b->attrs,
                  BD_NOWHERE, out);
}

// Builds the op, then infers its map again from the finished op.
bd_id make(bench *b, bd_op_kind kind) {
  bd_id out[BD_MAX_RESULTS];
  assert_int_equal(build(b, kind, out), BD_OK);
  b->op = &b->function->ops[b->function->op_count - 1];
  bd_type types[BD_MAX_RESULTS];
  assert_int_equal(bd_op_infer(b->ctx, b->function, b->op, &b->map, types), BD_OK);
  return out[0];
}

void expect_fail(bench *b, bd_op_kind kind, const char *part) {
  int ops = b->function->op_count, errors = b->ctx->error_count;
  bd_id out[BD_MAX_RESULTS];
  assert_int_equal(build(b, kind, out), BD_INVALID);
  assert_int_equal(b->ctx->error_count, errors + 1);
  assert_int_equal(b->function->op_count, ops);
  if (!strstr(b->ctx->last_diag->message, part))
    fail_msg("\"%s\" is not in: %s", part, b->ctx->last_diag->message);
}

void expect_type(bench *b, bd_id id, bd_dtype dtype, int rank, const int64_t *dims) {
  bd_type wanted = bd_type_make(dtype, rank, dims);
  assert_true(bd_type_equal(&b->function->values[id].type, &wanted));
}

const bd_loop *loop_of(bench *b, char letter) {
  int loop = bd_index_find(&b->map, letter);
  assert_true(loop >= 0);
  return &b->map.loop[loop];
}

// Axis 0 split at `letter`: what operand or result i is over that axis.
int at_operand(bench *b, char letter, int i) {
  bd_mesh mesh = {.axes = 1, .size = {2}};
  int8_t split[BD_MAX_AXES] = {(int8_t)bd_index_find(&b->map, letter), -1, -1, -1};
  return bd_split_operand(&b->map, &mesh, split, i).at[0];
}

int at_result(bench *b, char letter, int i) {
  bd_mesh mesh = {.axes = 1, .size = {2}};
  int8_t split[BD_MAX_AXES] = {(int8_t)bd_index_find(&b->map, letter), -1, -1, -1};
  return bd_split_result(&b->map, &mesh, split, i).at[0];
}

bool allowed(bench *b, char letter, int parts, int64_t batch) {
  bd_mesh mesh = {.axes = 1, .size = {parts}};
  return bd_split_allowed(&b->map, &mesh, batch, 0, bd_index_find(&b->map, letter));
}
