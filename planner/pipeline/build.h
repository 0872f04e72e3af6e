// Private to pipelines that are constructed: one stage from the layers it is given.
#ifndef BD_PLANNER_PIPELINE_BUILD_H
#define BD_PLANNER_PIPELINE_BUILD_H
#include "planner/pipeline/pipeline.h"

// The exchange of one layer's candidate for another one of its form.
typedef struct bd_exchange {
  int to;                    // -1: no other one holds less
  double price, saved_bytes; // in seconds a byte; of one layer
} bd_exchange;

// Of a run's candidates of one form, as slots.
typedef struct bd_extremes {
  int fastest, leanest; // the latter with its workspace, of `alone_bytes` for one layer
  double alone_bytes;
} bd_extremes;

// How a stage's layers come to each form in which they may leave it.
typedef struct bd_reached {
  bool known;
  double *least; // [form]: what they come to; INFINITY: they cannot
  int *before;   // [run][form]: the form of the run before
} bd_reached;

// Candidates of all runs lie one after another, in "slots".
typedef struct bd_stage_builder {
  const bd_pipeline_problem *problem;
  int layers, cells;
  int *run_of;       // per layer
  int *first_layer;  // per run
  int *first_slot;   // per run
  double *takes;     // per slot: seconds of one layer
  double *workspace; // per slot: bytes
  double *seconds;   // [run][form]: of the fastest candidate; INFINITY: none
  // Of the stage at hand:
  int stage;
  double *holds;          // per slot: bytes of one layer
  double *bytes;          // [run][form]: of the leanest candidate
  bd_extremes *best;      // [run][form]
  bd_exchange *exchanges; // per slot: the cheapest one that saves bytes
  int from, to, entry;    // its layers, and the form in which they come
  bd_reached reached[2];  // at the least seconds, and at the least bytes
  double *next;           // [form]: scratch
  // Of what was built last:
  int *forms;            // per run: chosen
  int *count;            // per slot: layers
  int used_count, *used; // slots, in their order: no other one has layers
} bd_stage_builder;

// Lives in `arena`; is at stage 0.
bd_stage_builder bd_stage_builder_create(bd_arena *arena, const bd_pipeline_problem *problem);

void bd_stage_builder_go_to(bd_stage_builder *builder, int stage);

// Gives the stage at hand the layers from `from` to before `to`, which come in the form `entry`.
void bd_stage_enter(bd_stage_builder *builder, int from, int to, int entry);

// Chooses for these layers, which leave in the form `exit`: a form for each run, as changes between
// them are fastest, and candidates, exchanged at the least price until the stage is within the cap.
// False when none are found. `*out_seconds`: of a micro-batch, but for what is handed on.
bool bd_stage_build(bd_stage_builder *builder, int exit, double *out_seconds);
#endif
