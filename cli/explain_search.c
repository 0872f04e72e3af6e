// What keeps a plan from being faster, and what was considered beside it.
#include "cli/explain.h"
#include <math.h>
#include <string.h>

#define FULL 0.95          // of the cap: memory binds
#define WORTH_TELLING 0.05 // of the step, and of a gap
#define MOST_BESIDE 0.25   // of all flops, what is no product and what fills up uneven parts
#define BOUND_TOLERANCE 1e-9

static void add_binding(bd_binding *list, int *count, bd_binding binding) {
  if (*count < BD_MAX_BINDINGS) list[(*count)++] = binding;
}

static void find_memory(bd_ctx *ctx, const bd_plan *plan, bd_binding *list, int *count) {
  int fullest = 0;
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > plan->predicted[fullest].memory.total_bytes)
      fullest = s;
  int64_t bytes = plan->predicted[fullest].memory.total_bytes;
  double share = plan->cap_bytes > 0 ? (double)bytes / (double)plan->cap_bytes : 0;
  if (share < FULL) return;
  bd_text text = bd_text_init(ctx->arena);
  bd_text_addf(&text, "memory cap on stage %d: %.1f %% of it is used, ", fullest, 100 * share);
  bd_text_add_bytes(&text, plan->cap_bytes - bytes);
  bd_text_add(&text, " are left");
  add_binding(list, count, (bd_binding){"memory", fullest, -1, share, text.data});
}

static void find_slowest(bd_ctx *ctx, const bd_plan *plan, bd_binding *list, int *count) {
  double sum = 0, most = 0;
  int slowest = 0;
  for (int s = 0; s < plan->stages; s++) {
    double seconds = plan->predicted[s].forward_seconds + plan->predicted[s].backward_seconds;
    sum += seconds;
    if (seconds <= most) continue;
    most = seconds;
    slowest = s;
  }
  double waits = (bd_plan_micro_batches(plan) - 1) * (most - sum / plan->stages);
  if (plan->stages < 2 || waits < 0.001 * plan->step_seconds) return;
  double share = waits / plan->step_seconds;
  add_binding(
      list, count,
      (bd_binding){
          "slowest stage", slowest, -1, share,
          bd_intern_f(ctx,
                      "slowest stage %d: were all stages equal, a step would take %.1f %% less",
                      slowest, 100 * share)});
}

static void find_batch(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                       bd_binding *list, int *count) {
  int64_t data = bd_explain_degrees(plan, strategies).data;
  int ranks = bd_plan_ranks(plan);
  double bubble = bd_explain_split(plan).bubble_seconds / plan->step_seconds;
  if (plan->global_batch % ranks)
    add_binding(list, count,
                (bd_binding){"batch", -1, -1, 0,
                             bd_intern_f(ctx,
                                         "batch divisibility: %lld samples do not divide among "
                                         "%d ranks, so that data parallel alone cannot use them",
                                         (long long)plan->global_batch, ranks)});
  if (plan->stages > 1 && plan->micro_batch == data && bubble >= WORTH_TELLING)
    add_binding(
        list, count,
        (bd_binding){"batch", -1, -1, bubble,
                     bd_intern_f(ctx,
                                 "batch divisibility: a micro-batch of one sample per "
                                 "rank cannot be smaller; its bubble is %.1f %% of the step",
                                 100 * bubble)});
}

// Gradients may be summed along several axes at once, over links of all of them.
static bool has_several_links(const bd_plan *plan, const bd_time_part *part) {
  int axes = 0;
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    axes += plan->mesh.size[axis] > 1;
  return part->axis >= 0 && axes > 1 && strcmp(part->name, BD_PART_SYNC) == 0;
}

static const char *over_link(bd_ctx *ctx, const bd_plan *plan, const bd_time_part *part) {
  if (has_several_links(plan, part)) return "";
  const bd_axis_link *link =
      part->axis < 0 ? &plan->details->stage_link : &plan->details->link[part->axis];
  return bd_intern_f(ctx, ", over %.4g GB/s %s", link->bytes_per_second * 1e-9,
                     link->inside_node ? "inside a node" : "between nodes");
}

static void find_link(bd_ctx *ctx, const bd_plan *plan, bd_binding *list, int *count) {
  bd_time_part parts[BD_MAX_TIME_PARTS];
  int parts_count = bd_explain_time_parts(plan, parts);
  for (int i = 0; plan->details && i < parts_count; i++) {
    const bd_time_part *part = &parts[i];
    double share = part->seconds / plan->step_seconds;
    if ((part->axis < 0 && !part->between_stages) || share < WORTH_TELLING) continue;
    const char *where = part->axis < 0 ? bd_intern_z(ctx, "between stages")
                        : has_several_links(plan, part)
                            ? bd_intern_z(ctx, "over replicas")
                            : bd_intern_f(ctx, "along axis %d", part->axis);
    add_binding(list, count,
                (bd_binding){"link", -1, part->axis, share,
                             bd_intern_f(ctx, "link: %s %s takes %.1f %% of the step%s", part->name,
                                         where, 100 * share, over_link(ctx, plan, part))});
  }
}

static void find_compute(bd_ctx *ctx, const bd_plan *plan, bd_binding *list, int *count) {
  bd_time_part parts[BD_MAX_TIME_PARTS];
  bd_explain_time_parts(plan, parts);
  double share = parts[0].seconds / plan->step_seconds;
  if (!plan->details || share < 0.5) return;
  add_binding(
      list, count,
      (bd_binding){"compute", -1, -1, share,
                   bd_intern_f(ctx, "compute: %.1f %% of the step is work of the model itself",
                               100 * share)});
}

