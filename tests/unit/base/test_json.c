#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/json.h"
#include "ir/base/text.h"
#include "tests/unit/context.h"
#include <math.h>
#include <string.h>

static const bd_json *parse(bd_ctx *ctx, const char *text) {
  const bd_json *json = NULL;
  assert_int_equal(bd_json_parse(ctx, "t", text, strlen(text), &json), BD_OK);
  assert_non_null(json);
  return json;
}

static void expect_last(const bd_ctx *ctx, int line, int column, const char *part) {
  assert_non_null(ctx->last_diag);
  assert_string_equal(ctx->last_diag->loc.file, "t");
  assert_int_equal(ctx->last_diag->loc.line, line);
  assert_int_equal(ctx->last_diag->loc.column, column);
  if (!strstr(ctx->last_diag->message, part)) {
    assert_string_equal(ctx->last_diag->message, part);
  }
}

static void test_values(void **state) {
  const bd_json *json = parse(*state, " [null, true, false, -7, 2.5, \"a\", [], {}, 1e2] ");
  static const bd_json_kind kinds[] = {BD_JSON_NULL,  BD_JSON_BOOL,   BD_JSON_BOOL,
                                       BD_JSON_INT,   BD_JSON_REAL,   BD_JSON_STRING,
                                       BD_JSON_ARRAY, BD_JSON_OBJECT, BD_JSON_REAL};
  assert_int_equal(json->kind, BD_JSON_ARRAY);
  assert_int_equal(json->count, 9);
  for (size_t i = 0; i < json->count; ++i)
    assert_int_equal(json->items[i].kind, kinds[i]);
  assert_true(json->items[1].boolean);
  assert_false(json->items[2].boolean);
  assert_int_equal(json->items[3].integer, -7);
  assert_true(json->items[3].real == -7.0);
  assert_true(json->items[4].real == 2.5);
  assert_string_equal(json->items[5].string, "a");
  assert_int_equal(json->items[6].count, 0);
  assert_true(json->items[8].real == 100.0);
}

static void test_nested_members_and_places(void **state) {
  const bd_json *json = parse(*state, "{\n  \"a\": {\"x\": [1, {\"y\": 2}]},\n\t\"b\" :3\r\n}\n");
  assert_int_equal(json->count, 2);
  assert_string_equal(json->keys[0], "a");
  assert_string_equal(json->keys[1], "b");
  const bd_json *x = bd_json_find(bd_json_find(json, "a"), "x");
  assert_int_equal(x->count, 2);
  const bd_json *y = bd_json_find(&x->items[1], "y");
  assert_int_equal(y->integer, 2);
  assert_int_equal(y->loc.line, 2);
  assert_int_equal(y->loc.column, 24);
  const bd_json *b = bd_json_find(json, "b");
  assert_int_equal(b->loc.line, 3);
  assert_int_equal(b->loc.column, 7);
  assert_null(bd_json_find(json, "c"));
  assert_null(bd_json_find(x, "y"));
}

static void test_exact_integers(void **state) {
  const bd_json *json = parse(*state, "[9223372036854775807, -9223372036854775808, "
                                      "9223372036854775808, 9007199254740993, -0]");
  assert_true(json->items[0].integer == INT64_MAX);
  assert_true(json->items[1].integer == INT64_MIN);
  assert_int_equal(json->items[2].kind, BD_JSON_REAL);
  assert_true(json->items[2].real == 9223372036854775808.0);
  assert_true(json->items[3].integer == INT64_C(9007199254740993));
  assert_int_equal(json->items[4].integer, 0);
  assert_true(signbit(json->items[4].real));
}

static void test_strings(void **state) {
  const bd_json *json = parse(
      *state, "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\", \"\\ud83d\\ude00\", \"\xc3\xa9\"]");
  assert_string_equal(json->items[0].string, "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac");
  assert_string_equal(json->items[1].string, "\xf0\x9f\x98\x80");
  assert_string_equal(json->items[2].string, "\xc3\xa9");
}

static void test_written_strings_read_back(void **state) {
  bd_ctx *ctx = *state;
  char all[256];
  for (int i = 1; i < 128; ++i)
    all[i - 1] = (char)i;
  memcpy(all + 127, "\xc3\xa9\xf0\x9f\x98\x80", 7);
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add_json_string(&text, all);
  assert_string_equal(parse(ctx, text.data)->string, all);
}

