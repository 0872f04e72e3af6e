#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/file.h"
#include "ir/base/intern.h"
#include "tests/unit/context.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_printed(const bd_ctx *ctx, bool color, const char *wanted) {
  char *printed = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&printed, &bytes);
  assert_non_null(stream);
  bd_diags_print(ctx, stream, color);
  fclose(stream);
  assert_string_equal(printed, wanted);
  free(printed);
}

static void test_diagnostics_print_a_line_each(void **state) {
  bd_ctx *ctx = *state;
  bd_loc loc = {.file = "m.json", .line = 3, .column = 7};
  assert_int_equal(bd_fail(ctx, BD_INVALID, loc, "bad %s", "thing"), BD_INVALID);
  bd_note(ctx, (bd_loc){.file = "m.json", .line = 2}, "first here");
  bd_warn(ctx, bd_loc_file("m.json"), "odd");
  assert_int_equal(bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "gone"), BD_EXTERNAL);
  assert_int_equal(ctx->error_count, 2);
  expect_printed(ctx, false,
                 "m.json:3:7: error: bad thing\n"
                 "m.json:2: note: first here\n"
                 "m.json: warning: odd\n"
                 "error: gone\n");
}

static void test_color(void **state) {
  bd_ctx *ctx = *state;
  bd_warn(ctx, BD_NOWHERE, "odd");
  expect_printed(ctx, true, "\033[1;35mwarning:\033[0m odd\n");
}

static void test_hostile_bytes_are_escaped(void **state) {
  bd_ctx *ctx = *state;
  bd_status status = bd_fail(ctx, BD_INVALID, bd_loc_file("a\nb"), "name \"%s\"", "\x1b[31m\xff\n");
  assert_int_equal(status, BD_INVALID);
  expect_printed(ctx, false, "a\\nb: error: name \"\\x1b[31m\\xff\\n\"\n");
}

static void test_place_outlives_its_file_name(void **state) {
  bd_ctx *ctx = *state;
  char name[] = "short-lived";
  bd_warn(ctx, bd_loc_file(name), "odd");
  memset(name, 'x', sizeof name - 1);
  expect_printed(ctx, false, "short-lived: warning: odd\n");
}

static void test_equal_strings_are_one(void **state) {
  bd_ctx *ctx = *state;
  const char *first = bd_intern_z(ctx, "weight");
  assert_ptr_equal(first, bd_intern(ctx, "weights", 6));
  assert_ptr_equal(first, bd_intern_f(ctx, "%s%s", "wei", "ght"));
  assert_ptr_not_equal(first, bd_intern_z(ctx, "weigh"));
  assert_ptr_not_equal(bd_intern(ctx, "a\0b", 3), bd_intern(ctx, "a\0c", 3));
  assert_string_equal(bd_intern(ctx, "", 0), "");
}

static void test_many_strings(void **state) {
  bd_ctx *ctx = *state;
  enum { COUNT = 5000 };
  const char **seen = BD_NEW_ARRAY(ctx->arena, const char *, COUNT);
  for (int i = 0; i < COUNT; ++i)
    seen[i] = bd_intern_f(ctx, "name%d", i);
  for (int i = 0; i < COUNT; ++i)
    assert_ptr_equal(bd_intern_f(ctx, "name%d", i), seen[i]);
}

static bd_status use_up(bd_ctx *ctx, void *arg) {
  (void)arg;
  bd_arena_fail_after(ctx->arena, 3);
  for (int i = 0; i < 4; ++i)
    bd_arena_alloc(ctx->arena, 48);
  return BD_OK;
}

static void test_run_catches_exhaustion(void **state) {
  bd_ctx *ctx = *state;
  assert_int_equal(bd_ctx_run(ctx, use_up, NULL), BD_EXHAUSTED);
  assert_int_equal(ctx->error_count, 1);
  assert_null(ctx->guard);
  expect_printed(ctx, false, "error: out of memory: 48 bytes wanted\n");
  assert_int_equal(bd_ctx_run(ctx, use_up, NULL), BD_EXHAUSTED);
  assert_int_equal(ctx->error_count, 1);
}

static bd_status run_inside(bd_ctx *ctx, void *arg) {
  assert_int_equal(bd_ctx_run(ctx, use_up, arg), BD_EXHAUSTED);
  return BD_UNSUPPORTED;
}

static void test_runs_nest(void **state) {
  bd_ctx *ctx = *state;
  assert_int_equal(bd_ctx_run(ctx, run_inside, NULL), BD_UNSUPPORTED);
}

static bd_status swap_and_use_up(bd_ctx *ctx, void *arg) {
  ctx->arena = arg;
  return use_up(ctx, NULL);
}

static void test_stage_arena_runs_out(void **state) {
  bd_ctx *ctx = *state;
  bd_arena *stage = bd_ctx_create_arena(ctx);
  assert_int_equal(bd_ctx_run(ctx, swap_and_use_up, stage), BD_EXHAUSTED);
  assert_ptr_equal(ctx->arena, ctx->session);
  bd_arena_destroy(stage);
}

