#include "ir/balance.h"
#include "ir/plan_details.h"
#include "ir/plan_notes.h"
#include "ir/plan_replay.h"

static void add_field(bd_text *text, const char *indent, const char *key, const char *value) {
  bd_text_addf(text, "%s\"%s\": ", indent, key);
  bd_text_add_json_string(text, value);
  bd_text_add(text, ",\n");
}

static void add_sharding(const bd_plan *plan, const bd_sharding *sharding, bd_text *text) {
  bd_text_add(text, "[");
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    if (axis) bd_text_add(text, ", ");
    if (sharding->at[axis] == BD_REPLICATED)
      bd_text_add(text, "null");
    else
      bd_text_addf(text, "%d", sharding->at[axis]);
  }
  bd_text_add(text, "]");
}

static void add_notes(const bd_plan *plan, const bd_strategy *strategy, int op, bd_text *text) {
  if (!strategy->cut) return;
  bd_text_add(text, ", \"cuts\": [");
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    const char *name = bd_cut_name((bd_cut)strategy->cut[op][axis]);
    bd_text_add(text, axis ? ", " : "");
    if (name)
      bd_text_addf(text, "\"%s\"", name);
    else
      bd_text_add(text, "null");
  }
  bd_text_addf(text, "], \"recomputed\": %s", strategy->recomputed[op] ? "true" : "false");
}

const char *bd_parts_key(int pass) {
  static const char *const keys[BD_PARTS_PASSES] = {"parts", "backward_parts"};
  return keys[pass];
}

static void add_parts(const bd_strategy *strategy, int op, bd_text *text) {
  for (int pass = 0; strategy->parts && pass < BD_PARTS_PASSES; pass++)
    if (strategy->parts[op][pass] > 1)
      bd_text_addf(text, ", \"%s\": %d", bd_parts_key(pass), strategy->parts[op][pass]);
}

const char *bd_product_name(bd_product_of product) {
  static const char *const names[BD_PRODUCT_COUNT] = {"forward", "input", "weight"};
  return names[product];
}

static void add_bf16(const bd_strategy *strategy, int op, bd_text *text) {
  int set = strategy->bf16 ? strategy->bf16[op] : 0, told = 0;
  if (!set) return;
  bd_text_add(text, ", \"bf16\": [");
  for (int i = 0; i < BD_PRODUCT_COUNT; i++)
    if (set >> i & 1)
      bd_text_addf(text, "%s\"%s\"", told++ ? ", " : "", bd_product_name((bd_product_of)i));
  bd_text_add(text, "]");
}

static void add_balanced(const bd_strategy *strategy, int op, bd_text *text) {
  if (strategy->balanced && strategy->balanced[op])
    bd_text_addf(text, ", \"%s\": true", BD_BALANCED_ATTR);
}

static void print_ops(const bd_plan *plan, const bd_strategy *strategy, const bd_function *function,
                      bd_text *text) {
  bd_text_add(text, "      \"ops\": [\n");
  for (int i = 0; i < strategy->op_count; i++) {
    const bd_op *op = &function->ops[i];
    bd_text_addf(text, "        {\"op\": \"%s\", \"result\": \"%s\", \"split\": \"%.*s\"",
                 bd_op_get_info(op->kind)->name, function->values[op->out[0]].name, plan->mesh.axes,
                 strategy->split[i]);
    add_parts(strategy, i, text);
    add_bf16(strategy, i, text);
    add_balanced(strategy, i, text);
    add_notes(plan, strategy, i, text);
    bd_text_add(text, i + 1 < strategy->op_count ? "},\n" : "}\n");
  }
  bd_text_add(text, "      ],\n");
}

const char *bd_kept_name(bd_kept kept) {
  static const char *const names[BD_KEPT_COUNT] = {NULL, "compressed", "offloaded"};
  return names[kept];
}