// Where no cut leaves each rank its share, ranks compute alike.
static void find_copies(bd_ctx *ctx, const bd_plan *plan, bd_binding *list, int *count) {
  double all = 0;
  for (int s = 0; plan->details && s < plan->stages; s++) {
    const bd_stage_details *stage = &plan->details->stages[s];
    all += (stage->flops - stage->recompute_flops) * bd_mesh_devices(bd_plan_mesh(plan, s)) *
           (double)bd_plan_micro_batches(plan);
  }
  double share = all > 0 ? 1 - plan->details->model_flops / all : 0;
  if (share < MOST_BESIDE) return;
  add_binding(
      list, count,
      (bd_binding){"copies", -1, -1, share,
                   bd_intern_f(ctx,
                               "copies: %.0f %% of all flops are done by several ranks alike, "
                               "or are no product of the model; --ops tells what is not cut",
                               100 * share)});
}

int bd_explain_bindings(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                        bd_binding out[BD_MAX_BINDINGS]) {
  int count = 0;
  if (plan->step_seconds <= 0) return 0;
  find_memory(ctx, plan, out, &count);
  find_slowest(ctx, plan, out, &count);
  find_batch(ctx, plan, strategies, out, &count);
  find_copies(ctx, plan, out, &count);
  find_link(ctx, plan, out, &count);
  find_compute(ctx, plan, out, &count);
  return count;
}

static void add_change(const bd_plan *plan, double seconds, bd_text *text) {
  bd_explain_add_seconds(text, seconds);
  if (plan->step_seconds <= 0) return;
  bd_text_add(text, " (");
  bd_text_add_change(text, plan->step_seconds, seconds, 1);
  bd_text_add(text, ")");
}

static void add_cost(const bd_plan *plan, double step_seconds, int64_t lacking_bytes,
                     double bound_seconds, const char *reason, bd_text *text) {
  if (lacking_bytes > 0) {
    bd_text_add(text, "does not fit, lacks ");
    bd_text_add_bytes(text, lacking_bytes);
  } else if (isfinite(step_seconds)) {
    add_change(plan, step_seconds, text);
  } else if (isfinite(bound_seconds)) {
    bd_text_add(text, "at least ");
    add_change(plan, bound_seconds, text);
  } else {
    bd_text_add(text, "not possible");
    if (reason) bd_text_add(text, ": ");
    if (reason) bd_explain_add_name(text, reason);
  }
  bd_text_add(text, "\n");
}

static void add_others(const bd_plan *plan, bd_text *text) {
  if (plan->alternative_count) bd_text_add(text, "\nalternatives\n");
  for (int i = 0; i < plan->alternative_count; i++) {
    const bd_alternative *other = &plan->alternatives[i];
    bd_text_add(text, "  ");
    bd_explain_add_name(text, other->what);
    bd_text_add(text, ": ");
    add_cost(plan, other->step_seconds, other->lacking_bytes, other->bound_seconds, NULL, text);
  }
  const bd_plan_details *details = plan->details;
  if (!details || !details->familiar_count) return;
  bd_text_add(text, bd_plan_is_full(plan) ? "\nfamiliar choices, of the default space\n"
                                          : "\nfamiliar choices\n");
  for (int i = 0; i < details->familiar_count; i++) {
    const bd_familiar *one = &details->familiar[i];
    bd_text_add(text, "  ");
    bd_explain_add_name(text, one->name);
    bd_text_add(text, " (");
    bd_explain_add_name(text, one->pins);
    bd_text_add(text, "): ");
    add_cost(plan, one->step_seconds, one->lacking_bytes, INFINITY, one->reason, text);
  }
}

// Whose bound is that of the whole space, and what is known of it.
static void add_gap(const bd_plan *plan, bd_text *text) {
  const bd_alternative *least = NULL;
  for (int i = 0; i < plan->alternative_count; i++)
    if (!least || plan->alternatives[i].bound_seconds < least->bound_seconds)
      least = &plan->alternatives[i];
  bd_text_add(text, "            the bound is that of ");
  if (!least || least->bound_seconds > plan->bound_seconds * (1 + BOUND_TOLERANCE)) {
    bd_text_add(text, "no other stages and mesh\n");
    return;
  }
  bd_explain_add_name(text, least->what);
  if (least->lacking_bytes > 0)
    bd_text_add(text, ", of which no faster plan was found that fits, though that is not proven\n");
  else if (isfinite(least->step_seconds))
    bd_text_add(text, ", of which a faster plan may exist than the one that was found\n");
  else
    bd_text_add(text, ", of which no faster plan was found, though that is not proven\n");
}

void bd_explain_search(bd_ctx *ctx, const bd_plan *plan, const bd_told_strategy *strategies,
                       bd_text *text) {
  bd_text_add(text, "\nsearch      ");
  bd_explain_add_name(text, plan->search && *plan->search ? plan->search : "none");
  bd_text_add(text, "\n");
  if (plan->bound_seconds > 0) {
    bd_text_add(text, "bound       ");
    bd_explain_add_seconds(text, plan->bound_seconds);
    bd_text_addf(text, "; the plan is within %.2f %% of the best in this space\n", 100 * plan->gap);
    if (plan->gap >= WORTH_TELLING) add_gap(plan, text);
  }
  bd_binding bindings[BD_MAX_BINDINGS];
  int count = bd_explain_bindings(ctx, plan, strategies, bindings);
  if (count) bd_text_add(text, "\nwhat binds\n");
  for (int i = 0; i < count; i++)
    bd_text_addf(text, "  %s\n", bindings[i].words);
  add_others(plan, text);
}
