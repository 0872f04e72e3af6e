// Sharding problems: random small ones against exhaustive search, and the contest's example.
#include "planner/select/random.h"
#include "planner/select/select.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

#include "ir/base/file.h"
#include "ir/base/gzip.h"
#include "ir/base/text.h"

enum { MOST_NODES = 8, MOST_EDGES = 14, MOST_STRATEGIES = 4 };
#define FORBIDDEN_TEXT "1000000000000000000"

typedef struct sample {
  int nodes, edges, count[MOST_NODES];
  int from[MOST_EDGES], to[MOST_EDGES];
} sample;

// A row of `count` numbers below `most`; one in `forbid` is forbidden (0: none).
static void add_row(bd_text *text, uint64_t *random, int count, int most, int forbid) {
  bd_text_add(text, "[");
  for (int k = 0; k < count; k++) {
    if (k) bd_text_add(text, ",");
    if (forbid && bd_select_below(random, forbid) == 0)
      bd_text_add(text, FORBIDDEN_TEXT);
    else
      bd_text_addf(text, "%d", bd_select_below(random, most));
  }
  bd_text_add(text, "]");
}

static sample draw_sample(uint64_t *random) {
  sample s = {.nodes = 1 + bd_select_below(random, MOST_NODES)};
  s.edges = bd_select_below(random, MOST_EDGES + 1);
  for (int i = 0; i < s.nodes; i++)
    s.count[i] = 1 + bd_select_below(random, MOST_STRATEGIES);
  for (int e = 0; e < s.edges; e++) {
    s.from[e] = bd_select_below(random, s.nodes);
    s.to[e] = bd_select_below(random, s.nodes);
  }
  return s;
}

static void add_intervals(bd_text *text, uint64_t *random, const sample *s) {
  bd_text_add(text, "\"intervals\":[");
  for (int i = 0; i < s->nodes; i++) {
    int lower = bd_select_below(random, 8), upper = lower - 1 + bd_select_below(random, 6);
    bd_text_addf(text, "%s[%d,%d]", i ? "," : "", lower, upper);
  }
  bd_text_add(text, "]");
}

// The text of a random problem; edges may repeat, point backwards, or be loops.
static bd_text draw_text(bd_ctx *ctx, uint64_t *random, int forbid) {
  sample s = draw_sample(random);
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "{\"problem\":{\"edges\":{\"nodes\":[");
  for (int e = 0; e < s.edges; e++)
    bd_text_addf(&text, "%s[%d,%d]", e ? "," : "", s.from[e], s.to[e]);
  bd_text_add(&text, "],\"costs\":[");
  for (int e = 0; e < s.edges; e++) {
    if (e) bd_text_add(&text, ",");
    add_row(&text, random, s.count[s.from[e]] * s.count[s.to[e]], 60, forbid);
  }
  bd_text_add(&text, "]},\"nodes\":{");
  add_intervals(&text, random, &s);
  bd_text_add(&text, ",\"costs\":[");
  for (int i = 0; i < s.nodes; i++) {
    if (i) bd_text_add(&text, ",");
    add_row(&text, random, s.count[i], 40, 0);
  }
  bd_text_add(&text, "],\"usages\":[");
  for (int i = 0; i < s.nodes; i++) {
    if (i) bd_text_add(&text, ",");
    add_row(&text, random, s.count[i], 20, 0);
  }
  bd_text_add(&text, "]}}}");
  return text;
}

// Visits all choices; sets the least cost of those within the limit, and the least and largest
// peak.
typedef struct survey {
  int64_t cost, least_peak, largest_peak;
} survey;

static survey exhaust(bd_ctx *ctx, const bd_select_problem *p) {
  survey found = {INT64_MAX, INT64_MAX, 0};
  int choice[MOST_NODES] = {0};
  for (int at = 0; at >= 0;) {
    int64_t peak = bd_select_peak(ctx, p, choice, NULL), cost = bd_select_cost(p, choice);
    found.least_peak = peak < found.least_peak ? peak : found.least_peak;
    found.largest_peak = peak > found.largest_peak ? peak : found.largest_peak;
    if (peak <= p->limit && cost < found.cost) found.cost = cost;
    for (at = p->nodes - 1; at >= 0; at--) {
      if (++choice[at] < bd_select_strategies(p, at)) break;
      choice[at] = 0;
    }
  }
  return found;
}

