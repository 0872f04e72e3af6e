// Runs tests of ONNX suites on the interpreter and, given a folder for it, on generated code, all
// of them as one program. Prints those that fail, and last `N passed, N failed`.
//   onnx_suite [--work WORK] ROOT LIST [ROOT LIST]..
// LIST: a test a line, the name of its folder beneath ROOT before a tab; '#' before remarks. WORK
// is a folder that holds runtime/.
#include "codegen/evaluation.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "ir/element.h"
#include "ir/memory.h"
#include "tests/suite/case.h"
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { MOST_CASES = 2048 };

typedef struct suite {
  bd_ctx *ctx;
  const char *work; // or NULL
  char **lists;     // roots and lists in turn, to NULL
  int count, failed, generated;
  suite_case cases[MOST_CASES];
  bool fails[MOST_CASES];
} suite;

static void fail_case(suite *s, int i, const char *where) {
  const suite_case *test = &s->cases[i];
  s->fails[i] = true;
  s->failed++;
  printf("%s: fails on %s%s%s\n", test->name, where, test->why ? ": " : "",
         test->why ? test->why : "");
  if (test->ctx) bd_diags_print(test->ctx, stdout, false);
}

static bd_status interpret_list(suite *s, const char *root, const char *list) {
  char *text;
  size_t bytes;
  BD_TRY(bd_file_read(s->ctx, list, (size_t)1 << 20, &text, &bytes));
  for (char *line = text; *line;) {
    size_t length = strcspn(line, "\n"), name = strcspn(line, "\t\n");
    const char *test = bd_intern(s->ctx, line, name);
    line += length + (line[length] == '\n');
    if (name == 0 || test[0] == '#') continue;
    if (s->count == MOST_CASES)
      return bd_fail(s->ctx, BD_UNSUPPORTED, bd_loc_file(list), "too many tests");
    int i = s->count++;
    if (!suite_case_interpret(&s->cases[i], test, bd_path_join(s->ctx, root, test)))
      fail_case(s, i, "the interpreter");
  }
  return BD_OK;
}

static bool is_generated(const suite *s, int i) {
  return !s->fails[i] && s->cases[i].program.function;
}

static int64_t bytes_of(const bd_tensor *tensor) {
  return bd_type_elements(&tensor->type, 1) * bd_dtype_bytes(tensor->type.dtype);
}

// The file IN: parameters one after another.
static bd_status write_parameters(suite *s) {
  bd_text text = bd_text_init(s->ctx->arena);
  for (int i = 0; i < s->count; i++) {
    const bd_function *function = s->cases[i].program.function;
    for (int k = 0; is_generated(s, i) && k < function->param_count; k++) {
      const bd_tensor *tensor = &s->cases[i].in[k];
      char *data = bd_arena_array(s->ctx->arena, bd_align(bytes_of(tensor)), 1);
      for (int64_t e = 0; e < bd_type_elements(&tensor->type, 1); e++)
        bd_element_write(tensor->type.dtype, data, e, tensor->data[e]);
      bd_text_add_n(&text, data, (size_t)bd_align(bytes_of(tensor)));
    }
  }
  return bd_file_write(s->ctx, bd_path_join(s->ctx, s->work, "in"), text.data, text.length);
}

static bd_status run_process(bd_ctx *ctx, const char *const *arguments) {
  pid_t child;
  int status = 1;
  char *const *list = (char *const *)(uintptr_t)arguments;
  if (posix_spawnp(&child, arguments[0], NULL, NULL, list, environ) != 0 ||
      waitpid(child, &status, 0) != child || status != 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "%s fails", arguments[0]);
  return BD_OK;
}

static bd_status build_and_run(suite *s) {
  const char *program = bd_path_join(s->ctx, s->work, "evaluate");
  const char *in = bd_path_join(s->ctx, s->work, "in"), *out = bd_path_join(s->ctx, s->work, "out");
  BD_TRY(run_process(s->ctx, (const char *[]){"make", "-s", "-j2", "-C", s->work, NULL}));
  return run_process(s->ctx, (const char *[]){program, in, out, NULL});
}

// The results of one function, from `data` on. Returns what follows them.
static const char *read_results(bd_ctx *ctx, const bd_function *function, const char *data,
                                bd_tensor *out) {
  for (int i = 0; i < function->result_count; i++) {
    bd_type type = function->values[function->results[i]].type;
    int64_t count = bd_type_elements(&type, 1);
    out[i] = (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, count)};
    for (int64_t e = 0; e < count; e++)
      out[i].data[e] = bd_element_read(type.dtype, data, e);
    data += bd_align(bytes_of(&out[i]));
  }
  return data;
}

static bd_status compare_all(suite *s) {
  bd_map map;
  bd_owned held;
  BD_TRY(bd_map_open(s->ctx, bd_path_join(s->ctx, s->work, "out"), &map));
  bd_own(s->ctx, &held, (void (*)(void *))bd_map_close, &map);
  const char *data = (const char *)map.data;
  for (int i = 0; i < s->count; i++) {
    const bd_function *function = s->cases[i].program.function;
    if (!is_generated(s, i)) continue;
    bd_tensor *results = BD_NEW_ARRAY(s->ctx->arena, bd_tensor, function->result_count);
    data = read_results(s->ctx, function, data, results);
    if (!suite_case_compare(&s->cases[i], results)) fail_case(s, i, "generated code");
  }
  bd_disown(s->ctx, &held);
  bd_map_close(&map);
  return BD_OK;
}

static bd_status generate_all(suite *s) {
  bd_module *module = bd_evaluation_create(s->ctx, 1);
  for (int i = 0; i < s->count; i++) {
    if (!is_generated(s, i)) continue;
    BD_TRY(bd_evaluation_add(s->ctx, module, s->cases[i].program.function));
    s->generated++;
  }
  BD_TRY(bd_emit_evaluation(s->ctx, module, s->work));
  BD_TRY(write_parameters(s));
  BD_TRY(build_and_run(s));
  return compare_all(s);
}

static bd_status run(bd_ctx *ctx, void *argument) {
  suite *s = argument;
  s->ctx = ctx;
  for (char **list = s->lists; *list; list += 2) {
    int before = s->count;
    BD_TRY(interpret_list(s, list[0], list[1]));
    printf("%d tests of %s\n", s->count - before, list[0]);
  }
  return s->work ? generate_all(s) : BD_OK;
}

int main(int argc, char **argv) {
  suite *s = calloc(1, sizeof *s);
  bd_ctx *ctx = bd_ctx_create();
  int first = argc > 2 && strcmp(argv[1], "--work") == 0 ? 3 : 1;
  if (argc - first < 2 || (argc - first) % 2 || !s || !ctx) {
    fprintf(stderr, "usage: onnx_suite [--work WORK] ROOT LIST [ROOT LIST]..\n");
    return 2;
  }
  s->work = first > 1 ? argv[2] : NULL;
  s->lists = argv + first;
  bd_status status = bd_ctx_run(ctx, run, s);
  bd_diags_print(ctx, stderr, false);
  if (status == BD_OK && s->work)
    printf("%d as generated code as well; all outputs of the others are known beforehand\n",
           s->generated);
  if (status == BD_OK) printf("%d passed, %d failed\n", s->count - s->failed, s->failed);
  int failed = status != BD_OK || s->failed > 0 || s->count == 0;
  for (int i = 0; i < s->count; i++)
    suite_case_end(&s->cases[i]);
  bd_ctx_destroy(ctx);
  free(s);
  return failed;
}
