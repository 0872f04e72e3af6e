// Whether the layers of a graph have room at all.
#ifndef BD_PLANNER_GRAPH_ROOM_H
#define BD_PLANNER_GRAPH_ROOM_H
#include "planner/graph/setting.h"

// False: the caps of all stages together are less than what the layers hold at least, each under
// its leanest option and with as little in flight as any stage has; no plan of the setting keeps to
// them.
bool bd_layers_have_room(const bd_layers_setting *setting);

// Stages that a group has devices for, each with the fewest that any mode takes.
int bd_layers_most_stages(const bd_layers_problem *problem, int group);
#endif
