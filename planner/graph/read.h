// Layer graphs from their JSON file (docs/layer-graphs.md).
#ifndef BD_PLANNER_GRAPH_READ_H
#define BD_PLANNER_GRAPH_READ_H
#include "planner/bare.h"
#include "planner/graph/layers.h"

// What the file calls things.
typedef struct bd_layers_names {
  const char **layer; // per layer of the problem
  int *copy;          // per layer: which of the equal ones that one entry stands for
  // Per layer: names of its options, by bd_layers_option.index; NULL where there is none.
  const char ***option;
} bd_layers_names;

// `*out_problem` and `*out_names` live in ctx->arena. `cap_bytes` above 0 replaces every cap.
// Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_layers_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                      int64_t cap_bytes, bd_layers_problem *out_problem,
                                      bd_layers_names *out_names);
#endif
