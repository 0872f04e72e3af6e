// spmd -> exec: every value gets its place in the arena.
#include "codegen/codegen.h"
#include "ir/layout.h"
#include <assert.h>

static void set_main_places(bd_function *main, const bd_layout *layout) {
  for (bd_id v = 0; v < main->value_count; ++v) {
    const bd_place *place = &layout->values[v];
    if (place->segment == BD_SEGMENT_NONE || main->values[v].segment != BD_SEGMENT_NONE) continue;
    main->values[v].segment = place->segment;
    main->values[v].offset_bytes = place->offset_bytes;
  }
}

// The plan's prediction is a contract: a different number is an internal error, not a surprise at
// run time.
static bd_status check_memory(bd_ctx *ctx, const bd_plan *plan, int stage,
                              const bd_memory *memory) {
  if (!plan->predicted || plan->predicted[stage].memory.total_bytes == 0) return BD_OK;
  int64_t predicted = plan->predicted[stage].memory.total_bytes;
  if (predicted == memory->total_bytes) return BD_OK;
  return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE,
                 "stage %d needs %lld bytes of arena, the plan says %lld", stage,
                 (long long)memory->total_bytes, (long long)predicted);
}

bd_status bd_lower_exec(bd_ctx *ctx, const bd_module *spmd, const bd_plan *plan,
                        bd_module **out_exec) {
  assert(spmd->stage == BD_STAGE_SPMD);
  bd_module *exec = bd_module_clone(ctx, spmd);
  exec->stage = BD_STAGE_EXEC;
  for (bd_id v = 0; v < exec->main->value_count; ++v)
    exec->main->values[v].segment = BD_SEGMENT_NONE;
  for (int stage = 0; stage < exec->stages; ++stage) {
    bd_layout layout;
    BD_TRY(bd_layout_of_stage(ctx, exec, stage, plan->schedule, bd_plan_micro_batches(plan),
                              plan->optimizer, plan->zero_axes, &layout));
    BD_TRY(check_memory(ctx, plan, stage, &layout.memory));
    set_main_places(exec->main, &layout);
  }
  *out_exec = exec;
  return BD_OK;
}
