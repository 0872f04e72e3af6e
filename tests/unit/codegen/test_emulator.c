// The emulator of threads ends what a GPU would leave undefined between the threads of a warp.
#include "tests/unit/codegen/support_gpu.h"

#include "ir/base/file.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EXCHANGE "call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %thread, i32 1, i32 31)\n"
#define KERNEL(name)                                                                               \
  "define ptx_kernel void @" name "(ptr byval([2 x ptr]) align 8 %buffers, ptr %b, ptr %c) {\n"     \
  "  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"                                        \
  "  %odd = trunc i32 %thread to i1\n"

static const char kernels[] =
    "declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n" //
    KERNEL("together") "  %other = " EXCHANGE
    "  %out = load ptr, ptr %buffers\n"
    "  %at = getelementptr i32, ptr %out, i32 %thread\n"
    "  store i32 %other, ptr %at, align 4\n"
    "  ret void\n}\n" //
    KERNEL("apart") "  br i1 %odd, label %one, label %two\n"
    "one:\n  %x = " EXCHANGE "  ret void\n"
    "two:\n  %y = " EXCHANGE "  ret void\n}\n" //
    KERNEL("alone") "  br i1 %odd, label %one, label %two\n"
    "one:\n  %x = " EXCHANGE "  ret void\n"
    "two:\n  ret void\n}\n";

static void launch(void *library, const char *name, int32_t *out) {
  emulate_kernel body;
  *(void **)&body = dlsym(library, name);
  if (!body) abort();
  void *buffers[] = {out, NULL};
  emulate_launch(body, (emulate_grid){.blocks = 1, .threads = EMULATE_WARP},
                 (void *[]){buffers, buffers, buffers});
}

// Whether a kernel is ended, in a process of its own.
static bool is_ended(void *library, const char *name) {
  int32_t out[EMULATE_WARP];
  int status;
  const pid_t child = fork();
  if (child == 0) {
    fclose(stderr);
    launch(library, name, out);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_exchanges(void **state) {
  (void)state;
  bd_ctx *const ctx = bd_ctx_create();
  char folder[] = "/tmp/bd_kernels_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *const stem = bd_intern_f(ctx, "%s/k", folder);
  assert_int_equal(
      bd_file_write_unsynced(ctx, bd_intern_f(ctx, "%s.ll", stem), kernels, strlen(kernels)), BD_OK);
  void *const library = gpu_load(ctx, stem);
  int32_t out[EMULATE_WARP] = {0};
  launch(library, "together", out);
  for (int i = 0; i < EMULATE_WARP; i++)
    assert_int_equal(out[i], i ^ 1);
  assert_false(is_ended(library, "together"));
  assert_true(is_ended(library, "apart"));
  assert_true(is_ended(library, "alone"));
  kernel_remove_outputs(ctx, folder, stem);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exchanges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
