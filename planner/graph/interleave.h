// Pipelines of several chunks per stage: one choice of modes for the stages after another, each
// layer by layer (weave.h).
#ifndef BD_PLANNER_GRAPH_INTERLEAVE_H
#define BD_PLANNER_GRAPH_INTERLEAVE_H
#include "planner/graph/chain.h"

// As bd_layers_chain, of a setting with more than one chunk. A partial plan knows the sums of every
// stage, so that only small problems are searched whole.
BD_NODISCARD bd_status bd_layers_interleave(bd_ctx *ctx, const bd_layers_setting *setting,
                                            const bd_layers_effort *effort, double cutoff,
                                            bd_layers_outcome *out_outcome);
#endif
