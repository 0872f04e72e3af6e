// What lies in a rank's arena, by name: for people who look for bytes.
#ifndef BD_PLANNER_TOLD_TENANTS_H
#define BD_PLANNER_TOLD_TENANTS_H
#include "ir/plan.h"
#include "ir/plan_details.h"

typedef struct bd_tenants { // grows in a context's arena
  int count, capacity;
  bd_tenant *items;
  const char **keys; // per item: what its tensors have in common
} bd_tenants;

// Adds the tensors of `stage` of a plan's spmd module, made of `train`: weights with their
// gradients and optimizer states, tapes and values between layers of `slots` micro-batches in
// flight, and, when wanted, what lives in the workspace when most of it is in use. Compressed
// values count with what is left of them, those in the host's memory not at all. Tensors of equal
// layers are one group.
BD_NODISCARD bd_status bd_tenants_add(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                                      const bd_plan *plan, int stage, int slots, bool workspace,
                                      bd_tenants *list);

// Adds what `count` delayed weight passes wait for, `bytes` each.
void bd_tenants_add_weight_inputs(bd_ctx *ctx, int64_t bytes, int count, bd_tenants *list);

void bd_tenants_sort(bd_tenants *list); // the largest groups first

// All tensors of a stage with as many slots as its schedule holds, the largest groups first.
BD_NODISCARD bd_status bd_tenants_find(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                                       const bd_plan *plan, int stage, bd_tenant **out_tenants,
                                       int *out_count);
#endif
