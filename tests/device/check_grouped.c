// Products of rows in groups on the fake device, in a program's step, against plain loops: whatever
// the ends are, and in whatever order its streams go on. Where a number must not be read lies NaN,
// where none must be written the mark that was there.
#include "runtime/float8.h"
#include "runtime/half.h"
#include "runtime/rank.h"
#include "tests/device/children.h"
#include "tests/runtime/memory.h"

#include <math.h>

enum {
  SEEDS = 6,
  PROCESSORS = 2, // groups of more than 128 rows are large
  GROUPS = 5,
  MOST_ENDS = 64,
  MOST = 1 << 15, // numbers of an operand
  LIBRARY_BYTES = 16 << 20,
  GRADIENT = LIBRARY_BYTES,
  GROWN = 3 * 8 * 12,        // numbers of the gradient
  ROUNDED = GRADIENT + 8192, // room for factors in 8 bits
  OPERANDS = ROUNDED + 2 * MOST + 1024,
  ARENA_BYTES = OPERANDS + (8 * MOST + 2 * MOST_ENDS) * 4,
};
static const float MARK = 77;

typedef struct operand {
  float host[MOST];
  uint16_t halves[MOST];
  char *staged, *device; // its bytes, where the host leaves and finds them, and where products do
} operand;

static operand x, y, w, dw;
static operand *const operands[] = {&x, &y, &w, &dw};
static float expected[MOST], got[MOST];

// --- Operands on the device, of one dtype each.

static void stage(operand *o, int dtype) {
  for (int i = 0; i < MOST; i++) {
    o->halves[i] = bd_rt_to_half(dtype, o->host[i]);
    if (bd_rt_is_half(dtype)) o->host[i] = bd_rt_from_half(dtype, o->halves[i]);
  }
  if (bd_rt_is_half(dtype))
    check_copy(o->staged, o->halves, sizeof o->halves);
  else
    check_copy(o->staged, o->host, sizeof o->host);
}

// The device brings them just before a product, and takes the result away just after, so that a
// missing wait shows.
static void bring(operand *o) {
  bd_rt_copy(check_rank, o->device, o->staged, sizeof o->host);
}

static void fetch(operand *o, int dtype) {
  bd_rt_copy(check_rank, o->staged, o->device, sizeof o->host);
  if (dtype == BD_RT_F32) {
    check_copy(got, o->staged, sizeof got);
    return;
  }
  check_copy(o->halves, o->staged, sizeof o->halves);
  for (int i = 0; i < MOST; i++)
    got[i] = bd_rt_from_half(dtype, o->halves[i]);
}

static void fill(operand *o, float value) {
  for (int i = 0; i < MOST; i++)
    o->host[i] = value;
}

// Small integers, whose sums have the same bits in every order; those that are for 8 bits have more
// digits than these.
static float number(const bd_rt_grouped *s, int64_t at) {
  return (float)(s->f8[0] ? at * 7 % 61 - 30 : at * 7 % 5 - 2);
}

static float rounded(int dtype, float value) {
  return bd_rt_is_half(dtype) ? bd_rt_from_half(dtype, bd_rt_to_half(dtype, value)) : value;
}

// --- Problems.

typedef struct problem {
  const char *name;
  bd_rt_grouped shape;
  int32_t ends[GROUPS];
} problem;

#define SHAPE                                                                                      \
  .rows = 300, .groups = GROUPS, .n = 12, .k = 8, .grain = 1, .x_row = 8, .y_row = 12,             \
  .w_group = 96, .w_k = 12, .w_n = 1
#define PADDED                                                                                     \
  .rows = 300, .groups = GROUPS, .n = 12, .k = 8, .grain = 1, .x_row = 9, .y_row = 15,             \
  .w_group = 131, .w_k = 16, .w_n = 1
#define TURNED                                                                                     \
  .rows = 300, .groups = GROUPS, .n = 12, .k = 8, .grain = 1, .x_row = 8, .y_row = 12,             \
  .w_group = 101, .w_k = 1, .w_n = 8

