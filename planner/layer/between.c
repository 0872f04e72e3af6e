// What lies between the corners of a layer's trade, by integer programs.
#include "planner/layer/pool.h"
#include "planner/layer/state.h"
#include <math.h>

enum { BUDGETS = 3 }; // between what the fastest holds and what the leanest does
#define PROGRAM_SECONDS 10.0

// What the fastest candidate of a form holds, and what the leanest does, as options cost.
static bool find_ends(const bd_layer *layer, const bd_layer_candidate *list, int count, int form,
                      double *out_fast, double *out_lean) {
  double fastest = INFINITY;
  *out_fast = 0;
  *out_lean = INFINITY;
  for (int k = 0; k < count; k++) {
    double seconds, bytes;
    if (list[k].form != form) continue;
    bd_choice_evaluate(&layer->problem, list[k].option, &seconds, &bytes);
    *out_lean = fmin(*out_lean, bytes);
    if (seconds >= fastest) continue;
    fastest = seconds;
    *out_fast = bytes;
  }
  return *out_fast > *out_lean;
}

// The layer's problem for one form alone.
static bd_choice_problem problem_of_form(bd_ctx *ctx, const bd_layer *layer, int form) {
  bd_choice_problem problem = layer->problem;
  problem.node = bd_arena_copy(ctx->arena, problem.node, problem.nodes, sizeof *problem.node);
  bd_choice_node *boundary = &problem.node[problem.nodes - 1];
  boundary->cost = BD_NEW_ARRAY(ctx->arena, double, boundary->options);
  for (int other = 0; other < boundary->options; other++)
    boundary->cost[other] = other == form ? 0 : INFINITY;
  return problem;
}

static bd_status add_of_form(bd_ctx *ctx, bd_layer *layer, int form,
                             bd_layer_candidate **candidates, int *count) {
  double fast, lean;
  if (!find_ends(layer, *candidates, *count, form, &fast, &lean)) return BD_OK;
  bd_choice_problem problem = problem_of_form(ctx, layer, form);
  *candidates = bd_arena_grow(ctx->arena, *candidates, (size_t)*count,
                              (size_t)(*count + 2 * BUDGETS), sizeof **candidates);
  for (int b = 1; b <= BUDGETS; b++) {
    bd_choice choice;
    problem.budget = lean + (fast - lean) * b / (BUDGETS + 1);
    BD_TRY(bd_choice_solve(ctx, &problem, PROGRAM_SECONDS, &choice));
    if (choice.feasible && bd_layer_pools_agree(&layer->space, choice.option))
      BD_TRY(bd_layer_add_candidate(ctx, layer, form, choice.option, *candidates, count));
  }
  return BD_OK;
}

bd_status bd_layer_fill_between(bd_ctx *ctx, bd_layer *layer, const bd_layer_candidate *used,
                                bd_layer_candidate **candidates, int *count, bool *out_new) {
  int before = layer->measured_count, form = used->option[layer->space.cluster_count];
  *out_new = false;
  if (!bd_choice_is_small(&layer->problem)) return BD_OK;
  if (!layer->filled) layer->filled = BD_NEW_ARRAY(ctx->arena, bool, layer->request->form_count);
  if (layer->filled[form]) return BD_OK;
  layer->filled[form] = true;
  BD_TRY(add_of_form(ctx, layer, form, candidates, count));
  *out_new = layer->measured_count > before;
  return BD_OK;
}
