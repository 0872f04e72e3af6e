// Private to pipelines as integer programs: what a stage takes and holds.
#ifndef BD_PLANNER_PIPELINE_STAGE_ROWS_H
#define BD_PLANNER_PIPELINE_STAGE_ROWS_H
#include "planner/pipeline/columns.h"

// A stage's time, memory and workspace. Its passes take exactly as long as its layers, since paths
// through a step that leave a stage out count them off.
void bd_posing_add_stage(bd_posing *posing, double cap_bytes, int stage);
#endif
