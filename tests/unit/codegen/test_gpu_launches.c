// Every kernel under test is generated for GPUs, and launched in whole warps with a pointer for each
// of its buffers and a range for each of its loops. What kernels compute is test_gpu_kernels'.
#include "tests/unit/codegen/support_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check_launch(const kernel_run *r, bd_kernel_launch launch) {
  const bd_kernel *k = &r->kernel;
  assert_in_range(launch.threads, EMULATE_WARP, EMULATE_MAX_THREADS);
  assert_int_equal(launch.threads % EMULATE_WARP, 0);
  assert_int_equal(launch.buffer_count,
                   k->in_count + k->out_count + k->scratch + k->with_gradient);
  assert_int_equal(launch.range_count, 2 * (r->map.loops ? r->map.loops : 1));
}

static void kernels_are_launched_in_whole_warps(void **state) {
  static gpu_set s;
  (void)state;
  gpu_set_open(&s);
  int seen = 0;
  for (int i = 0; i < s.count; i++)
    for (int part = 0; part < s.runs[i].kernel.parts; part++, seen++)
      check_launch(&s.runs[i], bd_kernel_set_launch(s.set, s.runs[i].kernel.number + part));
  assert_true(seen > 1000 && seen == s.kernels);
  gpu_set_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_are_launched_in_whole_warps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