static const problem problems[] = {
    {"even groups", {SHAPE}, {60, 120, 180, 240, 300}},
    {"empty groups", {SHAPE}, {0, 130, 130, 131, 300}},
    {"groups that are empty side by side", {SHAPE}, {9, 130, 130, 131, 290}},
    {"all rows in one group", {SHAPE}, {0, 0, 300, 300, 300}},
    {"few rows", {SHAPE}, {10, 20, 30, 40, 50}},
    {"no rows", {SHAPE}, {0}},
    {"ends that decrease or lie outside", {SHAPE}, {50, 20, -7, 1000, 3}},
    {"negative ends", {SHAPE}, {-1, -20, -7, -1, 3}},
    {"ends at the limits of their type", {SHAPE}, {-5, INT32_MAX, 10, INT32_MIN, 250}},
    {"one group with rows, and few", {SHAPE}, {0, 0, 1, 1, 1}},
    {"ends beyond all rows", {SHAPE}, {7, 301, 302, 400, 4000}},
    {"rows with gaps", {PADDED}, {3, 140, 140, 209, 281}},
    {"rows with gaps to the last", {PADDED}, {0, 1, 77, 300, 300}},
    {"matrices along k", {TURNED}, {3, 140, 140, 209, 281}},
    {"numbers in the place of rows",
     {.rows = 33,
      .groups = 3,
      .grain = 1,
      .n = 1,
      .k = 1,
      .x_row = 1,
      .y_row = 1,
      .w_group = 1,
      .w_k = 1,
      .w_n = 1},
     {5, 5, 31}},
    {"rows of uneven length",
     {.rows = 20,
      .groups = 2,
      .grain = 1,
      .n = 1029,
      .k = 3,
      .x_row = 8,
      .y_row = 1032,
      .w_group = 3 * 1032,
      .w_k = 1032,
      .w_n = 1},
     {7, 18}},
    {"sums of uneven length",
     {.rows = 20,
      .groups = 2,
      .grain = 1,
      .n = 3,
      .k = 1029,
      .x_row = 1032,
      .y_row = 8,
      .w_group = 1029 * 8,
      .w_k = 8,
      .w_n = 1},
     {7, 18}},
};

#define GRAINS                                                                                     \
  .rows = 320, .groups = GROUPS, .n = 16, .k = 32, .grain = 16, .f8 = {BD_RT_E4M3, BD_RT_E5M2}

// In 8 bits, all but the last.
static const problem grains[] = {
    {"groups in grains",
     {GRAINS, .x_row = 32, .y_row = 16, .w_group = 512, .w_k = 16, .w_n = 1},
     {64, 64, 80, 240, 304}},
    {"groups that end within grains, with gaps",
     {GRAINS, .x_row = 40, .y_row = 32, .w_group = 1040, .w_k = 32, .w_n = 1},
     {1, 17, 30, 31, 250}},
    {"groups in grains that decrease, with gaps",
     {GRAINS, .x_row = 40, .y_row = 32, .w_group = 1040, .w_k = 32, .w_n = 1},
     {50, 20, -7, 1000, 3}},
    {"matrices along k in grains",
     {GRAINS, .x_row = 32, .y_row = 16, .w_group = 768, .w_k = 1, .w_n = 48},
     {16, 16, 16, 16, 320}},
    {"rows along n that no grain fits",
     {GRAINS, .x_row = 32, .y_row = 24, .w_group = 512, .w_k = 16, .w_n = 1},
     {64, 64, 80, 240, 304}},
};

// A row is group g's from *first on; returns where the group ends.
static int64_t end_of(const problem *p, int64_t g, int64_t *first) {
  const bd_rt_grouped *const s = &p->shape;
  int64_t last = 0;
  for (int64_t i = 0; i <= g; i++) {
    *first = last;
    while (last < p->ends[i] && last < s->rows)
      last += s->grain;
  }
  return last;
}

static int64_t x_at(const bd_rt_grouped *s, int64_t r, int64_t k) {
  return r * s->x_row + k;
}

static int64_t y_at(const bd_rt_grouped *s, int64_t r, int64_t n) {
  return r * s->y_row + n;
}

static int64_t w_at(const bd_rt_grouped *s, int64_t g, int64_t k, int64_t n) {
  return g * s->w_group + k * s->w_k + n * s->w_n;
}

