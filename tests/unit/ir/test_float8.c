// Numbers of 8 bits: the interpreter's arithmetic beside the codes of the runtime, and products.
#include "ir/float8.h"
#include "ir/interpret.h"
#include "runtime/float8.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  bd_float8 format;
  int code;
  double least, most; // the smallest and the largest number above 0
  int numbers;        // finite codes of one sign
} formats[] = {{BD_E4M3, BD_RT_E4M3, 0x1p-9, 448, 127}, {BD_E5M2, BD_RT_E5M2, 0x1p-16, 57344, 124}};

static double rounded(bd_ctx *ctx, bd_float8 format, double value, double most) {
  double data[2] = {value, most}; // the second sets the scale
  bd_tensor tensor = {{BD_F32, 1, {2}}, data};
  return bd_float8_round(ctx->arena, format, &tensor).data[0];
}

// Every number stays what it is; between two of them the nearer one is taken, or the even one.
static void codes_are_rounded_alike(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  for (int f = 0; f < 2; f++) {
    int code = formats[f].code;
    float last = 0;
    assert_true(bd_rt_from_f8(code, 1) == (float)formats[f].least);
    for (int i = 0; i < formats[f].numbers; i++) {
      float value = bd_rt_from_f8(code, (uint8_t)i), middle = (value + last) / 2;
      int even = i % 2 ? i - 1 : i;
      assert_true(i == 0 || value > last);
      assert_int_equal(bd_rt_to_f8(code, value), i);
      assert_int_equal(bd_rt_to_f8(code, -value), i | 0x80);
      assert_true(bd_rt_from_f8(code, (uint8_t)(i | 0x80)) == -value);
      if (i > 0) {
        assert_int_equal(bd_rt_to_f8(code, middle), even);
        assert_int_equal(bd_rt_to_f8(code, nextafterf(middle, 0)), i - 1);
        assert_int_equal(bd_rt_to_f8(code, nextafterf(middle, value)), i);
        assert_true(rounded(ctx, formats[f].format, middle, formats[f].most) ==
                    bd_rt_from_f8(code, (uint8_t)even));
      }
      assert_true(rounded(ctx, formats[f].format, value, formats[f].most) == value);
      last = value;
    }
    assert_true(last == (float)formats[f].most);
    assert_int_equal(bd_rt_to_f8(code, 2 * last), formats[f].numbers - 1); // saturates
    assert_true(isnan(bd_rt_from_f8(code, bd_rt_to_f8(code, INFINITY))));
    assert_true(isnan(bd_rt_from_f8(code, bd_rt_to_f8(code, NAN))));
  }
  bd_ctx_destroy(ctx);
}

// The scale is the largest power of two that leaves the largest number within the format.
static void scales_are_alike(void **state) {
  (void)state;
  static const float sizes[] = {448, 449, 1, 57344, 57345, 3e38f, 1e-30f, 0x1p-133, 0x1.9p7f, 0.1f};
  bd_ctx *ctx = bd_ctx_create();
  for (int f = 0; f < 2; f++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      float scale = bd_rt_f8_scale(formats[f].code, bd_rt_bits_of(sizes[i]));
      float inverse = bd_rt_f8_inverse(scale), value = sizes[i] / 3;
      assert_true(scale * inverse == 1);
      assert_true((double)sizes[i] * scale <= formats[f].most);
      assert_true((double)sizes[i] * scale * 2 > formats[f].most || scale == 0x1p126f);
      uint8_t code = bd_rt_to_f8(formats[f].code, value * scale);
      assert_true(rounded(ctx, formats[f].format, value, sizes[i]) ==
                  (double)bd_rt_from_f8(formats[f].code, code) * inverse);
    }
  assert_true(bd_rt_f8_scale(BD_RT_E4M3, 0) == 1);
  assert_true(bd_rt_f8_scale(BD_RT_E4M3, 0x7F800000) == 1);
  assert_true(isnan(rounded(ctx, BD_E4M3, 1, INFINITY)) == 0);
  assert_true(isnan(rounded(ctx, BD_E4M3, NAN, 1)));
  bd_ctx_destroy(ctx);
}

static void attributes_are_read(void **state) {
  (void)state;
  bd_float8 format[2];
  assert_true(bd_float8_parse("e5m2,e4m3", format));
  assert_true(format[0] == BD_E5M2 && format[1] == BD_E4M3);
  for (const char *const *text =
           (const char *const[]){"", "e4m3", "e4m3,", "e5m2,e5m2", "e4m3,e4m3 ", NULL};
       *text; text++)
    assert_false(bd_float8_parse(*text, format));
}

static bool fits(const char *rule, int64_t a, int64_t b, int64_t c) {
  bd_type x = {BD_BF16, 3, {BD_DIM_BATCH, a, b}}, w = {BD_BF16, 2, {b, c}};
  return bd_float8_fits(rule, &x, &w);
}

