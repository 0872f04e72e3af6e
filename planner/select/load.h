// Usage at each point of time: range additions and range maxima in logarithmic time.
#ifndef BD_PLANNER_SELECT_LOAD_H
#define BD_PLANNER_SELECT_LOAD_H
#include "ir/base/arena.h"
#include <stdint.h>

// A segment tree whose additions stay at the highest vertex they cover.
typedef struct bd_select_load {
  int leaves;            // a power of two
  int64_t *added, *most; // of each vertex: what is added to all below, and the maximum below
} bd_select_load;

bd_select_load bd_select_load_create(bd_arena *arena, int points);
void bd_select_load_clear(bd_select_load *load);
// Adds to the points [first, last).
void bd_select_load_add(bd_select_load *load, int first, int last, int64_t usage);
// The largest of the points [first, last); 0 when there are none.
int64_t bd_select_load_max(const bd_select_load *load, int first, int last);
// A point with the largest value, which is at least 0: the points past the last count as 0.
int bd_select_load_worst(const bd_select_load *load, int64_t *out_value);
int64_t bd_select_load_at(const bd_select_load *load, int point);
#endif
