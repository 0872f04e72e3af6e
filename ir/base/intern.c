#include "ir/base/intern.h"

#include "ir/base/text.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
  uint64_t hash;
  size_t length;
  char text[];
} entry;

// Open addressing; `capacity` is a power of two and at most half full. Worker threads share the
// table, so the lock covers the arena as well, and `holder` is the context to end when it runs out.
struct bd_intern {
  pthread_mutex_t lock;
  bd_ctx *holder;
  bd_arena *arena;
  entry **slots;
  size_t capacity, count;
};

static void table_exhausted(void *user, size_t wanted_bytes) {
  bd_intern_table *table = user;
  bd_ctx *holder = table->holder;
  pthread_mutex_unlock(&table->lock);
  bd_ctx_exhausted(holder, wanted_bytes);
}

bd_intern_table *bd_intern_create(void) {
  bd_intern_table *table = calloc(1, sizeof *table);
  if (!table) return NULL;
  table->arena = bd_arena_create(table_exhausted, table);
  if (table->arena && pthread_mutex_init(&table->lock, NULL) == 0) return table;
  bd_arena_destroy(table->arena);
  free(table);
  return NULL;
}

void bd_intern_destroy(bd_intern_table *table) {
  if (!table) return;
  bd_arena_destroy(table->arena);
  pthread_mutex_destroy(&table->lock);
  free(table);
}

bd_arena *bd_intern_arena(bd_intern_table *table) {
  return table->arena;
}

// FNV-1a.
static uint64_t hash_bytes(const char *text, size_t length) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  }
  return hash;
}

// The slot that holds the string, or the empty one where it belongs.
static entry **find_slot(entry **slots, size_t capacity, uint64_t hash, const char *text,
                         size_t length) {
  for (size_t i = (size_t)(hash ^ hash >> 32) & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
    entry *held = slots[i];
    if (!held) return &slots[i];
    if (held->hash != hash || held->length != length) continue;
    if (length == 0 || memcmp(held->text, text, length) == 0) return &slots[i];
  }
}

// Leaves the table as it was if the arena runs out.
static void make_room(bd_intern_table *table) {
  if (table->count * 2 < table->capacity) return;
  size_t capacity = table->capacity ? table->capacity * 2 : 256;
  entry **slots = BD_NEW_ARRAY(table->arena, entry *, capacity);
  for (size_t i = 0; i < table->capacity; ++i) {
    entry *held = table->slots[i];
    if (held) *find_slot(slots, capacity, held->hash, held->text, held->length) = held;
  }
  table->slots = slots;
  table->capacity = capacity;
}

const char *bd_intern(bd_ctx *ctx, const char *text, size_t length) {
  bd_intern_table *table = ctx->names;
  uint64_t hash = hash_bytes(text, length);
  pthread_mutex_lock(&table->lock);
  table->holder = ctx;
  make_room(table);
  entry **slot = find_slot(table->slots, table->capacity, hash, text, length);
  if (!*slot) {
    if (length > SIZE_MAX / 4) table_exhausted(table, length);
    entry *fresh = bd_arena_alloc(table->arena, sizeof *fresh + length + 1);
    fresh->hash = hash;
    fresh->length = length;
    if (length) memcpy(fresh->text, text, length);
    *slot = fresh;
    table->count++;
  }
  const char *result = (*slot)->text;
  pthread_mutex_unlock(&table->lock);
  return result;
}

const char *bd_intern_z(bd_ctx *ctx, const char *text) {
  return bd_intern(ctx, text, strlen(text));
}

const char *bd_intern_f(bd_ctx *ctx, const char *format, ...) {
  bd_text text = bd_text_init(ctx->arena);
  va_list arguments;
  va_start(arguments, format);
  bd_text_addv(&text, format, arguments);
  va_end(arguments);
  return bd_intern(ctx, text.data, text.length);
}
