// What `braid explain` says about a plan.
#ifndef BD_CLI_EXPLAIN_H
#define BD_CLI_EXPLAIN_H
#include "ir/base/json.h"
#include "ir/plan.h"

// Where a step's time goes on the slowest stage; the parts add up to the plan's step_seconds.
typedef struct bd_step_split {
  double forward_seconds, backward_seconds, sync_seconds, bubble_seconds;
} bd_step_split;
bd_step_split bd_explain_split(const bd_plan *plan);
// Tokens of a step, or samples for models without a sequence.
int64_t bd_explain_units(const bd_plan *plan);

// One page for a person. `root` is the plan file: it holds the insides of the strategies.
BD_NODISCARD bd_status bd_explain_page(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                                       bd_text *text);
// The ops of each strategy: what each mesh axis splits, what is saved.
BD_NODISCARD bd_status bd_explain_strategies(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                                             bd_text *text);
// The predictions as JSON (docs/plan.md).
void bd_explain_json(const bd_plan *plan, bd_text *text);
#endif
