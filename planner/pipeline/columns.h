// Private to pipelines as integer programs: their columns, and entries in terms of these.
#ifndef BD_PLANNER_PIPELINE_COLUMNS_H
#define BD_PLANNER_PIPELINE_COLUMNS_H
#include "planner/pipeline/pipeline.h"

// Where a run goes on: to itself on the next stage, to the next run on this stage or on the next.
enum { BD_SAME_RUN, BD_SAME_STAGE, BD_BOTH_NEXT, BD_WAYS };

// Numbers enter the program as multiples of the largest layer's, since solvers' tolerances are
// absolute near 1.
typedef struct bd_posing_units {
  double seconds, bytes;
} bd_posing_units;

typedef struct bd_posing {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  bd_program program;
  bd_posing_units unit;
  int *count, *used; // per (stage, run, candidate); used: -1 where a run has one layer
  int *pass;         // per (stage, run, form, form): enters in one, leaves in the other; -1: none
  int *link;         // per (stage, run, way, form, form): leaves in one, goes on in the other
  int *forward, *backward;       // per stage: seconds of a micro-batch
  int reduce, apply, *workspace; // apply: -1 where no update takes any time
} bd_posing;

// All columns but those that rows add; `out_posing` has its first two members and the solver set.
void bd_posing_add_columns(bd_posing *out_posing);

// A column of seconds, which count so many times.
int bd_posing_add_seconds(bd_posing *posing, double times);

// Columns; -1: there is none.
int bd_posing_pass_at(const bd_posing *posing, int stage, int run, int enter, int leave);
int bd_posing_link_at(const bd_posing *posing, int stage, int run, int way, int leave, int enter);

bool bd_posing_has_form(const bd_pipeline_run *run, int form);
// False: there is no such stage or run.
bool bd_posing_goes_on(const bd_posing *posing, int stage, int run, int way, int *out_stage,
                       int *out_run);

// An entry, unless the column is -1.
void bd_posing_put(bd_posing *posing, int row, int column, double value);
#endif
