#include "cli/why.h"
#include "cli/answer.h"
#include "cli/difference.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "cli/plan_model.h"
#include "cli/planning.h"
#include "cli/stop.h"
#include "frontend/frontend.h"
#include "planner/constraints/read.h"
#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/told/blame.h"
#include "planner/told/breakdown.h"
#include <stdlib.h>
#include <string.h>

typedef struct asking {
  const bd_arguments *arguments;
  const bd_told_plan *told;
  bd_module *train;
  bd_cluster cluster;
  const char *spec; // of the cluster
  bd_plan_request request;
  bd_constraints constraints;
} asking;

static bd_status load_model(bd_ctx *ctx, asking *a) {
  const bd_plan *plan = &a->told->plan;
  const char *given = bd_argument(a->arguments, "--model");
  bd_model_options options = {.sequence = plan->sequence};
  bd_module *graph;
  bd_status status = bd_model_load(ctx, given ? given : plan->model, &options, &graph);
  if (status != BD_OK) {
    if (!given)
      bd_note(ctx, bd_loc_file(a->told->path), "the plan names its model '%s'; --model gives it",
              plan->model);
    return status;
  }
  BD_TRY(bd_plan_train(ctx, plan, graph, &a->train));
  if (!given) return BD_OK;
  return bd_given_model_accept(ctx, a->told->path, a->told->data, a->told->bytes, plan->model,
                               given, a->train);
}

static bd_status load_cluster(bd_ctx *ctx, asking *a) {
  const bd_plan *plan = &a->told->plan;
  bd_loc file = bd_loc_file(a->told->path);
  const char *given = bd_argument(a->arguments, "--cluster");
  a->spec = given ? given : plan->cluster;
  if (!a->spec)
    return bd_fail(ctx, BD_INVALID, file,
                   "the plan does not say which cluster it is for; --cluster gives it");
  bd_status status = bd_machine_load(ctx, a->spec, file, &a->cluster);
  if (status != BD_OK) {
    if (!given && !bd_machine_is_named(a->spec))
      bd_note(ctx, file, "the plan is for cluster '%s'; --cluster gives another", a->spec);
    return status;
  }
  bd_full_range range; // only the full space leaves groups idle
  bool idle = bd_full_range_of(ctx, &a->cluster, plan, &range);
  a->request.full = a->request.full || (idle && bd_plan_full_knows(&a->request));
  return BD_OK;
}

static bd_status make_request(bd_ctx *ctx, asking *a) {
  const bd_plan *plan = &a->told->plan;
  a->request = (bd_plan_request){.model = plan->model,
                                 .target = plan->target,
                                 .optimizer = plan->optimizer,
                                 .precision = plan->precision,
                                 .masters = plan->masters,
                                 .gradients = plan->gradients,
                                 .global_batch = plan->global_batch,
                                 .sequence = plan->sequence,
                                 .cap_bytes = plan->cap_bytes,
                                 .limit_seconds = 30,
                                 .threads = bd_machine_cores(),
                                 .schedule = -1,
                                 .zero = -1,
                                 .recompute = -1};
  // Another cluster has another cap.
  if (bd_argument(a->arguments, "--cluster")) a->request.cap_bytes = 0;
  BD_TRY(
      bd_argument_real(ctx, a->arguments, "--time-limit", 0.1, 86400, &a->request.limit_seconds));
  bd_status status =
      bd_pins_read(ctx, bd_argument(a->arguments, "--why"), &a->request, &a->constraints);
  // Where the plan is from, or else what is asked for, unless only the default space has it.
  a->request.full =
      bd_plan_needs_full(&a->request) || (bd_plan_is_full(plan) && bd_plan_full_knows(&a->request));
  if (status == BD_OK && a->request.full) status = bd_plan_check_full(ctx, &a->request);
  if (status != BD_OK) *a->arguments->exit_code = BD_EXIT_USAGE;
  return status;
}

// Why no plan keeps the pins, whatever the cap.
static const char *find_reason(bd_ctx *ctx, const asking *a) {
  const char *reason = bd_pins_impossible(ctx, a->train, &a->cluster, &a->request);
  return reason ? reason : "no plan of the search space keeps these pins";
}

// The forced plan as its file would tell it.
static bd_status tell_forced(bd_ctx *ctx, const asking *a, bd_plan *plan, bd_told_plan *out) {
  bd_text text = bd_text_init(ctx->arena);
  plan->cluster = a->spec;
  BD_TRY(bd_plan_note(ctx, a->train, plan));
  BD_TRY(bd_plan_break_down(ctx, a->train, &a->cluster, plan));
  bd_plan_print(plan, a->train, &text);
  const char *path = bd_argument(a->arguments, "-o");
  if (path) BD_TRY(bd_answer_write(ctx, &text, path));
  return bd_told_parse(ctx, path ? path : "forced", text.data, text.length, out);
}