typedef struct released {
  char order[8];
  int count;
} released;

static void release_a(void *object) {
  released *log = object;
  log->order[log->count++] = 'a';
}

static void release_b(void *object) {
  released *log = object;
  log->order[log->count++] = 'b';
}

static bd_status own_and_use_up(bd_ctx *ctx, void *arg) {
  bd_owned outer, passing, inner;
  bd_own(ctx, &outer, release_a, arg);
  bd_own(ctx, &passing, release_b, arg);
  bd_disown(ctx, &passing);
  bd_own(ctx, &inner, release_b, arg);
  return use_up(ctx, NULL);
}

static bd_status own_around(bd_ctx *ctx, void *arg) {
  bd_owned mine;
  bd_own(ctx, &mine, release_a, arg);
  assert_int_equal(bd_ctx_run(ctx, own_and_use_up, arg), BD_EXHAUSTED);
  assert_ptr_equal(ctx->owned, &mine);
  bd_disown(ctx, &mine);
  return BD_OK;
}

// Only what the body that ran out of memory owned, innermost first.
static void test_exhaustion_releases_what_is_owned(void **state) {
  bd_ctx *ctx = *state;
  released log = {0};
  assert_int_equal(bd_ctx_run(ctx, own_around, &log), BD_OK);
  assert_string_equal(log.order, "ba");
  assert_null(ctx->owned);
}

static bd_status intern_many(bd_ctx *ctx, void *arg) {
  (void)arg;
  for (int i = 0; i < 400; ++i)
    bd_intern_f(ctx, "n%d", i);
  return BD_OK;
}

static void test_intern_survives_every_exhaustion(void **state) {
  (void)state;
  for (long after = 0;; ++after) {
    bd_ctx *ctx = bd_ctx_create();
    bd_arena_fail_after(bd_intern_arena(ctx->names), after);
    bd_status status = bd_ctx_run(ctx, intern_many, NULL);
    bd_arena_fail_after(bd_intern_arena(ctx->names), -1);
    assert_int_equal(bd_ctx_run(ctx, intern_many, NULL), BD_OK);
    const char *kept = bd_intern_z(ctx, "n7");
    assert_ptr_equal(kept, bd_intern_f(ctx, "n%d", 7));
    bd_ctx_destroy(ctx);
    if (status == BD_OK) break;
    assert_int_equal(status, BD_EXHAUSTED);
  }
}

typedef struct worker {
  bd_ctx *ctx;
  const char *name;
} worker;

static void *work(void *arg) {
  worker *self = arg;
  if (bd_ctx_run(self->ctx, intern_many, NULL) != BD_OK) return NULL;
  self->name = bd_intern_z(self->ctx, "n399");
  bd_warn(self->ctx, bd_loc_file("w"), "from a worker");
  return NULL;
}

static void test_children_share_strings_and_merge_in_order(void **state) {
  bd_ctx *ctx = *state;
  enum { WORKERS = 4 };
  worker workers[WORKERS];
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; ++i) {
    workers[i] = (worker){.ctx = bd_ctx_create_child(ctx)};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < WORKERS; ++i)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < WORKERS; ++i) {
    bd_status status = bd_fail(workers[i].ctx, BD_INVALID, BD_NOWHERE, "task %d", i);
    assert_int_equal(status, BD_INVALID);
    bd_ctx_merge(ctx, workers[i].ctx);
    bd_ctx_destroy(workers[i].ctx);
    assert_ptr_equal(workers[i].name, bd_intern_z(ctx, "n399"));
  }
  assert_int_equal(ctx->error_count, WORKERS);
  expect_printed(ctx, false,
                 "w: warning: from a worker\nerror: task 0\nw: warning: from a worker\n"
                 "error: task 1\nw: warning: from a worker\nerror: task 2\n"
                 "w: warning: from a worker\nerror: task 3\n");
}

static void test_status_words_and_exits(void **state) {
  (void)state;
  assert_string_equal(bd_status_name(BD_INFEASIBLE), "infeasible");
  static const int exits[] = {0, 1, 1, 3, 5, 4, 5};
  for (int i = BD_OK; i <= BD_INTERNAL; ++i) {
    assert_int_equal(bd_status_exit_code((bd_status)i), exits[i]);
  }
}

