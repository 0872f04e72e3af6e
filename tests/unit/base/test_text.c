#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/suggest.h"
#include "ir/base/text.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bd_text fresh(void **state) {
  return bd_text_init(*state);
}

static int make_arena(void **state) {
  *state = bd_arena_create(NULL, NULL);
  return *state ? 0 : -1;
}

static int drop_arena(void **state) {
  bd_arena_destroy(*state);
  return 0;
}

static void test_text_grows(void **state) {
  bd_text text = fresh(state);
  assert_string_equal(text.data, "");
  for (int i = 0; i < 1000; ++i)
    bd_text_addf(&text, "%d,", i % 10);
  assert_int_equal(text.length, 2000);
  assert_int_equal(strlen(text.data), 2000);
  assert_memory_equal(text.data, "0,1,2,3,", 8);
  bd_text_add_n(&text, "ab", 1);
  assert_string_equal(text.data + 1998, "9,a");
}

static void test_format_at_every_fill(void **state) {
  for (size_t filled = 0; filled < 140; ++filled) {
    bd_text text = fresh(state);
    for (size_t i = 0; i < filled; ++i)
      bd_text_add(&text, "x");
    bd_text_addf(&text, "%s", "0123456789");
    assert_int_equal(text.length, filled + 10);
    assert_string_equal(text.data + filled, "0123456789");
  }
}

static void expect_json(void **state, const char *string, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_json_string(&text, string);
  assert_string_equal(text.data, wanted);
}

static void test_json_strings(void **state) {
  expect_json(state, "", "\"\"");
  expect_json(state, "a b/c", "\"a b/c\"");
  expect_json(state, "\"\\\n\t\r\x1b\x7f", "\"\\\"\\\\\\n\\t\\u000d\\u001b\\u007f\"");
  expect_json(state, "\xc3\xa9\xe2\x82\xac", "\"\\u00e9\\u20ac\"");
  expect_json(state, "\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\"");
  expect_json(state, "\xff\xc3", "\"\\u00ff\\u00c3\"");
  expect_json(state, "\xc0\x80\xed\xa0\x80", "\"\\u00c0\\u0080\\u00ed\\u00a0\\u0080\"");
}

static void expect_c(void **state, const char *string, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_c_string(&text, string);
  assert_string_equal(text.data, wanted);
}

static void test_c_strings(void **state) {
  expect_c(state, "h.0/attn_w", "\"h.0/attn_w\"");
  expect_c(state, "*/ x(\"y\"); /*", "\"\\052/ x(\\042y\\042); /\\052\"");
  expect_c(state, "?\?=\\\n9", "\"\\077\\077=\\134\\0129\"");
  expect_c(state, "\xff%", "\"\\377\\045\"");
}

static void expect_double(void **state, double value, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_double(&text, value);
  assert_string_equal(text.data, wanted);
}

static void test_doubles(void **state) {
  expect_double(state, 0.0, "0");
  expect_double(state, -0.0, "-0");
  expect_double(state, 0.1, "0.1");
  expect_double(state, -2.5, "-2.5");
  expect_double(state, 1e21, "1e+21");
  expect_double(state, 0.1 + 0.2, "0.30000000000000004");
  expect_double(state, 5e-324, "5e-324");
  expect_double(state, DBL_MAX, "1.7976931348623157e+308");
  expect_double(state, DBL_MIN, "2.2250738585072014e-308");
  expect_double(state, ldexp(1, -44), "5.684341886080802e-14");
  expect_double(state, ldexp(1, 53), "9007199254740992");
  expect_double(state, INFINITY, "inf");
  expect_double(state, -INFINITY, "-inf");
  expect_double(state, NAN, "nan");
}

static void test_doubles_read_back(void **state) {
  uint64_t bits = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double value;
    memcpy(&value, &bits, sizeof value);
    if (!isfinite(value)) continue;
    bd_text text = fresh(state);
    bd_text_add_double(&text, value);
    assert_true(strtod(text.data, NULL) == value);
    bd_arena_reset(*state);
  }
}

static void expect_bytes(void **state, int64_t bytes, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_bytes(&text, bytes);
  assert_string_equal(text.data, wanted);
}

static void test_bytes(void **state) {
  expect_bytes(state, 0, "0 B");
  expect_bytes(state, 1023, "1023 B");
  expect_bytes(state, 1024, "1.00 KiB");
  expect_bytes(state, (int64_t)3 << 29, "1.50 GiB");
  expect_bytes(state, ((int64_t)1 << 20) - 1, "1.00 MiB");
  expect_bytes(state, -((int64_t)1 << 20), "-1.00 MiB");
  expect_bytes(state, INT64_MAX, "8.00 EiB");
  expect_bytes(state, INT64_MIN, "-8.00 EiB");
}

static void expect_change(void **state, double from, double to, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_change(&text, from, to, 2);
  assert_string_equal(text.data, wanted);
}

static void test_changes(void **state) {
  expect_change(state, 2, 3, "+50.00 %");
  expect_change(state, 3, 0, "-100.00 %");
  expect_change(state, 1, 1 - 1e-5, "+0.00 %");
  expect_change(state, 1, 1 + 1e-5, "+0.00 %");
  expect_change(state, 1, 1 - 6e-5, "-0.01 %");
  expect_change(state, 1, 1, "+0.00 %");
}

static void expect_printable(void **state, const char *string, const char *wanted) {
  bd_text text = fresh(state);
  bd_text_add_printable(&text, string, strlen(string));
  assert_string_equal(text.data, wanted);
}

static void test_printable(void **state) {
  expect_printable(state, "plain \xc3\xa9", "plain \xc3\xa9");
  expect_printable(state, "\x1b[2J\n\t\x7f", "\\x1b[2J\\n\\t\\x7f");
  expect_printable(state, "a\xff\xe2\x82", "a\\xff\\xe2\\x82");
  expect_printable(state, "\xe2\x80\xae\xc2\x9b", "\\u202e\\u009b");
}

static void test_suggestions(void **state) {
  (void)state;
  const char *const names[] = {"devices", "memory_bytes", "name", NULL};
  assert_string_equal(bd_suggest("device", names), "devices");
  assert_string_equal(bd_suggest("nmae", names), "name");
  assert_string_equal(bd_suggest("de", names), "devices");
  assert_string_equal(bd_suggest("memory_byte", names), "memory_bytes");
  assert_null(bd_suggest("zzz", names));
  assert_null(bd_suggest("", names));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_grows),   cmocka_unit_test(test_format_at_every_fill),
      cmocka_unit_test(test_json_strings), cmocka_unit_test(test_c_strings),
      cmocka_unit_test(test_doubles),      cmocka_unit_test(test_doubles_read_back),
      cmocka_unit_test(test_bytes),        cmocka_unit_test(test_changes),
      cmocka_unit_test(test_printable),    cmocka_unit_test(test_suggestions),
  };
  return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
