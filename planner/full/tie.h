// What pipelines of several stages spend at a step's end on weights that the first and the last
// layer share with each other alone: their gradients go there and back, whole. Plans of the default
// space may have parts of them: where these have no bound of their own, nothing is told.
#ifndef BD_PLANNER_FULL_TIE_H
#define BD_PLANNER_FULL_TIE_H
#include "planner/full/space.h"

typedef struct bd_full_ties {
  int size_count, most_parts;
  double *seconds; // [size][parts]: the least with so many parts or more
} bd_full_ties;

// Parts are the chunks of all stages. Lives in ctx->arena.
bd_full_ties bd_full_ties_open(bd_ctx *ctx, const bd_full_space *space, int size_count,
                               const bd_floor_size *sizes);

// Of the first and of the last stage, which has a size: at least, with so many parts or more.
double bd_full_tie_seconds(const bd_full_ties *ties, int size, int parts);

// Whether that depends on how many parts there are, of these numbers.
bool bd_full_ties_differ(const bd_full_ties *ties, int least_parts, int most_parts);
#endif
