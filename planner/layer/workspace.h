// What a layer's workspace holds at least, moment by moment: the bytes that one rank holds while an
// op runs, beside weights, states and tapes. The workspace is as large as at its fullest moment.
#ifndef BD_PLANNER_LAYER_WORKSPACE_H
#define BD_PLANNER_LAYER_WORKSPACE_H
#include "planner/layer/space.h"

typedef struct bd_layer_workspace bd_layer_workspace;

// Lives in space->ctx's arena. Moments: every op of forward, then the begin of backward, when all
// that it computes again is there, then every op of backward.
bd_layer_workspace *bd_layer_workspace_create(const bd_layer_space *space);
int bd_layer_workspace_moments(const bd_layer_workspace *workspace);

// Bytes at a moment: what any strategy holds, and what the option of a cluster adds, whatever the
// others choose.
double bd_layer_workspace_fixed(const bd_layer_workspace *workspace, int moment);
double bd_layer_workspace_added(const bd_layer_workspace *workspace, int moment, int cluster,
                                const bd_layer_option *option);

// The first of these at its fullest moment.
double bd_layer_workspace_most_fixed(const bd_layer_workspace *workspace);
#endif