static void test_byte_order_mark(void **state) {
  assert_int_equal(parse(*state, "\xef\xbb\xbf{}")->kind, BD_JSON_OBJECT);
  assert_int_equal(parse(*state, "\xef\xbb\xbf"
                                 "1")
                       ->integer,
                   1);
}

typedef struct refusal {
  const char *text;
  int line, column;
  const char *part;
} refusal;

static const refusal refusals[] = {
    {"", 1, 1, "found the end"},
    {" \n ", 2, 2, "found the end"},
    {"{} {}", 1, 4, "the end of the document, found '{'"},
    {"[1,]", 1, 4, "expected a value"},
    {"[1 2]", 1, 4, "',' or ']'"},
    {"{\"a\":1,}", 1, 8, "a key in double quotes"},
    {"{a:1}", 1, 2, "a key in double quotes"},
    {"{\"a\" 1}", 1, 6, "':' after the key"},
    {"{\"a\":1", 1, 7, "',' or '}', found the end"},
    {"[", 1, 2, "found the end"},
    {"nul", 1, 1, "expected a value"},
    {"True", 1, 1, "expected a value"},
    {"NaN", 1, 1, "expected a value"},
    {"truex", 1, 5, "the end of the document"},
    {"01", 1, 1, "leading zero"},
    {"-", 1, 2, "a digit, found the end"},
    {"+1", 1, 1, "expected a value"},
    {".5", 1, 1, "expected a value"},
    {"1.", 1, 3, "a digit"},
    {"1e+", 1, 4, "a digit"},
    {"0x10", 1, 2, "the end of the document"},
    {"[1e999]", 1, 2, "too large"},
    {"[\n0.1234567890123456789012345678901234567890123456789012345678901234567890]", 2, 1,
     "more than 63 characters"},
    {"\"abc", 1, 1, "not closed"},
    {"\"a\nb\"", 1, 3, "control character 0x0a"},
    {"\"\\q\"", 1, 3, "an escape"},
    {"\"\\u12g4\"", 1, 6, "a hexadecimal digit"},
    {"\"\\u0000\"", 1, 2, "\\u0000"},
    {"\"\\ud800\"", 1, 2, "surrogate"},
    {"\"\\udc00\\ud800\"", 1, 2, "surrogate"},
    {"\"\\ud800\\ud800\"", 1, 2, "surrogate"},
    {"\"\xff\"", 1, 2, "not valid UTF-8"},
    {"\"\xc0\x80\"", 1, 2, "not valid UTF-8"},
    {"\"\xed\xa0\x80\"", 1, 2, "not valid UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, 2, "not valid UTF-8"},
    {"[\xc2\xa0]", 1, 2, "found byte 0xc2"},
    {"{\"a\":1,\n \"\\u0061\":2}", 2, 2, "\"a\" stands twice"},
    {"[{\"k\":{\"b\":1,\"c\":2,\"b\":3}}]", 1, 20, "\"b\" stands twice"},
    {"// comment\n1", 1, 1, "expected a value"},
    {"\xef\xbb\xbf\xef\xbb\xbf{}", 1, 1, "found byte 0xef"},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    const refusal *each = &refusals[i];
    bd_ctx *ctx = bd_ctx_create();
    const bd_json *json = NULL;
    bd_status status = bd_json_parse(ctx, "t", each->text, strlen(each->text), &json);
    assert_int_equal(status, BD_INVALID);
    assert_int_equal(ctx->error_count, 1);
    assert_null(json);
    expect_last(ctx, each->line, each->column, each->part);
    bd_ctx_destroy(ctx);
  }
}

static void test_nul_bytes_are_refused(void **state) {
  bd_ctx *ctx = *state;
  const bd_json *json = NULL;
  assert_int_equal(bd_json_parse(ctx, "t", "[1]\0", 4, &json), BD_INVALID);
  assert_int_equal(bd_json_parse(ctx, "t", "\"a\0b\"", 5, &json), BD_INVALID);
}

static const char *nested(bd_ctx *ctx, int depth) {
  bd_text text = bd_text_init(ctx->arena);
  for (int i = 0; i < depth; ++i)
    bd_text_add(&text, i % 2 ? "{\"k\":" : "[");
  bd_text_add(&text, "0");
  for (int i = depth; i-- > 0;)
    bd_text_add(&text, i % 2 ? "}" : "]");
  return text.data;
}

