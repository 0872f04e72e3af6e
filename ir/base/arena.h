// Bump allocation: objects live until their arena is reset or destroyed, and have no destructor.
#ifndef BD_IR_BASE_ARENA_H
#define BD_IR_BASE_ARENA_H
#include <stdbool.h>
#include <stddef.h>

typedef struct bd_arena bd_arena;

// What to do when memory runs out: must not return (it jumps to the guard of bd_ctx_run).
typedef void (*bd_arena_exhausted)(void *user, size_t wanted_bytes);

// Returns NULL when not even the arena itself can be allocated.
bd_arena *bd_arena_create(bd_arena_exhausted on_exhausted, void *user);
void bd_arena_destroy(bd_arena *arena);

// Forgets all objects, keeps the memory for reuse.
void bd_arena_reset(bd_arena *arena);

// Zeroed memory aligned for any type; never NULL (see bd_arena_exhausted). Zero bytes give a valid
// pointer.
void *bd_arena_alloc(bd_arena *arena, size_t bytes);

// `count * size` with overflow treated as exhaustion.
void *bd_arena_array(bd_arena *arena, size_t count, size_t size);

// A copy of `old_count` objects in room for `new_count`, for growing lists.
void *bd_arena_grow(bd_arena *arena, const void *old, size_t old_count, size_t new_count,
                    size_t size);

// A copy of `count` objects of `size` bytes.
static inline void *bd_arena_copy(bd_arena *arena, const void *old, int count, size_t size) {
  return bd_arena_grow(arena, old, (size_t)count, (size_t)count, size);
}

// Bytes handed out so far.
size_t bd_arena_used_bytes(const bd_arena *arena);

// Test hook: the allocation after `count` more fails (negative: never).
void bd_arena_fail_after(bd_arena *arena, long count);

#define BD_NEW(arena, type) ((type *)bd_arena_alloc((arena), sizeof(type)))
#define BD_NEW_ARRAY(arena, type, count)                                                           \
  ((type *)bd_arena_array((arena), (size_t)(count), sizeof(type)))
#endif
