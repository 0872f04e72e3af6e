// Pipelines as integer programs.
#ifndef BD_PLANNER_PIPELINE_PROGRAM_H
#define BD_PLANNER_PIPELINE_PROGRAM_H
#include "planner/pipeline/pipeline.h"
#include "planner/step/path.h"

// The integers count layers; a unit of flow passes through the stages and runs that have any, from
// the form in which a run enters a stage to that in which it leaves, and on to the next run, the
// next stage, or both, and every arc has its price. So layers keep their order, no stage is empty,
// and changes of form are paid where they happen.
int bd_pipeline_program_columns(const bd_pipeline_problem *problem);

// What a solution keeps to.
typedef struct bd_pipeline_limits {
  double cap_bytes;     // may differ from the problem's
  double limit_seconds; // of wall time
  double cutoff;        // solutions of as many seconds are not looked for
  int path_count;       // paths through the step that count beside those known of any pipeline
  const bd_step_path *paths;
} bd_pipeline_limits;

// Minimizes what a few paths through the step take, and the longest sync: 1f1b takes no less, gpipe
// takes just that. `bound` is of that; `seconds` are those of the step.
BD_NODISCARD bd_status bd_pipeline_program_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                                 const bd_pipeline_limits *limits,
                                                 bd_pipeline *out_pipeline);
#endif
