// Values that skip layers: where their ends are, and what they take.
#ifndef BD_PLANNER_PIPELINE_SKIP_H
#define BD_PLANNER_PIPELINE_SKIP_H
#include "planner/bound/bound.h"
#include "planner/pipeline/pipeline.h"

typedef struct bd_layer_place {
  int stage, form;
} bd_layer_place;

// Whether two readers want the same value.
static inline bool bd_skip_same_value(const bd_pipeline_skip *a, const bd_pipeline_skip *b) {
  return a->from == b->from && a->result == b->result;
}

// Of a layer, counted from 0 over all runs, in an assignment.
bd_layer_place bd_pipeline_place(const bd_pipeline_problem *problem, const int *count,
                                 const int *entry, int layer);

// Whether one of the first `placed` layers, on the stages `stage_of`, has brought the value to
// `stage` for the reader to find.
bool bd_pipeline_skip_is_there(const bd_pipeline_problem *problem, const bd_pipeline_skip *skip,
                               const signed char *stage_of, int placed, int stage);

typedef struct bd_skip_cost {
  bd_both_ways maker, reader; // seconds of a micro-batch on the two stages, which may be one
  double maker_bytes, reader_bytes;
} bd_skip_cost;

// `there`: another reader on the stage has brought the value there.
bd_skip_cost bd_pipeline_skip_cost(const bd_pipeline_problem *problem, const bd_pipeline_skip *skip,
                                   bd_layer_place from, bd_layer_place to, bool there);

// Those of the model, whose layers have few calls, into the problem; in ctx->arena.
void bd_skips_find(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                   const bd_stage_links *links, int form_count, const bd_sharding *forms,
                   bd_pipeline_problem *problem);
#endif