static void test_files(void **state) {
  bd_ctx *ctx = *state;
  char folder[] = "/tmp/braid-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *deep = bd_path_join(ctx, bd_path_join(ctx, folder, "a"), "b");
  assert_int_equal(bd_folder_make(ctx, deep), BD_OK);
  assert_int_equal(bd_folder_make(ctx, deep), BD_OK);
  assert_true(bd_is_folder(deep));
  const char *path = bd_path_join(ctx, deep, "f");
  const char *temporary = bd_path_join(ctx, deep, "f.tmp");
  assert_int_equal(bd_file_write(ctx, temporary, "mine", 4), BD_OK);
  assert_int_equal(bd_file_write(ctx, path, "old", 3), BD_OK);
  assert_int_equal(bd_file_write(ctx, path, "hello", 5), BD_OK);
  char *data = NULL;
  size_t bytes = 0;
  assert_int_equal(bd_file_read(ctx, path, 5, &data, &bytes), BD_OK);
  assert_int_equal(bytes, 5);
  assert_string_equal(data, "hello");
  assert_int_equal(bd_file_read(ctx, temporary, 5, &data, &bytes), BD_OK);
  assert_string_equal(data, "mine");
  bd_map map;
  assert_int_equal(bd_map_open(ctx, path, &map), BD_OK);
  assert_int_equal(map.bytes, 5);
  assert_memory_equal(map.data, "hello", 5);
  bd_map_close(&map);
  assert_int_equal(ctx->error_count, 0);
  assert_int_equal(bd_file_read(ctx, path, 4, &data, &bytes), BD_INVALID);
  assert_int_equal(bd_folder_make(ctx, bd_path_join(ctx, path, "c")), BD_INVALID);
  assert_int_equal(ctx->error_count, 2);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(unlink(temporary), 0);
  assert_int_equal(rmdir(deep), 0);
  assert_int_equal(rmdir(bd_path_join(ctx, folder, "a")), 0);
  assert_int_equal(rmdir(folder), 0);
}

static void test_only_regular_files_are_read(void **state) {
  bd_ctx *ctx = *state;
  char folder[] = "/tmp/braid-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *pipe = bd_path_join(ctx, folder, "pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  const char *const paths[] = {folder, pipe, "/dev/null", "/dev/zero"};
  const int count = sizeof paths / sizeof *paths;
  for (int i = 0; i < count; ++i) {
    char *data = NULL;
    size_t bytes = 0;
    bd_map map;
    assert_int_equal(bd_file_read(ctx, paths[i], 100, &data, &bytes), BD_INVALID);
    assert_int_equal(bd_map_open(ctx, paths[i], &map), BD_INVALID);
  }
  assert_int_equal(ctx->error_count, 2 * count);
  assert_int_equal(unlink(pipe), 0);
  assert_int_equal(rmdir(folder), 0);
}

// Devices and pipes stay what they are, and so does what the shell has opened.
static void test_devices_and_pipes_are_written_in_place(void **state) {
  bd_ctx *ctx = *state;
  char folder[] = "/tmp/braid-test-XXXXXX", got[8] = "";
  assert_non_null(mkdtemp(folder));
  const char *pipe = bd_path_join(ctx, folder, "pipe"), *file = bd_path_join(ctx, folder, "f");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  int reader = open(pipe, O_RDONLY | O_NONBLOCK);
  assert_true(reader >= 0);
  assert_int_equal(bd_file_check_place(ctx, pipe), BD_OK);
  assert_int_equal(bd_file_write(ctx, pipe, "hello", 5), BD_OK);
  assert_int_equal(read(reader, got, sizeof got), 5);
  assert_string_equal(got, "hello");
  close(reader);
  assert_int_equal(bd_file_check_place(ctx, "/dev/null"), BD_OK);
  assert_int_equal(bd_file_write(ctx, "/dev/null", "x", 1), BD_OK);
  int own = open(file, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_true(own >= 0);
  const char *name = bd_intern_f(ctx, "/dev/fd/%d", own);
  assert_int_equal(bd_file_write(ctx, name, "on", 2), BD_OK);
  assert_int_equal(bd_file_write(ctx, name, "ce", 2), BD_OK);
  memset(got, 0, sizeof got);
  assert_int_equal(read(own, got, sizeof got), 4);
  assert_string_equal(got, "once");
  close(own);
  assert_int_equal(ctx->error_count, 0);
  assert_int_equal(bd_file_write(ctx, folder, "x", 1), BD_INVALID);
  assert_int_equal(bd_file_check_place(ctx, folder), BD_INVALID);
  assert_int_equal(bd_file_write(ctx, bd_path_join(ctx, folder, "no/f"), "x", 1), BD_INVALID);
  assert_int_equal(unlink(pipe), 0);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(rmdir(folder), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_ctx, drop_ctx)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_diagnostics_print_a_line_each),
      TEST(test_color),
      TEST(test_hostile_bytes_are_escaped),
      TEST(test_place_outlives_its_file_name),
      TEST(test_equal_strings_are_one),
      TEST(test_many_strings),
      TEST(test_run_catches_exhaustion),
      TEST(test_runs_nest),
      TEST(test_stage_arena_runs_out),
      TEST(test_exhaustion_releases_what_is_owned),
      cmocka_unit_test(test_intern_survives_every_exhaustion),
      TEST(test_children_share_strings_and_merge_in_order),
      cmocka_unit_test(test_status_words_and_exits),
      TEST(test_files),
      TEST(test_only_regular_files_are_read),
      TEST(test_devices_and_pipes_are_written_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
