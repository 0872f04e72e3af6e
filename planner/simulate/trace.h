// A replay as a trace for Perfetto and chrome://tracing.
#ifndef BD_PLANNER_SIMULATE_TRACE_H
#define BD_PLANNER_SIMULATE_TRACE_H
#include "ir/base/text.h"
#include "planner/simulate/simulate.h"

// Prints the record of a replay as JSON in the Trace Event Format (Google, "Trace Event Format",
// 2016): a process per stage with the threads compute, send, receive and sync; a complete event
// (ph X) for what each did; a flow (s, f) from each send to its receive; a counter (C) of the bytes
// that live on a rank, by segment. Times are microseconds from the step's start. docs/simulate.md
// describes it. Errors: BD_EXHAUSTED when the record is full, so that its end is missing.
BD_NODISCARD bd_status bd_sim_trace(bd_ctx *ctx, const bd_sim_problem *problem,
                                    const bd_sim_record *record, bd_text *text);
#endif
