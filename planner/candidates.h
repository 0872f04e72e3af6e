// The candidates of a setting's layers, and the pipelines that they pose.
#ifndef BD_PLANNER_CANDIDATES_H
#define BD_PLANNER_CANDIDATES_H
#include "planner/bound/bound.h"
#include "planner/pipeline/pipeline.h"

// As they were measured, by run; runs that pose the problem of an earlier one have none of their
// own.
typedef struct bd_candidates {
  const bd_scene *scene;
  bd_setting setting;
  bd_setting_layers layers;
  bd_layer_candidate **list;
  int *count;
} bd_candidates;

// The first ones, at `price` of a byte (bd_layer_candidates). `below`: options are left out with
// which a plan takes much longer (bd_setting_open_below); INFINITY: none are. Layers that are the
// same as those of `before`, with another tied form, keep theirs; NULL: there are none.
// `*out_possible` is false when a run has none. Lives in ctx->arena, as what is added later.
BD_NODISCARD bd_status bd_candidates_measure(bd_ctx *ctx, const bd_scene *scene,
                                             const bd_setting *setting, double price, double below,
                                             const bd_candidates *before,
                                             bd_candidates *out_candidates, bool *out_possible);

// A run's candidates for another run whose layers pose the same problem. Lives in ctx->arena.
bd_layer_candidate *bd_candidates_named_after(bd_ctx *ctx, int count,
                                              const bd_layer_candidate *candidates,
                                              const bd_function *function);

// The pipeline of them, with the optimizer's states split (`zero` 1) or whole.
bd_pipeline_problem bd_candidates_pose(bd_ctx *ctx, const bd_candidates *candidates, int zero);

// Asks for candidates about those that a quick solution uses, with `others` farther off
// (bd_layer_polish); where a model has few layers, also for those that are best at its prices, and
// with `others` for what lies between (bd_layer_fill_between), and where none of its pipelines is
// within the cap, for leaner ones. `*out_any`: there are new ones.
BD_NODISCARD bd_status bd_candidates_ask(bd_ctx *ctx, bd_candidates *candidates, int zero,
                                         bool others, bool *out_any);

// Asks for candidates about those of the leanest pipeline that hold less, however slow.
BD_NODISCARD bd_status bd_candidates_ask_leaner(bd_ctx *ctx, bd_candidates *candidates, int zero,
                                                bool *out_any);
#endif