// Numbers in the rows that are in groups, NaN elsewhere; in 8 bits the other rows count, and are 0.
static void set_rows(const problem *p) {
  const bd_rt_grouped *const s = &p->shape;
  int64_t first;
  const int64_t last = end_of(p, s->groups - 1, &first);
  fill(&x, NAN);
  fill(&y, NAN);
  for (int64_t r = 0; r < (s->f8[0] ? s->rows : last); r++) {
    for (int64_t k = 0; k < s->k; k++)
      x.host[x_at(s, r, k)] = r < last ? number(s, r * 11 + k) : 0;
    for (int64_t n = 0; n < s->n; n++)
      y.host[y_at(s, r, n)] = r < last ? number(s, r * 13 + n * 3) : 0;
  }
}

static void set_matrices(const bd_rt_grouped *s) {
  fill(&w, NAN);
  for (int64_t g = 0; g < s->groups; g++)
    for (int64_t k = 0; k < s->k; k++)
      for (int64_t n = 0; n < s->n; n++)
        w.host[w_at(s, g, k, n)] = number(s, g * 17 + k * 2 + n);
}

static void expect_rows(const problem *p) {
  const bd_rt_grouped *const s = &p->shape;
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t n = 0; n < s->n; n++)
      expected[y_at(s, r, n)] = 0;
  for (int64_t g = 0; g < s->groups; g++) {
    int64_t first;
    const int64_t last = end_of(p, g, &first);
    for (int64_t r = first; r < last; r++)
      for (int64_t n = 0; n < s->n; n++) {
        float sum = 0;
        for (int64_t k = 0; k < s->k; k++)
          sum += x.host[x_at(s, r, k)] * w.host[w_at(s, g, k, n)];
        expected[y_at(s, r, n)] = rounded(s->out_dtype, sum);
      }
  }
}

static void expect_weights(const problem *p, int adds) {
  const bd_rt_grouped *const s = &p->shape;
  for (int64_t g = 0; g < s->groups; g++)
    for (int64_t k = 0; k < s->k; k++)
      for (int64_t n = 0; n < s->n; n++) {
        float *const out = &expected[w_at(s, g, k, n)];
        float sum = adds ? *out : 0;
        int64_t first;
        const int64_t last = end_of(p, g, &first);
        for (int64_t r = first; r < last; r++)
          sum += x.host[x_at(s, r, k)] * y.host[y_at(s, r, n)];
        *out = rounded(s->out_dtype, sum);
      }
}

// What a product in 8 bits makes of its factors: numbers of up to five digits keep four, or three.
// They are at most 30, by which the scale is this; of so few digits any other rounds alike.
static void round_operand(const bd_rt_grouped *s, int format, operand *o) {
  const float scale = format == BD_RT_E4M3 ? 8 : 1024;
  if (!bd_rt_is_f8_grouped(s)) return;
  for (int i = 0; i < MOST; i++)
    o->host[i] = bd_rt_from_f8(format, bd_rt_to_f8(format, o->host[i] * scale)) / scale;
}

static void mark(int out_dtype, operand *o) {
  fill(o, MARK);
  stage(o, out_dtype);
  for (int i = 0; i < MOST; i++)
    expected[i] = MARK;
}

static void compare(const char *what, const problem *p, int accumulate) {
  char text[256];
  snprintf(text, sizeof text, "%s of %s, dtype %d to %d%s", what, p->name, p->shape.dtype,
           p->shape.out_dtype, accumulate ? ", added" : "");
  check_true(text, !memcmp(got, expected, sizeof got));
}

// --- What a step does.

static int32_t *source_ends, *device_ends;

// The ends are written just before, by the device.
static const int32_t *brought(bd_rt *rt, const problem *p, int64_t at) {
  const int64_t count = p->shape.groups;
  const size_t bytes = (size_t)count * sizeof *p->ends;
  check_copy(source_ends, p->ends, bytes);
  bd_rt_copy(rt, device_ends, source_ends, (int64_t)bytes);
  const int32_t *const ends = bd_rt_fetch_ends(rt, at, device_ends, count);
  if (!check_muted) check_true("the ends are brought", !memcmp(ends, p->ends, bytes));
  return ends;
}

