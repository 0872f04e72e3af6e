// Generated GPU kernels, run thread by thread in the emulator: they agree with the reference, and
// every grid and every order of threads gives the same bits. Where both add in the same order, and
// nothing is computed by a GPU's own instructions for powers and reciprocals, these are the bits of
// the host's kernels.
//   test_gpu_kernels [PTX]: leaves their assembly there, for test_gpu_assembly
#include "tests/unit/codegen/support_gpu.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BUFFERS = BD_MAX_OPERANDS + BD_MAX_RESULTS + 1 };

static const char *kept_assembly;

typedef struct fixture {
  gpu_set all;
  void *library, *host_library;
} fixture;

typedef void (*host_kernel)(char *const *buffers, const int64_t *range, const bd_rt_random *random,
                            const float *scalars, int64_t chunk);
typedef int64_t (*host_chunks)(const int64_t *range);

static const bd_type *operand_type(const kernel_run *r) {
  return &r->function->values[r->function->ops[0].in[0]].type;
}

// Whether a GPU's threads take the elements of a row one at a time.
static bool is_taken_singly(int64_t elements) {
  return elements < 512 && elements % 2;
}

// Whether a GPU computes as the host does, and adds so: not along rows that are packed or have 2048
// elements or more, nor down columns.
static bool computes_as_host(const kernel_run *r) {
  if (!r->function->ops[0].in_count) return true;
  const bd_type *type = operand_type(r);
  const char *rule = strstr(r->from->attributes, "rule=");
  switch (r->from->kind) {
  case BD_OP_LAYERNORM_DW:
  case BD_OP_RMSNORM_DW:
  case BD_OP_SINKS_GRAD:
  case BD_OP_XENT:
  case BD_OP_LSE:
  case BD_OP_XENT_GRAD:
  case BD_OP_EXP:
  case BD_OP_TANH:
  case BD_OP_SIGMOID:
  case BD_OP_ERF:
  case BD_OP_GELU:
  case BD_OP_GELU_GRAD:
  case BD_OP_GELU_ERF:
  case BD_OP_GELU_ERF_GRAD:
  case BD_OP_SILU:
  case BD_OP_SILU_GRAD:
    return false;
  case BD_OP_REDUCE_SUM: // the last summed dimension is the last one
    return !strchr(strchr(rule, '>'), strchr(rule, '-')[-1]) &&
           is_taken_singly(type->dims[type->rank - 1]) && bd_type_elements(type, 1) < 2048;
  case BD_OP_LAYERNORM:
  case BD_OP_LAYERNORM_DX:
  case BD_OP_RMSNORM:
  case BD_OP_RMSNORM_DX:
    return is_taken_singly(type->dims[type->rank - 1]);
  default:
    return !(bd_op_get_info(r->from->kind)->traits & BD_LIBRARY);
  }
}

static void load_host_kernels(fixture *f) {
  bd_kernel_set *set;
  assert_int_equal(bd_kernel_set_create(f->all.ctx, false, "", &set), BD_OK);
  for (int i = 0; i < f->all.count; i++)
    if (computes_as_host(&f->all.runs[i]))
      assert_int_equal(bd_kernel_set_add(f->all.ctx, set, &f->all.runs[i].kernel), BD_OK);
  const char *stem = bd_intern_f(f->all.ctx, "%s/host", f->all.folder);
  const char *text = bd_intern_f(f->all.ctx, "%s.s", stem);
  const char *library = bd_intern_f(f->all.ctx, "%s.so", stem);
  assert_int_equal(bd_kernel_set_write(f->all.ctx, set, stem), BD_OK);
  bd_kernel_set_destroy(set);
  kernel_spawn((const char *[]){"cc", "-shared", "-o", library, text, NULL}, NULL);
  f->host_library = dlopen(library, RTLD_NOW);
  assert_non_null(f->host_library);
  kernel_remove_outputs(f->all.ctx, f->all.folder, stem);
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  gpu_set_open(&f->all);
  gpu_set_write(&f->all);
  if (kept_assembly) {
    const char *assembly = bd_intern_f(f->all.ctx, "%s.ptx", f->all.stem);
    kernel_spawn((const char *[]){"cp", assembly, kept_assembly, NULL}, NULL);
  }
  f->library = gpu_load(f->all.ctx, f->all.stem);
  load_host_kernels(f);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  dlclose(f->host_library);
  gpu_set_close(&f->all);
  test_free(f);
  return 0;
}

