// Parts of the full space whose bounds are raised, the least one first. Some are raised ahead of
// their turn, side by side; what was made of them is taken in turn, and made again where something
// that it is made of has changed, so that nothing depends on the number of threads.
#ifndef BD_PLANNER_FULL_RAISE_H
#define BD_PLANNER_FULL_RAISE_H
#include "planner/full/part.h"

typedef struct bd_part_next bd_part_next;

typedef struct bd_full_parts {
  bd_ctx *ctx;
  bd_part_scene scene;
  bd_workers *workers;
  int ahead;          // so many are raised side by side
  int priced, splits; // sizes and parts so far
  int count;
  bd_full_part *parts;
  bd_part_next *next; // per part: what becomes of it
} bd_full_parts;

enum { BD_FULL_MOST_SPLITS = 512 };

// Room for so many parts and those that come of them. Lives in ctx->arena, as all that is made of
// parts.
bd_full_parts bd_full_parts_open(bd_ctx *ctx, const bd_part_scene *scene, int threads, int most);

// One more, of numbers of stages that its schedule is defined for; none if there are none.
void bd_full_parts_add(bd_full_parts *parts, const bd_full_part *part);

// The part of the least bound; NULL: there are no parts.
bd_full_part *bd_full_parts_least(const bd_full_parts *parts);

// Bounds all of them with what is known of their batches.
BD_NODISCARD bd_status bd_full_parts_begin(bd_full_parts *parts);

// Raises the least bound again and again: prices the sizes that it is made of, takes layers as a
// whole, cuts the part's numbers of stages in two, until it comes to `enough`, nothing raises it,
// or the deadline has passed.
BD_NODISCARD bd_status bd_full_parts_raise(bd_full_parts *parts);
#endif
