// The JSON of `braid explain`: what seconds and bytes are made of, what binds, what else there was.
#include "cli/explain.h"

static void add_axis(bd_text *text, int axis) {
  if (axis < 0)
    bd_text_add(text, "\"axis\": null");
  else
    bd_text_addf(text, "\"axis\": %d", axis);
}

static void add_split(const bd_plan *plan, bd_text *text) {
  bd_time_part parts[BD_MAX_TIME_PARTS];
  int count = bd_explain_time_parts(plan, parts);
  bd_text_add(text, "  \"step_split\": [");
  for (int i = 0; i < count; i++) {
    bd_text_addf(text, "%s\n    {\"name\": \"%s\", ", i ? "," : "", parts[i].name);
    add_axis(text, parts[i].axis);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "seconds", parts[i].seconds);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "\n  ],\n");
}

static void add_rates(const bd_plan *plan, bd_text *text) {
  const bd_plan_details *details = plan->details;
  double mfu = bd_explain_mfu(plan);
  bd_text_add(text, "  \"mfu\": ");
  if (mfu > 0)
    bd_text_add_json_number(text, mfu);
  else
    bd_text_add(text, "null");
  bd_text_add(text, ",\n  ");
  bd_text_add_json_member(text, "model_flops", details ? details->model_flops : 0);
  bd_text_add(text, ",\n  ");
  bd_text_add_json_member(text, "flops_per_second", details ? details->flops_per_second : 0);
  bd_text_add(text, ",\n");
  bd_text_addf(text, "  \"weights\": {\"count\": %d, \"gradient_parts\": %d, \"gathered\": %d},\n",
               details ? details->weights : 0, details ? details->gradient_parts : 0,
               details ? details->gathered : 0);
  if (details && details->marked_products)
    bd_text_addf(text, "  \"products\": {\"count\": %d, \"marked\": %d, \"float8\": %d},\n",
                 details->products, details->marked_products, details->float8_products);
}

static void add_recompute(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "  \"recompute\": [");
  for (int s = 0; plan->details && s < plan->stages; s++) {
    const bd_stage_details *stage = &plan->details->stages[s];
    bd_text_addf(text, "%s\n    {\"stage\": %d, \"saved_bytes\": %lld, ", s ? "," : "", s,
                 (long long)stage->recompute_bytes);
    if (stage->host_bytes)
      bd_text_addf(text, "\"host_bytes\": %lld, ", (long long)stage->host_bytes);
    bd_text_add_json_member(text, "step_flops",
                            stage->recompute_flops * bd_plan_micro_batches(plan));
    bd_text_add(text, "}");
  }
  bd_text_add(text, plan->details ? "\n  ],\n" : "],\n");
}

void bd_explain_json_live(const bd_plan *plan, int stage, bd_text *text) {
  const bd_stage_details *of = plan->details ? &plan->details->stages[stage] : NULL;
  int64_t rest = plan->predicted[stage].memory.total_bytes;
  bd_text_add(text, "\"live\": [");
  for (int i = 0; of && i < of->live_count; i++) {
    const bd_tenant *tenant = &of->live[i];
    bd_text_add(text, i ? ",\n      {\"name\": " : "\n      {\"name\": ");
    bd_text_add_json_string(text, tenant->name);
    bd_text_addf(text, ", \"segment\": \"%s\", \"bytes\": %lld, \"count\": %d}",
                 bd_segment_name(tenant->segment), (long long)tenant->bytes, tenant->count);
    rest -= tenant->bytes;
  }
  bd_text_addf(text, "], \"rest_bytes\": %lld", (long long)(rest > 0 ? rest : 0));
}

static void add_peak(const bd_plan *plan, bd_text *text) {
  int stage = plan->details ? plan->details->fullest_stage : 0;
  bd_text_addf(text, "  \"peak\": {\"stage\": %d, ", stage);
  bd_explain_json_live(plan, stage, text);
  bd_text_add(text, "},\n");
}

static void add_bindings(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                         bd_text *text) {
  bd_binding list[BD_MAX_BINDINGS];
  int count = bd_explain_bindings(ctx, plan, strategies, list);
  bd_text_add(text, "  \"binding\": [");
  for (int i = 0; i < count; i++) {
    bd_text_addf(text, "%s\n    {\"kind\": \"%s\", \"stage\": ", i ? "," : "", list[i].kind);
    if (list[i].stage < 0)
      bd_text_add(text, "null, ");
    else
      bd_text_addf(text, "%d, ", list[i].stage);
    add_axis(text, list[i].axis);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "share", list[i].share);
    bd_text_add(text, ", \"words\": ");
    bd_text_add_json_string(text, list[i].words);
    bd_text_add(text, "}");
  }
  bd_text_add(text, count ? "\n  ],\n" : "],\n");
}

static void add_alternatives(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "  \"alternatives\": [");
  for (int i = 0; i < plan->alternative_count; i++) {
    const bd_alternative *other = &plan->alternatives[i];
    bd_text_add(text, i ? ",\n    {\"what\": " : "\n    {\"what\": ");
    bd_text_add_json_string(text, other->what);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "step_seconds", other->step_seconds);
    bd_text_addf(text, ", \"lacking_bytes\": %lld, ", (long long)other->lacking_bytes);
    bd_text_add_json_member(text, "bound_seconds", other->bound_seconds);
    bd_text_add(text, "}");
  }
  bd_text_add(text, plan->alternative_count ? "\n  ],\n" : "],\n");
}

static void add_familiar(const bd_plan *plan, bd_text *text) {
  int count = plan->details ? plan->details->familiar_count : 0;
  bd_text_add(text, "  \"familiar\": [");
  for (int i = 0; i < count; i++) {
    const bd_familiar *one = &plan->details->familiar[i];
    bd_text_add(text, i ? ",\n    {\"name\": " : "\n    {\"name\": ");
    bd_text_add_json_string(text, one->name);
    bd_text_add(text, ", \"pins\": ");
    bd_text_add_json_string(text, one->pins);
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, "step_seconds", one->step_seconds);
    bd_text_addf(text, ", \"lacking_bytes\": %lld, \"reason\": ", (long long)one->lacking_bytes);
    if (one->reason)
      bd_text_add_json_string(text, one->reason);
    else
      bd_text_add(text, "null");
    bd_text_add(text, "}");
  }
  bd_text_add(text, count ? "\n  ],\n" : "],\n");
}

void bd_explain_json_costs(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                           bd_text *text) {
  bd_degrees d = bd_explain_degrees(plan, strategies);
  bd_text_addf(text,
               "  \"degrees\": {\"data\": %lld, \"tensor\": %lld, \"sequence\": %lld, "
               "\"pipeline\": %d, \"idle\": %lld},\n",
               (long long)d.data, (long long)d.tensor, (long long)d.sequence, plan->stages,
               (long long)d.idle);
  add_split(plan, text);
  add_rates(plan, text);
  add_recompute(plan, text);
  add_peak(plan, text);
  add_bindings(ctx, plan, strategies, text);
  add_alternatives(plan, text);
  add_familiar(plan, text);
}
