// `braid solve` on layer graphs: reads, solves, prints.
#include "planner/bare.h"
#include "ir/base/json.h"
#include "planner/graph/fronts.h"
#include "planner/graph/read.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *skip_space(const char *at, const char *end) {
  while (at < end && isspace((unsigned char)*at))
    at++;
  return at;
}

static bool recognize(const char *data, size_t bytes) {
  static const char key[] = "\"braid_layers\"";
  const char *end = data + bytes, *at = skip_space(data, end);
  if (at == end || *at != '{') return false;
  at = skip_space(at + 1, end);
  return (size_t)(end - at) >= sizeof key - 1 && memcmp(at, key, sizeof key - 1) == 0;
}

typedef struct telling {
  const bd_layers_problem *problem;
  const bd_layers_names *names;
  const bd_layers_answer *answer;
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  bd_text *text;
} telling;

static const bd_layers_group *group_of(const telling *t, int stage) {
  return &t->problem->groups[t->problem->modes[t->answer->plan.mode[stage]].group];
}

// Devices of a group are taken in the order of the stages.
static int first_device(const telling *t, int stage) {
  int first = 0;
  for (int s = 0; s < stage; s++)
    if (group_of(t, s) == group_of(t, stage))
      first += t->problem->modes[t->answer->plan.mode[s]].devices;
  return first;
}

// Layers from `first` on that are copies of one and run alike; the option by its index.
static int equal_layers(const telling *t, int first, int *out_option) {
  const bd_layers_plan *plan = &t->answer->plan;
  int next = first;
  *out_option = t->problem->layers[first].options[plan->option[first]].index;
  while (next < t->problem->layer_count && t->names->layer[next] == t->names->layer[first] &&
         plan->part[next] == plan->part[first] &&
         t->problem->layers[next].options[plan->option[next]].index == *out_option)
    next++;
  return next - first;
}

static void add_stage_json(telling *t, int s) {
  const bd_layers_stage *stage = &t->stages[s];
  bd_text_add(t->text, "    {\"group\": ");
  bd_text_add_json_string(t->text, group_of(t, s)->name);
  bd_text_addf(t->text, ", \"first_device\": %d, \"devices\": %d, ", first_device(t, s),
               t->problem->modes[t->answer->plan.mode[s]].devices);
  bd_text_add_json_member(t->text, "forward_seconds", stage->seconds.forward);
  bd_text_add(t->text, ", ");
  bd_text_add_json_member(t->text, "backward_seconds", stage->seconds.backward);
  bd_text_add(t->text, ", ");
  bd_text_add_json_member(t->text, "weight_seconds", stage->seconds.weight);
  bd_text_add(t->text, ", ");
  bd_text_add_json_member(t->text, "sync_seconds", stage->seconds.sync);
  bd_text_addf(t->text, ", \"bytes\": %lld, \"cap_bytes\": %lld}", (long long)stage->bytes,
               (long long)group_of(t, s)->cap_bytes);
}

static void add_layers_json(telling *t) {
  const bd_layers_plan *plan = &t->answer->plan;
  for (int i = 0, option; i < t->problem->layer_count;) {
    int count = equal_layers(t, i, &option);
    const char *name = t->names->option[i][option];
    bd_text_add(t->text, i ? ",\n    {\"layer\": " : "\n    {\"layer\": ");
    bd_text_add_json_string(t->text, t->names->layer[i]);
    bd_text_addf(t->text, ", \"first\": %d, \"count\": %d, \"stage\": %d, \"chunk\": %d, ",
                 t->names->copy[i], count, plan->part[i] % plan->stages,
                 plan->part[i] / plan->stages);
    bd_text_addf(t->text, "\"option\": %d", option);
    if (name) {
      bd_text_add(t->text, ", \"name\": ");
      bd_text_add_json_string(t->text, name);
    }
    bd_text_add(t->text, "}");
    i += count;
  }
}

static void print_json(telling *t, double seconds) {
  const bd_layers_plan *plan = &t->answer->plan;
  bd_text_add(t->text, "{\n  ");
  bd_text_add_json_member(t->text, "cost", t->answer->seconds);
  bd_text_add(t->text, ",\n  ");
  bd_text_add_json_member(t->text, "bound", t->answer->bound);
  bd_text_add(t->text, ",\n  ");
  bd_text_add_json_member(t->text, "gap", bd_bare_gap(t->answer->seconds, t->answer->bound));
  bd_text_add(t->text, ",\n  ");
  bd_text_add_json_member(t->text, "seconds", seconds);
  bd_text_addf(t->text, ",\n  \"schedule\": \"%s\",\n  \"micro_batches\": %d,\n  \"chunks\": %d,\n",
               bd_schedule_name(plan->schedule), plan->micro_batches, plan->chunks);
  bd_text_add(t->text, "  \"stages\": [\n");
  for (int s = 0; s < plan->stages; s++) {
    add_stage_json(t, s);
    bd_text_add(t->text, s + 1 < plan->stages ? ",\n" : "\n");
  }
  bd_text_add(t->text, "  ],\n  \"layers\": [");
  add_layers_json(t);
  bd_text_add(t->text, "\n  ]\n}\n");
}

static void add_words(telling *t, const char *words) {
  bd_text_add_printable(t->text, words, strlen(words));
}

