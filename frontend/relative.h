// Biases by relative position, as T5 learns them: a row of a table per range of distances.
#ifndef BD_FRONTEND_RELATIVE_H
#define BD_FRONTEND_RELATIVE_H
#include "frontend/graph_build.h"

typedef struct bd_relative {
  int64_t buckets;  // rows of the table, at least 2; of both directions at least 4
  int64_t distance; // from which on all share a bucket; more than half the buckets of a direction
  int64_t sequence;
  bool causal; // later positions have no bucket
} bd_relative;

// The biases [heads, places] of relative_attention from `table`, [buckets, heads].
bd_id bd_relative_biases(bd_graph_build *build, const bd_relative *relative, bd_id table);

// Whether the members lie where bd_relative says, and then whether few enough distances (256, of
// both directions together) are told apart.
bool bd_relative_is_sound(const bd_relative *relative);
bool bd_relative_is_supported(const bd_relative *relative);
#endif
