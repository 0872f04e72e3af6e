#include "tests/unit/codegen/support_gpu.h"

#include "tests/emulator/lower.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void add_run(gpu_set *s, const kernel_case *from, bd_dtype real, char letter) {
  assert_true(s->count < GPU_MAX_RUNS);
  kernel_run *run = &s->runs[s->count++];
  kernel_run_make(s->ctx, from, real, letter, true, s->kernels, run);
  s->kernels += run->kernel.parts;
}

static void add_runs(gpu_set *s, const kernel_case *cases, int count) {
  for (int i = 0; i < count; i++) {
    bool cut = kernel_case_is_cut(&cases[i]);
    if (!cut) add_run(s, &cases[i], BD_F32, 0);
    for (const char *letter = cases[i].letters; *letter; letter++)
      add_run(s, &cases[i], BD_F32, *letter);
    bool again = i > 0 && cases[i].kind == cases[i - 1].kind;
    if ((again && cases != gpu_kernel_cases) || !kernel_case_has_halves(&cases[i])) continue;
    add_run(s, &cases[i], BD_BF16, cases[i].letters[0]);
    if (!again) add_run(s, &cases[i], BD_F16, cut ? cases[i].letters[0] : 0);
  }
}

void gpu_set_open(gpu_set *s) {
  s->ctx = bd_ctx_create();
  add_runs(s, kernel_cases, kernel_case_count);
  add_runs(s, gpu_kernel_cases, gpu_kernel_case_count);
  assert_int_equal(bd_kernel_set_create(s->ctx, true, "sm_80", &s->set), BD_OK);
  for (int i = 0; i < s->count; i++)
    assert_int_equal(bd_kernel_set_add(s->ctx, s->set, &s->runs[i].kernel), BD_OK);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  s->folder = bd_intern_z(s->ctx, folder);
  s->stem = bd_intern_f(s->ctx, "%s/k", folder);
}

void gpu_set_write(gpu_set *s) {
  bd_status status = bd_kernel_set_write(s->ctx, s->set, s->stem);
  if (status != BD_OK) bd_diags_print(s->ctx, stderr, false);
  assert_int_equal(status, BD_OK);
}

void *gpu_load(bd_ctx *ctx, const char *stem) {
  const char *object = bd_intern_f(ctx, "%s.o", stem);
  const char *library = bd_intern_f(ctx, "%s.so", stem);
  char *message = emulate_lower(bd_intern_f(ctx, "%s.ll", stem), object);
  if (message) fail_msg("%s", message);
  kernel_spawn((const char *[]){"cc", "-shared", "-o", library, object, NULL}, NULL);
  void *loaded = dlopen(library, RTLD_NOW);
  if (!loaded) fail_msg("%s", dlerror());
  return loaded;
}

void gpu_launch(bd_ctx *ctx, const bd_kernel_set *set, void *library, const bd_kernel *kernel,
                emulate_grid grid, char *const *buffers, const int64_t *range,
                const bd_rt_random *random) {
  for (int part = 0; part < kernel->parts; part++) {
    int number = kernel->number + part;
    bd_kernel_launch facts = bd_kernel_set_launch(set, number);
    assert_int_equal(facts.buffer_count, kernel->in_count + kernel->out_count + kernel->scratch +
                                             kernel->with_gradient);
    grid.threads = facts.threads;
    emulate_kernel body;
    *(void **)&body = dlsym(library, bd_intern_f(ctx, "bdk_%d", number));
    assert_non_null(body);
    // As codegen/kernel/kernel.h has it: step and first sample lie elsewhere.
    const bd_rt_random *const none = &(const bd_rt_random){0}, *const draws =
                                                                   random ? random : none;
    const int64_t moving[] = {(int64_t)draws->step, draws->first_sample};
    const struct {
      uint64_t seed;
      const int64_t *moving;
      int64_t unused;
      int32_t call, keeps_all;
    } coordinates = {draws->seed, moving, 0, draws->call, draws->keeps_all};
    void *const arguments[] = {(void *)(uintptr_t)buffers, (void *)(uintptr_t)range,
                               (void *)(uintptr_t)&coordinates};
    emulate_launch(body, grid, arguments);
  }
}

void gpu_set_close(gpu_set *s) {
  bd_kernel_set_destroy(s->set);
  kernel_remove_outputs(s->ctx, s->folder, s->stem);
  bd_ctx_destroy(s->ctx);
}
