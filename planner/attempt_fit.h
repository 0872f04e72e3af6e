// Private to attempts: plans of the setting at hand whose exact bytes are within the cap. The
// fastest, and the leanest of those that are not, go into `fastest` and `leanest`.
#ifndef BD_PLANNER_ATTEMPT_FIT_H
#define BD_PLANNER_ATTEMPT_FIT_H
#include "planner/attempt.h"
#include "planner/pipeline/pipeline.h"

// Whether the search is over. What an attempt found until then is taken.
bool bd_attempt_is_late(const bd_attempt *attempt);

// The best plan of the candidates that a problem poses, or how lean one gets, as the attempt wants;
// the problem's room is changed.
BD_NODISCARD bd_status bd_attempt_solve_pipeline(bd_ctx *ctx, bd_attempt *attempt,
                                                 bd_pipeline_problem *problem);

// A plan of pipelines that are constructed and not solved, if the first few have one.
BD_NODISCARD bd_status bd_attempt_try_pipeline(bd_ctx *ctx, bd_attempt *attempt,
                                               bd_pipeline_problem *problem);
#endif
