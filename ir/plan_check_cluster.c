// What a plan must satisfy on a cluster, whoever wrote it.
#include "ir/plan.h"

bd_status bd_plan_check_ranks(bd_ctx *ctx, const bd_cluster *cluster, const bd_plan *plan) {
  BD_TRY(bd_cluster_check_precision(ctx, cluster, plan->precision));
  int devices = bd_cluster_devices(cluster);
  int64_t ranks = bd_plan_ranks(plan), last = ranks;
  for (int s = 0; s < plan->stages; s++) {
    int64_t end = (int64_t)bd_plan_first_device(plan, s) + bd_mesh_devices(bd_plan_mesh(plan, s));
    if (end > last) last = end;
  }
  if (last <= devices) return BD_OK;
  return bd_fail(
      ctx, BD_INVALID, plan->loc,
      "the plan wants %lld rank%s, the cluster has %d device%s; give it more of them, or "
      "make the plan for this one",
      (long long)last, bd_plural(last, "s"), devices, bd_plural(devices, "s"));
}

// `cap_bytes` where that is positive and lower.
static int64_t cap_of_stages(const bd_cluster *cluster, int64_t cap_bytes, const bd_plan *plan,
                             int first, int count) {
  int device = bd_plan_first_device(plan, first), ranks = 0;
  for (int s = first; s < first + count; s++)
    ranks += bd_mesh_devices(bd_plan_mesh(plan, s));
  int64_t cap = bd_cluster_cap_bytes(cluster, device, ranks);
  return cap_bytes > 0 && cap_bytes < cap ? cap_bytes : cap;
}

int64_t bd_plan_cap_bytes(const bd_cluster *cluster, int64_t cap_bytes, const bd_plan *plan) {
  if (bd_plan_is_one_program(plan)) return cap_of_stages(cluster, cap_bytes, plan, 0, plan->stages);
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++) {
    int64_t cap = cap_of_stages(cluster, cap_bytes, plan, s, 1);
    if (cap > most) most = cap;
  }
  return most;
}

bd_status bd_plan_check_bytes(bd_ctx *ctx, const bd_cluster *cluster, int64_t cap_bytes,
                              const bd_plan *plan) {
  for (int s = 0; s < plan->stages; s++) {
    int64_t bytes = plan->predicted[s].memory.total_bytes;
    int64_t cap = cap_of_stages(cluster, cap_bytes, plan, s, 1);
    if (bytes > cap)
      return bd_fail(ctx, BD_INFEASIBLE, bd_loc_file(plan->loc.file),
                     "stage %d needs %lld bytes a rank, the cap is %lld: %lld byte%s lacking", s,
                     (long long)bytes, (long long)cap, (long long)(bytes - cap),
                     bytes - cap == 1 ? " is" : "s are");
  }
  return BD_OK;
}
