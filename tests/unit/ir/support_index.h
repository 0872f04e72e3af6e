// Ops built one at a time, for the tests of index rules. Include it after cmocka.h.
#ifndef SUPPORT_INDEX_H
#define SUPPORT_INDEX_H
#include "ir/index.h"

#define B BD_DIM_BATCH
#define DIMS(...)                                                                                  \
  ((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)), (const int64_t[]) {                               \
    __VA_ARGS__                                                                                    \
  }

// One op under test: a function, its operands and what inference gave.
typedef struct bench {
  bd_ctx *ctx;
  bd_function *function;
  int in_count, attr_count;
  bd_id in[BD_MAX_OPERANDS];
  bd_attr attrs[8];
  bd_index_map map;
  bd_op *op;
} bench;

int start(void **state);
int stop(void **state);
// Forgets operands and attributes.
void fresh(bench *b);
// Appends an operand, an attribute.
void operand(bench *b, bd_dtype dtype, int rank, const int64_t *dims);
void set_int(bench *b, const char *name, int64_t value);
void set_ints(bench *b, const char *name, int count, const int64_t *values);
void set_rule(bench *b, const char *rule);
// Builds the op; `make` then infers its map again from the finished op and returns result 0.
bd_status build(bench *b, bd_op_kind kind, bd_id *out);
bd_id make(bench *b, bd_op_kind kind);
// Building fails with one diagnostic that has this part, and leaves nothing behind.
void expect_fail(bench *b, bd_op_kind kind, const char *part);
void expect_type(bench *b, bd_id id, bd_dtype dtype, int rank, const int64_t *dims);
const bd_loop *loop_of(bench *b, char letter);
// Axis 0 split at `letter`: what operand or result i is over that axis.
int at_operand(bench *b, char letter, int i);
int at_result(bench *b, char letter, int i);
// Whether so many parts may split the loop.
bool allowed(bench *b, char letter, int parts, int64_t batch);

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
#endif