static void add_words(const asking *a, const bd_search_outcome *outcome, const char *reason,
                      bd_text *text) {
  const bd_plan *plan = &a->told->plan;
  bd_text_add(text, "forced      ");
  bd_explain_add_name(text, bd_argument(a->arguments, "--why"));
  bd_text_add(text, "\n            ");
  if (outcome->found) {
    bd_explain_add_seconds(text, outcome->plan.step_seconds);
    bd_text_add(text, " a step, ");
    if (plan->step_seconds > 0)
      bd_text_add_change(text, plan->step_seconds, outcome->plan.step_seconds, 1);
    bd_text_add(text, plan->step_seconds > 0 ? " to the plan's " : "to the plan's ");
    bd_explain_add_seconds(text, plan->step_seconds);
    bd_text_add(text, !outcome->cut          ? "\n\n"
                      : outcome->interrupted ? "; an interrupt stopped the search\n\n"
                                             : "; the time limit stopped the search\n\n");
  } else if (outcome->lacking_bytes > 0) {
    bd_text_add(text, "does not fit: the leanest plan lacks ");
    bd_text_add_bytes(text, outcome->lacking_bytes);
    bd_text_addf(text, " a rank (%lld bytes, of a cap of %lld)\n\n",
                 (long long)(outcome->cap_bytes + outcome->lacking_bytes),
                 (long long)outcome->cap_bytes);
  } else {
    bd_text_addf(text, "not possible: %s\n", reason);
  }
}

static void add_json(const asking *a, const bd_search_outcome *outcome, const char *reason,
                     const bd_difference *difference, bd_text *text) {
  bd_text_add(text, "{\n\"braid_why\": 1,\n\"pins\": ");
  bd_text_add_json_string(text, bd_argument(a->arguments, "--why"));
  bd_text_addf(text, ",\n\"fits\": %s,\n\"step_seconds\": ", outcome->found ? "true" : "false");
  if (outcome->found)
    bd_text_add_json_number(text, outcome->plan.step_seconds);
  else
    bd_text_add(text, "null");
  bd_text_add(text, ",\n\"plan_step_seconds\": ");
  bd_text_add_json_number(text, a->told->plan.step_seconds);
  bd_text_addf(text, ",\n\"lacking_bytes\": %lld,\n\"cap_bytes\": %lld,\n\"reason\": ",
               (long long)(outcome->found ? 0 : outcome->lacking_bytes),
               (long long)outcome->cap_bytes);
  if (reason)
    bd_text_add_json_string(text, reason);
  else
    bd_text_add(text, "null");
  bd_text_add(text, ",\n\"diff\": ");
  if (difference)
    bd_difference_json(difference, text);
  else
    bd_text_add(text, "null");
  bd_text_add(text, "\n}\n");
}

bd_status bd_why(bd_ctx *ctx, const bd_arguments *arguments, const bd_told_plan *told,
                 bd_text *text) {
  asking a = {.arguments = arguments, .told = told};
  bd_search_outcome outcome;
  bd_told_plan forced;
  bd_difference difference;
  const char *path = bd_argument(arguments, "-o");
  BD_TRY(bd_outputs_check_plan(ctx, arguments, &told->plan));
  if (path) BD_TRY(bd_answer_check_place(ctx, path));
  BD_TRY(make_request(ctx, &a));
  BD_TRY(load_model(ctx, &a));
  BD_TRY(load_cluster(ctx, &a));
  BD_TRY(bd_planning_look(ctx, a.train, &a.cluster, &a.request, &outcome));
  bool any = outcome.found || outcome.lacking_bytes > 0;
  if (!any && outcome.interrupted) {
    *arguments->exit_code = BD_EXIT_STOPPED + SIGINT;
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the search was interrupted before it found a plan");
  }
  const char *reason = any ? NULL : find_reason(ctx, &a);
  if (any) {
    BD_TRY(tell_forced(ctx, &a, &outcome.plan, &forced));
    difference = bd_difference_find(ctx, told, &forced);
  }
  if (bd_argument_flag(arguments, "--json")) {
    add_json(&a, &outcome, reason, any ? &difference : NULL, text);
    return BD_OK;
  }
  add_words(&a, &outcome, reason, text);
  if (any) bd_difference_page(&difference, text);
  return BD_OK;
}
