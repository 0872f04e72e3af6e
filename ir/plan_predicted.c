#include "ir/plan_predicted.h"
#include "ir/plan_details.h"
#include "ir/plan_replay.h"
#include <math.h>

// What need not be there must be a number where it is: null says nothing.
static bd_status read_seconds(bd_ctx *ctx, const bd_json *item, const char *key, double *out) {
  return bd_json_real(ctx, item, key, bd_json_find(item, key) != NULL, 0, 1e300, out);
}

static bd_status read_segments(bd_ctx *ctx, const bd_json *stage, bd_memory *out) {
  const char *keys[BD_SEGMENT_COUNT] = {0};
  const bd_json *segments;
  BD_TRY(bd_json_int(ctx, stage, "arena_bytes", true, 0, INT64_MAX, &out->total_bytes));
  BD_TRY(bd_json_object(ctx, stage, "segments", true, &segments));
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    keys[s - 1] = bd_segment_name((bd_segment)s);
  BD_TRY(bd_json_only(ctx, segments, keys));
  for (int s = 1; s < BD_SEGMENT_COUNT; s++) {
    bool required = s <= BD_SEGMENT_WORKSPACE || bd_json_find(segments, keys[s - 1]);
    BD_TRY(bd_json_int(ctx, segments, keys[s - 1], required, 0, INT64_MAX, &out->bytes[s]));
  }
  return BD_OK;
}

static bd_status read_stage(bd_ctx *ctx, const bd_json *item, int stage, int stages,
                            bd_stage_prediction *out) {
  static const char *const keys[] = {"forward_seconds",
                                     "backward_seconds",
                                     "weight_seconds",
                                     "send_seconds",
                                     "sync_seconds",
                                     "apply_seconds",
                                     "arena_bytes",
                                     "segments",
                                     "slots",
                                     "messages",
                                     NULL};
  BD_TRY(bd_json_only(ctx, item, keys));
  BD_TRY(bd_json_real(ctx, item, "forward_seconds", true, 0, 1e300, &out->forward_seconds));
  BD_TRY(bd_json_real(ctx, item, "backward_seconds", true, 0, 1e300, &out->backward_seconds));
  BD_TRY(bd_json_real(ctx, item, "send_seconds", true, 0, 1e300, &out->send_seconds));
  BD_TRY(bd_json_real(ctx, item, "sync_seconds", true, 0, 1e300, &out->sync_seconds));
  BD_TRY(read_seconds(ctx, item, "weight_seconds", &out->weight_seconds));
  BD_TRY(read_seconds(ctx, item, "apply_seconds", &out->apply_seconds));
  BD_TRY(read_segments(ctx, item, &out->memory));
  return bd_plan_replay_parse(ctx, item, stage, stages, out);
}

static bd_status read_stages(bd_ctx *ctx, const bd_json *predicted, bd_plan *plan) {
  const bd_json *stages;
  BD_TRY(bd_json_array(ctx, predicted, "stages", true, &stages));
  if (stages->count != (size_t)plan->stages)
    return bd_fail(ctx, BD_INVALID, stages->loc,
                   "predictions of %zu stage%s for a plan of %d; where \"stages\" was edited, take "
                   "\"predicted\" out, and 'braid compile --plan' predicts anew",
                   stages->count, bd_plural(stages->count, "s"), plan->stages);
  for (int i = 0; i < plan->stages; i++)
    BD_TRY(read_stage(ctx, &stages->items[i], i, plan->stages, &plan->predicted[i]));
  return BD_OK;
}

// Null seconds: none fits; a null bound: there is none.
static bd_status read_alternatives(bd_ctx *ctx, const bd_json *predicted, bd_plan *plan) {
  static const char *const keys[] = {"what", "step_seconds", "lacking_bytes", "bound_seconds",
                                     NULL};
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(ctx, predicted, "alternatives", false, &list));
  if (!list) return BD_OK;
  plan->alternative_count = (int)list->count;
  plan->alternatives = BD_NEW_ARRAY(ctx->arena, bd_alternative, list->count);
  for (size_t i = 0; i < list->count; i++) {
    bd_alternative *out = &plan->alternatives[i];
    const bd_json *item = &list->items[i];
    out->step_seconds = out->bound_seconds = INFINITY;
    BD_TRY(bd_json_only(ctx, item, keys));
    BD_TRY(bd_json_string(ctx, item, "what", true, &out->what));
    BD_TRY(bd_json_real(ctx, item, "step_seconds", false, 0, 1e300, &out->step_seconds));
    BD_TRY(bd_json_int(ctx, item, "lacking_bytes", false, 0, INT64_MAX, &out->lacking_bytes));
    BD_TRY(bd_json_real(ctx, item, "bound_seconds", false, 0, 1e300, &out->bound_seconds));
  }
  return BD_OK;
}

bd_status bd_plan_predicted_parse(bd_ctx *ctx, const bd_json *root, bd_plan *plan) {
  static const char *const keys[] = {"step_seconds", "bound_seconds", "gap",
                                     "cap_bytes",    "search",        "stages",
                                     "alternatives", "details",       NULL};
  const bd_json *predicted = NULL, *details = NULL;
  plan->predicted = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, plan->stages);
  bool any = bd_json_find(root, "predicted") != NULL;
  BD_TRY(bd_json_object(ctx, root, "predicted", any, &predicted));
  if (!predicted) return BD_OK;
  BD_TRY(bd_json_only(ctx, predicted, keys));
  BD_TRY(bd_json_real(ctx, predicted, "step_seconds", true, 0, 1e300, &plan->step_seconds));
  BD_TRY(read_seconds(ctx, predicted, "bound_seconds", &plan->bound_seconds));
  // Null where the bound is 0.
  BD_TRY(bd_json_real(ctx, predicted, "gap", plan->bound_seconds > 0, 0, 1e300, &plan->gap));
  bool capped = bd_json_find(predicted, "cap_bytes") != NULL;
  BD_TRY(bd_json_int(ctx, predicted, "cap_bytes", capped, 0, INT64_MAX, &plan->cap_bytes));
  BD_TRY(bd_json_string(ctx, predicted, "search", false, &plan->search));
  BD_TRY(read_stages(ctx, predicted, plan));
  BD_TRY(read_alternatives(ctx, predicted, plan));
  BD_TRY(bd_json_object(ctx, predicted, "details", false, &details));
  if (!details) return BD_OK;
  return bd_plan_details_parse(ctx, details, plan->stages, plan->mesh.axes, &plan->details);
}
