// Generated GPU kernels, run thread by thread in the emulator: they agree with the reference, and
// every grid and every order of threads gives the same bits. Where the CUDA toolkit is there, they
// are assembled as well.
#include "tests/emulator/emulator.h"
#include "tests/emulator/lower.h"
#include "tests/unit/codegen/support_kernels.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_RUNS = 384, MAX_BUFFERS = BD_MAX_OPERANDS + BD_MAX_RESULTS + 1 };

typedef struct fixture {
  bd_ctx *ctx;
  int count, kernels;
  kernel_run runs[MAX_RUNS];
  bd_kernel_set *set;
  const char *folder, *stem;
  void *library;
} fixture;

static void add_run(fixture *f, const kernel_case *from, bd_dtype real, char letter) {
  kernel_run *run = &f->runs[f->count++];
  kernel_run_make(f->ctx, from, real, letter, true, f->kernels, run);
  f->kernels += run->kernel.parts;
}

static void make_set(fixture *f) {
  assert_int_equal(bd_kernel_set_create(f->ctx, true, "sm_80", &f->set), BD_OK);
  for (int i = 0; i < f->count; i++)
    assert_int_equal(bd_kernel_set_add(f->ctx, f->set, &f->runs[i].kernel), BD_OK);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  f->folder = bd_intern_z(f->ctx, folder);
  f->stem = bd_intern_f(f->ctx, "%s/k", folder);
  bd_status status = bd_kernel_set_write(f->ctx, f->set, f->stem);
  if (status != BD_OK) bd_diags_print(f->ctx, stderr, false);
  assert_int_equal(status, BD_OK);
}

static void load_in_emulator(fixture *f) {
  const char *object = bd_intern_f(f->ctx, "%s.o", f->stem);
  const char *library = bd_intern_f(f->ctx, "%s.so", f->stem);
  char *message = emulate_lower(bd_intern_f(f->ctx, "%s.ll", f->stem), object);
  if (message) fail_msg("%s", message);
  kernel_spawn((const char *[]){"cc", "-shared", "-o", library, object, NULL}, NULL);
  f->library = dlopen(library, RTLD_NOW);
  if (!f->library) fail_msg("%s", dlerror());
}

static void add_runs(fixture *f, const kernel_case *cases, int count) {
  for (int i = 0; i < count; i++) {
    add_run(f, &cases[i], BD_F32, 0);
    for (const char *letter = cases[i].letters; *letter; letter++)
      add_run(f, &cases[i], BD_F32, *letter);
    add_run(f, &cases[i], BD_BF16, cases[i].letters[0]);
  }
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  f->ctx = bd_ctx_create();
  add_runs(f, kernel_cases, kernel_case_count);
  add_runs(f, gpu_kernel_cases, gpu_kernel_case_count);
  make_set(f);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  bd_kernel_set_destroy(f->set);
  kernel_remove_outputs(f->ctx, f->folder, f->stem);
  bd_ctx_destroy(f->ctx);
  test_free(f);
  return 0;
}

static void launch(fixture *f, const kernel_run *r, emulate_grid grid, char *const *buffers,
                   const int64_t *range, const bd_rt_random *random) {
  for (int part = 0; part < r->kernel.parts; part++) {
    int number = r->kernel.number + part;
    bd_kernel_launch facts = bd_kernel_set_launch(f->set, number);
    assert_int_equal(facts.range_count, 2 * (r->map.loops ? r->map.loops : 1));
    assert_int_equal(facts.buffer_count,
                     r->kernel.in_count + r->kernel.out_count + r->kernel.scratch);
    grid.threads = facts.threads;
    emulate_kernel kernel;
    *(void **)&kernel = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", number));
    assert_non_null(kernel);
    void *const arguments[] = {(void *)(uintptr_t)buffers, (void *)(uintptr_t)range,
                               (void *)(uintptr_t)random};
    emulate_launch(kernel, grid, arguments);
  }
}

static char *copy_of(fixture *f, const char *data, int64_t bytes) {
  char *copy = bd_arena_alloc(f->ctx->arena, (size_t)bytes);
  memcpy(copy, data, (size_t)bytes);
  return copy;
}

