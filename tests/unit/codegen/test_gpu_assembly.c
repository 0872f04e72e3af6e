// Where the CUDA toolkit is there: all GPU kernels assemble, and keep what they work on in
// registers.
#include "tests/unit/codegen/support_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int set_up(void **state) {
  gpu_set *s = test_calloc(1, sizeof *s);
  *state = s;
  gpu_set_open(s);
  return 0;
}

static int tear_down(void **state) {
  gpu_set_close(*state);
  test_free(*state);
  return 0;
}

static const kernel_run *run_of_number(const gpu_set *s, int number) {
  for (int i = 0; i < s->count; i++) {
    const bd_kernel *k = &s->runs[i].kernel;
    if (number >= k->number && number < k->number + k->parts) return &s->runs[i];
  }
  fail_msg("no kernel %d", number);
  return NULL;
}

// Registers hold what a kernel works on, but for attention with the widest heads; with dropout it
// may lack a few.
static bool may_spill(const kernel_run *r, int bytes) {
  const bd_op *op = &r->function->ops[0];
  if (r->from->kind != BD_OP_ATTENTION && r->from->kind != BD_OP_ATTENTION_GRAD) return false;
  if (r->function->values[op->in[0]].type.dims[3] > 128) return true;
  return bd_op_real(op, "dropout", 0) > 0 && bytes <= 32;
}

// ptxas names a kernel, then says what it keeps in memory.
static int check_spills(const gpu_set *s, const char *log) {
  static const char name[] = "Compiling entry function 'bdk_";
  char line[512];
  int number = -1, kernels = 0;
  FILE *file = fopen(log, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *at = strstr(line, name), *spill = strstr(line, "bytes stack frame, ");
    if (at) number = atoi(at + sizeof name - 1);
    if (!spill) continue;
    const kernel_run *r = run_of_number(s, number);
    kernels++;
    const int bytes = atoi(spill + strlen("bytes stack frame, "));
    if (bytes && !may_spill(r, bytes))
      fail_msg("kernel %d, %s (%s; %s): %s", number, bd_op_get_info(r->from->kind)->name,
               r->from->shapes, r->from->attributes, line);
  }
  fclose(file);
  return kernels;
}

static void kernels_assemble_without_spills(void **state) {
  const char *ptxas = "/usr/local/cuda/bin/ptxas";
  const gpu_set *s = *state;
  if (access(ptxas, X_OK)) skip();
  for (const char *const *arch = (const char *const[]){"sm_80", "sm_90", NULL}; *arch; arch++) {
    const char *log = bd_intern_f(s->ctx, "%s.log", s->stem);
    kernel_spawn((const char *[]){ptxas, "-v", bd_intern_f(s->ctx, "-arch=%s", *arch),
                                  bd_intern_f(s->ctx, "%s.ptx", s->stem), "-o",
                                  bd_intern_f(s->ctx, "%s.o", s->stem), NULL},
                 log);
    assert_int_equal(check_spills(s, log), s->kernels);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_assemble_without_spills),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
