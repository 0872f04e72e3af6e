#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/mesh.h"

static void test_coords_are_row_major(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 3, .size = {2, 3, 4}};
  assert_int_equal(bd_mesh_devices(&mesh), 24);
  for (int rank = 0; rank < 24; ++rank) {
    int coords[BD_MAX_AXES];
    bd_mesh_coords(&mesh, rank, coords);
    assert_int_equal((coords[0] * 3 + coords[1]) * 4 + coords[2], rank);
    assert_int_equal(coords[3], 0);
  }
}

// Every element lies in exactly one part, parts ascend, and none exceeds the padded extent.
static void check_cover(const bd_mesh *mesh, const bd_sharding *sharding, int64_t extent,
                        int64_t padded) {
  assert_int_equal(bd_local_extent(mesh, sharding, 0, extent), padded);
  int64_t next = 0;
  for (int rank = 0; rank < bd_mesh_devices(mesh); ++rank) {
    int64_t start, count;
    bd_local_range(mesh, sharding, 0, extent, rank, &start, &count);
    assert_int_equal(start, next);
    assert_true(count >= 0 && count <= padded);
    next = start + count;
  }
  assert_int_equal(next, extent);
}

static void test_padded_vocabulary(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 1, .size = {4}};
  bd_sharding rows = bd_sharding_replicated();
  rows.at[0] = 0;
  check_cover(&mesh, &rows, 50257, 12565);
  int64_t start, count;
  bd_local_range(&mesh, &rows, 0, 50257, 3, &start, &count);
  assert_int_equal(start, 37695);
  assert_int_equal(count, 12562);
}

static void test_odd_heads(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 1, .size = {2}};
  bd_sharding heads = bd_sharding_replicated();
  heads.at[0] = 0;
  check_cover(&mesh, &heads, 25, 13);
}

static void test_empty_last_parts(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 1, .size = {4}};
  bd_sharding sharding = bd_sharding_replicated();
  sharding.at[0] = 0;
  check_cover(&mesh, &sharding, 5, 2);
  check_cover(&mesh, &sharding, 1, 1);
}

static void test_two_axes_on_one_dimension(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 2, .size = {2, 3}};
  bd_sharding sharding = bd_sharding_replicated();
  sharding.at[0] = sharding.at[1] = 0;
  assert_int_equal(bd_sharding_parts(&mesh, &sharding, 0), 6);
  check_cover(&mesh, &sharding, 12, 2);
}

static void test_replicated_dimension_is_whole(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 2, .size = {2, 2}};
  bd_sharding sharding = bd_sharding_replicated();
  sharding.at[1] = 1;
  int64_t start, count;
  bd_local_range(&mesh, &sharding, 0, 7, 3, &start, &count);
  assert_int_equal(start, 0);
  assert_int_equal(count, 7);
  bd_local_range(&mesh, &sharding, 1, 8, 2, &start, &count);
  assert_int_equal(start, 0);
  bd_local_range(&mesh, &sharding, 1, 8, 1, &start, &count);
  assert_int_equal(start, 4);
}

static void test_local_type(void **state) {
  (void)state;
  bd_mesh mesh = {.axes = 2, .size = {2, 4}};
  bd_sharding sharding = bd_sharding_replicated();
  sharding.at[0] = 0;
  sharding.at[1] = 2;
  bd_type type = bd_type_make(BD_F32, 3, (const int64_t[]){BD_DIM_BATCH, 64, 50257});
  bd_type local = bd_local_type(&mesh, &sharding, &type, 6);
  bd_type wanted = bd_type_make(BD_F32, 3, (const int64_t[]){3, 64, 12565});
  assert_true(bd_type_equal(&local, &wanted));
  assert_false(bd_type_has_batch(&local));
}

static void test_partial_and_equality(void **state) {
  (void)state;
  bd_sharding a = bd_sharding_replicated(), b = a;
  assert_true(bd_sharding_equal(&a, &b));
  assert_false(bd_sharding_has_partial(&a));
  b.at[2] = BD_PARTIAL_LSE;
  assert_false(bd_sharding_equal(&a, &b));
  assert_true(bd_sharding_has_partial(&b));
}

static void test_elements_saturate(void **state) {
  (void)state;
  bd_type type = bd_type_make(BD_F32, 2, (const int64_t[]){BD_DIM_BATCH, BD_MAX_ELEMENTS});
  assert_int_equal(bd_type_elements(&type, 2), 2 * BD_MAX_ELEMENTS);
  assert_int_equal(bd_type_elements(&type, (int64_t)1 << 40), INT64_MAX);
}

static void test_dtypes(void **state) {
  (void)state;
  for (int i = 0; i < BD_DTYPE_COUNT; ++i) {
    bd_dtype dtype = BD_DTYPE_COUNT;
    assert_true(bd_dtype_parse(bd_dtype_name((bd_dtype)i), &dtype));
    assert_int_equal(dtype, i);
  }
  bd_dtype dtype;
  assert_false(bd_dtype_parse("f31", &dtype));
  assert_int_equal(bd_dtype_bytes(BD_BF16), 2);
  assert_false(bd_dtype_is_float(BD_I32));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_coords_are_row_major),
      cmocka_unit_test(test_padded_vocabulary),
      cmocka_unit_test(test_odd_heads),
      cmocka_unit_test(test_empty_last_parts),
      cmocka_unit_test(test_two_axes_on_one_dimension),
      cmocka_unit_test(test_replicated_dimension_is_whole),
      cmocka_unit_test(test_local_type),
      cmocka_unit_test(test_partial_and_equality),
      cmocka_unit_test(test_elements_saturate),
      cmocka_unit_test(test_dtypes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