// Runs on several grids, each from the same memory, the last into `buffers`.
static void run_grids(void *user, const kernel_run *r, char *const *buffers, const int64_t *range,
                      const bd_rt_random *random) {
  static const emulate_grid grids[] = {{.blocks = 1}, {.blocks = 13, .descending = true}};
  fixture *f = user;
  const bd_kernel *k = &r->kernel;
  int grid_count = sizeof grids / sizeof *grids;
  for (int g = 0; g < grid_count; g++) {
    char *mine[MAX_BUFFERS];
    memcpy(mine, buffers, (size_t)(k->in_count + k->out_count + k->scratch) * sizeof *mine);
    for (int i = k->in_count; i < k->in_count + k->out_count; i++)
      mine[i] = copy_of(f, buffers[i], kernel_value_bytes(r, k->out[i - k->in_count]));
    launch(f, r, grids[g], mine, range, random);
    if (g == 0) launch(f, r, (emulate_grid){.blocks = 3}, buffers, range, random);
    for (int i = 0; i < k->out_count; i++)
      if (memcmp(mine[k->in_count + i], buffers[k->in_count + i],
                 (size_t)kernel_value_bytes(r, k->out[i])))
        fail_msg("%s (%s; %s) split at loop %d: result %d depends on the grid",
                 bd_op_get_info(r->from->kind)->name, r->from->shapes, r->from->attributes, r->loop,
                 i);
  }
}

static void kernels_agree_with_the_reference_on_every_grid(void **state) {
  fixture *f = *state;
  load_in_emulator(f);
  for (int i = 0; i < f->count; i++)
    kernel_run_check(f->ctx, &f->runs[i], 17 + (uint64_t)i, run_grids, f);
  dlclose(f->library);
}

static const kernel_run *run_of_number(const fixture *f, int number) {
  for (int i = 0; i < f->count; i++) {
    const bd_kernel *k = &f->runs[i].kernel;
    if (number >= k->number && number < k->number + k->parts) return &f->runs[i];
  }
  fail_msg("no kernel %d", number);
  return NULL;
}

// Registers hold what a kernel works on, but for attention with the widest heads.
static bool may_spill(const kernel_run *r) {
  bool attention = r->from->kind == BD_OP_ATTENTION || r->from->kind == BD_OP_ATTENTION_GRAD;
  return attention && r->function->values[r->function->ops[0].in[0]].type.dims[3] > 128;
}

// ptxas names a kernel, then says what it keeps in memory.
static int check_spills(const fixture *f, const char *log) {
  static const char name[] = "Compiling entry function 'bdk_";
  char line[512];
  int number = -1, kernels = 0;
  FILE *file = fopen(log, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *at = strstr(line, name), *spill = strstr(line, "bytes stack frame, ");
    if (at) number = atoi(at + sizeof name - 1);
    if (!spill) continue;
    const kernel_run *r = run_of_number(f, number);
    kernels++;
    if (atoi(spill + strlen("bytes stack frame, ")) && !may_spill(r))
      fail_msg("kernel %d, %s (%s; %s): %s", number, bd_op_get_info(r->from->kind)->name,
               r->from->shapes, r->from->attributes, line);
  }
  fclose(file);
  return kernels;
}

static void kernels_assemble_without_spills(void **state) {
  const char *ptxas = "/usr/local/cuda/bin/ptxas";
  const fixture *f = *state;
  if (access(ptxas, X_OK)) skip();
  for (const char *const *arch = (const char *const[]){"sm_80", "sm_90", NULL}; *arch; arch++) {
    const char *log = bd_intern_f(f->ctx, "%s.log", f->stem);
    kernel_spawn((const char *[]){ptxas, "-v", bd_intern_f(f->ctx, "-arch=%s", *arch),
                                  bd_intern_f(f->ctx, "%s.ptx", f->stem), "-o",
                                  bd_intern_f(f->ctx, "%s.o", f->stem), NULL},
                 log);
    assert_int_equal(check_spills(f, log), f->kernels);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_agree_with_the_reference_on_every_grid),
      cmocka_unit_test(kernels_assemble_without_spills),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
