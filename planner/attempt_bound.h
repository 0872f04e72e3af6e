// Private to attempts: a setting is bounded, and `bounded` filled in. What is made lives in
// ctx->arena.
#ifndef BD_PLANNER_ATTEMPT_BOUND_H
#define BD_PLANNER_ATTEMPT_BOUND_H
#include "planner/attempt.h"

// Each as BD_ATTEMPT_APART and the kinds after it say.
BD_NODISCARD bd_status bd_attempt_bound_apart(bd_ctx *ctx, bd_attempt *attempt);
BD_NODISCARD bd_status bd_attempt_bound_sketch(bd_ctx *ctx, bd_attempt *attempt);
BD_NODISCARD bd_status bd_attempt_bound_layers(bd_ctx *ctx, bd_attempt *attempt);
BD_NODISCARD bd_status bd_attempt_bound_room(bd_ctx *ctx, bd_attempt *attempt);
#endif
