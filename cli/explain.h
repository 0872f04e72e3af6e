// What `braid explain` says about a plan.
#ifndef BD_CLI_EXPLAIN_H
#define BD_CLI_EXPLAIN_H
#include "ir/base/json.h"
#include "ir/plan_details.h"
#include "ir/plan_notes.h"

// Where a step's time goes on the slowest stage; the parts add up to the plan's step_seconds.
typedef struct bd_step_split {
  double forward_seconds, backward_seconds, sync_seconds, bubble_seconds;
} bd_step_split;
bd_step_split bd_explain_split(const bd_plan *plan);

// The same, what of it is known in detail told apart; the seconds add up to the step.
#define BD_MAX_TIME_PARTS 40
#define BD_PART_SYNC "gradient sync"
typedef struct bd_time_part {
  const char *name;    // "compute", "all-reduce", "gradient sync", "bubble"
  int axis;            // of the mesh, or -1
  bool between_stages; // sends and receives
  double seconds;      // of a step
} bd_time_part;
int bd_explain_time_parts(const bd_plan *plan, bd_time_part out_parts[BD_MAX_TIME_PARTS]);

// Flops of the model a second, over what the ranks' large matrix products reach; 0: not known.
double bd_explain_mfu(const bd_plan *plan);
// Tokens of a step, or samples for models without a sequence.
int64_t bd_explain_units(const bd_plan *plan);

// A strategy as the plan file tells it.
typedef struct bd_told_op {
  const char *op, *result, *split;
  bd_cut cut[BD_MAX_AXES];
  bool recomputed, saved;     // saved: its first result
  int parts[BD_PARTS_PASSES]; // that its products are done in
  bool balanced;              // ranks swap halves of its queries
  const char *bf16;           // "forward weight": products in bf16 that could be in 8 bits; or ""
  const char *kept;           // "offloaded", "compressed": how it is; NULL: as it is
} bd_told_op;

// A value of the function, a weight too.
typedef struct bd_told_value {
  const char *name, *kept; // kept: as above
  const char *form;        // what each mesh axis cuts of it, "[0, null]"; "whole" where none does
  const char *gradient;    // the same of a weight's gradient; NULL: as the weight
  bool saved;
  bool is_result; // the first of an op, which tells whether it is saved
} bd_told_value;

typedef struct bd_told_strategy {
  const char *name, *function;
  int op_count, value_count, calls; // calls of main that run it
  bd_told_op *ops;
  bd_told_value *values;
} bd_told_strategy;

// A plan file as it is shown.
typedef struct bd_told_plan {
  const char *path, *data; // data: `bytes` bytes of JSON
  size_t bytes;
  bool contradicts; // itself, of which there is a warning
  bd_plan plan;     // its cluster as bd_machine_beside has it
  bd_told_strategy *strategies;
} bd_told_plan;

// Reads a plan file, or the one in an output folder, and warns where it contradicts itself. Errors:
// BD_INVALID with place, also when it holds no predictions or notes.
BD_NODISCARD bd_status bd_told_load(bd_ctx *ctx, const char *path, bd_told_plan *out_plan);
// The same of the text of a plan that braid wrote itself, which does not contradict itself.
BD_NODISCARD bd_status bd_told_parse(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                                     bd_told_plan *out_plan);

// As many as the plan has. Errors: BD_INVALID at the place in the file.
BD_NODISCARD bd_status bd_explain_read(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                                       bd_told_strategy **out_strategies);

// Whether an axis has more than one rank on any stage: along others there is nothing to split.
bool bd_explain_has_ranks(const bd_plan *plan, int axis);

// Ops of all calls by what a mesh axis cuts in them.
typedef struct bd_axis_use {
  int64_t ops[BD_CUT_COUNT], all;
} bd_axis_use;
bd_axis_use bd_explain_axis(const bd_plan *plan, const bd_told_strategy *strategies, int axis);
// How many ranks each kind of cut makes in all.
typedef struct bd_degrees {
  int64_t data, sequence, tensor, idle; // of a stage; idle: ranks that do the same
} bd_degrees;
bd_degrees bd_explain_degrees(const bd_plan *plan, const bd_told_strategy *strategies);
// What cutting it is called: "data", "sequence", "tensor".
const char *bd_parallelism_name(bd_cut cut);

// One page for a person.
void bd_explain_page(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                     bool with_ops, bd_text *text);
// What each mesh axis does.
void bd_explain_mesh(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text);
// Per strategy what is saved, what is recomputed, and how the mesh cuts it; then, when wanted, a
// table of its ops.
void bd_explain_strategies(const bd_plan *plan, const bd_told_strategy *strategies, bool with_ops,
                           bd_text *text);
// Where the seconds of a step go, and the model flops utilization.
void bd_explain_times(const bd_plan *plan, bd_text *text);

// What keeps the plan from being faster.
typedef struct bd_binding {
  const char *kind; // "memory", "slowest stage", "batch", "link", "compute"
  int stage, axis;  // -1: none
  double share;     // of the cap, for memory; else of the step
  const char *words;
} bd_binding;
#define BD_MAX_BINDINGS 8
int bd_explain_bindings(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                        bd_binding out_bindings[BD_MAX_BINDINGS]);

// Search, bound, what binds, and what was considered beside the plan.
void bd_explain_search(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                       bd_text *text);

// Names and numbers for people.
void bd_explain_add_name(bd_text *text, const char *name);
void bd_explain_add_seconds(bd_text *text, double seconds);

// Bytes of a rank by segment.
void bd_explain_memory(const bd_plan *plan, bd_text *text);
// The members of that JSON that follow from what seconds and bytes are made of.
void bd_explain_json_costs(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                           bd_text *text);
// What a stage holds at its peak, and the bytes of its arena beside, as members of an object.
void bd_explain_json_live(const bd_plan *plan, int stage, bd_text *text);
// The same facts as JSON (docs/explain-json.md).
void bd_explain_json(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                     bd_text *text);
#endif
