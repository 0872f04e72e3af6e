// Names to numbers, by content, and the alphabet of identifiers.
#ifndef BD_IR_NAME_MAP_H
#define BD_IR_NAME_MAP_H
#include "ir/base/context.h"

// Open addressing; lookups only, so nothing depends on the order of its slots.
typedef struct bd_name_map {
  bd_arena *arena;
  const char **names; // NULL: free slot; the strings are borrowed
  int *numbers;
  size_t count, capacity; // capacity is a power of two
} bd_name_map;

bd_name_map bd_name_map_init(bd_arena *arena);
// Returns false, changing nothing, when the name is there already.
bool bd_name_map_add(bd_name_map *map, const char *name, int number);
// The number of `name`, or -1.
int bd_name_map_find(const bd_name_map *map, const char *name);

// [A-Za-z0-9_.]+
bool bd_is_identifier_byte(char byte);
bool bd_is_identifier(const char *name);
#endif
