// Names of layers as patterns: what is one, and that every layer's name comes out of it.
#include "codegen/numbered_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_found(void **state) {
  (void)state;
  static const struct {
    const char *first, *second;
    size_t prefix_bytes;
    int64_t number, step;
    const char *rest;
  } cases[] = {
      {"h.0.ln", "h.1.ln", 2, 0, 1, ".ln"},    {"h.9.ln", "h.10.ln", 2, 9, 1, ".ln"},
      {"x1.7", "x1.5", 3, 7, -2, ""},          {"12", "15", 0, 12, 3, ""},
      {"a\n\"3*/", "a\n\"4*/", 3, 3, 1, "*/"}, {"same", "same", 4, 0, 0, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    bd_numbered_name name;
    assert_true(bd_numbered_name_find(cases[i].first, cases[i].second, &name));
    assert_int_equal(name.prefix_bytes, cases[i].prefix_bytes);
    assert_int_equal(name.number, cases[i].number);
    assert_int_equal(name.step, cases[i].step);
    if (cases[i].rest)
      assert_string_equal(name.rest, cases[i].rest);
    else
      assert_null(name.rest);
    assert_true(bd_numbered_name_matches(&name, cases[i].first, 0, cases[i].first));
    assert_true(bd_numbered_name_matches(&name, cases[i].first, 1, cases[i].second));
  }
}

static void test_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"h.00.w", "h.01.w"}, // would be printed without the zero
      {"h.0.w", "h.1.b"},
      {"a1b1", "a2b2"},
      {"a", "b"},
      {"a1", "a"},
      {"", "1"},
      {"w1000000000000000", "w1000000000000001"}, // too long to add to
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    bd_numbered_name name;
    assert_false(bd_numbered_name_find(cases[i][0], cases[i][1], &name));
  }
}

static void test_matches(void **state) {
  (void)state;
  bd_numbered_name name;
  assert_true(bd_numbered_name_find("h.8.w", "h.9.w", &name));
  assert_true(bd_numbered_name_matches(&name, "h.8.w", 2, "h.10.w"));
  assert_false(bd_numbered_name_matches(&name, "h.8.w", 2, "h.010.w"));
  assert_false(bd_numbered_name_matches(&name, "h.8.w", 2, "h.11.w"));
  assert_false(bd_numbered_name_matches(&name, "h.8.w", 2, "h.10.w2"));
  assert_false(bd_numbered_name_matches(&name, "h.8.w", 2, "g.10.w"));
  assert_true(bd_numbered_name_find("same", "same", &name));
  assert_true(bd_numbered_name_matches(&name, "same", 5, "same"));
  assert_false(bd_numbered_name_matches(&name, "same", 5, "same5"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_matches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