static void check(bd_ctx *ctx, const bd_select_problem *p, int64_t optimum) {
  bd_select_answer answer;
  assert_int_equal(bd_select_solve(ctx, "random", p, BD_NO_DEADLINE, 2, &answer), BD_OK);
  assert_int_equal(answer.cost, bd_select_cost(p, answer.choice));
  assert_int_equal(answer.peak, bd_select_peak(ctx, p, answer.choice, NULL));
  assert_true(answer.peak <= p->limit);
  assert_true(answer.bound <= optimum);
  if (optimum >= p->forbidden) return;
  assert_int_equal(answer.cost, optimum);
  assert_int_equal(answer.bound, optimum);
}

// One random problem with no limit, and with limits between the least and the largest peak.
static void try_random(uint64_t seed, int forbid) {
  bd_ctx *ctx = bd_ctx_create();
  uint64_t random = bd_select_seed(seed);
  bd_text text = draw_text(ctx, &random, forbid);
  bd_select_problem p;
  assert_int_equal(bd_select_read(ctx, "random", text.data, text.length, &p), BD_OK);
  assert_true(bd_select_recognize(text.data, text.length));
  assert_int_equal(p.limit, INT64_MAX);
  survey all = exhaust(ctx, &p);
  check(ctx, &p, all.cost);
  for (int part = 0; part < 3; part++) {
    p.limit = all.least_peak + (all.largest_peak - all.least_peak) * part / 4;
    check(ctx, &p, exhaust(ctx, &p).cost);
  }
  if (all.least_peak > 0) {
    bd_select_answer answer;
    p.limit = all.least_peak - 1;
    assert_int_equal(bd_select_solve(ctx, "random", &p, BD_NO_DEADLINE, 1, &answer), BD_INFEASIBLE);
    assert_int_equal(ctx->error_count, 1);
  }
  bd_ctx_destroy(ctx);
}

static void equals_exhaustive_search(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 100; seed++)
    try_random(seed, 0);
}

static void equals_exhaustive_search_with_forbidden_pairs(void **state) {
  (void)state;
  for (uint64_t seed = 1001; seed <= 1100; seed++)
    try_random(seed, 4);
}

// All costs of a node or an edge, raised by a large one: units are not lost beside it.
static void raise_costs(bd_ctx *ctx, bd_select_problem *p) {
  const int64_t large = 100000000000000003;
  for (size_t s = 0; s < p->start[p->nodes]; s++)
    p->cost[s] += large;
  for (int e = 0; e < p->edges; e++) {
    int entries = bd_select_strategies(p, p->edge[e].from) * bd_select_strategies(p, p->edge[e].to);
    int64_t *raised = BD_NEW_ARRAY(ctx->arena, int64_t, entries);
    for (int k = 0; k < entries; k++)
      raised[k] = p->edge[e].matrix[k] + large;
    p->edge[e].matrix = raised;
  }
  p->forbidden = bd_select_forbidden(p);
}

static void large_costs_are_exact(void **state) {
  (void)state;
  for (uint64_t seed = 2001; seed <= 2100; seed++) {
    bd_ctx *ctx = bd_ctx_create();
    uint64_t random = bd_select_seed(seed);
    bd_text text = draw_text(ctx, &random, 0);
    bd_select_problem p;
    assert_int_equal(bd_select_read(ctx, "random", text.data, text.length, &p), BD_OK);
    raise_costs(ctx, &p);
    survey all = exhaust(ctx, &p);
    p.limit = all.least_peak + (all.largest_peak - all.least_peak) / 3;
    check(ctx, &p, exhaust(ctx, &p).cost);
    bd_ctx_destroy(ctx);
  }
}