static void print_values(const bd_plan *plan, const bd_strategy *strategy,
                         const bd_function *function, bd_text *text) {
  bd_text_add(text, "      \"values\": [\n");
  for (int i = 0; i < strategy->value_count; i++) {
    bd_text_addf(text, "        {\"value\": \"%s\", \"dims\": ", function->values[i].name);
    add_sharding(plan, &strategy->form[i], text);
    if (strategy->gradient && !bd_sharding_equal(&strategy->gradient[i], &strategy->form[i])) {
      bd_text_add(text, ", \"gradient\": ");
      add_sharding(plan, &strategy->gradient[i], text);
    }
    bd_text_addf(text, ", \"saved\": %s", strategy->saved[i] ? "true" : "false");
    if (strategy->kept && strategy->kept[i])
      bd_text_addf(text, ", \"kept\": \"%s\"", bd_kept_name((bd_kept)strategy->kept[i]));
    bd_text_add(text, i + 1 < strategy->value_count ? "},\n" : "}\n");
  }
  bd_text_add(text, "      ]\n");
}

static void print_strategies(const bd_plan *plan, const bd_module *train, bd_text *text) {
  bd_text_add(text, "  \"strategies\": [\n");
  for (int i = 0; i < plan->strategy_count; i++) {
    const bd_strategy *strategy = &plan->strategies[i];
    bd_text_add(text, "    {\n");
    add_field(text, "      ", "name", strategy->name);
    add_field(text, "      ", "function", strategy->function);
    const bd_function *function = bd_module_find(train, strategy->function);
    print_ops(plan, strategy, function, text);
    print_values(plan, strategy, function, text);
    bd_text_addf(text, "    }%s\n", i + 1 < plan->strategy_count ? "," : "");
  }
  bd_text_add(text, "  ],\n");
}

static void print_layers(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "  \"layers\": [\n");
  for (int i = 0; i < plan->range_count; i++) {
    const bd_layer_range *range = &plan->ranges[i];
    bd_text_addf(text, "    {\"first\": %d, \"count\": %d, \"stage\": %d, ", range->first,
                 range->count, range->stage);
    if (range->chunk) bd_text_addf(text, "\"chunk\": %d, ", range->chunk);
    bd_text_add(text, "\"strategy\": ");
    bd_text_add_json_string(text, plan->strategies[range->strategy].name);
    bd_text_addf(text, "}%s\n", i + 1 < plan->range_count ? "," : "");
  }
  bd_text_add(text, "  ],\n");
}

void bd_stage_prediction_print(const bd_stage_prediction *stage, const char *indent,
                               bd_text *text) {
  bd_text_add(text, "\"forward_seconds\": ");
  bd_text_add_json_number(text, stage->forward_seconds);
  bd_text_add(text, ", \"backward_seconds\": ");
  bd_text_add_json_number(text, stage->backward_seconds);
  if (stage->weight_seconds > 0) {
    bd_text_add(text, ", \"weight_seconds\": ");
    bd_text_add_json_number(text, stage->weight_seconds);
  }
  bd_text_add(text, ", \"send_seconds\": ");
  bd_text_add_json_number(text, stage->send_seconds);
  bd_text_add(text, ", \"sync_seconds\": ");
  bd_text_add_json_number(text, stage->sync_seconds);
  if (stage->apply_seconds > 0) {
    bd_text_add(text, ", \"apply_seconds\": ");
    bd_text_add_json_number(text, stage->apply_seconds);
  }
  bd_text_addf(text, ",\n%s\"arena_bytes\": %lld, \"segments\": {", indent,
               (long long)stage->memory.total_bytes);
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    bd_text_addf(text, "%s\"%s\": %lld", s > 1 ? ", " : "", bd_segment_name((bd_segment)s),
                 (long long)stage->memory.bytes[s]);
  bd_text_add(text, "}");
  bd_plan_replay_print(stage, indent, text);
}

static void print_alternatives(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "    \"alternatives\": [");
  for (int i = 0; i < plan->alternative_count; i++) {
    const bd_alternative *other = &plan->alternatives[i];
    bd_text_add(text, i ? ",\n      {\"what\": " : "\n      {\"what\": ");
    bd_text_add_json_string(text, other->what);
    bd_text_add(text, ", \"step_seconds\": ");
    bd_text_add_json_number(text, other->step_seconds);
    bd_text_addf(text,
                 ", \"lacking_bytes\": %lld, \"bound_seconds\": ", (long long)other->lacking_bytes);
    bd_text_add_json_number(text, other->bound_seconds);
    bd_text_add(text, "}");
  }
  bd_text_add(text, plan->alternative_count ? "\n    ]" : "]");
}

