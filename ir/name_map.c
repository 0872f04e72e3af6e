#include "ir/name_map.h"

#include <string.h>

enum { FIRST_CAPACITY = 32 };

bd_name_map bd_name_map_init(bd_arena *arena) {
  return (bd_name_map){.arena = arena,
                       .names = BD_NEW_ARRAY(arena, const char *, FIRST_CAPACITY),
                       .numbers = BD_NEW_ARRAY(arena, int, FIRST_CAPACITY),
                       .capacity = FIRST_CAPACITY};
}

// FNV-1a.
static uint64_t hash_name(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; ++name)
    hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

// The slot that holds `name`, or the free one where it belongs.
static size_t find_slot(const bd_name_map *map, const char *name) {
  size_t slot = (size_t)hash_name(name) & (map->capacity - 1);
  while (map->names[slot] && strcmp(map->names[slot], name) != 0)
    slot = (slot + 1) & (map->capacity - 1);
  return slot;
}

static void grow(bd_name_map *map) {
  bd_name_map wider = *map;
  wider.capacity = map->capacity * 2;
  wider.names = BD_NEW_ARRAY(map->arena, const char *, wider.capacity);
  wider.numbers = BD_NEW_ARRAY(map->arena, int, wider.capacity);
  for (size_t i = 0; i < map->capacity; ++i) {
    if (!map->names[i]) continue;
    size_t slot = find_slot(&wider, map->names[i]);
    wider.names[slot] = map->names[i];
    wider.numbers[slot] = map->numbers[i];
  }
  *map = wider;
}

bool bd_name_map_add(bd_name_map *map, const char *name, int number) {
  if (map->count * 2 >= map->capacity) grow(map);
  size_t slot = find_slot(map, name);
  if (map->names[slot]) return false;
  map->names[slot] = name;
  map->numbers[slot] = number;
  ++map->count;
  return true;
}

int bd_name_map_find(const bd_name_map *map, const char *name) {
  size_t slot = find_slot(map, name);
  return map->names[slot] ? map->numbers[slot] : -1;
}

bool bd_is_identifier_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '.';
}

bool bd_is_identifier(const char *name) {
  if (!*name) return false;
  for (; *name; ++name)
    if (!bd_is_identifier_byte(*name)) return false;
  return true;
}
