#include "ir/plan.h"

int bd_plan_ranks(const bd_plan *plan) {
  int ranks = 0;
  for (int s = 0; s < plan->stages; s++)
    ranks += bd_mesh_devices(bd_plan_mesh(plan, s));
  return ranks;
}

int bd_plan_first_device(const bd_plan *plan, int stage) {
  if (plan->stage_device) return plan->stage_device[stage];
  int first = 0;
  for (int s = 0; s < stage; s++)
    first += bd_mesh_devices(bd_plan_mesh(plan, s));
  return first;
}

// How the stages of a plan go beyond what codegen emits for devices from `ranks` on, or NULL.
static const char *stages_beyond(const bd_plan *plan, int ranks) {
  if (bd_plan_chunks(plan) > 1) return "several chunks of the model on a stage";
  for (int s = 0; s < plan->stages; s++) {
    if (bd_plan_first_device(plan, s) != ranks) return "stages out of the devices' order";
    if (!bd_mesh_same(bd_plan_mesh(plan, s), &plan->mesh)) return "stages of unequal meshes";
    ranks += bd_mesh_devices(bd_plan_mesh(plan, s));
  }
  return NULL;
}

bool bd_plan_is_full(const bd_plan *plan) {
  return !bd_schedule_emitted(plan->schedule) || stages_beyond(plan, 0);
}

bool bd_plan_is_one_program(const bd_plan *plan) {
  return bd_schedule_emitted(plan->schedule) && !stages_beyond(plan, bd_plan_first_device(plan, 0));
}

bd_status bd_plan_emitted(bd_ctx *ctx, const bd_plan *plan) {
  if (!bd_schedule_emitted(plan->schedule))
    return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "plan for '%s': schedule %s is only planned and simulated; programs run gpipe "
                   "and 1f1b",
                   plan->model, bd_schedule_name(plan->schedule));
  if (bd_plan_is_full(plan) && bd_plan_is_one_program(plan))
    return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "plan for '%s': it begins with device %d of the cluster, programs with the "
                   "first; search on a cluster of its devices alone for one",
                   plan->model, bd_plan_first_device(plan, 0));
  const char *what = stages_beyond(plan, 0);
  for (int i = 0; i < plan->strategy_count && !what; i++)
    for (int v = 0; plan->strategies[i].kept && v < plan->strategies[i].value_count; v++)
      if (plan->strategies[i].kept[v]) what = "values compressed or in the host's memory";
  if (!what) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE,
                 "plan for '%s': %s can be planned, explained and simulated, but no program is "
                 "made of it; search without --space full for one",
                 plan->model, what);
}