static void print_predictions(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "  \"predicted\": {\n    \"step_seconds\": ");
  bd_text_add_json_number(text, plan->step_seconds);
  bd_text_add(text, ",\n    \"bound_seconds\": ");
  bd_text_add_json_number(text, plan->bound_seconds);
  bd_text_add(text, ",\n    \"gap\": ");
  bd_text_add_json_number(text, plan->gap);
  bd_text_addf(text, ",\n    \"cap_bytes\": %lld,\n", (long long)plan->cap_bytes);
  add_field(text, "    ", "search", plan->search ? plan->search : "");
  bd_text_add(text, "    \"stages\": [\n");
  for (int i = 0; i < plan->stages; i++) {
    bd_text_add(text, "      {");
    bd_stage_prediction_print(&plan->predicted[i], "       ", text);
    bd_text_add(text, "}");
    bd_text_add(text, i + 1 < plan->stages ? ",\n" : "\n");
  }
  bd_text_add(text, "    ],\n");
  print_alternatives(plan, text);
  if (plan->details) {
    bd_text_add(text, ",\n    \"details\": ");
    bd_plan_details_print(plan->details, plan->stages, plan->mesh.axes, "    ", text);
  }
  bd_text_add(text, "\n  }\n");
}

static void add_sizes(const bd_mesh *mesh, bd_text *text) {
  bd_text_add(text, "[");
  for (int axis = 0; axis < mesh->axes; axis++)
    bd_text_addf(text, "%s%d", axis ? ", " : "", mesh->size[axis]);
  bd_text_add(text, "]");
}

static void print_stages(const bd_plan *plan, bd_text *text) {
  bd_text_addf(text, "  \"stages\": %d,\n", plan->stages);
  if (bd_plan_chunks(plan) > 1) bd_text_addf(text, "  \"chunks\": %d,\n", plan->chunks);
  bd_text_add(text, "  \"mesh\": ");
  add_sizes(&plan->mesh, text);
  bd_text_add(text, ",\n");
  if (plan->stage_mesh) bd_text_add(text, "  \"stage_meshes\": [");
  for (int s = 0; plan->stage_mesh && s < plan->stages; s++) {
    bd_text_add(text, s ? ", " : "");
    add_sizes(&plan->stage_mesh[s], text);
  }
  if (plan->stage_mesh) bd_text_add(text, "],\n");
  if (plan->stage_device) bd_text_add(text, "  \"stage_devices\": [");
  for (int s = 0; plan->stage_device && s < plan->stages; s++)
    bd_text_addf(text, "%s%d", s ? ", " : "", plan->stage_device[s]);
  if (plan->stage_device) bd_text_add(text, "],\n");
}

void bd_plan_print_program(const bd_plan *plan, const bd_module *train, bd_text *text) {
  bd_text_addf(text, "{\n  \"braid_plan\": %d,\n", BD_PLAN_VERSION);
  add_field(text, "  ", "model", plan->model);
  add_field(text, "  ", "target", plan->target);
  if (plan->cluster) add_field(text, "  ", "cluster", plan->cluster);
  add_field(text, "  ", "optimizer", plan->optimizer);
  add_field(text, "  ", "precision", bd_dtype_name(plan->precision));
  if (plan->masters != BD_MASTERS_F32)
    add_field(text, "  ", "masters", bd_masters_name(plan->masters));
  if (plan->gradients != BD_GRADIENTS_F32)
    add_field(text, "  ", "gradients", bd_gradients_name(plan->gradients));
  bd_text_addf(text, "  \"global_batch\": %lld,\n  \"micro_batch\": %lld,\n  \"sequence\": %lld,\n",
               (long long)plan->global_batch, (long long)plan->micro_batch,
               (long long)plan->sequence);
  add_field(text, "  ", "schedule", bd_schedule_name(plan->schedule));
  print_stages(plan, text);
  if (plan->one_head) add_field(text, "  ", "library", "one_head");
  bd_text_addf(text, "  \"threads_per_rank\": %d,\n  \"zero_axes\": [", plan->threads_per_rank);
  bool first = true;
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    if (plan->zero_axes >> axis & 1u) {
      bd_text_addf(text, "%s%d", first ? "" : ", ", axis);
      first = false;
    }
  bd_text_add(text, "],\n");
  print_layers(plan, text);
  print_strategies(plan, train, text);
}

void bd_plan_print(const bd_plan *plan, const bd_module *train, bd_text *text) {
  bd_plan_print_program(plan, train, text);
  print_predictions(plan, text);
  bd_text_add(text, "}\n");
}
