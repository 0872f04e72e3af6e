#include "cli/explain.h"

static void add_string(bd_text *text, const char *key, const char *value) {
  bd_text_addf(text, "  \"%s\": ", key);
  bd_text_add_json_string(text, value);
  bd_text_add(text, ",\n");
}

static void add_real(bd_text *text, const char *key, double value) {
  bd_text_add(text, "  ");
  bd_text_add_json_member(text, key, value);
  bd_text_add(text, ",\n");
}

static void add_whole(bd_text *text, const char *key, int64_t value) {
  bd_text_addf(text, "  \"%s\": %lld,\n", key, (long long)value);
}

static void add_stage(bd_text *text, const bd_plan *plan, int index) {
  int layers = 0;
  for (int i = 0; i < plan->range_count; i++)
    if (plan->ranges[i].stage == index) layers += plan->ranges[i].count;
  bd_text_addf(text, "    {\"stage\": %d, \"layers\": %d, ", index, layers);
  bd_stage_prediction_print(&plan->predicted[index], "     ", text);
  bd_text_add(text, ",\n     ");
  bd_explain_json_live(plan, index, text);
  bd_text_addf(text, "}%s\n", index + 1 < plan->stages ? "," : "");
}

static void add_mesh(bd_text *text, const bd_plan *plan, const bd_told_strategy *strategies) {
  bd_text_add(text, "  \"mesh\": [");
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    bd_axis_use use = bd_explain_axis(plan, strategies, axis);
    bd_text_addf(text, "%s\n    {\"ranks\": %d, \"ops\": %lld", axis ? "," : "",
                 plan->mesh.size[axis], (long long)use.all);
    for (int cut = BD_CUT_NONE + 1; cut < BD_CUT_COUNT; cut++)
      bd_text_addf(text, ", \"%s\": %lld", bd_parallelism_name((bd_cut)cut),
                   (long long)use.ops[cut]);
    bd_text_add(text, "}");
  }
  bd_text_add(text, plan->mesh.axes ? "\n  ],\n" : "],\n");
}

static void add_results(bd_text *text, const bd_told_strategy *strategy, bool saved) {
  bd_text_addf(text, ",\n     \"%s\": [", saved ? "saved" : "recomputed");
  for (int i = 0, told = 0; i < strategy->op_count; i++) {
    if (!(saved ? strategy->ops[i].saved : strategy->ops[i].recomputed)) continue;
    bd_text_add(text, told++ ? ", " : "");
    bd_text_add_json_string(text, strategy->ops[i].result);
  }
  bd_text_add(text, "]");
}

static void add_strategies(bd_text *text, const bd_plan *plan, const bd_told_strategy *strategies) {
  bd_text_add(text, "  \"strategies\": [");
  for (int i = 0; i < plan->strategy_count; i++) {
    bd_text_add(text, i ? ",\n    {\"name\": " : "\n    {\"name\": ");
    bd_text_add_json_string(text, strategies[i].name);
    bd_text_add(text, ", \"function\": ");
    bd_text_add_json_string(text, strategies[i].function);
    bd_text_addf(text, ", \"calls\": %d", strategies[i].calls);
    add_results(text, &strategies[i], true);
    add_results(text, &strategies[i], false);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "\n  ],\n");
}

void bd_explain_json(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                     bd_text *text) {
  bd_step_split split = bd_explain_split(plan);
  bd_text_add(text, "{\n  \"braid_explain\": 1,\n");
  add_string(text, "model", plan->model);
  add_string(text, "target", plan->target);
  add_string(text, "cluster", plan->cluster ? plan->cluster : "");
  add_string(text, "optimizer", plan->optimizer);
  add_string(text, "precision", bd_dtype_name(plan->precision));
  add_string(text, "masters", bd_masters_name(plan->masters));
  add_string(text, "gradients", bd_gradients_name(plan->gradients));
  add_string(text, "schedule", bd_schedule_name(plan->schedule));
  add_whole(text, "ranks", bd_plan_ranks(plan));
  add_whole(text, "global_batch", plan->global_batch);
  add_whole(text, "micro_batch", plan->micro_batch);
  add_whole(text, "sequence", plan->sequence);
  add_whole(text, "micro_batches", bd_plan_micro_batches(plan));
  add_real(text, "step_seconds", plan->step_seconds);
  add_real(text, "forward_seconds", split.forward_seconds);
  add_real(text, "backward_seconds", split.backward_seconds);
  add_real(text, "sync_seconds", split.sync_seconds);
  add_real(text, "bubble_seconds", split.bubble_seconds);
  add_real(text, plan->sequence ? "tokens_per_second" : "samples_per_second",
           (double)bd_explain_units(plan) / plan->step_seconds);
  add_real(text, "bound_seconds", plan->bound_seconds);
  add_real(text, "gap", plan->gap);
  add_string(text, "search", plan->search ? plan->search : "");
  add_whole(text, "cap_bytes", plan->cap_bytes);
  bd_explain_json_costs(ctx, plan, strategies, text);
  add_mesh(text, plan, strategies);
  add_strategies(text, plan, strategies);
  bd_text_add(text, "  \"stages\": [\n");
  for (int i = 0; i < plan->stages; i++)
    add_stage(text, plan, i);
  bd_text_add(text, "  ]\n}\n");
}
