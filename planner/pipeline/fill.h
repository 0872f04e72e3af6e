// Private to refilling: candidates for the layers of one stage, under a price on bytes.
#ifndef BD_PLANNER_PIPELINE_FILL_H
#define BD_PLANNER_PIPELINE_FILL_H
#include "planner/pipeline/pipeline.h"

// One stage: how many layers of each run it has, and what is chosen for them.
typedef struct bd_stage_fill {
  const bd_pipeline_problem *problem;
  int stage, first, last; // runs that have layers
  int *layers;            // per run
  int entry, exit;        // forms; -1: any will do
  double passes;          // of a micro-batch in a step, among which synchronization is divided
  double room;            // bytes for layers, changes of form and workspace
  double ceiling;         // no candidate has a larger workspace
  double price;           // of a byte, in seconds of a micro-batch
  int *first_slot;        // per run: where its candidates begin among those of all runs
  double *takes, *holds;  // [slot]: one layer's seconds and bytes
  bool chosen;            // candidates of every run, at the price
  int *form;              // per run: chosen
  int *best;              // [run][form]: the candidate that is best at the price, or -1
  double *value;          // [form]: what it comes to
  double *reach, *next;   // [form]: the least so far, and with the next run
  int *back;              // [run][form]: the form before
  int *count;             // [slot]
} bd_stage_fill;

// In `arena`, for any stage; which one, its layers, forms and room are the caller's to set.
bd_stage_fill bd_stage_fill_create(bd_arena *arena, const bd_pipeline_problem *problem);

// Of the stage's candidates, once it is set: to be called before all below.
void bd_stage_fill_measure(bd_stage_fill *fill);

// The next ceiling below the last: the largest smaller workspace that a candidate has; false:
// there is none.
bool bd_stage_fill_lower(bd_stage_fill *fill);

// Chooses under the ceiling: the fastest when there is room, else at the least price at which the
// layers come to the cap, with what is left spent layer by layer. False when nothing fits.
bool bd_stage_fill_choose(bd_stage_fill *fill);

// Seconds of a micro-batch of what is chosen, with the part of synchronization that falls to it.
double bd_stage_fill_seconds(const bd_stage_fill *fill);
#endif
