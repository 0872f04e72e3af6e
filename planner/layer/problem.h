// The layer space as a choice problem.
#ifndef BD_PLANNER_LAYER_PROBLEM_H
#define BD_PLANNER_LAYER_PROBLEM_H
#include "planner/choice/eliminate.h"
#include "planner/layer/space.h"

// A node per cluster, and a last one for the form of the boundary. Costs are seconds per
// micro-batch and never more than what the lowered functions take, so that a bound here is a bound
// on them: conversions and recomputation that several readers share are divided among them. A
// node's usage is what one rank holds of its weights with gradients and optimizer;
// `out_tape[node][option]` are the bytes of one tape.
void bd_layer_problem(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out_problem,
                      double ***out_tape);

// The same in two steps, with `space->tables` and `space->reshards` open for both: options that
// cannot matter may be dropped from nodes and clusters in between.
void bd_layer_add_nodes(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out_problem,
                        double ***out_tape);
void bd_layer_add_edges(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *problem);

// Of the problem, exact unless that is too large; the boundary goes last. Lives in ctx->arena.
bd_elimination *bd_layer_elimination(bd_ctx *ctx, const bd_choice_problem *problem);

// The strategy that a choice stands for.
bd_strategy bd_layer_strategy(bd_ctx *ctx, const bd_layer_space *space, const int *option);
#endif
