// What the pipeline search enumerates: the model's runs, meshes, boundaries.
#ifndef BD_PLANNER_SPACE_H
#define BD_PLANNER_SPACE_H
#include "planner/layer/layer.h"

// A run of consecutive forward calls of one function.
typedef struct bd_run {
  const bd_function *function;
  int calls;
  const bd_weight_use *weight_uses; // per parameter: of its weight; the most of all calls
  const bd_strategy_pin *pin;       // what a person fixed of its layers; NULL: nothing
  int like; // the first run whose layers pose the same problem in every setting
} bd_run;

// A weight of main that several calls use.
typedef struct bd_shared_weight {
  const bd_type *type;
  bool whole;          // too small for ranks to store parts of it
  int uses, gradients; // by all calls; those that have a gradient
  const int *each;     // per run: how often each of its calls uses it, at least
} bd_shared_weight;

typedef struct bd_model_runs {
  int count, calls; // calls: of all runs
  bd_run *runs;
  int shared_count;
  const bd_shared_weight *shared;
  bool any_tied;   // whether some of them may lie in parts
  bool hands_on;   // every call but the first reads what the one before it makes
  bool hands_back; // ... and makes a gradient of that, which is wanted
} bd_model_runs;

// The runs of a train module in the order of its calls; they live in ctx->arena. Layers of which
// `constraints` (NULL: none) fix different things are in different runs. Where they fix nothing of
// layers, shared weights of at most 1e-4 of all elements are whole: what a rank could spare is
// nothing, and every other form poses the problems of all their layers anew.
bd_model_runs bd_model_runs_find(bd_ctx *ctx, const bd_module *train,
                                 const bd_constraints *constraints);
// The same with all shared weights whole, as those of the full space are.
bd_model_runs bd_model_runs_find_whole(bd_ctx *ctx, const bd_module *train,
                                       const bd_constraints *constraints);

// Whether every layer has a large part in the step: then candidates between the corners of a
// layer's trade are worth their time, and so are narrower searches about the plan that was found.
bool bd_model_has_few_layers(const bd_model_runs *runs);

// Meshes of `devices` devices: one axis, and every ordered pair of factors of 2 or more; with
// `node` devices or less on the near axis, and unless it is 0, that axis also cut in two.
int bd_space_meshes(bd_ctx *ctx, int devices, int node, bd_mesh **out_meshes);

// Whether layers on this mesh are searched with queries of attention, and positions, split: where a
// step has fewer samples than the mesh has ranks, or sequences are long. Elsewhere samples and
// heads are cut as evenly, and such splits would only lengthen the search.
bool bd_space_cuts_queries(const bd_mesh *mesh, int64_t global_batch, int64_t sequence);

// Forms of activations between layers: each axis splits the batch, the dimension after it, or
// nothing.
int bd_space_forms(bd_ctx *ctx, const bd_mesh *mesh, int64_t micro_batch, int64_t sequence,
                   bd_sharding **out_forms);

// Forms of tied weights: split along their first dimension by any axes.
int bd_space_tied_forms(bd_ctx *ctx, const bd_mesh *mesh, bool any_tied, bd_sharding **out_forms);
#endif
