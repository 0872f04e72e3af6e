// Whole numbers as people write them.
#include "ir/base/number.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_whole(void **unused) {
  (void)unused;
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0},
              {"-7", -7},
              {"8e9", 8000000000},
              {"8000000000.0", 8000000000},
              {"1.5e1", 15},
              {"+3", 3},
              {"9223372036854775807", INT64_MAX},
              {"1e0", 1},
              {"-2.0e1", -20}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    int64_t value = -1;
    assert_true(bd_whole_read(good[i].text, &value));
    assert_int_equal(value, good[i].value);
  }
}

static void test_others(void **unused) {
  (void)unused;
  // Words, blanks, parts of units, what does not fit, what a double need not hold.
  static const char *const bad[] = {"",
                                    " 1",
                                    "1 ",
                                    "0x10",
                                    "nan",
                                    "inf",
                                    "1.5",
                                    "1e-1",
                                    "1e400",
                                    "9223372036854775808",
                                    "9007199254740993e0",
                                    "1e18",
                                    "1e",
                                    "e1",
                                    "--1",
                                    "1.2.3"};
  int64_t value;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(bd_whole_read(bad[i], &value));
  assert_false(bd_whole_of(0x1p53, &value));
  assert_true(bd_whole_of(-0x1p52, &value) && value == -((int64_t)1 << 52));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
