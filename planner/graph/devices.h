// Which devices the stages so far have taken, as a number.
#ifndef BD_PLANNER_GRAPH_DEVICES_H
#define BD_PLANNER_GRAPH_DEVICES_H
#include "planner/graph/layers.h"

typedef enum bd_devices_kind {
  BD_DEVICES_EXACT,   // how many of each group are taken
  BD_DEVICES_ORDERED, // stages take the groups in their order: fewer plans
  BD_DEVICES_IGNORED, // there are always enough: more plans
} bd_devices_kind;

typedef struct bd_devices {
  const bd_layers_problem *problem;
  bd_devices_kind kind;
  int states;
  int unit[BD_LAYERS_MAX_GROUPS];   // devices that are taken together
  int span[BD_LAYERS_MAX_GROUPS];   // so many units
  int stride[BD_LAYERS_MAX_GROUPS]; // exact: of the group's digit; ordered: its first state
} bd_devices;

// `*out_devices` is of the wanted kind, or where that takes more than `most` states, of `instead`.
void bd_devices_open(const bd_layers_problem *problem, bd_devices_kind instead, int most,
                     bd_devices *out_devices);
// Whether every group has as many devices left in state `a` as in state `b`. Exact ones only.
bool bd_devices_spare(const bd_devices *devices, int a, int b);
// The state after a stage of this mode, -1 where its devices do not suffice. The first is 0.
int bd_devices_take(const bd_devices *devices, int state, int mode);
#endif
