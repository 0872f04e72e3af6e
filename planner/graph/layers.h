// Layer graphs: layers in a fixed order, each with a few ways to run it, cut into pipeline stages
// on groups of devices. Numbers alone; `braid solve` reads them from a file, and the search with
// --space full makes them of a model.
#ifndef BD_PLANNER_GRAPH_LAYERS_H
#define BD_PLANNER_GRAPH_LAYERS_H
#include "ir/base/clock.h"
#include "planner/step/step.h"

#define BD_LAYERS_MAX_STAGES 256
#define BD_LAYERS_MAX_GROUPS 64
#define BD_LAYERS_MAX_MODES 256

// Devices that are alike, with equal links among them.
typedef struct bd_layers_group {
  const char *name;
  int count;
  int64_t cap_bytes; // of each
} bd_layers_group;

// How a stage may use devices: so many of one group. Two modes may differ in nothing but their
// options (another mesh of as many devices).
typedef struct bd_layers_mode {
  int group, devices;
} bd_layers_mode;

// A way to run a layer on a stage of some mode. Bytes are those of one device.
typedef struct bd_layers_option {
  int index;                                // the caller's
  int mode;                                 // of the stages that may run it
  int form;                                 // in which activations enter and leave
  int micro_batches;                        // the only number of micro-batches it is for; 0: any
  double forward_seconds, backward_seconds; // of a micro-batch
  double weight_seconds;                    // of backward_seconds: what zero-bubble may delay
  double sync_seconds;                      // once a step
  int64_t fixed_bytes;
  int64_t micro_batch_bytes;  // the tape of a micro-batch
  int64_t weight_input_bytes; // held from a micro-batch's backward to its delayed weight pass
  int64_t workspace_bytes;    // while it runs
} bd_layers_option;

typedef struct bd_layers_layer {
  // Consecutive layers of one class are alike: the same options, the same cuts before those that
  // follow one of the class.
  int class;
  int option_count;
  const bd_layers_option *options;
} bd_layers_layer;

// What the boundary before a layer costs, forms f on the left and g on the right; INFINITY: not
// possible. Seconds are of a micro-batch, half of them in forward and half in backward.
typedef struct bd_layers_cut {
  const double *change;         // [mode][f][g]: within a stage
  const double *send, *receive; // [mode on the left][mode on the right][f][g]: between stages
  const int64_t *held_bytes;    // per mode: of a micro-batch, what skips hold on the stage entered
} bd_layers_cut;

typedef struct bd_layers_problem {
  int layer_count;
  const bd_layers_layer *layers;
  const bd_layers_cut *cuts; // per layer: before it; that of the first is not read
  int group_count, mode_count, form_count;
  const bd_layers_group *groups;
  const bd_layers_mode *modes;
  unsigned schedules; // a bit per bd_schedule
  int micro_batch_count, chunk_count;
  const int *micro_batches;     // to choose from
  const int *chunks;            // per stage, for the interleaved schedule, to choose from
  int min_stages, max_stages;   // min_stages 0: 1
  const bool *forbidden_stages; // per number of stages up to the most; NULL: none is
  const int *stage;             // per layer: the only one that may run it, -1: any; NULL: all any
} bd_layers_problem;

// Where a cut tells of a change on a stage in `mode`, and of a hand-over between stages in two
// modes.
static inline int bd_layers_change_at(const bd_layers_problem *problem, int mode, int from_form,
                                      int to_form) {
  return (mode * problem->form_count + from_form) * problem->form_count + to_form;
}
static inline int bd_layers_hand_at(const bd_layers_problem *problem, int from_mode, int from_form,
                                    int to_mode, int to_form) {
  return bd_layers_change_at(problem, from_mode * problem->mode_count + to_mode, from_form,
                             to_form);
}

static inline int64_t bd_layers_mode_cap(const bd_layers_problem *problem, int mode) {
  return problem->groups[problem->modes[mode].group].cap_bytes;
}
// Sums of bytes end at INT64_MAX.
static inline int64_t bd_layers_add_bytes(int64_t a, int64_t b) {
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

// A stage takes the next layers of the order (interleaved: once per chunk), on devices of one group
// that no other stage uses; devices may be left idle.
typedef struct bd_layers_plan {
  bd_schedule schedule;
  int micro_batches, stages, chunks;
  int *mode;   // per stage
  int *part;   // per layer: chunk * stages + stage, ascending one by one
  int *option; // per layer: which of its options
} bd_layers_plan;

typedef struct bd_layers_stage {
  bd_stage_seconds seconds;
  int64_t bytes; // of one device
} bd_layers_stage;

// What a plan is defined to cost: bd_step_seconds of its stages; INFINITY when it breaks a rule
// (options of another mode, a layer on another stage than its own, forms that cannot change, more
// devices than there are). Bytes of a stage: what is fixed, the schedule's tapes in flight (each as
// large as that of its largest chunk), what delayed weight passes hold, and the largest workspace.
// They are not held against the caps. `out_stages`: room for plan->stages.
double bd_layers_measure(const bd_layers_problem *problem, const bd_layers_plan *plan,
                         bd_layers_stage *out_stages);

typedef struct bd_layers_answer {
  bool found, proven; // proven: the plan is optimal
  bd_layers_plan plan;
  double seconds; // of its step
  double bound;   // no plan within the caps takes less; INFINITY: there is none
  // Where it is known that there is none: with caps larger by so many bytes there is, `plan`
  // (INT64_MAX: none was found with any), ...
  int64_t lacking_bytes;
  // ... and with caps larger by fewer bytes than these there is none (INT64_MAX: with no caps).
  int64_t least_lacking_bytes;
} bd_layers_answer;

// Searches all plans whose stages keep within the caps, with a fixed amount of work at most, or
// until the deadline. Plans of `cutoff` seconds or more are not wanted.
// `hurried`: a good plan will do, and neither a bound nor what is lacking is looked for; the latter
// not under a finite cutoff either. The answer lives in ctx->arena.
BD_NODISCARD bd_status bd_layers_solve(bd_ctx *ctx, const bd_layers_problem *problem,
                                       bd_deadline deadline, double cutoff, bool hurried,
                                       bd_layers_answer *out_answer);
#endif
