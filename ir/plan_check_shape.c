// What a plan must satisfy before the model is at hand.
#include "ir/plan.h"

#define MOST_MICRO_BATCHES (1 << 20)

static bd_status refuse(bd_ctx *ctx, const bd_plan *plan, bd_loc loc, const char *message) {
  return bd_fail(ctx, BD_INVALID, loc, "plan for '%s': %s", plan->model, message);
}

// Ranges follow one another, and pass through the stages one by one, chunk after chunk.
static bd_status check_ranges(bd_ctx *ctx, const bd_plan *plan) {
  bool chunks = bd_plan_chunks(plan) > 1;
  int covered = 0, part = -1;
  for (int i = 0; i < plan->range_count; i++) {
    const bd_layer_range *at = &plan->ranges[i];
    int here = at->chunk * plan->stages + at->stage;
    if (at->first != covered)
      return bd_fail(ctx, BD_INVALID, at->loc,
                     "plan for '%s': the range begins at layer %d, the one before ends at %d: "
                     "ranges ascend and cover every layer once",
                     plan->model, at->first, covered);
    if (here < part || here > part + 1)
      return bd_fail(ctx, BD_INVALID, at->loc, "plan for '%s': layer %d: %s", plan->model,
                     at->first,
                     chunks ? "layers must pass through the stages one by one, chunk after chunk"
                            : "stages must ascend one by one along the layers");
    covered += at->count;
    part = here;
  }
  if (part == plan->stages * bd_plan_chunks(plan) - 1) return BD_OK;
  return refuse(ctx, plan, plan->loc,
                chunks ? "a chunk of a stage is left without layers"
                       : "a stage is left without layers");
}

bd_status bd_plan_check_shape(bd_ctx *ctx, const bd_plan *plan) {
  int64_t micro_batches = plan->global_batch / plan->micro_batch;
  if (plan->global_batch % plan->micro_batch)
    return refuse(ctx, plan, plan->loc, "the micro-batch does not divide the global batch");
  if (micro_batches > MOST_MICRO_BATCHES)
    return refuse(ctx, plan, plan->loc, "more than a million micro-batches in a step");
  if (!bd_schedule_allows(plan->schedule, plan->stages, bd_plan_chunks(plan), micro_batches))
    return bd_fail(ctx, BD_INVALID, plan->loc,
                   "plan for '%s': schedule %s does not run %d chunks a stage on %d stages with "
                   "%lld micro-batches: several chunks want interleaved, and micro-batches that "
                   "are a multiple of the stages",
                   plan->model, bd_schedule_name(plan->schedule), bd_plan_chunks(plan),
                   plan->stages, (long long)micro_batches);
  return check_ranges(ctx, plan);
}
