// Pipelines: how many layers of each function run on each stage with each strategy, and in which
// form activations pass from one to the next.
#ifndef BD_PLANNER_PIPELINE_PIPELINE_H
#define BD_PLANNER_PIPELINE_PIPELINE_H
#include "planner/layer/layer.h"
#include "planner/solver.h"

// Seconds for a byte, beside which those that layers take are nothing.
#define BD_ANY_PRICE 1.0

// Seconds of a micro-batch.
typedef struct bd_both_ways {
  double forward, backward;
} bd_both_ways;

double bd_pipeline_sum(bd_both_ways seconds); // of both

// A run of consecutive calls of one function, and the ways to run each. The tables tell what it
// costs a micro-batch that a layer of this run hands on in form `f` what the next layer takes in
// form `g`, at [f * form_count + g], and between stages at bd_pipeline_hand_at.
typedef struct bd_pipeline_run {
  int calls; // layers
  int candidate_count;
  const bd_layer_candidate *candidates;
  const bd_both_ways *change;         // both on one stage
  const bd_both_ways *send, *receive; // per link: on the earlier and on the later of two stages
  const double *handed_bytes;         // [form]: of what a layer hands on, on a rank
} bd_pipeline_run;

// A weight that layers of several runs use, with its optimizer state: a stage with layers of any of
// them holds it once, beside what the candidates say.
typedef struct bd_pipeline_shared {
  double bytes;
  const bool *used; // per run
} bd_pipeline_shared;

// A value that another layer reads than the one after its maker, on whose stage it goes to that of
// the reader at once. Tables as those of a run.
typedef struct bd_pipeline_skip {
  int from, to;  // layers
  int result;    // of the maker: which it is
  bool next_too; // the one after its maker reads it as well
  const bd_both_ways *change, *send, *receive;
  const double *handed_bytes;
  const double *sum_seconds; // [form]: where it is made, to add its gradient to those of others
} bd_pipeline_skip;

typedef struct bd_pipeline_problem {
  bd_solver_kind solver;
  int stages, micro_batches;
  bd_schedule schedule;
  int zero; // 0 or 1
  int form_count;
  int run_count;
  const bd_pipeline_run *runs;
  int shared_count;
  const bd_pipeline_shared *shared;
  // Of models of few layers; where there are many, skips are little of what they take.
  int skip_count;
  const bd_pipeline_skip *skips;
  // Per stage but the last: which of the links for which runs have tables leads to the next stage;
  // NULL: the only one.
  const int *link;
  int64_t cap_bytes;
  const double *beside_bytes; // per stage: what it holds beside its layers; NULL: nothing
  // Per stage s, the least and the most layers that run on stages 0 to s; NULL: open.
  const int *cut_least, *cut_most;
  bool sends_held; // what is on its way to another stage is held beside
  bool rough;      // what can be constructed will do; other pipelines are solved to a hundredth
} bd_pipeline_problem;

// Layers of a run that share a stage have at most two forms; those of `entry` come first.
typedef struct bd_pipeline {
  bool feasible, optimal;
  int *count; // [stage][run][candidate], flat: see bd_pipeline_index
  int *entry; // [stage][run]: a form, or -1 where the run has no layers
  double seconds, bound;
  int64_t bytes; // of the fullest stage
  double *price; // per stage: of a byte, in seconds of a micro-batch, as it comes to the cap; 0: it
                 // has room. NULL: not known
} bd_pipeline;

int bd_pipeline_candidates(const bd_pipeline_problem *problem); // over all runs
int bd_pipeline_index(const bd_pipeline_problem *problem, int stage, int run, int candidate);
// Of an assignment: the layers of a run on a stage.
int bd_pipeline_layers(const bd_pipeline_problem *problem, const int *count, int stage, int run);
// Where tables of a run tell what `stage` hands on in form `from` and the next one takes in form
// `to`.
int bd_pipeline_hand_at(const bd_pipeline_problem *problem, int stage, int from, int to);
// Of a run that enters a stage in the form `entry`: the other form that layers of it have there,
// since a run changes its form at most once within a stage; else `entry`.
int bd_pipeline_exit_form(const bd_pipeline_problem *problem, const int *count, int stage, int run,
                          int entry);

// Minimizes the seconds of the schedule's order (bd_step_emitted_seconds), every stage within the
// cap with its schedule's tapes in flight. Solutions of `cutoff` seconds or more are not looked
// for. Small pipelines are solved as integer programs, those of some size to a thousandth, larger
// ones are constructed (see bd_pipeline_construct), as are rough ones; of others of some size the
// core is solved to the end (planner/pipeline/core.h). `optimal` says that it was proven;
// `bound` holds in any case.
BD_NODISCARD bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                         double limit_seconds, double cutoff,
                                         bd_pipeline *out_pipeline);

// Constructs one, or where that exceeds the cap, begins with the leanest, and refills its stages,
// which is quick: not the best, but with the price of a byte on each stage. Infeasible where
// nothing is within the cap; but where skips leave too much to look at, something may be.
void bd_pipeline_estimate(bd_ctx *ctx, const bd_pipeline_problem *problem,
                          bd_pipeline *out_pipeline);

// The assignment whose fullest stage holds the fewest bytes, whatever the cap and the time:
// exactly, but where skips leave too much to look at, as `optimal` tells. Infeasible when the
// layers cannot be cut into so many stages.
void bd_pipeline_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem,
                         bd_pipeline *out_pipeline);

// Seconds of a given assignment; INFINITY when a stage is empty or over the cap, or has layers that
// the cuts do not allow.
double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count, const int *entry);
// Bytes that the fullest stage of an assignment holds, and those of every stage.
double bd_pipeline_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry);
void bd_pipeline_stage_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry,
                             double *out_bytes);
double bd_pipeline_beside_bytes(const bd_pipeline_problem *problem, int stage);

// What one layer takes of a stage: seconds of a micro-batch, and bytes, its workspace aside.
double bd_pipeline_layer_seconds(const bd_layer_candidate *candidate);
double bd_pipeline_layer_bytes(const bd_pipeline_problem *problem, int stage,
                               const bd_layer_candidate *candidate);

// What a stage holds for layers of `run` that hand on in form `from` to layers that take in form
// `to`: where both are on it, where it only has the former, and where it only has the latter. The
// former hold what they hand on for every micro-batch in flight where they are measured alone, so
// that sending may add less than nothing.
double bd_pipeline_change_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                int to);
double bd_pipeline_send_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                              int to);
double bd_pipeline_receive_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                 int to);

// What handing on adds to `stage` at least, whichever layer it ends with; 0 for the last one.
double bd_pipeline_least_sent_bytes(const bd_pipeline_problem *problem, int stage);

// What a stage with layers of the runs from `first` to `last` holds of shared weights.
double bd_pipeline_shared_bytes(const bd_pipeline_problem *problem, int first, int last);
#endif
