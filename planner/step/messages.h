// Seconds of a step whose stages wait for messages that share links or pass over stages.
#ifndef BD_PLANNER_STEP_MESSAGES_H
#define BD_PLANNER_STEP_MESSAGES_H
#include "planner/step/traffic.h"

// Seconds of the passes of a step of `plan`. A stage runs the order of its schedule, and what its
// passes do (planner/step/traffic.h) one thing after another: it waits for what it receives to be
// sent, and before it sends for a free copy. All that moves out of a stage at a time over one kind
// of link shares its rate. Steps of many micro-batches go on as they did before.
BD_NODISCARD bd_status bd_step_messages_seconds(bd_ctx *ctx, const bd_plan *plan,
                                                double *out_seconds);
#endif