// Twelve nodes that are forbidden whatever they do cost more than 64 bits can say; the thirteenth
// still takes the strategy that is not, though the other one uses less.
static void more_forbidden_costs_than_fit(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_text text = bd_text_init(ctx->arena);
  const char *const part[] = {"{\"problem\":{\"nodes\":{\"intervals\":[", "],\"costs\":[",
                              "],\"usages\":[", "]},\"edges\":{\"nodes\":[],\"costs\":[]}}}"};
  const char *const bad[] = {"[0,9]", "[" FORBIDDEN_TEXT "]", "[1]"};
  const char *const last[] = {"[0,9]", "[" FORBIDDEN_TEXT ",5]", "[0,1]"};
  for (int k = 0; k < 3; k++) {
    bd_text_add(&text, part[k]);
    for (int i = 0; i < 12; i++)
      bd_text_addf(&text, "%s,", bad[k]);
    bd_text_add(&text, last[k]);
  }
  bd_text_add(&text, part[3]);
  bd_select_problem p;
  bd_select_answer answer;
  assert_int_equal(bd_select_read(ctx, "many", text.data, text.length, &p), BD_OK);
  assert_int_equal(bd_select_solve(ctx, "many", &p, BD_NO_DEADLINE, 1, &answer), BD_OK);
  assert_int_equal(answer.choice[12], 1);
  assert_int_equal(answer.cost, INT64_MAX);
  assert_true(answer.forbidden);
  bd_ctx_destroy(ctx);
}

static const char example[] =
    "{\"problem\": {\"name\": \"example\", \"nodes\": {\"intervals\": [[30, 70], [40, 70],\n"
    "[50, 120], [110, 140], [110, 150]], \"costs\": [[15], [55, 65], [25, 45, 35], [85, 75],\n"
    "[95]], \"usages\": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]}, \"edges\": {\"nodes\":\n"
    "[[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]], \"costs\": [[30, 40], [50, 10, 40],\n"
    "[90, 10, 20, 80], [60, 20, 30], [70, 60]]}, \"usage_limit\": 50}}";

static void solves_the_example(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_select_problem p;
  assert_int_equal(bd_select_read(ctx, "example", example, sizeof example - 1, &p), BD_OK);
  assert_string_equal(p.name, "example");
  assert_int_equal(p.limit, 50);
  survey all = exhaust(ctx, &p);
  check(ctx, &p, all.cost);
  bd_ctx_destroy(ctx);
}

// An instance of the contest: its optimum, and the same answer whatever the threads.
static void try_instance(const char *path, int64_t optimum) {
  bd_ctx *ctx = bd_ctx_create();
  char *data;
  size_t bytes;
  bd_select_problem p;
  bd_select_answer one, two;
  assert_int_equal(bd_file_read(ctx, path, 1 << 20, &data, &bytes), BD_OK);
  assert_int_equal(bd_gzip_inflate(ctx, path, data, bytes, 1 << 24, &data, &bytes), BD_OK);
  assert_int_equal(bd_select_read(ctx, path, data, bytes, &p), BD_OK);
  assert_int_equal(bd_select_solve(ctx, path, &p, BD_NO_DEADLINE, 1, &one), BD_OK);
  assert_int_equal(bd_select_solve(ctx, path, &p, BD_NO_DEADLINE, 2, &two), BD_OK);
  assert_int_equal(one.cost, optimum);
  assert_int_equal(one.bound, optimum);
  assert_int_equal(bd_select_cost(&p, one.choice), optimum);
  assert_true(bd_select_peak(ctx, &p, one.choice, NULL) <= p.limit);
  assert_memory_equal(one.choice, two.choice, (size_t)p.nodes * sizeof *one.choice);
  bd_ctx_destroy(ctx);
}

static void proves_instances_of_the_contest(void **state) {
  (void)state;
  try_instance("tests/data/iopddl/asplos-2025-iopddl-B.json.gz", 532843);
  try_instance("tests/data/iopddl/asplos-2025-iopddl-G.json.gz", 217039);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(solves_the_example),
      cmocka_unit_test(proves_instances_of_the_contest),
      cmocka_unit_test(equals_exhaustive_search),
      cmocka_unit_test(equals_exhaustive_search_with_forbidden_pairs),
      cmocka_unit_test(more_forbidden_costs_than_fit),
      cmocka_unit_test(large_costs_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
