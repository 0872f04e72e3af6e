#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include <stdalign.h>
#include <string.h>

typedef struct catcher {
  jmp_buf target;
  size_t wanted_bytes;
} catcher;

static void jump_out(void *user, size_t wanted_bytes) {
  catcher *here = user;
  here->wanted_bytes = wanted_bytes;
  longjmp(here->target, 1);
}

static void test_objects_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  bd_arena *arena = bd_arena_create(NULL, NULL);
  unsigned char *previous = NULL;
  size_t previous_bytes = 0;
  for (size_t bytes = 0; bytes < 3000; bytes += 7) {
    unsigned char *object = bd_arena_alloc(arena, bytes);
    assert_non_null(object);
    assert_int_equal((uintptr_t)object % alignof(max_align_t), 0);
    for (size_t i = 0; i < bytes; ++i)
      assert_int_equal(object[i], 0);
    memset(object, 0xa5, bytes);
    for (size_t i = 0; i < previous_bytes; ++i)
      assert_int_equal(previous[i], 0xa5);
    previous = object;
    previous_bytes = bytes;
  }
  bd_arena_destroy(arena);
}

static void test_empty_objects_are_distinct(void **state) {
  (void)state;
  bd_arena *arena = bd_arena_create(NULL, NULL);
  void *first = bd_arena_alloc(arena, 0);
  assert_ptr_not_equal(first, bd_arena_alloc(arena, 0));
  assert_int_equal(bd_arena_used_bytes(arena), 0);
  bd_arena_destroy(arena);
}

static void test_large_objects_have_room(void **state) {
  (void)state;
  enum { LARGE = 20 << 20 };
  bd_arena *arena = bd_arena_create(NULL, NULL);
  char *small = bd_arena_alloc(arena, 16);
  char *large = bd_arena_alloc(arena, LARGE);
  small[15] = 1;
  large[0] = large[LARGE - 1] = 2;
  assert_int_equal(small[15], 1);
  assert_int_equal(bd_arena_used_bytes(arena), LARGE + 16);
  bd_arena_destroy(arena);
}

static void test_reset_reuses_the_memory_and_zeroes_it(void **state) {
  (void)state;
  bd_arena *arena = bd_arena_create(NULL, NULL);
  void *first = bd_arena_alloc(arena, 100);
  for (int i = 0; i < 100; ++i)
    memset(bd_arena_alloc(arena, 5000), 0xff, 5000);
  bd_arena_reset(arena);
  assert_int_equal(bd_arena_used_bytes(arena), 0);
  assert_ptr_equal(bd_arena_alloc(arena, 100), first);
  for (int i = 0; i < 100; ++i) {
    unsigned char *again = bd_arena_alloc(arena, 5000);
    for (int j = 0; j < 5000; ++j)
      assert_int_equal(again[j], 0);
  }
  bd_arena_destroy(arena);
}

static void test_grow_copies_and_zeroes_the_rest(void **state) {
  (void)state;
  bd_arena *arena = bd_arena_create(NULL, NULL);
  int *list = bd_arena_grow(arena, NULL, 0, 2, sizeof *list);
  list[0] = 3;
  list[1] = 4;
  int *longer = bd_arena_grow(arena, list, 2, 5, sizeof *list);
  assert_int_equal(longer[0], 3);
  assert_int_equal(longer[1], 4);
  for (int i = 2; i < 5; ++i)
    assert_int_equal(longer[i], 0);
  bd_arena_destroy(arena);
}

static void test_fail_after_fails_once(void **state) {
  (void)state;
  catcher here;
  bd_arena *arena = bd_arena_create(jump_out, &here);
  bd_arena_fail_after(arena, 2);
  volatile int made = 0;
  if (setjmp(here.target) == 0) {
    for (;;) {
      bd_arena_alloc(arena, 24);
      made++;
    }
  }
  assert_int_equal(made, 2);
  assert_int_equal(here.wanted_bytes, 24);
  assert_non_null(bd_arena_alloc(arena, 24));
  bd_arena_destroy(arena);
}

static void test_overflow_is_exhaustion(void **state) {
  (void)state;
  catcher here;
  bd_arena *arena = bd_arena_create(jump_out, &here);
  volatile int jumps = 0;
  if (setjmp(here.target) == 0)
    bd_arena_array(arena, SIZE_MAX / 4, 8);
  else
    jumps++;
  if (setjmp(here.target) == 0)
    bd_arena_alloc(arena, SIZE_MAX - 3);
  else
    jumps++;
  assert_int_equal(jumps, 2);
  bd_arena_destroy(arena);
}

static void test_destroying_nothing_is_fine(void **state) {
  (void)state;
  bd_arena_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_objects_are_zeroed_aligned_and_apart),
      cmocka_unit_test(test_empty_objects_are_distinct),
      cmocka_unit_test(test_large_objects_have_room),
      cmocka_unit_test(test_reset_reuses_the_memory_and_zeroes_it),
      cmocka_unit_test(test_grow_copies_and_zeroes_the_rest),
      cmocka_unit_test(test_fail_after_fails_once),
      cmocka_unit_test(test_overflow_is_exhaustion),
      cmocka_unit_test(test_destroying_nothing_is_fine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