static void check_rows(bd_rt *rt, const problem *p, const int32_t *ends) {
  stage(&x, p->shape.dtype);
  stage(&w, p->shape.dtype);
  mark(p->shape.out_dtype, &y);
  round_operand(&p->shape, p->shape.f8[0], &x);
  round_operand(&p->shape, p->shape.f8[1], &w);
  expect_rows(p);
  bring(&y), bring(&w), bring(&x);
  bd_rt_grouped_rows(rt, &p->shape, x.device, w.device, ends, y.device);
  fetch(&y, p->shape.out_dtype);
  compare("rows", p, 0);
}

static void check_weights(bd_rt *rt, problem *p, const int32_t *ends, int accumulate) {
  stage(&x, p->shape.dtype);
  stage(&y, p->shape.dtype);
  mark(p->shape.out_dtype, &dw);
  round_operand(&p->shape, p->shape.f8[0], &x);
  round_operand(&p->shape, p->shape.f8[1], &y);
  expect_weights(p, accumulate);
  bring(&dw), bring(&y), bring(&x);
  p->shape.accumulate = accumulate;
  bd_rt_grouped_weights(rt, &p->shape, x.device, y.device, ends, dw.device);
  fetch(&dw, p->shape.out_dtype);
  compare("weights", p, accumulate);
}

static void check_problem(bd_rt *rt, const problem *one, int dtype, int out_dtype, int64_t at) {
  problem p = *one;
  p.shape.dtype = dtype, p.shape.out_dtype = out_dtype;
  p.shape.f8_room = bd_rt_arena(rt) + ROUNDED;
  const int32_t *const ends = brought(rt, &p, at);
  set_rows(&p);
  set_matrices(&p.shape);
  check_rows(rt, &p, ends);
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    set_rows(&p);
    check_weights(rt, &p, ends, accumulate);
  }
}

// What the first product of a step adds to a gradient is all of it: also of a group without rows.
static void check_gradient(bd_rt *rt) {
  static float numbers[GROWN], sums[GROWN];
  const problem p = {"a gradient",
                     {.rows = 60,
                      .groups = 3,
                      .grain = 1,
                      .n = 12,
                      .k = 8,
                      .x_row = 8,
                      .y_row = 12,
                      .w_group = 96,
                      .w_k = 12,
                      .w_n = 1,
                      .accumulate = 1},
                     {20, 20, 50}};
  char *const gradient = bd_rt_arena(rt) + GRADIENT;
  for (int i = 0; i < GROWN; i++)
    numbers[i] = NAN;
  const int32_t *const ends = brought(rt, &p, 0);
  set_rows(&p);
  stage(&x, BD_RT_F32);
  stage(&y, BD_RT_F32);
  bring(&x), bring(&y);
  memset(expected, 0, sizeof expected);
  for (int micro_batch = 0; micro_batch < 2; micro_batch++)
    expect_weights(&p, 1);
  check_copy(gradient, numbers, sizeof numbers);
  for (int micro_batch = 0; micro_batch < 2; micro_batch++)
    bd_rt_grouped_weights(rt, &p.shape, x.device, y.device, ends, gradient);
  check_copy(sums, gradient, sizeof sums);
  if (!check_muted)
    check_true("the first of a step overwrites a gradient", !memcmp(sums, expected, sizeof sums));
}

static int walks;
static int64_t asked_before; // of the heuristic, the first step

static void begin(bd_rt *rt) {
  char *at = bd_rt_arena(rt) + OPERANDS;
  check_rank = rt;
  check_muted = walks++ < check_rehearsals;
  if (!check_muted && !asked_before) asked_before = bd_fake_count.heuristics;
  for (int i = 0; i < 4; i++) {
    operands[i]->staged = at;
    operands[i]->device = at + sizeof operands[i]->host;
    at += 2 * sizeof operands[i]->host;
  }
  source_ends = (int32_t *)(void *)at;
  device_ends = source_ends + MOST_ENDS;
}

