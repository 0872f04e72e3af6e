// What `braid import` says of the graph that it writes.
#ifndef BD_CLI_IMPORT_GRAPH_H
#define BD_CLI_IMPORT_GRAPH_H
#include "ir/module.h"

// Functions by how often they are called, ops by kind over all calls, what stands in the place of
// primitives of `read`, the graph as it was read, and the arithmetic of one sample, as lines on
// stdout. Errors: those of inference.
BD_NODISCARD bd_status bd_import_describe(bd_ctx *ctx, const bd_module *read,
                                          const bd_module *graph);
#endif
