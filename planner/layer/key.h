// When two layer problems are the same, so that one is solved for both.
#ifndef BD_PLANNER_LAYER_KEY_H
#define BD_PLANNER_LAYER_KEY_H
#include "planner/layer/layer.h"

// Everything that a layer's problem depends on, as text: its ops, types and pins, the mesh, the
// micro-batch, the forms, how weights are shared and updated; names do not count. Requests of one
// search (one module, cluster and set of constraints) have equal keys when and only when their
// problems are equal; the strategies of one then serve the other, under its function's name.
// Interned: equal keys are equal pointers within ctx's session.
const char *bd_layer_key(bd_ctx *ctx, const bd_layer_request *request);
#endif
