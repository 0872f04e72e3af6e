// Generated kernels of the host against the reference evaluation of each op.
#include "ir/element.h"
#include "runtime/half.h"
#include "tests/unit/codegen/support_kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_RUNS = 832, HALF_TYPES = 2 };

static const bd_dtype half_types[HALF_TYPES] = {BD_BF16, BD_F16};

typedef void (*kernel_function)(char *const *buffers, const int64_t *range,
                                const bd_rt_random *random, const float *scalars, int64_t chunk);
typedef int64_t (*chunks_function)(const int64_t *range);

typedef struct fixture {
  bd_ctx *ctx;
  int count;
  kernel_run runs[MAX_RUNS];
  kernel_run fused, halves[HALF_TYPES];
  void *library;
} fixture;

// A function of one fused run: from here its ops are built, and close_fused makes it a kernel.
static void open_fused(bd_ctx *ctx, kernel_run *r) {
  r->module = bd_module_create(ctx, BD_STAGE_SPMD, "m");
  r->module->mesh = (bd_mesh){.axes = 1, .size = {1}};
  r->module->micro_batch = 1;
  r->function = bd_function_create(ctx, "f");
}

static void close_fused(bd_ctx *ctx, kernel_run *r, bd_id result, int number) {
  bd_function_add_result(ctx, r->function, result);
  for (bd_id v = 0; v < r->function->value_count; v++)
    r->function->values[v].sharding = bd_sharding_replicated();
  bd_fusion fusion;
  bd_fuse(ctx, r->module, r->function, &fusion);
  assert_int_equal(fusion.step_count, 1);
  assert_true(
      bd_kernel_of_step(ctx, r->module, r->function, &fusion, 0, false, number, &r->kernel));
}

// Accumulates into its result, which in the test is also its first operand.
static void add_fused(fixture *f) {
  bd_ctx *ctx = f->ctx;
  kernel_run *r = &f->fused;
  open_fused(ctx, r);
  bd_id in[2], sum, gate, product;
  assert_int_equal(kernel_parse_params(ctx, r->function, BD_OP_ADD, "7,5 5", BD_F32, in), 2);
  assert_false(bd_build(ctx, r->function, BD_OP_ADD, 2, in, 0, NULL, BD_NOWHERE, &sum));
  assert_false(bd_build(ctx, r->function, BD_OP_GELU, 1, &sum, 0, NULL, BD_NOWHERE, &gate));
  assert_false(bd_build(ctx, r->function, BD_OP_MUL, 2, (bd_id[]){gate, in[0]}, 0, NULL, BD_NOWHERE,
                        &product));
  close_fused(ctx, r, product, MAX_RUNS);
  r->kernel.accumulate[0] = true;
}

// A run of ops on halves: each value is rounded, in registers too.
static void add_halves(fixture *f, int which) {
  bd_ctx *ctx = f->ctx;
  kernel_run *r = &f->halves[which];
  open_fused(ctx, r);
  bd_id in[2], square, sum, product;
  assert_int_equal(kernel_parse_params(ctx, r->function, BD_OP_ADD, "7,5 5", half_types[which], in),
                   2);
  assert_false(bd_build(ctx, r->function, BD_OP_MUL, 2, (bd_id[]){in[0], in[0]}, 0, NULL,
                        BD_NOWHERE, &square));
  assert_false(bd_build(ctx, r->function, BD_OP_ADD, 2, (bd_id[]){square, in[1]}, 0, NULL,
                        BD_NOWHERE, &sum));
  assert_false(bd_build(ctx, r->function, BD_OP_MUL, 2, (bd_id[]){sum, in[0]}, 0, NULL, BD_NOWHERE,
                        &product));
  close_fused(ctx, r, product, MAX_RUNS + 1 + which);
}

static void add_run(fixture *f, const kernel_case *from, bd_dtype real, char letter) {
  assert_true(f->count < MAX_RUNS);
  kernel_run_make(f->ctx, from, real, letter, false, f->count, &f->runs[f->count]);
  f->count++;
}

