// Whether what a plan file predicts can be believed: files are edited by hand.
#ifndef BD_CLI_TOLD_CHECK_H
#define BD_CLI_TOLD_CHECK_H
#include "cli/explain.h"

// Warns, at its place, of the first prediction that contradicts another of the file; true when
// there is one.
bool bd_told_check_self(bd_ctx *ctx, const bd_json *root, const bd_plan *plan);

// Warns when the planner predicts other seconds or bytes for the plan, or when the plan
// does not fit its model on its cluster. Where the model that the plan names is not at hand, or the
// cluster is the machine itself, which is not measured for this, nothing is said. Where the
// file contradicts itself, this is a note to the warning of that.
void bd_told_check_planner(bd_ctx *ctx, const bd_told_plan *told);
#endif
