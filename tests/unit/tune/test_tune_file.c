// The file of --tune: what is written is read again, and what is wrong with a file is said.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/braid_rt_abi.h"
#include "runtime/cuda/tune_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TEXT = 1 << 20 };

static const bd_tune_maker maker = {.device = "NVIDIA Example 80GB", .library = 120805};
static char folder[] = "/tmp/tune.XXXXXX";
static char path[64], message[1024], text[MOST_TEXT];
static bd_tune_table table;
static int exists;

static int open_folder(void **state) {
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/file", folder);
  return 0;
}

static int close_folder(void **state) {
  unlink(path);
  return rmdir(folder); // fails where something was left
}

static bd_tune_choice choice_of(const char *product, int seed) {
  bd_tune_choice c = {.seconds = 1e-3, .first_seconds = 2e-3};
  snprintf(c.product, sizeof c.product, "%s", product);
  for (size_t i = 0; i < sizeof c.algorithm; i++)
    c.algorithm[i] = (unsigned char)(seed * 31 + (int)i * 7);
  return c;
}

static void write_table(int64_t count, bd_tune_choice *choices) {
  const bd_tune_table written = {count, choices};
  message[0] = 0;
  assert_int_equal(bd_tune_write(path, &maker, &written, message, sizeof message), 0);
  assert_string_equal(message, "");
}

static void write_two(void) {
  bd_tune_choice two[] = {choice_of("1 of a * b -> c", 1), choice_of("2 of a * b -> c", 2)};
  write_table(2, two);
}

static int read_by(const bd_tune_maker *reader) {
  message[0] = 0;
  exists = -1;
  return bd_tune_read(path, reader, &table, &exists, message, sizeof message);
}

static void expect_refused(const char *why) {
  assert_int_equal(read_by(&maker), BD_RT_EXIT_DATA);
  if (!strstr(message, why)) fail_msg("not '%s' but '%s'", why, message);
  assert_non_null(strstr(message, "; remove it, or name another, to tune anew"));
  assert_null(table.choices);
}

static void put_text(const char *from, size_t bytes) {
  FILE *const file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(from, 1, bytes, file), bytes);
  fclose(file);
}

// The file of two products, with the first `from` as `to`.
static void expect_change_refused(const char *from, const char *to, const char *why) {
  write_two();
  FILE *const file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  char *const at = strstr(text, from);
  assert_non_null(at);
  const size_t length = strlen(to);
  memmove(at + length, at + strlen(from), strlen(at + strlen(from)) + 1);
  memcpy(at, to, length);
  put_text(text, strlen(text));
  expect_refused(why);
}

static void reads_what_it_wrote(void **state) {
  bd_tune_choice two[] = {choice_of("1 of a * b -> c", 1), choice_of("2 of a * b -> c", 2)};
  write_table(2, two);
  assert_int_equal(read_by(&maker), 0);
  assert_int_equal(exists, 1);
  assert_int_equal(table.count, 2);
  for (int i = 0; i < 2; i++) {
    const bd_tune_choice *const found = bd_tune_find(&table, two[i].product);
    assert_ptr_equal(found, &table.choices[i]);
    assert_memory_equal(found->algorithm, two[i].algorithm, sizeof two[i].algorithm);
  }
  assert_null(bd_tune_find(&table, "3 of a * b -> c"));
  bd_tune_free(&table);
  write_table(0, NULL);
  assert_int_equal(read_by(&maker), 0);
  assert_int_equal(table.count, 0);
  assert_null(bd_tune_find(&table, "1 of a * b -> c"));
}

static void sorts(void **state) {
  const bd_tune_choice mixed[] = {choice_of("b", 1), choice_of("a", 2), choice_of("b", 3),
                                  choice_of("a", 4), choice_of("c", 5)};
  const bd_tune_choice expected[] = {mixed[1], mixed[0], mixed[4]};
  table = (bd_tune_table){5, malloc(sizeof mixed)};
  assert_non_null(table.choices);
  memcpy(table.choices, mixed, sizeof mixed);
  assert_int_equal(bd_tune_sort(&table), 1);
  assert_int_equal(table.count, 3);
  assert_memory_equal(table.choices, expected, sizeof expected);
  bd_tune_free(&table);
}