static void launch(fixture *f, const kernel_run *r, emulate_grid grid, char *const *buffers,
                   const int64_t *range, const bd_rt_random *random) {
  bd_kernel_launch facts = bd_kernel_set_launch(f->all.set, r->kernel.number);
  assert_int_equal(facts.range_count, 2 * (r->map.loops ? r->map.loops : 1));
  gpu_launch(f->all.ctx, f->all.set, f->library, &r->kernel, grid, buffers, range, random);
}

static char *copy_of(fixture *f, const char *data, int64_t bytes) {
  char *copy = bd_arena_alloc(f->all.ctx->arena, (size_t)bytes);
  memcpy(copy, data, (size_t)bytes);
  return copy;
}

static void run_on_host(fixture *f, const kernel_run *r, char *const *buffers, const int64_t *range,
                        const bd_rt_random *random) {
  host_kernel kernel;
  host_chunks chunks;
  const char *name = bd_intern_f(f->all.ctx, "bdk_%d", r->kernel.number);
  *(void **)&kernel = dlsym(f->host_library, name);
  *(void **)&chunks = dlsym(f->host_library, bd_intern_f(f->all.ctx, "%s_chunks", name));
  assert_true(kernel && chunks);
  for (int64_t chunk = 0; chunk < chunks(range); chunk++)
    kernel(buffers, range, random, NULL, chunk);
}

// Runs on three grids, and on the host where that is to agree, each from the same memory.
static void run_everywhere(void *user, const kernel_run *r, char *const *buffers,
                           const int64_t *range, const bd_rt_random *random) {
  static const emulate_grid grids[] = {{.blocks = 1}, {.blocks = 13, .descending = true}};
  enum { GRIDS = sizeof grids / sizeof *grids };
  fixture *f = user;
  const bd_kernel *k = &r->kernel;
  char *mine[GRIDS + 1][MAX_BUFFERS];
  int ways = GRIDS + computes_as_host(r);
  for (int way = 0; way < ways; way++) {
    memcpy(mine[way], buffers, (size_t)(k->in_count + k->out_count + k->scratch) * sizeof *buffers);
    for (int i = 0; i < k->out_count; i++)
      mine[way][k->in_count + i] =
          copy_of(f, buffers[k->in_count + i], kernel_value_bytes(r, k->out[i]));
    if (way < GRIDS)
      launch(f, r, grids[way], mine[way], range, random);
    else
      run_on_host(f, r, mine[way], range, random);
  }
  launch(f, r, (emulate_grid){.blocks = 3}, buffers, range, random);
  for (int way = 0; way < ways; way++)
    for (int i = 0; i < k->out_count; i++)
      if (memcmp(mine[way][k->in_count + i], buffers[k->in_count + i],
                 (size_t)kernel_value_bytes(r, k->out[i])))
        fail_msg("%s (%s; %s) split at loop %d: result %d is another %s",
                 bd_op_get_info(r->from->kind)->name, r->from->shapes, r->from->attributes, r->loop,
                 i, way < GRIDS ? "on another grid" : "on the host");
}

static void kernels_agree_with_the_reference_on_every_grid(void **state) {
  fixture *f = *state;
  for (int i = 0; i < f->all.count; i++)
    kernel_run_check(f->all.ctx, &f->all.runs[i], run_everywhere, f);
}

int main(int argc, char **argv) {
  if (argc > 1) kept_assembly = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_agree_with_the_reference_on_every_grid),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
