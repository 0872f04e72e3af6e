// What lies in a rank's arena, by name: for people who look for bytes.
#ifndef BD_PLANNER_TENANTS_H
#define BD_PLANNER_TENANTS_H
#include "ir/plan.h"
#include "ir/plan_details.h"

// The tensors of `stage` of a plan's spmd module, made of `train`, the largest groups first:
// weights with their gradients and optimizer states, tapes, values between layers, and what lives
// in the workspace when most of it is in use. Compressed values count with what is left of them,
// those in the host's memory not at all. Tensors of equal layers are one group. The list lives in
// ctx->arena.
BD_NODISCARD bd_status bd_tenants_find(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                                       const bd_plan *plan, int stage, bd_tenant **out_tenants,
                                       int *out_count);
#endif
