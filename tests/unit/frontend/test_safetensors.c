#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/safetensors.h"
#include "tests/unit/context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Writes a file with `announced` as the header's length and `data_bytes` of data; opens it.
static bd_status open_raw(bd_ctx *ctx, uint64_t announced, const char *header, size_t data_bytes,
                          bd_safetensors *out_file) {
  char path[] = "/tmp/braid_safetensors_XXXXXX";
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  FILE *stream = fdopen(descriptor, "wb");
  assert_non_null(stream);
  for (int i = 0; i < 8; ++i)
    fputc((int)(announced >> (8 * i)) & 0xff, stream);
  fputs(header, stream);
  for (size_t i = 0; i < data_bytes; ++i)
    fputc((int)i, stream);
  assert_int_equal(fclose(stream), 0);
  bd_status status = bd_safetensors_open(ctx, path, out_file);
  unlink(path);
  return status;
}

static bd_status open_text(bd_ctx *ctx, const char *header, size_t data_bytes,
                           bd_safetensors *out_file) {
  return open_raw(ctx, strlen(header), header, data_bytes, out_file);
}

static void test_reads_tensors_in_any_order(void **state) {
  bd_safetensors file;
  const char *header = "{\"__metadata__\":{\"format\":\"pt\"},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                       "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                       "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
                       "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[28,29]}}   ";
  assert_int_equal(open_text(*state, header, 29, &file), BD_OK);
  assert_int_equal(file.count, 4);
  const bd_stored_tensor *b = bd_safetensors_find(&file, "b");
  assert_non_null(b);
  assert_string_equal(b->dtype, "F32");
  assert_int_equal(b->rank, 2);
  assert_int_equal(b->dims[1], 3);
  assert_int_equal(file.data[b->begin_bytes], 4);
  assert_non_null(bd_safetensors_find(&file, "none"));
  assert_int_equal(bd_safetensors_find(&file, "one")->rank, 0);
  assert_null(bd_safetensors_find(&file, "c"));
  bd_map_close(&file.map);
}

typedef struct bad_file {
  const char *header;
  size_t data_bytes;
  const char *message;
} bad_file;

#define A_TENSOR(offsets) "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" offsets "}"

static const bad_file bad_files[] = {
    {"{" A_TENSOR("[0,8]") "}", 7, "truncated"},
    {"{" A_TENSOR("[0,8]") "}", 9, "follow the last tensor"},
    {"{}", 1, "follow the last tensor"},
    {" {}", 0, "does not start with"},
    {"[]", 0, "does not start with"},
    {"{\"a\":", 0, ""},
    {"{} x", 0, ""},
    {"{" A_TENSOR("[0,8]") "," A_TENSOR("[8,16]") "}", 16, "a"},
    {"{" A_TENSOR("[8,0]") "}", 8, "two ascending integers"},
    {"{" A_TENSOR("[0,8.0]") "}", 8, "two ascending integers"},
    {"{" A_TENSOR("[0]") "}", 8, "two ascending integers"},
    {"{" A_TENSOR("[-8,0]") "}", 8, "two ascending integers"},
    {"{" A_TENSOR("[0,12]") "}", 12, "its shape takes 8"},
    {"{" A_TENSOR("[4,12]") "}", 12, "a hole of 4 bytes"},
    {"{" A_TENSOR("[0,8]") ",\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
     "overlaps"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "end on a byte"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "at least 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "overflows"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,2147483648],\"data_offsets\":[0,0]}}", 0,
     "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "9 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "unknown key"},
    {"{\"a\":3}", 0, "object"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ""},
    {"{\"__metadata__\":[]}", 0, "must be an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "must be a string"},
};

static void test_refuses_bad_files(void **state) {
  for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; ++i) {
    bd_ctx *ctx = *state;
    bd_safetensors file = {0};
    int before = ctx->error_count;
    bd_status status = open_text(ctx, bad_files[i].header, bad_files[i].data_bytes, &file);
    if (status == BD_OK) fail_msg("accepted %s", bad_files[i].header);
    assert_int_equal(ctx->error_count, before + 1);
    assert_null(file.map.data);
    if (!strstr(ctx->last_diag->message, bad_files[i].message))
      fail_msg("%s: %s", bad_files[i].header, ctx->last_diag->message);
  }
}

static void test_refuses_bad_lengths(void **state) {
  bd_safetensors file;
  assert_int_equal(open_raw(*state, 3, "{}", 0, &file), BD_INVALID);
  assert_int_equal(open_raw(*state, 0, "{}", 0, &file), BD_INVALID);
  assert_int_equal(open_raw(*state, UINT64_MAX, "{}", 0, &file), BD_INVALID);
  assert_int_equal(open_raw(*state, 100000001, "{}", 0, &file), BD_INVALID);
  assert_int_equal(bd_safetensors_open(*state, "/nonexistent", &file), BD_INVALID);
  assert_int_equal(bd_safetensors_open(*state, "/tmp", &file), BD_INVALID);
}

static void test_hostile_names_stay_on_one_line(void **state) {
  bd_ctx *ctx = *state;
  bd_safetensors file;
  const char *header = "{\"*/\\n\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[2],"
                       "\"data_offsets\":[0,4]}}";
  assert_int_equal(open_text(ctx, header, 4, &file), BD_INVALID);
  assert_null(strchr(ctx->last_diag->message, '\n'));
  assert_null(strchr(ctx->last_diag->message, '\x1b'));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_reads_tensors_in_any_order, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_refuses_bad_files, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_refuses_bad_lengths, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_hostile_names_stay_on_one_line, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
