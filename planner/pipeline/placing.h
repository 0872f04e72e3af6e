// Private to searches that place few layers one by one: an assignment of the first layers.
#ifndef BD_PLANNER_PIPELINE_PLACING_H
#define BD_PLANNER_PIPELINE_PLACING_H
#include "planner/pipeline/label.h"
#include "planner/pipeline/skip.h"

// The layers of all runs, in order.
typedef struct bd_layer_chain {
  const bd_pipeline_problem *problem;
  int layers;
  int run_of[BD_LABEL_LAYERS + 1];
} bd_layer_chain;

typedef struct bd_placing {
  short candidate[BD_LABEL_LAYERS];
  signed char stage_of[BD_LABEL_LAYERS];
} bd_placing;

// False: there are more than BD_LABEL_LAYERS layers, or more candidates than a placing can name.
bool bd_layer_chain_list(const bd_pipeline_problem *problem, bd_layer_chain *out_chain);

void bd_placing_add(bd_placing *placing, int layer, int stage, int candidate);
const bd_layer_candidate *bd_placing_candidate(const bd_layer_chain *chain,
                                               const bd_placing *placing, int layer);
bd_layer_place bd_placing_at(const bd_layer_chain *chain, const bd_placing *placing, int layer);

// What a value takes that layer skip->to, placed with all before it, reads. Out: whether its maker
// is on the reader's stage.
bd_skip_cost bd_placing_skip(const bd_layer_chain *chain, const bd_placing *placing,
                             const bd_pipeline_skip *skip, bool *out_stays);

// Whether a stage may end with so many layers.
bool bd_placing_may_end(const bd_pipeline_problem *problem, int stage, int placed);

// Counts and entries, as of bd_pipeline, of an assignment of all layers; in ctx->arena.
void bd_placing_count(bd_ctx *ctx, const bd_layer_chain *chain, const bd_placing *placing,
                      int **out_count, int **out_entry);
#endif
