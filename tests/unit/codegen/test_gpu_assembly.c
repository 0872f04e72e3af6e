// Where the CUDA toolkit is there: all GPU kernels assemble, and keep what they work on in
// registers.
//   test_gpu_assembly [PTX]: as test_gpu_kernels left it
#include "tests/unit/codegen/support_fused_norms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char ptxas[] = PTXAS; // as cmake has found it

static const char *given_assembly;

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

// Registers hold what a kernel works on, but for a few of attention, with wide heads some more.
static bool may_spill(const kernel_run *r, int bytes) {
  const bd_op *op = &r->function->ops[0];
  if (!bd_op_attends(r->from->kind)) return false;
  return bytes <= (r->function->values[op->in[0]].type.dims[3] > 64 ? 192 : 128);
}

// What ptxas says of a kernel's memory beside registers.
typedef void (*frame_check)(const void *set, int number, int bytes, const char *line);

// ptxas names a kernel, then says what it keeps in memory. Returns how many kernels there are.
static int check_frames(const char *log, frame_check check, const void *set) {
  static const char name[] = "Compiling entry function 'bdk_";
  char line[512];
  int number = -1, kernels = 0;
  FILE *file = fopen(log, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *at = strstr(line, name), *frame = strstr(line, "bytes stack frame, ");
    if (at) number = atoi(at + sizeof name - 1);
    if (!frame) continue;
    kernels++;
    check(set, number, atoi(frame + strlen("bytes stack frame, ")), line);
  }
  fclose(file);
  return kernels;
}

static void check_run(const void *set, int number, int bytes, const char *line) {
  const kernel_run *r = run_of_number(set, number);
  if (bytes && !may_spill(r, bytes))
    fail_msg("kernel %d, %s (%s; %s): %s", number, bd_op_get_info(r->from->kind)->name,
             r->from->shapes, r->from->attributes, line);
}

static void check_fused(const void *set, int number, int bytes, const char *line) {
  (void)set;
  if (bytes) fail_msg("kernel %d of norms and runs: %s", number, line);
}

// `assembly` to machine code for `arch`; what ptxas says lies in the file that is returned.
static const char *assemble(bd_ctx *ctx, const char *stem, const char *assembly, const char *arch) {
  const char *log = bd_intern_f(ctx, "%s.log", stem);
  kernel_spawn((const char *[]){ptxas, "-v", bd_intern_f(ctx, "-arch=%s", arch), assembly, "-o",
                                bd_intern_f(ctx, "%s.o", stem), NULL},
               log);
  return log;
}

// Runs in pairs, as those of a case in f32 and bf16 mostly are.
static bool is_of_half(const gpu_set *s, const kernel_run *run, int half) {
  return (run - s->runs) / 2 % 2 == half;
}

static int count_half(const gpu_set *s, int half) {
  int count = 0;
  for (const kernel_run *run = s->runs; run < s->runs + s->count; run++)
    if (is_of_half(s, run, half)) count += run->kernel.parts;
  return count;
}

// The assembly of half of the runs' kernels, and the tables of all. Of each kernel LLVM names the
// entry before it.
static const char *write_half(const gpu_set *s, const char *assembly, int half) {
  static const char name[] = "\t// .globl\tbdk_", table[] = ".global ";
  const char *path = bd_intern_f(s->ctx, "%s.s", s->stem);
  char *line = NULL;
  size_t capacity = 0;
  bool wanted = true;
  FILE *from = fopen(assembly, "r"), *to = fopen(path, "w");
  assert_true(from && to);
  while (getline(&line, &capacity, from) >= 0) {
    if (!strncmp(line, name, sizeof name - 1))
      wanted = is_of_half(s, run_of_number(s, atoi(line + sizeof name - 1)), half);
    if (wanted || !strncmp(line, table, sizeof table - 1)) assert_true(fputs(line, to) >= 0);
  }
  free(line);
  fclose(from);
  assert_int_equal(fclose(to), 0);
  return path;
}

// All for sm_80, where conversions are longest, and each for one of the later ones. What programs
// are made of is assembled for all of them, by cuda/assembled.
static void kernels_assemble_without_spills(void **state) {
  static const char *const later[] = {"sm_90", "sm_100"};
  gpu_set *s = *state;
  if (access(ptxas, X_OK)) skip();
  if (!given_assembly) gpu_set_write(s);
  const char *all = given_assembly ? given_assembly : bd_intern_f(s->ctx, "%s.ptx", s->stem);
  assert_int_equal(check_frames(assemble(s->ctx, s->stem, all, "sm_80"), check_run, s), s->kernels);
  for (int half = 0; half < 2; half++) {
    const char *some = write_half(s, all, half);
    assert_int_equal(check_frames(assemble(s->ctx, s->stem, some, later[half]), check_run, s),
                     count_half(s, half));
  }
}

static void norms_with_runs_assemble_without_spills(void **state) {
  static fused_set s;
  (void)state;
  if (access(ptxas, X_OK)) skip();
  fused_set_open(&s, false);
  const char *assembly = bd_intern_f(s.ctx, "%s.ptx", s.stem);
  for (const char *const *arch = (const char *const[]){"sm_80", "sm_90", "sm_100", NULL}; *arch;
       arch++)
    assert_int_equal(check_frames(assemble(s.ctx, s.stem, assembly, *arch), check_fused, &s),
                     s.kernels);
  fused_set_close(&s);
}

int main(int argc, char **argv) {
  if (argc > 1) given_assembly = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_assemble_without_spills),
      cmocka_unit_test(norms_with_runs_assemble_without_spills),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
