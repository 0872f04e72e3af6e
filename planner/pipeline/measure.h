// What an assignment takes, beside what pipeline.h tells of it.
#ifndef BD_PLANNER_PIPELINE_MEASURE_H
#define BD_PLANNER_PIPELINE_MEASURE_H
#include "planner/pipeline/pipeline.h"
#include "planner/step/step.h"

// Of every stage of the problem, as a step is made of them.
void bd_pipeline_stage_seconds(const bd_pipeline_problem *problem, const int *count,
                               const int *entry, bd_stage_seconds *out_stages);
#endif
