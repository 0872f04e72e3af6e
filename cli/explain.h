// What `braid explain` says about a plan.
#ifndef BD_CLI_EXPLAIN_H
#define BD_CLI_EXPLAIN_H
#include "ir/base/json.h"
#include "ir/plan_notes.h"

// Where a step's time goes on the slowest stage; the parts add up to the plan's step_seconds.
typedef struct bd_step_split {
  double forward_seconds, backward_seconds, sync_seconds, bubble_seconds;
} bd_step_split;
bd_step_split bd_explain_split(const bd_plan *plan);
// Tokens of a step, or samples for models without a sequence.
int64_t bd_explain_units(const bd_plan *plan);

// A strategy as the plan file tells it.
typedef struct bd_told_op {
  const char *op, *result, *split;
  bd_cut cut[BD_MAX_AXES];
  bool recomputed, saved; // saved: its first result
} bd_told_op;

typedef struct bd_told_strategy {
  const char *name, *function;
  int op_count, calls; // calls of main that run it
  bd_told_op *ops;
} bd_told_strategy;

// As many as the plan has. Errors: BD_INVALID at the place in the file.
BD_NODISCARD bd_status bd_explain_read(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                                       bd_told_strategy **out_strategies);

// Ops of all calls by what a mesh axis cuts in them.
typedef struct bd_axis_use {
  int64_t ops[BD_CUT_COUNT], all;
} bd_axis_use;
bd_axis_use bd_explain_axis(const bd_plan *plan, const bd_told_strategy *strategies, int axis);
// What cutting it is called: "data", "sequence", "tensor".
const char *bd_parallelism_name(bd_cut cut);

// One page for a person.
void bd_explain_page(const bd_plan *plan, const bd_told_strategy *strategies, bool with_ops,
                     bd_text *text);
// What each mesh axis does.
void bd_explain_mesh(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text);
// Per strategy what is saved, what is recomputed, and how the mesh cuts it; then, when wanted, a
// table of its ops.
void bd_explain_strategies(const bd_plan *plan, const bd_told_strategy *strategies, bool with_ops,
                           bd_text *text);
// Bytes of a rank by segment.
void bd_explain_memory(const bd_plan *plan, bd_text *text);
// The same facts as JSON (docs/plan.md).
void bd_explain_json(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text);
#endif
