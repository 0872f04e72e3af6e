// Plans edited by hand: random edits of valid plan files. Each is refused with one diagnostic, or
// is a program that computes what the model does: its loss, and the gradient of every weight.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "ir/plan_notes.h"
#include "planner/planner.h"
#include "tests/unit/ir/support_program.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EDITS = 90, BATCH = 4, VOCABULARY = 11, MOST_RANKS = 16 };

typedef struct scene {
  bd_ctx *ctx;
  bd_module *train;
  bd_cluster cluster;
  int64_t reference_batch; // the micro-batch that the reference is for
  bd_tensor *in, *wanted;
  bd_random_key key;
  int refused, ran; // edits
} scene;

static bd_tensor random_tensor(bd_ctx *ctx, bd_type type, int64_t batch) {
  for (int i = 0; i < type.rank; i++)
    type.dims[i] = bd_extent(type.dims[i], batch);
  int64_t count = bd_type_elements(&type, batch);
  bd_tensor tensor = {type, BD_NEW_ARRAY(ctx->arena, double, count)};
  for (int64_t i = 0; i < count; i++)
    tensor.data[i] = bd_dtype_is_float(type.dtype) ? ((int)random_below(2001) - 1000) / 4000.0
                                                   : random_below(VOCABULARY);
  return tensor;
}

// Inputs and results of the model for one micro-batch, whatever the plan.
static void make_reference(scene *s, int64_t batch) {
  const bd_function *main = s->train->main;
  int given = s->train->input_count + s->train->weight_count;
  if (batch == s->reference_batch) return;
  s->reference_batch = batch;
  s->in = BD_NEW_ARRAY(s->ctx->arena, bd_tensor, given);
  for (int i = 0; i < given; i++)
    s->in[i] = random_tensor(s->ctx, main->values[main->params[i]].type, batch);
  assert_int_equal(bd_interpret_main(s->ctx, s->train, batch, s->in, 0.125, &s->key, &s->wanted),
                   BD_OK);
}

// A plan file without its predictions.
static char *plan_text(scene *s, const char *model, int stages, int axes, const int *sizes) {
  bd_plan_request request = {.model = model,
                             .target = "cpu",
                             .optimizer = "adamw",
                             .precision = BD_F32,
                             .global_batch = 2 * BATCH,
                             .micro_batch = BATCH,
                             .sequence = bd_module_sequence(s->train),
                             .limit_seconds = 60,
                             .stages = stages,
                             .schedule = -1,
                             .zero = -1,
                             .recompute = -1};
  bd_plan plan;
  request.mesh.axes = axes;
  for (int a = 0; a < axes; a++)
    request.mesh.size[a] = sizes[a];
  assert_int_equal(bd_plan_search(s->ctx, s->train, &s->cluster, &request, &plan), BD_OK);
  assert_int_equal(bd_plan_note(s->ctx, s->train, &plan), BD_OK);
  bd_text text = bd_text_init(s->ctx->arena);
  bd_plan_print(&plan, s->train, &text);
  char *end = strstr(text.data, ",\n  \"predicted\"");
  assert_non_null(end);
  memcpy(end, "\n}\n", 4);
  return text.data;
}

// The place of one of the occurrences of a word, or NULL.
static char *pick(char *text, const char *word) {
  int count = 0;
  for (char *at = strstr(text, word); at; at = strstr(at + 1, word))
    count++;
  if (!count) return NULL;
  int wanted = (int)random_below((unsigned)count);
  char *at = strstr(text, word);
  while (wanted-- > 0)
    at = strstr(at + 1, word);
  return at;
}

static void replace(char *text, char *at, size_t old, const char *with) {
  size_t length = strlen(with);
  memmove(at + length, at + old, strlen(at + old) + 1);
  memcpy(at, with, length);
  (void)text;
}

