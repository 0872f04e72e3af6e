// Elements of buffers: every half there and back, as the runtime has it, and the ends of integers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/element.h"
#include "runtime/braid_rt_abi.h"
#include "runtime/half.h"
#include <math.h>
#include <string.h>

static void test_halves(void **state) {
  (void)state;
  static const struct {
    bd_dtype dtype;
    int runtime;
  } halves[] = {{BD_F16, BD_RT_F16}, {BD_BF16, BD_RT_BF16}};
  for (int i = 0; i < 2; i++)
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
      uint16_t half = (uint16_t)bits, again = 0;
      double number = bd_element_read(halves[i].dtype, &half, 0);
      double wanted = bd_rt_from_half(halves[i].runtime, half);
      assert_true(number == wanted || (isnan(number) && isnan(wanted)));
      bd_element_write(halves[i].dtype, &again, 0, number);
      assert_true(again == half || isnan(number));
      assert_true(isnan(bd_element_read(halves[i].dtype, &again, 0)) == isnan(number));
    }
}

// What is written is rounded as the type rounds, at any address.
static void test_rounding(void **state) {
  (void)state;
  char buffer[2 * 8 + 1];
  static const struct {
    bd_dtype dtype;
    double written, read;
  } cases[] = {
      {BD_F32, 0.1, 0.1f},
      {BD_F32, 1e300, INFINITY},
      {BD_F64, 0.1, 0.1},
      {BD_F16, 65520, INFINITY},
      {BD_F16, 0x1.002p0, 1},
      {BD_BF16, 0x1.01p0, 1},
      {BD_BOOL, -3, 1},
      {BD_I8, -128, -128},
      {BD_U8, 255, 255},
      {BD_I16, -32768, -32768},
      {BD_U16, 65535, 65535},
      {BD_I32, -0x1p31, -0x1p31},
      {BD_U32, 0x1p32 - 1, 0x1p32 - 1},
      {BD_I64, -0x1p63, -0x1p63},
      {BD_I64, 1e30, 0x1p63},
      {BD_U64, 0x1p63, 0x1p63},
      {BD_U64, 1e30, 0x1p64},
      {BD_I32, 2.9, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(buffer, 0x55, sizeof buffer);
    bd_element_write(cases[i].dtype, buffer + 1, 1, cases[i].written);
    assert_true(bd_element_read(cases[i].dtype, buffer + 1, 1) == cases[i].read);
    assert_int_equal(buffer[bd_dtype_bytes(cases[i].dtype)], 0x55);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves),
                                     cmocka_unit_test(test_rounding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
