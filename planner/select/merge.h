// Edges that join the same nodes, made one.
#ifndef BD_PLANNER_SELECT_MERGE_H
#define BD_PLANNER_SELECT_MERGE_H
#include "planner/select/problem.h"

// The same problem with at most one edge between two nodes, none from a node to itself, each from
// the lower to the higher number, ascending. Shares what it can with `problem`; the rest lives in
// ctx->arena. Sums that exceed 64 bits become INT64_MAX.
bd_select_problem bd_select_merge(bd_ctx *ctx, const bd_select_problem *problem);
#endif
