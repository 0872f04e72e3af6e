// Tells things apart by their keys.
#ifndef BD_PLANNER_CHOICE_CLASSIFY_H
#define BD_PLANNER_CHOICE_CLASSIFY_H
#include "ir/base/arena.h"

typedef struct bd_classes {
  int count;
  int *class_of; // per thing; classes are numbered in the order in which they first occur
  int *first;    // per class: the first thing of it
} bd_classes;

// `count` keys of `size` bytes, padding included, a multiple of 4. `class_of` lives in `arena`,
// `first` in `scratch`, which may be the same.
bd_classes bd_classify(bd_arena *arena, bd_arena *scratch, const void *keys, size_t size,
                       int count);
#endif
