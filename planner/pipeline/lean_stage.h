// The fewest bytes that one stage holds for layers in a row. A stage is as full as its layers and
// one workspace: layers are chosen for each limit that the workspace may have.
#ifndef BD_PLANNER_PIPELINE_LEAN_STAGE_H
#define BD_PLANNER_PIPELINE_LEAN_STAGE_H
#include "planner/pipeline/pipeline.h"

// How far a stage goes from a layer on.
typedef struct bd_lean_reach {
  int from, end; // from -1: not known; layers from `end` on are beyond the limit
  double *inner; // [layers][form]: bytes of so many layers, handed on in the form
  int *room_of;  // [layers][form]: the room of which they are
} bd_lean_reach;

typedef struct bd_lean_stage {
  const bd_pipeline_problem *problem;
  int layers;       // of all runs
  int *run_of;      // per layer
  int *first_layer; // per run
  int room_count;
  double *rooms; // the workspaces that candidates have, ascending
  double limit;  // stages of more bytes are not looked at
  // Of the stage at hand:
  int stage;
  double least_sent;      // what handing on adds at least, which may be less than nothing
  double *holds;          // [room][run][form]: bytes of a layer's leanest candidate within the room
  int *pick;              // [room][run][form]: that candidate
  bd_lean_reach *reaches; // per form in which its first layer is taken
  // Of a walk through its runs:
  double *start; // [form]: bytes before the run, which is entered in the form
  double *end;   // [form]: bytes up to here, the form being the last
  int *entered;  // [run][form]: in which form the run was entered that ends in the form
  int *left;     // [run][form]: in which form the run before ended
} bd_lean_stage;

// Lives in ctx->arena; the limit is the caller's to set.
void bd_lean_stage_open(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_lean_stage *out_stage);

// Takes a stage in hand.
void bd_lean_stage_enter(bd_lean_stage *of, int stage);

// From layer `from` on, taken in the form `taken`, to wherever the stage may end, what is handed
// over and beside the layers aside. Lives until the next call for this form.
const bd_lean_reach *bd_lean_stage_reach(bd_lean_stage *of, int from, int taken);

// The stage's counts and entries for the layers from `from`, taken in the form `taken`, to before
// `to`, handed on in the form `handed`.
void bd_lean_stage_read(bd_lean_stage *of, int from, int taken, int to, int handed,
                        bd_pipeline *out_pipeline);
#endif
