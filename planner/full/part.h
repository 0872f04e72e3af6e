// Parts of the full space, and what no plan of one beats.
#ifndef BD_PLANNER_FULL_PART_H
#define BD_PLANNER_FULL_PART_H
#include "ir/base/clock.h"
#include "planner/full/batch.h"

typedef struct bd_full_part {
  bd_full_batch *batch;
  bd_schedule schedule;
  int chunks, least_stages, most_stages;
  double bound;
  bool *used;   // per size: the bound is made of stages of that size
  bool settled; // they were priced when it was made
  bool whole;   // layers are taken as a whole
  bool reached; // ... and something takes as long as the bound
} bd_full_part;

// What all parts have in common.
typedef struct bd_part_scene {
  const bd_full_space *space;
  const bd_full_sizes *sizes;
  double enough;        // bounds of so many seconds are not raised
  bd_deadline deadline; // then layers are spread over the devices roughly
} bd_part_scene;

// Raises the part's bound to what is known of its batch by now, with layers as a whole where it
// says so, by 2 % at most.
void bd_full_part_raise(bd_ctx *ctx, const bd_part_scene *scene, bd_full_part *part);

// Whether what is known of a part depends on how many stages there are.
bool bd_full_part_is_split(const bd_part_scene *scene, const bd_full_part *part);
#endif
