// The dropless way of tokens to experts, on the interpreter, against the same written as loops.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/interpret.h"
#include "ir/routing.h"
#include "tests/unit/context.h"
#include "tests/unit/random.h"

enum { MOST_SAMPLES = 3, WIDTH = 3 };

typedef struct building {
  bd_ctx *ctx;
  bd_function *function;
} building;

static bd_status emit(void *user, const char *name, bd_op_kind kind, int in_count, const bd_id *in,
                      int attr_count, const bd_attr *attrs, bd_id *out) {
  building *b = user;
  (void)name;
  return bd_build(b->ctx, b->function, kind, in_count, in, attr_count, attrs, BD_NOWHERE, out);
}

typedef enum pattern { RANDOM, ONE_FOR_ALL, FIRST_ONES, LAST_ONES, PATTERNS } pattern;

// The choices of a token, all different.
static void choose(const bd_routing *r, pattern pattern, int64_t token, double *out) {
  int64_t first = pattern == RANDOM        ? (int64_t)random_below((unsigned)r->experts)
                  : pattern == ONE_FOR_ALL ? r->experts / 2
                  : pattern == FIRST_ONES  ? token % r->choices
                                           : r->experts - 1 - token % r->choices;
  int64_t step = pattern == LAST_ONES ? r->experts - 1 : 1;
  for (int64_t k = 0; k < r->choices; ++k)
    out[k] = (double)((first + k * step) % r->experts);
}

// The token and weight of each row, the row of each choice, and the ends of experts: rows are
// sorted by expert, then by sample, then as the queue of the sample has them.
typedef struct expected {
  int64_t *from, *to, *ends;
  double *weight;
} expected;

static expected sort(bd_ctx *ctx, const bd_routing *r, int64_t samples, const double *chosen,
                     const double *weights) {
  int64_t rows = samples * bd_routing_rows(r), grain = bd_routing_grain(r), row = 0;
  int64_t count = r->sequence * r->choices;
  expected e = {BD_NEW_ARRAY(ctx->arena, int64_t, rows),
                BD_NEW_ARRAY(ctx->arena, int64_t, samples * count),
                BD_NEW_ARRAY(ctx->arena, int64_t, r->experts),
                BD_NEW_ARRAY(ctx->arena, double, rows)};
  for (int64_t i = 0; i < rows; ++i)
    e.from[i] = -1;
  for (int64_t expert = 0; expert < r->experts; ++expert) {
    for (int64_t i = 0; i < samples * count; ++i) {
      int64_t sample = i / count, k = i % count / r->sequence, t = i % r->sequence;
      int64_t choice = (sample * r->sequence + t) * r->choices + k;
      if ((int64_t)chosen[choice] != expert) continue;
      assert_true(row < rows);
      e.from[row] = sample * r->sequence + t;
      e.weight[row] = weights[choice];
      e.to[choice] = row++;
    }
    row = (row + grain - 1) / grain * grain;
    e.ends[expert] = row;
  }
  assert_true(row <= rows);
  return e;
}

typedef struct routed {
  bd_tensor in[3]; // choices, weights, tokens
  bd_tensor *out;  // to, from, weight, ends, placed, combined, expert
} routed;

static routed run(bd_ctx *ctx, bd_routing r, int64_t samples, pattern pattern) {
  building b = {ctx, bd_function_create(ctx, "f")};
  bd_type types[] = {
      bd_type_make(BD_I64, 3, (int64_t[]){BD_DIM_BATCH, r.sequence, r.choices}),
      bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, r.sequence, r.choices}),
      bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, r.sequence, WIDTH}),
      bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, bd_routing_rows(&r), WIDTH})};
  bd_id in[3], placed, combined;
  bd_routed ids;
  routed out;
  r.ctx = ctx, r.emit = emit, r.user = &b;
  for (int i = 0; i < 3; ++i)
    in[i] = bd_function_add_param(ctx, b.function, NULL, types[i]);
  assert_int_equal(bd_routing_emit(&r, in[0], in[1], &ids), BD_OK);
  assert_int_equal(bd_routing_place(&r, &ids, in[2], &placed), BD_OK);
  assert_int_equal(bd_routing_return(&r, &ids, &types[3], placed, &combined), BD_OK);
  bd_id results[] = {ids.to, ids.from, ids.weight, ids.ends, placed, combined, ids.expert};
  for (int i = 0; i < 7; ++i)
    bd_function_add_result(ctx, b.function, results[i]);
  assert_int_equal(bd_routing_count(b.function), 1);
  assert_true(bd_routing_spare(b.function) == 0);
  for (int i = 0; i < 3; ++i) {
    types[i].dims[0] = samples;
    int64_t count = bd_type_elements(&types[i], samples);
    out.in[i] = (bd_tensor){types[i], BD_NEW_ARRAY(ctx->arena, double, count)};
    for (int64_t e = 0; i > 0 && e < count; ++e)
      out.in[i].data[e] = (double)(1 + random_below(7));
  }
  for (int64_t t = 0; t < samples * r.sequence; ++t)
    choose(&r, pattern, t, &out.in[0].data[t * r.choices]);
  const bd_random_key key = {0};
  assert_int_equal(bd_interpret_function(ctx, NULL, b.function, samples, out.in, &key, &out.out, NULL),
                   BD_OK);
  return out;
}

