// Generated GPU kernels, run thread by thread in the emulator: they agree with the reference, and
// every grid and every order of threads gives the same bits.
#include "tests/emulator/emulator.h"
#include "tests/emulator/lower.h"
#include "tests/unit/codegen/support_gpu.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BUFFERS = BD_MAX_OPERANDS + BD_MAX_RESULTS + 1 };

typedef struct fixture {
  gpu_set all;
  void *library;
} fixture;

static void load_in_emulator(fixture *f) {
  const char *object = bd_intern_f(f->all.ctx, "%s.o", f->all.stem);
  const char *library = bd_intern_f(f->all.ctx, "%s.so", f->all.stem);
  char *message = emulate_lower(bd_intern_f(f->all.ctx, "%s.ll", f->all.stem), object);
  if (message) fail_msg("%s", message);
  kernel_spawn((const char *[]){"cc", "-shared", "-o", library, object, NULL}, NULL);
  f->library = dlopen(library, RTLD_NOW);
  if (!f->library) fail_msg("%s", dlerror());
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  gpu_set_open(&f->all);
  load_in_emulator(f);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  gpu_set_close(&f->all);
  test_free(f);
  return 0;
}

static void launch(fixture *f, const kernel_run *r, emulate_grid grid, char *const *buffers,
                   const int64_t *range, const bd_rt_random *random) {
  for (int part = 0; part < r->kernel.parts; part++) {
    int number = r->kernel.number + part;
    bd_kernel_launch facts = bd_kernel_set_launch(f->all.set, number);
    assert_int_equal(facts.range_count, 2 * (r->map.loops ? r->map.loops : 1));
    assert_int_equal(facts.buffer_count,
                     r->kernel.in_count + r->kernel.out_count + r->kernel.scratch);
    grid.threads = facts.threads;
    emulate_kernel kernel;
    *(void **)&kernel = dlsym(f->library, bd_intern_f(f->all.ctx, "bdk_%d", number));
    assert_non_null(kernel);
    void *const arguments[] = {(void *)(uintptr_t)buffers, (void *)(uintptr_t)range,
                               (void *)(uintptr_t)random};
    emulate_launch(kernel, grid, arguments);
  }
}

static char *copy_of(fixture *f, const char *data, int64_t bytes) {
  char *copy = bd_arena_alloc(f->all.ctx->arena, (size_t)bytes);
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
  for (int i = 0; i < f->all.count; i++)
    kernel_run_check(f->all.ctx, &f->all.runs[i], 17 + (uint64_t)i, run_grids, f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_agree_with_the_reference_on_every_grid),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
