// What a plan file predicts, read.
#ifndef BD_IR_PLAN_PREDICTED_H
#define BD_IR_PLAN_PREDICTED_H
#include "ir/base/json.h"
#include "ir/plan.h"

// Reads "predicted" of a plan whose stages and mesh are known; without it, the predictions are
// zeros. Errors: BD_INVALID with place, for unknown keys, for missing ones that every plan file
// has, and for null where a number has to be.
BD_NODISCARD bd_status bd_plan_predicted_parse(bd_ctx *ctx, const bd_json *root, bd_plan *plan);
#endif