static void print_words(telling *t, double seconds, const char *ending) {
  const bd_layers_plan *plan = &t->answer->plan;
  bd_text_addf(t->text, "step %.6g s, bound %.6g s (", t->answer->seconds, t->answer->bound);
  bd_bare_add_gap(t->text, t->answer->seconds, t->answer->bound);
  bd_text_addf(t->text, "), found in %.2f s%s%s\n", seconds, ending ? ", " : "",
               ending ? ending : "");
  bd_text_addf(t->text, "schedule %s, %d micro-batch%s, %d stage%s, %d chunk%s each\n",
               bd_schedule_name(plan->schedule), plan->micro_batches,
               bd_plural(plan->micro_batches, "es"), plan->stages, bd_plural(plan->stages, "s"),
               plan->chunks, bd_plural(plan->chunks, "s"));
  for (int s = 0; s < plan->stages; s++) {
    int first = first_device(t, s), count = t->problem->modes[plan->mode[s]].devices;
    bd_text_addf(t->text, "stage %d on ", s);
    add_words(t, group_of(t, s)->name);
    bd_text_addf(t->text, " %d-%d: forward %.4g s, backward %.4g s, sync %.4g s, ", first,
                 first + count - 1, t->stages[s].seconds.forward, t->stages[s].seconds.backward,
                 t->stages[s].seconds.sync);
    bd_text_addf(t->text, "%lld of %lld bytes\n", (long long)t->stages[s].bytes,
                 (long long)group_of(t, s)->cap_bytes);
  }
  for (int i = 0, option; i < t->problem->layer_count;) {
    int count = equal_layers(t, i, &option);
    const char *name = t->names->option[i][option];
    add_words(t, t->names->layer[i]);
    if (count > 1) bd_text_addf(t->text, " x %d", count);
    bd_text_addf(t->text, ": stage %d", plan->part[i] % plan->stages);
    if (plan->chunks > 1) bd_text_addf(t->text, " chunk %d", plan->part[i] / plan->stages);
    bd_text_addf(t->text, ", option %d ", option);
    if (name) add_words(t, name);
    bd_text_add(t->text, "\n");
    i += count;
  }
}

// The plan by its definition: it must cost what the search says, and keep to the caps.
static bd_status check(bd_ctx *ctx, telling *t) {
  double cost = bd_layers_measure(t->problem, &t->answer->plan, t->stages);
  bool right = fabs(cost - t->answer->seconds) <= 1e-9 * cost;
  for (int s = 0; s < t->answer->plan.stages; s++)
    right = right && t->stages[s].bytes <= group_of(t, s)->cap_bytes;
  if (right) return BD_OK;
  return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "the plan found does not cost what it should");
}

static bd_status refuse(bd_ctx *ctx, const bd_bare_request *request, const bd_layers_answer *answer,
                        bool late) {
  bd_loc file = bd_loc_file(request->file);
  if (isfinite(answer->bound) && request->stop && *request->stop)
    return bd_bare_fail_interrupted(ctx, request);
  if (isfinite(answer->bound))
    return bd_fail(ctx, BD_EXTERNAL, file, "no plan was found%s, nor that there is none; %s",
                   late ? " in time" : "",
                   late ? "try a longer --time-limit"
                        : "leave some micro-batches, schedules or options out");
  if (answer->least_lacking_bytes == INT64_MAX)
    return bd_fail(ctx, BD_INFEASIBLE, file,
                   "no plan satisfies the file, whatever the caps: devices, forms, micro-batches "
                   "and schedules do not go together");
  long long least = answer->least_lacking_bytes, enough = answer->lacking_bytes;
  const char *lack = least == 1 ? "byte is" : "bytes are";
  if (least == enough)
    return bd_fail(ctx, BD_INFEASIBLE, file, "no plan fits: %lld %s lacking", least, lack);
  const char *ending =
      late ? bd_bare_ending(request) : "within its effort and the time that it had";
  if (enough == INT64_MAX)
    return bd_fail(ctx, BD_INFEASIBLE, file,
                   "no plan fits: at least %lld %s lacking, and the search for more, %s, found no "
                   "plan with larger caps either",
                   least, lack, ending);
  return bd_fail(ctx, BD_INFEASIBLE, file,
                 "no plan fits: at least %lld %s lacking, and %lld would do; the search between "
                 "them, %s, settled no more",
                 least, lack, enough, ending);
}

static bd_status solve(bd_ctx *ctx, const bd_bare_request *request, bd_text *out) {
  bd_layers_problem problem;
  bd_layers_names names;
  bd_layers_answer answer;
  double begun = bd_clock_seconds();
  bd_deadline deadline = bd_bare_deadline(request);
  BD_TRY(bd_layers_read(ctx, request->file, request->data, request->bytes,
                        (int64_t)fmin(request->budget, 1e15), &problem, &names));
  BD_TRY(bd_layers_solve(ctx, &problem, deadline, INFINITY, false, &answer));
  if (!answer.found) return refuse(ctx, request, &answer, bd_deadline_passed(deadline));
  telling t = {.problem = &problem, .names = &names, .answer = &answer, .text = out};
  BD_TRY(check(ctx, &t));
  double seconds = bd_clock_seconds() - begun;
  bool cut = !answer.proven && bd_deadline_passed(deadline);
  if (cut) bd_bare_warn_cut(ctx, request, answer.seconds, answer.bound, " s");
  if (request->json)
    print_json(&t, seconds);
  else
    print_words(&t, seconds, cut ? bd_bare_ending(request) : NULL);
  return BD_OK;
}

const bd_bare_format bd_bare_layers = {
    .name = "layers",
    .summary = "a graph of layers with options, on devices with links",
    .recognize = recognize,
    .solve = solve,
};
