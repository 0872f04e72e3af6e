#include "ir/base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Under AddressSanitizer, memory not handed out is poisoned and objects are kept apart, so that
// overflows and uses after a reset are found.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BD_ARENA_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BD_ARENA_POISON 1
#endif

#ifdef BD_ARENA_POISON
#include <sanitizer/asan_interface.h>
#define POISON(start, bytes) ASAN_POISON_MEMORY_REGION((start), (bytes))
#define UNPOISON(start, bytes) ASAN_UNPOISON_MEMORY_REGION((start), (bytes))
#define GAP_BYTES ((size_t)16)
#else
#define POISON(start, bytes) ((void)(start), (void)(bytes))
#define UNPOISON(start, bytes) ((void)(start), (void)(bytes))
#define GAP_BYTES ((size_t)0)
#endif

#define ALIGNMENT alignof(max_align_t)
#define FIRST_CHUNK_BYTES ((size_t)64 << 10)
#define LARGEST_CHUNK_BYTES ((size_t)2 << 20)

typedef struct chunk {
  struct chunk *next;
  size_t capacity, used;
  alignas(max_align_t) unsigned char data[];
} chunk;

struct bd_arena {
  bd_arena_exhausted on_exhausted;
  void *user;
  chunk *first, *current;
  size_t next_chunk_bytes, used_bytes;
  long fail_after;
};

bd_arena *bd_arena_create(bd_arena_exhausted on_exhausted, void *user) {
  bd_arena *arena = malloc(sizeof *arena);
  if (!arena) return NULL;
  *arena = (bd_arena){.on_exhausted = on_exhausted,
                      .user = user,
                      .next_chunk_bytes = FIRST_CHUNK_BYTES,
                      .fail_after = -1};
  return arena;
}

void bd_arena_destroy(bd_arena *arena) {
  if (!arena) return;
  for (chunk *each = arena->first, *next; each; each = next) {
    next = each->next;
    UNPOISON(each->data, each->capacity);
    free(each);
  }
  free(arena);
}

void bd_arena_reset(bd_arena *arena) {
  for (chunk *each = arena->first; each; each = each->next) {
    each->used = 0;
    POISON(each->data, each->capacity);
  }
  arena->current = arena->first;
  arena->used_bytes = 0;
}

static _Noreturn void exhausted(bd_arena *arena, size_t wanted_bytes) {
  if (arena->on_exhausted) arena->on_exhausted(arena->user, wanted_bytes);
  fprintf(stderr, "out of memory: %zu bytes wanted\n", wanted_bytes);
  abort();
}

// Makes `arena->current` a chunk with room for `bytes`; false when there is no memory.
static bool find_room(bd_arena *arena, size_t bytes) {
  chunk *last = arena->current;
  for (chunk *each = last; each; last = each, each = each->next) {
    if (each->capacity - each->used < bytes) continue;
    arena->current = each;
    return true;
  }
  size_t capacity = bytes > arena->next_chunk_bytes ? bytes : arena->next_chunk_bytes;
  chunk *fresh = malloc(sizeof *fresh + capacity);
  if (!fresh) return false;
  *fresh = (chunk){.capacity = capacity};
  POISON(fresh->data, capacity);
  if (last)
    last->next = fresh;
  else
    arena->first = fresh;
  arena->current = fresh;
  if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES) arena->next_chunk_bytes *= 2;
  return true;
}

void *bd_arena_alloc(bd_arena *arena, size_t bytes) {
  if (arena->fail_after >= 0 && arena->fail_after-- == 0) exhausted(arena, bytes);
  if (bytes > PTRDIFF_MAX / 2) exhausted(arena, bytes);
  // An empty object takes a byte, so that every pointer is distinct and inside its chunk.
  size_t taken = bytes ? bytes : 1;
  taken = (taken + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP_BYTES;
  if (!find_room(arena, taken)) exhausted(arena, bytes);
  void *object = arena->current->data + arena->current->used;
  arena->current->used += taken;
  arena->used_bytes += bytes;
  UNPOISON(object, bytes);
  memset(object, 0, bytes);
  return object;
}

void *bd_arena_array(bd_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) exhausted(arena, SIZE_MAX);
  return bd_arena_alloc(arena, bytes);
}

void *bd_arena_grow(bd_arena *arena, const void *old, size_t old_count, size_t new_count,
                    size_t size) {
  assert(old_count <= new_count);
  void *fresh = bd_arena_array(arena, new_count, size);
  if (old_count) memcpy(fresh, old, old_count * size);
  return fresh;
}

size_t bd_arena_used_bytes(const bd_arena *arena) {
  return arena->used_bytes;
}

void bd_arena_fail_after(bd_arena *arena, long count) {
  arena->fail_after = count;
}
