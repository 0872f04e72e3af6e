// Linked into a braid of its own, with the linker's --wrap: makes one allocation fail.
//   BRAID_EXHAUST=heap:N   the N-th call of malloc, calloc or realloc from braid's own objects
//   BRAID_EXHAUST=arena:N  the N-th object taken from an arena
//   BRAID_EXHAUST_COUNT=FILE  takes how many of each there were
#include "ir/base/arena.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_bd_arena_alloc(bd_arena *arena, size_t bytes);
void *__real_bd_arena_array(bd_arena *arena, size_t count, size_t size);
void *__real_bd_arena_grow(bd_arena *arena, const void *old, size_t old_count, size_t new_count,
                           size_t size);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_bd_arena_alloc(bd_arena *arena, size_t bytes);
void *__wrap_bd_arena_array(bd_arena *arena, size_t count, size_t size);
void *__wrap_bd_arena_grow(bd_arena *arena, const void *old, size_t old_count, size_t new_count,
                           size_t size);

static atomic_long heap_calls, arena_calls;
static long failing_heap, failing_arena;

__attribute__((constructor)) static void read_wish(void) {
  const char *wish = getenv("BRAID_EXHAUST");
  if (wish && strncmp(wish, "heap:", 5) == 0) failing_heap = atol(wish + 5);
  if (wish && strncmp(wish, "arena:", 6) == 0) failing_arena = atol(wish + 6);
}

__attribute__((destructor)) static void write_counts(void) {
  const char *path = getenv("BRAID_EXHAUST_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "heap %ld\narena %ld\n", atomic_load(&heap_calls), atomic_load(&arena_calls));
  fclose(file);
}

static int heap_fails(void) {
  return atomic_fetch_add(&heap_calls, 1) + 1 == failing_heap;
}

static void count_object(bd_arena *arena) {
  if (atomic_fetch_add(&arena_calls, 1) + 1 == failing_arena) bd_arena_fail_after(arena, 0);
}

void *__wrap_malloc(size_t bytes) {
  return heap_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
  return heap_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
  return heap_fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_bd_arena_alloc(bd_arena *arena, size_t bytes) {
  count_object(arena);
  return __real_bd_arena_alloc(arena, bytes);
}

void *__wrap_bd_arena_array(bd_arena *arena, size_t count, size_t size) {
  count_object(arena);
  return __real_bd_arena_array(arena, count, size);
}

void *__wrap_bd_arena_grow(bd_arena *arena, const void *old, size_t old_count, size_t new_count,
                           size_t size) {
  count_object(arena);
  return __real_bd_arena_grow(arena, old, old_count, new_count, size);
}