static void test_depth(void **state) {
  bd_ctx *ctx = *state;
  assert_non_null(parse(ctx, nested(ctx, BD_JSON_MAX_DEPTH)));
  const char *deep = nested(ctx, BD_JSON_MAX_DEPTH + 1);
  const bd_json *json = NULL;
  assert_int_equal(bd_json_parse(ctx, "t", deep, strlen(deep), &json), BD_INVALID);
  assert_non_null(strstr(ctx->last_diag->message, "nested more than 64"));
}

// Every text cut short, and with each byte replaced, ends in a status; memory errors are the
// sanitizers' to find.
static void test_damaged_texts(void **state) {
  (void)state;
  const char text[] =
      "{\"a\":[1,-2.5e3,\"\\u00e9\\ud83d\\ude00\xc3\xa9\"],\"b\":{\"c\":null,\"d\":true}}";
  for (size_t cut = 0; cut < sizeof text - 1; ++cut) {
    for (int byte = 0; byte < 256; byte += 3) {
      bd_ctx *ctx = bd_ctx_create();
      char *damaged = bd_arena_alloc(ctx->arena, sizeof text - 1);
      memcpy(damaged, text, sizeof text - 1);
      damaged[cut] = (char)byte;
      const bd_json *json = NULL;
      bd_status status = bd_json_parse(ctx, "t", damaged, sizeof text - 1, &json);
      assert_true(status == BD_OK || (status == BD_INVALID && ctx->error_count == 1));
      char *shorter = bd_arena_alloc(ctx->arena, cut);
      memcpy(shorter, text, cut);
      assert_int_equal(bd_json_parse(ctx, "t", shorter, cut, &json), BD_INVALID);
      bd_ctx_destroy(ctx);
    }
  }
}

static bd_status parse_body(bd_ctx *ctx, void *arg) {
  const char *text = arg;
  const bd_json *json = NULL;
  return bd_json_parse(ctx, "t", text, strlen(text), &json);
}

static void exhaust_at_every_allocation(bd_ctx *maker, const char *text, bd_status wanted) {
  char *copy = BD_NEW_ARRAY(maker->arena, char, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  for (long after = 0;; ++after) {
    bd_ctx *ctx = bd_ctx_create();
    bd_arena_fail_after(ctx->arena, after);
    bd_status status = bd_ctx_run(ctx, parse_body, copy);
    assert_int_equal(ctx->error_count, status != BD_OK);
    bd_ctx_destroy(ctx);
    if (status == wanted) break;
    assert_int_equal(status, BD_EXHAUSTED);
    assert_true(after < 1000);
  }
}

static void test_exhaustion(void **state) {
  bd_ctx *ctx = *state;
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "{\"a\":[");
  for (int i = 0; i < 500; ++i)
    bd_text_addf(&text, "%s{\"k\":\"v%d\"}", i ? "," : "", i);
  bd_text_add(&text, "]}");
  exhaust_at_every_allocation(ctx, text.data, BD_OK);
  exhaust_at_every_allocation(ctx, "{\"a\":1,\"a\":2}", BD_INVALID);
  exhaust_at_every_allocation(ctx, "[1,", BD_INVALID);
}

static void test_typed_members(void **state) {
  bd_ctx *ctx = *state;
  const bd_json *json =
      parse(ctx, "{\"i\":5,\"r\":0.5,\"b\":true,\"s\":\"x\",\"a\":[1],\"o\":{},\"n\":null}");
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  const char *string = NULL;
  const bd_json *array = NULL, *object = NULL;
  assert_int_equal(bd_json_int(ctx, json, "i", true, 5, 5, &integer), BD_OK);
  assert_int_equal(integer, 5);
  assert_int_equal(bd_json_real(ctx, json, "r", true, 0, 1, &real), BD_OK);
  assert_true(real == 0.5);
  assert_int_equal(bd_json_real(ctx, json, "i", true, 0, 9, &real), BD_OK);
  assert_true(real == 5.0);
  assert_int_equal(bd_json_bool(ctx, json, "b", true, &boolean), BD_OK);
  assert_true(boolean);
  assert_int_equal(bd_json_string(ctx, json, "s", true, &string), BD_OK);
  assert_string_equal(string, "x");
  assert_int_equal(bd_json_array(ctx, json, "a", true, &array), BD_OK);
  assert_int_equal(array->count, 1);
  assert_int_equal(bd_json_object(ctx, json, "o", true, &object), BD_OK);
  assert_int_equal(object->count, 0);
  integer = 42;
  assert_int_equal(bd_json_int(ctx, json, "absent", false, 0, 1, &integer), BD_OK);
  assert_int_equal(bd_json_int(ctx, json, "n", false, 0, 1, &integer), BD_OK);
  assert_int_equal(integer, 42);
  assert_int_equal(ctx->error_count, 0);
}