static void edit_split(char *text) {
  static const char letters[] = "-ABCDabcdefhijklmnopqrstuvwxyz";
  char *at = pick(text, "\"split\": \"");
  at += strlen("\"split\": \"");
  if (*at != '"')
    at[random_below(strcspn(at, "\""))] =
        random_below(2) ? '-' : letters[random_below(sizeof letters - 1)];
}

// A letter that another op of the file has: more often valid.
static void edit_split_likely(char *text) {
  char *from = pick(text, "\"split\": \"") + strlen("\"split\": \"");
  char *to = pick(text, "\"split\": \"") + strlen("\"split\": \"");
  if (*from != '"' && *to != '"') *to = *from;
}

static void edit_dims(char *text) {
  char *at = pick(text, "\"dims\": [") + strlen("\"dims\": [");
  char digit[2] = {(char)('0' + random_below(4)), 0};
  if (*at == 'n')
    replace(text, at, 4, digit);
  else if (*at >= '0' && *at <= '9')
    replace(text, at, 1, random_below(3) ? "null" : digit);
}

static void edit_saved(char *text) {
  char *at = pick(text, "\"saved\": ") + strlen("\"saved\": ");
  if (*at == 't')
    replace(text, at, 4, "false");
  else
    replace(text, at, 5, "true");
}

static void edit_digit(char *text) {
  size_t length = strlen(text);
  for (int tried = 0; tried < 1000; tried++) {
    char *at = &text[random_below(length)];
    if (*at < '0' || *at > '9') continue;
    *at = (char)('0' + random_below(10));
    return;
  }
}

static void edit_byte(char *text) {
  text[random_below(strlen(text))] = (char)(' ' + random_below(95));
}

// A line is dropped, doubled, or changes places with the next.
static void edit_line(char *text) {
  char *at = pick(text, "\n") + 1;
  size_t length = strcspn(at, "\n") + 1;
  char *line = malloc(2 * length + 1);
  memcpy(line, at, length);
  memcpy(line + length, at, length);
  line[2 * length] = 0;
  unsigned kind = random_below(3);
  if (strlen(at) > length) {
    if (kind == 0) replace(text, at, length, "");
    if (kind == 1) {
      replace(text, at, length, line);
    } else if (kind == 2) {
      size_t next = strcspn(at + length, "\n") + 1;
      memmove(at, at + length, next);
      memcpy(at + next, line, length);
    }
  }
  free(line);
}

static void edit(char *text) {
  static void (*const edits[])(char *) = {
      edit_split, edit_split, edit_split_likely, edit_split_likely, edit_dims, edit_dims, edit_dims,
      edit_saved, edit_saved, edit_saved,        edit_digit,        edit_byte, edit_line};
  for (unsigned i = 0; i < 1 + random_below(2); i++)
    edits[random_below(sizeof edits / sizeof *edits)](text);
}

// All the road from the file to the program of every stage.
static bd_status lower(scene *s, const char *text, bd_plan *out_plan, bd_module **out_spmd) {
  bd_module *sharded;
  BD_TRY(bd_plan_parse(s->ctx, "edited.json", text, strlen(text), s->train, out_plan));
  BD_TRY(bd_plan_check(s->ctx, s->train, out_plan));
  BD_TRY(bd_plan_check_ranks(s->ctx, &s->cluster, out_plan));
  BD_TRY(bd_plan_emitted(s->ctx, out_plan));
  BD_TRY(bd_plan_predict(s->ctx, s->train, &s->cluster, out_plan));
  BD_TRY(bd_plan_check_bytes(s->ctx, &s->cluster, 0, out_plan));
  BD_TRY(bd_apply_plan(s->ctx, s->train, out_plan, &sharded));
  BD_TRY(bd_module_verify(s->ctx, sharded));
  BD_TRY(bd_partition(s->ctx, sharded, out_spmd));
  return bd_module_verify(s->ctx, *out_spmd);
}

