// Partial plans: a plan file of which only some is written; the search solves the rest
// (docs/plan.md).
#ifndef BD_PLANNER_CONSTRAINTS_PARTIAL_H
#define BD_PLANNER_CONSTRAINTS_PARTIAL_H
#include "planner/planner.h"

// Reads a partial plan into a request and what it refers to. Everything is checked against the
// module: names, letters, ranges, and that it agrees with what the request says already. Errors:
// BD_INVALID with place.
BD_NODISCARD bd_status bd_partial_read(bd_ctx *ctx, const char *file, const char *data,
                                       size_t bytes, const bd_module *train,
                                       bd_plan_request *request, bd_constraints *constraints);
#endif
