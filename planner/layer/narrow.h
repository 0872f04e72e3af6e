// Which of a layer's products that are marked for 8 bits stay in bf16.
#ifndef BD_PLANNER_LAYER_NARROW_H
#define BD_PLANNER_LAYER_NARROW_H
#include "planner/layer/layer.h"

// Sets `strategy->bf16`, in `kept`, by the products' sizes on a rank; a strategy that has it keeps
// it.
BD_NODISCARD bd_status bd_layer_choose_bf16(bd_ctx *ctx, bd_arena *kept,
                                            const bd_layer_request *request, bd_strategy *strategy);
#endif
