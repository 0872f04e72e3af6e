// Rows of a few packs lie side by side in a warp. Where fewer are left than it takes, its other
// threads come along, and add nothing to what is accumulated.
#include "tests/unit/codegen/support_gpu.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 9, COLUMNS = 24, BEFORE = 100 };

static void a_row_is_added_once(void **state) {
  (void)state;
  static const kernel_case sums = {BD_OP_REDUCE_SUM, "9,24", "rule=AB->A", ""};
  bd_ctx *ctx = bd_ctx_create();
  kernel_run run;
  kernel_run_make(ctx, &sums, BD_F32, 0, true, 0, &run);
  run.kernel.accumulate[0] = true;
  bd_kernel_set *set;
  assert_int_equal(bd_kernel_set_create(ctx, true, "sm_80", &set), BD_OK);
  assert_int_equal(bd_kernel_set_add(ctx, set, &run.kernel), BD_OK);
  char folder[] = "/tmp/bd_rows_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *stem = bd_intern_f(ctx, "%s/k", folder);
  assert_int_equal(bd_kernel_set_write(ctx, set, stem), BD_OK);
  void *library = gpu_load(ctx, stem);
  float x[ROWS][COLUMNS], out[ROWS];
  for (int i = 0; i < ROWS; i++) {
    out[i] = BEFORE;
    for (int j = 0; j < COLUMNS; j++)
      x[i][j] = (float)(i + 1);
  }
  char *const buffers[] = {(char *)x, (char *)out};
  const int64_t range[] = {0, ROWS, 0, COLUMNS};
  gpu_launch(ctx, set, library, &run.kernel, (emulate_grid){.blocks = 2}, buffers, range, NULL);
  for (int i = 0; i < ROWS; i++)
    assert_true(out[i] == (float)(BEFORE + COLUMNS * (i + 1)));
  dlclose(library);
  bd_kernel_set_destroy(set);
  kernel_remove_outputs(ctx, folder, stem);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_is_added_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