static void grains_are_counted(void **state) {
  (void)state;
  assert_true(fits("btc,cn->btn", 3, 32, 48));
  assert_false(fits("btc,cn->btn", 16, 24, 48));
  assert_false(fits("btc,cn->btn", 16, 32, 40));
  bd_type x = {BD_BF16, 3, {16, 32, 16}}, y = {BD_BF16, 3, {16, 16, 32}};
  assert_true(bd_float8_fits("bij,bjk->bik", &x, &y)); // many products
  bd_type short_x = {BD_BF16, 3, {16, 8, 16}}; // what numbers products adds no rows
  assert_false(bd_float8_fits("bij,bjk->bik", &short_x, &y));
  assert_false(bd_float8_fits("ibj,bjk->bik", &x, &y)); // rows beyond them do not count
  bd_type rows = {BD_BF16, 3, {4, 32, 16}}, terms_first = {BD_BF16, 3, {16, 4, 32}};
  assert_false(bd_float8_fits("emk,ken->emn", &rows, &terms_first)); // nor do terms, of either
  assert_false(bd_float8_fits("ken,emk->emn", &terms_first, &rows));
  bd_type tokens = {BD_BF16, 4, {BD_DIM_BATCH, 4, 8, 32}}, experts = {BD_BF16, 3, {4, 32, 48}};
  assert_false(bd_float8_fits("bepc,ecf->bepf", &tokens, &experts));
  tokens.dims[1] = experts.dims[0] = 1; // of one expert, all samples' rows are one matrix's
  assert_true(bd_float8_fits("bepc,ecf->bepf", &tokens, &experts));
  bd_type head = {BD_BF16, 3, {32, 4, 4}}, flat = {BD_BF16, 2, {16, 32}};
  assert_true(bd_float8_fits("tc,chd->thd", &flat, &head)); // letters together
}

enum { B = 2, E = 3, P = 16, C = 32, F = 16 };

static void round_all(int code, double *data, int count) {
  double most = 0;
  for (int i = 0; i < count; i++)
    most = fmax(most, fabs(data[i]));
  float scale = bd_rt_f8_scale(code, bd_rt_bits_of((float)most));
  for (int i = 0; i < count; i++)
    data[i] = (double)bd_rt_from_f8(code, bd_rt_to_f8(code, (float)data[i] * scale)) / scale;
}

// The interpreter's products of experts are those of the numbers that the runtime's codes stand
// for; of places that are no grain, those of the numbers as they are.
static void experts_are_rounded(void **state) {
  (void)state;
  for (int places = P; places >= P / 2; places -= P / 2) {
    bd_ctx *ctx = bd_ctx_create();
    bd_type x = {BD_BF16, 4, {B, E, places, C}}, w = {BD_BF16, 3, {E, C, F}};
    int x_count = B * E * places * C, w_count = E * C * F;
    double *a = BD_NEW_ARRAY(ctx->arena, double, x_count);
    double *b = BD_NEW_ARRAY(ctx->arena, double, w_count);
    for (int i = 0; i < x_count; i++)
      a[i] = bd_rt_from_bf16(bd_rt_to_bf16(sinf((float)i)));
    for (int i = 0; i < w_count; i++)
      b[i] = bd_rt_from_bf16(bd_rt_to_bf16(cosf((float)i) / (float)(1 + i / (C * F))));
    bd_function *f = bd_function_create(ctx, "f");
    bd_id out, in[] = {bd_function_add_param(ctx, f, "x", x), bd_function_add_param(ctx, f, "w", w)};
    bd_attr attrs[] = {bd_attr_string(ctx, "rule", "bepc,ecf->bepf"),
                       bd_attr_string(ctx, "dtype", "f32"),
                       bd_attr_string(ctx, "fp8", "e5m2,e4m3")};
    assert_int_equal(bd_build(ctx, f, BD_OP_CONTRACT, 2, in, 3, attrs, BD_NOWHERE, &out), BD_OK);
    bd_function_add_result(ctx, f, out);
    bd_tensor factors[] = {{x, a}, {w, b}}, *results;
    bd_random_key key = {0};
    assert_int_equal(bd_interpret_function(ctx, NULL, f, B, factors, &key, &results, NULL), BD_OK);
    if (places % BD_FLOAT8_GRAIN == 0) {
      round_all(BD_RT_E5M2, a, x_count);
      round_all(BD_RT_E4M3, b, w_count);
    }
    for (int at = 0; at < B * E * places * F; at++) {
      int row = at / F, expert = row / places % E;
      double sum = 0;
      for (int c = 0; c < C; c++)
        sum += a[row * C + c] * b[(expert * C + c) * F + at % F];
      assert_true(fabs(results[0].data[at] - sum) < 1e-6);
    }
    bd_ctx_destroy(ctx);
  }
}

// --- Rows in groups: those of B samples of ROWS rows, in groups of which one begins within a grain.

enum { ROWS = 64 };