static void check_refusal(scene *s, bd_status status, const char *text) {
  int errors = 0;
  for (const bd_diag *d = s->ctx->first_diag; d; d = d->next)
    errors += d->severity == BD_ERROR && *d->message;
  if (errors != 1 || status == BD_INTERNAL || status == BD_EXHAUSTED) {
    bd_diags_print(s->ctx, stderr, false);
    print_error("%d diagnostics, status %d, for\n%s", errors, status, text);
  }
  assert_int_equal(errors, 1);
  assert_true(status != BD_INTERNAL && status != BD_EXHAUSTED);
}

static void try_edit(scene *s, const char *good) {
  size_t length = strlen(good);
  char *text = malloc(3 * length + 1024);
  memcpy(text, good, length + 1);
  do {
    edit(text);
  } while (strcmp(text, good) == 0);
  s->ctx->first_diag = s->ctx->last_diag = NULL;
  bd_plan plan;
  bd_module *spmd;
  bd_status status = lower(s, text, &plan, &spmd);
  if (status != BD_OK) {
    check_refusal(s, status, text);
    s->refused++;
  } else if (bd_plan_ranks(&plan) <= MOST_RANKS && plan.micro_batch <= 2 * BATCH) {
    make_reference(s, plan.micro_batch);
    double difference = program_difference(s->ctx, spmd, s->in, 0.125, &s->key, s->wanted);
    if (difference > 1e-9) print_error("off by %g\n%s", difference, text);
    assert_true(difference <= 1e-9);
    s->ran++;
  }
  free(text);
}

typedef struct shape {
  int stages, axes, sizes[2];
} shape;

static void try_edits(const char *model, int count, const shape *shapes) {
  scene s = {.ctx = bd_ctx_create()};
  bd_model_options options = {.sequence = 6, .vocabulary = VOCABULARY};
  bd_module *graph;
  random_begin(11);
  s.key.seed = 5;
  assert_int_equal(bd_model_load(s.ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(s.ctx, graph, &s.train), BD_OK);
  for (int i = 0; i < count; i++) {
    int devices =
        shapes[i].stages * shapes[i].sizes[0] * (shapes[i].axes > 1 ? shapes[i].sizes[1] : 1);
    assert_int_equal(bd_cluster_load(s.ctx, bd_intern_f(s.ctx, "cpu:1x%d", devices), &s.cluster),
                     BD_OK);
    char *good = plan_text(&s, model, shapes[i].stages, shapes[i].axes, shapes[i].sizes);
    bd_arena *home = s.ctx->arena;
    for (int k = 0; k < EDITS; k++) {
      s.ctx->arena = bd_ctx_create_arena(s.ctx);
      s.reference_batch = 0;
      try_edit(&s, good);
      bd_arena_destroy(s.ctx->arena);
      s.ctx->arena = home;
    }
  }
  print_message("%d edits refused, %d ran\n", s.refused, s.ran);
  assert_true(s.refused >= count * EDITS / 3 && s.ran >= count * EDITS / 6);
  bd_ctx_destroy(s.ctx);
}

static void test_edits(void **unused) {
  (void)unused;
  try_edits("gpt2-tiny", 3, (const shape[]){{1, 1, {2}}, {2, 1, {2}}, {1, 2, {2, 2}}});
}

// Two query heads of each of two key-value heads.
static void test_edits_of_grouped_heads(void **unused) {
  (void)unused;
  try_edits("llama-tiny", 1, (const shape[]){{1, 2, {2, 2}}});
}

// Rows of experts that drop no token, which count over the samples of a rank.
static void test_edits_of_experts(void **unused) {
  (void)unused;
  try_edits("tests/unit/planner/experts", 2, (const shape[]){{1, 1, {2}}, {1, 2, {2, 2}}});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_edits),
                                     cmocka_unit_test(test_edits_of_experts),
                                     cmocka_unit_test(test_edits_of_grouped_heads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