static void add_runs(fixture *f, const kernel_case *from) {
  if (!kernel_case_is_cut(from)) add_run(f, from, BD_F32, 0);
  for (const char *letter = from->letters; *letter; letter++)
    add_run(f, from, BD_F32, *letter);
  if (!kernel_case_has_halves(from)) return;
  add_run(f, from, BD_BF16, from->letters[0]);
  add_run(f, from, BD_F16, from->letters[0]);
}

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  *state = f;
  f->ctx = bd_ctx_create();
  for (int i = 0; i < kernel_case_count; i++)
    add_runs(f, &kernel_cases[i]);
  add_fused(f);
  for (int i = 0; i < HALF_TYPES; i++)
    add_halves(f, i);
  bd_kernel_set *set;
  assert_int_equal(bd_kernel_set_create(f->ctx, false, "", &set), BD_OK);
  for (int i = 0; i < f->count; i++)
    assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->runs[i].kernel), BD_OK);
  assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->fused.kernel), BD_OK);
  for (int i = 0; i < HALF_TYPES; i++)
    assert_int_equal(bd_kernel_set_add(f->ctx, set, &f->halves[i].kernel), BD_OK);
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *stem = bd_intern_f(f->ctx, "%s/k", folder);
  bd_status status = bd_kernel_set_write(f->ctx, set, stem);
  if (status != BD_OK) bd_diags_print(f->ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_kernel_set_destroy(set);
  const char *object = bd_intern_f(f->ctx, "%s.so", stem);
  kernel_spawn(
      (const char *[]){"cc", "-shared", "-o", object, bd_intern_f(f->ctx, "%s.s", stem), NULL},
      NULL);
  f->library = dlopen(object, RTLD_NOW);
  assert_non_null(f->library);
  kernel_remove_outputs(f->ctx, folder, stem);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  dlclose(f->library);
  bd_ctx_destroy(f->ctx);
  test_free(f);
  return 0;
}

static void run_chunks(void *user, const kernel_run *r, char *const *buffers, const int64_t *range,
                       const bd_rt_random *random) {
  fixture *f = user;
  kernel_function body;
  chunks_function chunks;
  *(void **)&body = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", r->kernel.number));
  *(void **)&chunks = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d_chunks", r->kernel.number));
  assert_true(body && chunks);
  int64_t count = chunks(range);
  for (int64_t chunk = count - 1; chunk >= 0; chunk--)
    body(buffers, range, random, NULL, chunk);
}

static void kernels_agree_with_the_reference(void **state) {
  fixture *f = *state;
  for (int i = 0; i < f->count; i++)
    kernel_run_check(f->ctx, &f->runs[i], run_chunks, f);
}

// gelu(x + bias) * x + accumulated, written over x: one kernel, values between ops in registers.
static void a_run_of_ops_is_one_kernel_in_place(void **state) {
  fixture *f = *state;
  const bd_kernel *k = &f->fused.kernel;
  assert_int_equal(k->in_count, 2);
  assert_int_equal(k->out_count, 1);
  float x[35], bias[5], before[35];
  uint64_t seed = 3;
  for (int i = 0; i < 35; i++)
    before[i] = x[i] = (float)(4 * kernel_next_real(&seed) - 2);
  for (int i = 0; i < 5; i++)
    bias[i] = (float)kernel_next_real(&seed);
  char *buffers[] = {(char *)x, (char *)bias, (char *)x};
  int64_t range[] = {0, 7, 0, 5};
  kernel_function body;
  *(void **)&body = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", k->number));
  assert_non_null(body);
  body(buffers, range, NULL, NULL, 0);
  for (int i = 0; i < 35; i++) {
    double s = (double)before[i] + bias[i % 5];
    double u = sqrt(2 / M_PI) * (s + 0.044715 * s * s * s);
    double want = 0.5 * s * (1 + tanh(u)) * before[i] + (double)before[i];
    assert_true(fabs(want - x[i]) < 2e-6);
  }
}

// ((x x) + bias) x on numbers of few bits, so that f32 computes each op exactly and only rounding
// differs.
static void check_rounding(const fixture *f, const kernel_run *r, bd_dtype dtype) {
  uint16_t x[35], bias[5], y[35];
  for (int i = 0; i < 35; i++)
    x[i] = bd_rt_to_half(dtype, (float)(128 + 3 * i) / 64);
  for (int i = 0; i < 5; i++)
    bias[i] = bd_rt_to_half(dtype, (float)(i + 1) / 128);
  char *buffers[] = {(char *)x, (char *)bias, (char *)y};
  int64_t range[] = {0, 7, 0, 5};
  kernel_function body;
  *(void **)&body = dlsym(f->library, bd_intern_f(f->ctx, "bdk_%d", r->kernel.number));
  assert_non_null(body);
  body(buffers, range, NULL, NULL, 0);
  int differ = 0;
  for (int i = 0; i < 35; i++) {
    double a = bd_element_read(dtype, (char *)x, i);
    double b = bd_element_read(dtype, (char *)bias, i % 5);
    double square = bd_dtype_round(dtype, a * a), sum = bd_dtype_round(dtype, square + b);
    assert_true(bd_element_read(dtype, (char *)y, i) == bd_dtype_round(dtype, sum * a));
    differ += bd_dtype_round(dtype, (a * a + b) * a) != bd_dtype_round(dtype, sum * a);
  }
  assert_true(differ > 0); // rounding at the end alone would give other numbers
}

static void halves_are_rounded_in_registers(void **state) {
  const fixture *f = *state;
  for (int i = 0; i < HALF_TYPES; i++)
    check_rounding(f, &f->halves[i], half_types[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_agree_with_the_reference),
      cmocka_unit_test(a_run_of_ops_is_one_kernel_in_place),
      cmocka_unit_test(halves_are_rounded_in_registers),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