static const int group_ends[E] = {16, 78, 112};

// The group of a row, or E; ends are rounded up to the grain, of 8 or 16.
static int group_of(int row) {
  int g = 0;
  while (g < E && group_ends[g] <= row / 16 * 16)
    g++;
  return g;
}

static double *numbers(bd_ctx *ctx, int count, double step) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int i = 0; i < count; i++)
    out[i] = bd_rt_from_bf16(bd_rt_to_bf16((float)sin(i * step) / (float)(1 + i % 7)));
  return out;
}

// out = op(x, w), `factors` of these types, with the ends above.
static bd_tensor run_grouped(bd_ctx *ctx, bd_op_kind kind, const bd_tensor *x, const bd_tensor *w,
                             int attr_count, const bd_attr *attrs) {
  bd_function *f = bd_function_create(ctx, "f");
  bd_type ends = {BD_I32, 2, {B, E}};
  double at[B * E];
  for (int i = 0; i < B * E; i++)
    at[i] = group_ends[i % E];
  bd_id out, in[] = {bd_function_add_param(ctx, f, "x", x->type),
                     bd_function_add_param(ctx, f, "w", w->type),
                     bd_function_add_param(ctx, f, "ends", ends)};
  assert_int_equal(bd_build(ctx, f, kind, 3, in, attr_count, attrs, BD_NOWHERE, &out), BD_OK);
  bd_function_add_result(ctx, f, out);
  bd_tensor factors[] = {*x, *w, {ends, at}}, *results;
  bd_random_key key = {0};
  assert_int_equal(bd_interpret_function(ctx, NULL, f, B, factors, &key, &results, NULL), BD_OK);
  return results[0];
}

// As of places: with a grain of 16 the products are those of rounded factors, with one of 8 of the
// factors as they are.
static void rows_in_groups_are_rounded(void **state) {
  (void)state;
  for (int grain = 16; grain >= 8; grain -= 8) {
    bd_ctx *ctx = bd_ctx_create();
    bd_tensor x = {{BD_BF16, 3, {B, ROWS, C}}, numbers(ctx, B * ROWS * C, 0.7)};
    bd_tensor w = {{BD_BF16, 3, {E, C, F}}, numbers(ctx, E * C * F, 1.3)};
    bd_attr attrs[] = {bd_attr_int(ctx, "grain", grain), bd_attr_string(ctx, "dtype", "f32"),
                       bd_attr_string(ctx, "fp8", "e4m3,e5m2")};
    bd_tensor y = run_grouped(ctx, BD_OP_GROUPED_CONTRACT, &x, &w, 3, attrs);
    double *a = numbers(ctx, B * ROWS * C, 0.7), *b = numbers(ctx, E * C * F, 1.3);
    if (grain == 16) {
      round_all(BD_RT_E4M3, a, B * ROWS * C);
      round_all(BD_RT_E5M2, b, E * C * F);
    }
    for (int at = 0; at < B * ROWS * F; at++) {
      int row = at / F, g = group_of(row);
      double sum = 0;
      for (int c = 0; g < E && c < C; c++)
        sum += a[row * C + c] * b[(g * C + c) * F + at % F];
      assert_true(fabs(y.data[at] - sum) < 1e-6);
    }
    bd_ctx_destroy(ctx);
  }
}

static void gradients_of_groups_are_rounded(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_tensor x = {{BD_BF16, 3, {B, ROWS, C}}, numbers(ctx, B * ROWS * C, 0.7)};
  bd_tensor dy = {{BD_BF16, 3, {B, ROWS, F}}, numbers(ctx, B * ROWS * F, 0.3)};
  bd_attr attrs[] = {bd_attr_int(ctx, "grain", 16), bd_attr_string(ctx, "dtype", "f32"),
                     bd_attr_string(ctx, "fp8", "e4m3,e5m2")};
  bd_tensor dw = run_grouped(ctx, BD_OP_GROUPED_CONTRACT_DW, &x, &dy, 3, attrs);
  double *a = numbers(ctx, B * ROWS * C, 0.7), *b = numbers(ctx, B * ROWS * F, 0.3);
  round_all(BD_RT_E4M3, a, B * ROWS * C);
  round_all(BD_RT_E5M2, b, B * ROWS * F);
  for (int at = 0; at < E * C * F; at++) {
    double sum = 0;
    for (int row = 0; row < B * ROWS; row++)
      if (group_of(row) == at / (C * F))
        sum += a[row * C + at / F % C] * b[row * F + at % F];
    assert_true(fabs(dw.data[at] - sum) < 1e-5);
  }
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_are_rounded_alike),
      cmocka_unit_test(scales_are_alike),
      cmocka_unit_test(attributes_are_read),
      cmocka_unit_test(grains_are_counted),
      cmocka_unit_test(experts_are_rounded),
      cmocka_unit_test(rows_in_groups_are_rounded),
      cmocka_unit_test(gradients_of_groups_are_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