static void step(bd_rt *rt) {
  static const int dtypes[][2] = {{BD_RT_F32, BD_RT_F32},
                                  {BD_RT_BF16, BD_RT_BF16},
                                  {BD_RT_F16, BD_RT_F16},
                                  {BD_RT_BF16, BD_RT_F32},
                                  {BD_RT_F16, BD_RT_F32}};
  begin(rt);
  check_gradient(rt);
  const size_t count = sizeof problems / sizeof *problems;
  for (size_t i = 0; i < count; i++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
      check_problem(rt, &problems[i], dtypes[d][0], dtypes[d][1], i % 2 ? MOST_ENDS - GROUPS : 0);
  for (size_t i = 0; i < sizeof grains / sizeof *grains; i++)
    for (int out_dtype = BD_RT_F32; out_dtype <= BD_RT_BF16; out_dtype++) {
      check_true("what is in 8 bits", bd_rt_is_f8_grouped(&grains[i].shape) == (i < 4));
      check_problem(rt, &grains[i], BD_RT_BF16, out_dtype, 0);
    }
}

// --- The program.

static const bd_rt_weight_series gradient_weight = {
    .first = {.stored_name = "w",
              .stored_rank = 1,
              .stored_dims = {GROWN},
              .slice_dim = -1,
              .layout = {BD_RT_F32, 1, {GROWN}, {-1, -1, -1, -1}},
              .weight_offset = GRADIENT + 2048,
              .gradient_count = 1,
              .gradient_offsets = (const int64_t[]){GRADIENT},
              .gradient_partial = (const uint32_t[]){1},
              .state_offset = GRADIENT + 4096,
              .state_elements = GROWN,
              .init = BD_RT_INIT_NORMAL,
              .init_scale = 1,
              .tied_stage = -1}};
static const bd_rt_weight_run run = {1, 1, &gradient_weight};

static char data[64], tuned[80];
static void (*chosen_step)(bd_rt *rt) = step;

static int train(const char *tune) {
  const bd_rt_stage stage = {.arena_bytes = ARENA_BYTES,
                             .library_bytes = LIBRARY_BYTES,
                             .most_ends = MOST_ENDS,
                             .weight_count = 1,
                             .run_count = 1,
                             .runs = &run,
                             .step = chosen_step};
  const bd_rt_program program = {.version = BD_RT_VERSION,
                                 .model = "grouped",
                                 .stages = 1,
                                 .axes = 1,
                                 .mesh = {1},
                                 .threads_per_rank = 1,
                                 .global_batch = 1,
                                 .micro_batch = 1,
                                 .sequence = 8,
                                 .optimizer = BD_RT_ADAMW,
                                 .vocabulary = 1 << 16,
                                 .tensors = 1,
                                 .device_code = data, // of which it has no kernels
                                 .stage = &stage};
  char *all[] = {"grouped", "--data", data, "--steps", "2", "--tune", (char *)(uintptr_t)tune,
                 NULL};
  const int status = bd_rt_main(tune ? 7 : 5, all, &program);
  check_muted = 0;
  return status;
}

static void trains(int rank) {
  children_set("BD_FAKE_PROCESSORS", PROCESSORS);
  check_true("the program trains", train(NULL) == 0 && walks == 3);
  if (!bd_fake_setting("BD_FAKE_REFUSES", 0))
    check_true("steps ask for no algorithm", bd_fake_count.heuristics == asked_before);
  check_true("nothing is left", bd_fake_count.handles == 0 && bd_fake_count.device_bytes == 0 &&
                                    bd_fake_count.pinned_bytes == 0);
}

static void trains_with_refusals(int rank) {
  children_set("BD_FAKE_REFUSES", 1);
  trains(rank);
}

static void trains_at_once(int rank) {
  children_set("BD_FAKE_LINGERS", 1);
  trains(rank);
}

static void trains_in_one_stream(int rank) {
  children_set("BRAID_FAN", 0);
  trains(rank);
}

static void trains_tuned(int rank) {
  children_set("BD_FAKE_PROCESSORS", PROCESSORS);
  children_set("BD_FAKE_PRODUCT_MICROS", 100000);
  check_true("the program is tuned and trains", train(tuned) == 0);
}

// --- How many sizes the heuristic is asked for, and whether it matters which came before.

enum { MOST_ROWS = 2100 };

static void multiply(bd_rt *rt, int64_t rows) {
  problem p = {"one group",
               {.rows = MOST_ROWS,
                .groups = 1,
                .grain = 1,
                .n = 8,
                .k = 8,
                .x_row = 8,
                .y_row = 8,
                .w_group = 64,
                .w_k = 8,
                .w_n = 1},
               {(int32_t)rows}};
  const int32_t *const ends = brought(rt, &p, 0);
  bd_rt_grouped_rows(rt, &p.shape, x.device, w.device, ends, y.device);
  bd_rt_grouped_weights(rt, &p.shape, x.device, y.device, ends, dw.device);
  bd_rt_settle(rt);
}

static void step_of_sizes(bd_rt *rt) {
  begin(rt);
  multiply(rt, MOST_ROWS);
  // 16, 32, 64, 16 times 128, and 256: of rows and of weights. None as steps go on.
  if (!check_muted) check_true("few sizes are asked for", bd_fake_count.heuristics == 2 * 20);
  for (int64_t rows = 1; rows <= MOST_ROWS && !check_muted; rows += rows < 300 ? 1 : 7)
    multiply(rt, rows);
  if (!check_muted) check_true("no step asks for more", bd_fake_count.heuristics == 2 * 20);
}

static void asks_for_few_sizes(int rank) {
  chosen_step = step_of_sizes;
  check_true("sizes train", train(NULL) == 0);
}

static int has_history;

// What the algorithms of some sizes add up to.
static void step_of_history(bd_rt *rt) {
  int64_t *const digests = children_shared;
  begin(rt);
  multiply(rt, MOST_ROWS);
  for (int64_t rows = MOST_ROWS; rows > 0 && has_history && !check_muted; rows -= 11)
    multiply(rt, rows);
  const int64_t before = bd_fake_algorithms_digest();
  for (int64_t rows = 1; rows <= MOST_ROWS && !check_muted; rows += 97)
    multiply(rt, rows);
  if (walks == 2) digests[has_history] = bd_fake_algorithms_digest() - before;
}

static void notes_algorithms(int rank) {
  children_set("BD_FAKE_REFUSES", 1);
  chosen_step = step_of_history;
  check_true("history trains", train(NULL) == 0);
}

static void check_history(void) {
  int64_t *const digests = children_shared;
  for (has_history = 0; has_history < 2; has_history++)
    children_pass("algorithms", 1, 1, notes_algorithms);
  check_true("algorithms do not depend on what came before",
             digests[0] && digests[0] == digests[1]);
}

// --- Ends without room.

static void step_beyond(bd_rt *rt) {
  begin(rt);
  bd_rt_fetch_ends(rt, MOST_ENDS - 1, device_ends, 2);
}

static void goes_beyond(int rank) {
  chosen_step = step_beyond;
  _exit(train(NULL));
}

// Whether a body fails under some seed when the waits of the first stream (1), or of the others
// (2), are forgotten.
static int fails_without(int waits, children_body body) {
  int fails = 0;
  children_set("BD_FAKE_FORGET_WAITS", waits);
  for (int seed = 0; seed < SEEDS && !fails; seed++)
    fails = children_run(1, seed, body).status[0] != 0;
  children_set("BD_FAKE_FORGET_WAITS", 0);
  return fails;
}

int main(void) {
  check_write_text(data, sizeof data);
  snprintf(tuned, sizeof tuned, "%s.tune", data);
  children_share(4096);
  for (int seed = 0; seed < SEEDS; seed++)
    children_pass("grouped products", 1, seed, trains);
  children_pass("grouped products whose algorithms are refused", 1, 1, trains_with_refusals);
  children_pass("grouped products that run at once", 1, 1, trains_at_once);
  children_pass("tuning", 1, 1, trains_tuned);
  children_pass("what was tuned", 1, 2, trains_tuned);
  children_pass("sizes", 1, 1, asks_for_few_sizes);
  check_history();
  check_true("a missing join is found", fails_without(1, trains));
  check_true("a missing fork is found", fails_without(2, trains));
  check_true("one stream needs neither", !fails_without(1, trains_in_one_stream));
  const children_end beyond = children_run(1, 1, goes_beyond);
  check_true("ends without room", beyond.status[0] == BD_RT_EXIT_INTERNAL &&
                                      strstr(beyond.text, "2 ends of groups at 63, of 64"));
  check_remove(tuned);
  check_remove(data);
  return check_result(0);
}
