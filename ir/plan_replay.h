// What a plan's predictions say for a replay beside seconds and bytes: what of the arena each
// micro-batch in flight has, and the messages between stages (docs/plan.md).
#ifndef BD_IR_PLAN_REPLAY_H
#define BD_IR_PLAN_REPLAY_H
#include "ir/base/json.h"
#include "ir/plan.h"

// The JSON members `slots` and `messages`, each after a comma and on a line that begins with
// `indent`; nothing where they are not known.
void bd_plan_replay_print(const bd_stage_prediction *stage, const char *indent, bd_text *text);

// Reads both from a stage's prediction, whose segments are read; they may be absent. Errors:
// BD_INVALID with place.
BD_NODISCARD bd_status bd_plan_replay_parse(bd_ctx *ctx, const bd_json *item, int stage, int stages,
                                            bd_stage_prediction *out);
#endif