static void test_wrong_members(void **state) {
  bd_ctx *ctx = *state;
  const bd_json *json = parse(ctx, "{\"i\":5,\n\"r\":0.5,\"s\":\"x\",\"n\":null}");
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  const char *string = NULL;
  const bd_json *member = NULL;
  assert_int_equal(bd_json_int(ctx, json, "i", true, 6, 8, &integer), BD_INVALID);
  expect_last(ctx, 1, 6, "\"i\": expected an integer from 6 to 8, found 5");
  assert_int_equal(bd_json_int(ctx, json, "r", true, 0, 8, &integer), BD_INVALID);
  expect_last(ctx, 2, 5, "\"r\": expected an integer from 0 to 8, found 0.5");
  json = parse(ctx, "{\"e\":8e9,\"h\":8.5e0,\"l\":1e300,\"i\":5,\n\"r\":0.5,\"s\":\"x\",\"n\":null}");
  assert_int_equal(bd_json_int(ctx, json, "e", true, 0, INT64_MAX, &integer), BD_OK);
  assert_true(integer == 8000000000);
  assert_int_equal(bd_json_int(ctx, json, "h", true, 0, INT64_MAX, &integer), BD_INVALID);
  assert_int_equal(bd_json_int(ctx, json, "l", true, 0, INT64_MAX, &integer), BD_INVALID);
  json = parse(ctx, "{\"i\":5,\n\"r\":0.5,\"s\":\"x\",\"n\":null}");
  assert_int_equal(bd_json_int(ctx, json, "absent", true, 0, 8, &integer), BD_INVALID);
  expect_last(ctx, 1, 1, "\"absent\" (an integer) is missing");
  assert_int_equal(bd_json_int(ctx, json, "n", true, 0, 8, &integer), BD_INVALID);
  expect_last(ctx, 2, 21, "\"n\": expected an integer, found null");
  assert_int_equal(bd_json_real(ctx, json, "r", true, 1, 2, &real), BD_INVALID);
  expect_last(ctx, 2, 5, "\"r\": expected a number from 1 to 2, found 0.5");
  assert_int_equal(bd_json_bool(ctx, json, "i", true, &boolean), BD_INVALID);
  expect_last(ctx, 1, 6, "\"i\": expected true or false, found 5");
  assert_int_equal(bd_json_string(ctx, json, "i", false, &string), BD_INVALID);
  assert_int_equal(bd_json_array(ctx, json, "s", true, &member), BD_INVALID);
  expect_last(ctx, 2, 13, "\"s\": expected an array, found \"x\"");
  assert_int_equal(bd_json_object(ctx, json, "s", true, &member), BD_INVALID);
  const bd_json *array = parse(ctx, "[]");
  assert_int_equal(bd_json_string(ctx, array, "s", false, &string), BD_INVALID);
  expect_last(ctx, 1, 1, "expected an object, found an array");
}

static void test_only_known_members(void **state) {
  bd_ctx *ctx = *state;
  const char *const keys[] = {"devices", "name", NULL};
  assert_int_equal(bd_json_only(ctx, parse(ctx, "{\"name\":1}"), keys), BD_OK);
  assert_int_equal(bd_json_only(ctx, parse(ctx, "{\"nmae\":1}"), keys), BD_INVALID);
  expect_last(ctx, 1, 2, "unknown key \"nmae\"; did you mean \"name\"?");
  assert_int_equal(bd_json_only(ctx, parse(ctx, "{\"zzzzzz\":1}"), keys), BD_INVALID);
  expect_last(ctx, 1, 2, "unknown key \"zzzzzz\"");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_ctx, drop_ctx)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_values),
      TEST(test_nested_members_and_places),
      TEST(test_exact_integers),
      TEST(test_strings),
      TEST(test_written_strings_read_back),
      TEST(test_byte_order_mark),
      cmocka_unit_test(test_refusals),
      TEST(test_nul_bytes_are_refused),
      TEST(test_depth),
      cmocka_unit_test(test_damaged_texts),
      TEST(test_exhaustion),
      TEST(test_typed_members),
      TEST(test_wrong_members),
      TEST(test_only_known_members),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