static void knows_its_maker(void **state) {
  bd_tune_maker other = maker;
  write_two();
  other.library = 120900;
  assert_int_equal(read_by(&other), BD_RT_EXIT_DATA);
  assert_non_null(strstr(message, "it is of NVIDIA Example 80GB with cuBLASLt 120805, this is "
                                  "NVIDIA Example 80GB with cuBLASLt 120900; remove it"));
  other = (bd_tune_maker){.device = "NVIDIA Example", .library = maker.library};
  assert_int_equal(read_by(&other), BD_RT_EXIT_DATA);
}

static void refuses_what_is_damaged(void **state) {
  expect_change_refused("\"braid_tune\": 1", "\"braid_tune\": 2", "another version of braid");
  expect_change_refused("braid_tune", "braid_plan", "it is no file of --tune");
  expect_change_refused("120805", "120806", "its sum is another");
  expect_change_refused("Example", "example", "its sum is another");
  expect_change_refused("120805", "-1", "what it was made with");
  expect_change_refused("Example", "Ex\\u00e4mple", "what it was made with");
  expect_change_refused("1 of a", "3 of a", "not in order");
  expect_change_refused("1 of a", "2 of a", "not in order");
  expect_change_refused("1 of a", "", "its sum is another");
  expect_change_refused("1 of a * b -> c", "", "a product is malformed");
  expect_change_refused("1 of a", "1 of\\n", "a product is malformed");
  expect_change_refused("\"algorithm\": \"", "\"algorithm\": \"0", "a product is malformed");
  expect_change_refused("\"algorithm\": \"1", "\"algorithm\": \"G", "a product is malformed");
  expect_change_refused("\"algorithm\": \"1", "\"algorithm\": \"2", "its sum is another");
  expect_change_refused("0.001", "[[1]]", "a product is malformed");
  expect_change_refused("0.001", "{\"a\": 1}", "a product is malformed");
  expect_change_refused("0.001", "", "a product is malformed");
  expect_change_refused("\n  ],", "\n  ", "its list of products does not end");
  expect_change_refused("\"sum\": \"", "\"sum\": \"0", "its end is missing");
  expect_change_refused("\"\n}\n", "\"\n}\n}\n", "something follows its end");
  expect_change_refused("\"\n}\n", "\"\n", "its end is missing");
}

static void refuses_every_beginning(void **state) {
  struct stat about;
  write_two();
  assert_int_equal(stat(path, &about), 0);
  for (int64_t bytes = 0; bytes < about.st_size - 1; bytes++) { // the last one ends a line
    write_two();
    assert_int_equal(truncate(path, bytes), 0);
    expect_refused("");
  }
}

static void refuses_what_is_too_much(void **state) {
  static const char start[] = "{\"braid_tune\": 1, \"device\": \"";
  memset(text, 'x', sizeof text);
  memcpy(text, start, sizeof start - 1);
  put_text(text, sizeof text);
  expect_refused("what it was made with");
  memcpy(text + sizeof start - 1 + BD_TUNE_DEVICE_BYTES, "\", ", 3);
  put_text(text, sizeof text);
  expect_refused("what it was made with");
  memset(text, '[', sizeof text);
  put_text(text, sizeof text);
  expect_refused("it is no file of --tune");
  snprintf(text, sizeof text, "1 of %0*d", BD_TUNE_PRODUCT_BYTES, 1);
  char *const long_name = strdup(text);
  expect_change_refused("1 of a", long_name, "a product is malformed");
  free(long_name);
  assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
  expect_refused("too large");
}

static void refuses_what_is_no_file(void **state) {
  unlink(path);
  assert_int_equal(read_by(&maker), 0);
  assert_int_equal(exists, 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_refused("no regular file");
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_refused("no regular file");
  const bd_tune_table none = {0};
  assert_int_equal(bd_tune_write(path, &maker, &none, message, sizeof message),
                   BD_RT_EXIT_EXTERNAL);
  assert_non_null(strstr(message, "cannot be written: "));
  rmdir(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_it_wrote),     cmocka_unit_test(sorts),
      cmocka_unit_test(knows_its_maker),         cmocka_unit_test(refuses_what_is_damaged),
      cmocka_unit_test(refuses_every_beginning), cmocka_unit_test(refuses_what_is_too_much),
      cmocka_unit_test(refuses_what_is_no_file),
  };
  return cmocka_run_group_tests(tests, open_folder, close_folder);
}
