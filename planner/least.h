// What arithmetic tells of the memory that a model needs, before anything is searched.
#ifndef BD_PLANNER_LEAST_H
#define BD_PLANNER_LEAST_H
#include "planner/planner.h"

// Bytes that a rank may use.
int64_t bd_least_room_bytes(const bd_cluster *cluster, const bd_plan_request *request);

// Bytes that all ranks together hold at least: a copy of the weights, of their gradients and of the
// optimizer's state, but for what it keeps of rows and columns.
double bd_least_bytes(const bd_module *train, const bd_plan_request *request);

// Whether as many devices as there are have room for that. Of plans that keep values in the host's
// memory it tells nothing.
bool bd_least_fits(const bd_module *train, const bd_cluster *cluster,
                   const bd_plan_request *request);
#endif
