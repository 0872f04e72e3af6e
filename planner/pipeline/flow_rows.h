// Private to pipelines as integer programs: a unit of flow through stages, runs and forms, and the
// layers that lie where it passes.
#ifndef BD_PLANNER_PIPELINE_FLOW_ROWS_H
#define BD_PLANNER_PIPELINE_FLOW_ROWS_H
#include "planner/pipeline/columns.h"

// Of a stage: its layers lie where the flow passes, and what enters a run leaves it and goes on.
void bd_posing_add_flow(bd_posing *posing, int stage);

// Of the whole: the cuts that are allowed, one unit of flow, and every run's layers.
void bd_posing_add_totals(bd_posing *posing);
#endif
