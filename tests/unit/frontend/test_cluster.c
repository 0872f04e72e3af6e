#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/file.h"
#include "ir/cluster.h"
#include "tests/unit/context.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_every_preset_round_trips(void **state) {
  bd_ctx *ctx = *state;
  int count = 0;
  const bd_cluster_preset *presets = bd_cluster_presets(&count);
  for (int i = 0; i < count; ++i) {
    bd_cluster cluster, again;
    const char *spec = bd_intern_f(ctx, "%s:2x5", presets[i].name);
    assert_int_equal(bd_cluster_load(ctx, spec, &cluster), BD_OK);
    assert_int_equal(bd_cluster_devices(&cluster), 10);
    bd_text first = bd_text_init(ctx->arena), second = bd_text_init(ctx->arena);
    bd_cluster_print(&cluster, &first);
    char folder[] = "/tmp/braid_cluster_XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = bd_path_join(ctx, folder, "cluster.json");
    assert_int_equal(bd_file_write(ctx, path, first.data, first.length), BD_OK);
    assert_int_equal(bd_cluster_load(ctx, path, &again), BD_OK);
    bd_cluster_print(&again, &second);
    assert_string_equal(first.data, second.data);
    unlink(path);
    rmdir(folder);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_every_preset_round_trips, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