static void check_rows(const bd_routing *r, int64_t samples, const routed *found, const expected *e) {
  int64_t rows = samples * bd_routing_rows(r), expert = 0;
  const double *tokens = found->in[2].data;
  for (int64_t i = 0; i < rows; ++i) {
    while (expert < r->experts && e->ends[expert] <= i)
      ++expert;
    assert_true(found->out[6].data[i] == (double)expert);
    assert_true(found->out[1].data[i] == (double)e->from[i]);
    assert_true(found->out[2].data[i] == e->weight[i]);
    for (int64_t c = 0; c < WIDTH; ++c)
      assert_true(found->out[4].data[i * WIDTH + c] ==
                  (e->from[i] < 0 ? 0 : tokens[e->from[i] * WIDTH + c]));
  }
}

static void check_tokens(const bd_routing *r, int64_t samples, const routed *found) {
  const double *weights = found->in[1].data, *tokens = found->in[2].data;
  for (int64_t t = 0; t < samples * r->sequence; ++t)
    for (int64_t c = 0; c < WIDTH; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < r->choices; ++k)
        sum += weights[t * r->choices + k] * tokens[t * WIDTH + c];
      assert_true(found->out[5].data[t * WIDTH + c] == sum);
    }
}

static void check(bd_ctx *ctx, const bd_routing *r, int64_t samples, const routed *found) {
  expected e = sort(ctx, r, samples, found->in[0].data, found->in[1].data);
  for (int64_t i = 0; i < samples * r->sequence * r->choices; ++i)
    assert_true(found->out[0].data[i] == (double)e.to[i]);
  for (int64_t i = 0; i < samples * r->experts; ++i)
    assert_true(found->out[3].data[i] == (double)e.ends[i % r->experts]);
  check_rows(r, samples, found, &e);
  check_tokens(r, samples, found);
}

static void test_rows_sorted_by_expert(void **state) {
  static const struct {
    int64_t sequence, experts, choices, grain, rows;
  } cases[] = {
      {1, 2, 2, 1, 2},     {1, 4, 1, 1, 1},        {5, 3, 2, 1, 10},       {64, 4, 2, 4, 140},
      {64, 4, 4, 8, 280},  {300, 3, 3, 32, 992},   {512, 4, 2, 32, 1120},  {96, 32, 4, 1, 384},
      {256, 1, 1, 32, 256}, {2048, 2, 1, 128, 2176}, {100, 64, 8, 1, 800},
  };
  bd_ctx *ctx = *state;
  random_begin(3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    bd_routing r = {.sequence = cases[i].sequence,
                    .experts = cases[i].experts,
                    .choices = cases[i].choices};
    assert_int_equal(bd_routing_grain(&r), cases[i].grain);
    assert_int_equal(bd_routing_rows(&r), cases[i].rows);
    for (int64_t samples = 1; samples <= MOST_SAMPLES; ++samples)
      for (int pattern = 0; pattern < PATTERNS; ++pattern) {
        routed found = run(ctx, r, samples, (enum pattern)pattern);
        check(ctx, &r, samples, &found);
      }
  }
}

// The most rows that tokens can need: every expert that can be chosen has one token more than whole
// grains, and one of them the rest.
static void test_rows_suffice(void **state) {
  (void)state;
  for (int64_t experts = 1; experts <= 40; ++experts)
    for (int64_t count = 1; count <= 6000; count += 7) {
      bd_routing r = {.sequence = count, .experts = experts, .choices = 1};
      int64_t grain = bd_routing_grain(&r), chosen = experts < count ? experts : count;
      int64_t most = count + chosen * (grain - 1) - (count - chosen) % grain;
      assert_int_equal(bd_routing_rows(&r), most);
      assert_int_equal(most % grain, 0);
    }
}

static void test_too_many_places(void **state) {
  bd_ctx *ctx = *state;
  building b = {ctx, bd_function_create(ctx, "f")};
  bd_routed ids;
  bd_routing r = {.ctx = ctx,
                  .emit = emit,
                  .user = &b,
                  .sequence = (int64_t)1 << 28,
                  .experts = 128,
                  .choices = 8};
  assert_int_equal(bd_routing_emit(&r, 0, 0, &ids), BD_UNSUPPORTED);
  r.sequence = INT32_MAX / 8; // their rows are more, as experts' begin at whole grains
  assert_int_equal(bd_routing_emit(&r, 0, 0, &ids), BD_UNSUPPORTED);
  r.sequence = r.capacity = (int64_t)1 << 24;
  assert_int_equal(bd_routing_emit(&r, 0, 0, &ids), BD_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_rows_sorted_by_expert, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_rows_suffice, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_too_many_places, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
