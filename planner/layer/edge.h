// Private to the layer problem: what it costs to carry values between clusters and over the
// boundary.
#ifndef BD_PLANNER_LAYER_EDGE_H
#define BD_PLANNER_LAYER_EDGE_H
#include "planner/layer/problem.h"

// Whether cluster `to` reads a value of cluster `from` that is no result of the function.
bool bd_layer_reads(const bd_layer_space *space, int from, int to);
// Whether cluster `to` reads an input or a result of the function, or makes a result.
bool bd_layer_meets_boundary(const bd_layer_space *space, int to);

// The edge lives in ctx->arena; what is needed only to build it, in `scratch`.
void bd_layer_add_edge(bd_ctx *ctx, bd_arena *scratch, bd_layer_space *space, int from, int to,
                       bd_choice_edge *edge);
void bd_layer_add_boundary_edge(bd_ctx *ctx, bd_arena *scratch, bd_layer_space *space, int to,
                                bd_choice_edge *edge);
#endif
