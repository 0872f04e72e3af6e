#include "cli/told_check.h"
#include "cli/machine.h"
#include "cli/plan_model.h"
#include "frontend/frontend.h"
#include "planner/planner.h"
#include <math.h>
#include <string.h>

#define TOLERANCE 1e-6

static bool differ(double a, double b) {
  return fabs(a - b) > TOLERANCE * fmax(fabs(a), fabs(b));
}

// Bytes of the segments of a stage add up to its arena.
static bool check_bytes(bd_ctx *ctx, const bd_json *predicted, const bd_plan *plan) {
  const bd_json *stages = bd_json_find(predicted, "stages");
  for (int s = 0; s < plan->stages; s++) {
    const bd_memory *memory = &plan->predicted[s].memory;
    int64_t sum = 0;
    bool large = false;
    for (int k = 1; k < BD_SEGMENT_COUNT; k++)
      large |= __builtin_add_overflow(sum, memory->bytes[k], &sum);
    if (!large && sum == memory->total_bytes) continue;
    bd_warn(ctx, bd_json_find(&stages->items[s], "arena_bytes")->loc,
            "the segments of stage %d do not add up to its \"arena_bytes\"", s);
    return false;
  }
  return true;
}

// Stages are within the cap that the file tells.
static bool check_cap(bd_ctx *ctx, const bd_json *predicted, const bd_plan *plan) {
  const bd_json *cap = bd_json_find(predicted, "cap_bytes");
  for (int s = 0; plan->cap_bytes > 0 && s < plan->stages; s++) {
    if (plan->predicted[s].memory.total_bytes <= plan->cap_bytes) continue;
    bd_warn(ctx, cap->loc, "\"cap_bytes\" is less than the arena of stage %d", s);
    return false;
  }
  return true;
}

// What a stage's passes are made of adds up to them.
static bool check_parts(bd_ctx *ctx, const bd_json *predicted, const bd_plan *plan) {
  const bd_json *details = bd_json_find(predicted, "details");
  for (int s = 0; details && plan->details && s < plan->stages; s++) {
    const bd_stage_details *stage = &plan->details->stages[s];
    double seconds = stage->compute_seconds + stage->aside_seconds;
    for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
      for (int axis = 0; axis < BD_MAX_AXES; axis++)
        seconds += stage->traffic_seconds[kind][axis];
    if (!differ(seconds, plan->predicted[s].forward_seconds + plan->predicted[s].backward_seconds))
      continue;
    bd_warn(ctx, bd_json_find(details, "stages")->items[s].loc,
            "compute and traffic of stage %d do not add up to its forward and backward seconds", s);
    return false;
  }
  return true;
}

bool bd_told_check_self(bd_ctx *ctx, const bd_json *root, const bd_plan *plan) {
  const bd_json *predicted = bd_json_find(root, "predicted");
  const bd_json *gap = bd_json_find(predicted, "gap");
  bd_loc step = bd_json_find(predicted, "step_seconds")->loc;
  bd_step_split split = bd_explain_split(plan);
  double passes = split.forward_seconds + split.backward_seconds;
  if (plan->bound_seconds > plan->step_seconds * (1 + TOLERANCE))
    bd_warn(ctx, step,
            "\"step_seconds\" is less than \"bound_seconds\", below which no plan of the space is");
  else if (gap && plan->bound_seconds > 0 &&
           differ(1 + plan->gap, plan->step_seconds / plan->bound_seconds))
    bd_warn(ctx, gap->loc, "\"gap\" is not step_seconds / bound_seconds - 1");
  else if (plan->step_seconds < passes * (1 - TOLERANCE))
    bd_warn(ctx, step, "\"step_seconds\" is less than the passes of the slowest stage take");
  else
    return !check_bytes(ctx, predicted, plan) || !check_parts(ctx, predicted, plan) ||
           !check_cap(ctx, predicted, plan);
  return true;
}

// Run in a context of its own: what goes wrong here is no news to the user.
typedef struct recount {
  const bd_told_plan *told;
  bool loaded;    // the model and the cluster are at hand
  bool fits;      // the plan is one for them
  bool timed;     // the cluster has the rates that it was planned with
  bool unknown;   // the model has no samples of as many tokens
  int64_t others; // tokens of other samples, with which the model has the plan's ops; 0: none found
  double seconds; // of a step
  int stage;      // whose bytes differ, or -1
  int64_t arena;  // its bytes
  int64_t cap;    // that the cluster's devices have, or 0: devices differ
} recount;

static bd_status load(bd_ctx *ctx, const bd_plan *plan, int64_t sequence, bd_module **out_train) {
  bd_model_options options = {.sequence = sequence};
  bd_module *graph;
  BD_TRY(bd_model_load(ctx, plan->model, &options, &graph));
  return bd_plan_train(ctx, plan, graph, out_train);
}

// A model that has samples, though not of as many tokens, is at hand all the same.
static bd_status load_model(bd_ctx *ctx, recount *r, bd_module **out_train) {
  const bd_plan *plan = &r->told->plan;
  bd_status status = load(ctx, plan, plan->sequence, out_train);
  if (status == BD_INVALID && plan->sequence > 0 && load(ctx, plan, 0, out_train) == BD_OK)
    r->loaded = r->unknown = true;
  return status;
}

static bool has_ops(const bd_module *train, const bd_told_plan *told) {
  for (int s = 0; s < told->plan.strategy_count; s++) {
    const bd_told_strategy *strategy = &told->strategies[s];
    const bd_function *function = bd_module_find(train, strategy->function);
    if (!function || function->op_count != strategy->op_count) return false;
    for (int i = 0; i < strategy->op_count; i++)
      if (strcmp(function->values[function->ops[i].out[0]].name, strategy->ops[i].result) != 0)
        return false;
  }
  return true;
}

// A model read for its longest samples may have other ops than for shorter ones.
static void find_others(bd_ctx *ctx, recount *r, const bd_module *train) {
  const bd_plan *plan = &r->told->plan;
  bd_module *other;
  if (plan->sequence == 0 || has_ops(train, r->told)) return;
  if (load(ctx, plan, 0, &other) != BD_OK) return;
  int64_t longest = bd_module_sequence(other);
  if (longest == plan->sequence && load(ctx, plan, longest / 2, &other) != BD_OK) return;
  if (has_ops(other, r->told)) r->others = bd_module_sequence(other);
}

static bd_status parse(bd_ctx *ctx, const recount *r, const bd_module *train,
                       const bd_cluster *cluster, bd_plan *out_plan) {
  BD_TRY(bd_plan_parse(ctx, r->told->path, r->told->data, r->told->bytes, train, out_plan));
  BD_TRY(bd_plan_check(ctx, train, out_plan));
  return bd_plan_check_ranks(ctx, cluster, out_plan);
}

static bd_status predict(bd_ctx *ctx, void *arg) {
  recount *r = arg;
  const bd_plan *told = &r->told->plan;
  bd_module *train;
  bd_cluster cluster;
  bd_plan plan;
  if (!told->cluster) return BD_UNSUPPORTED;
  BD_TRY(bd_machine_load(ctx, told->cluster, BD_NOWHERE, &cluster));
  BD_TRY(load_model(ctx, r, &train));
  r->loaded = true;
  r->timed = !bd_machine_is_named(told->cluster);
  if (r->timed && !bd_cluster_is_mixed(&cluster))
    r->cap = bd_cluster_cap_bytes(&cluster, 0, bd_cluster_devices(&cluster));
  bd_status status = parse(ctx, r, train, &cluster, &plan);
  if (status == BD_INVALID) find_others(ctx, r, train);
  BD_TRY(status);
  BD_TRY(bd_plan_predict(ctx, train, &cluster, &plan));
  r->fits = true;
  r->seconds = plan.step_seconds;
  for (int s = 0; s < plan.stages && r->stage < 0; s++) {
    r->arena = plan.predicted[s].memory.total_bytes;
    if (r->arena != told->predicted[s].memory.total_bytes) r->stage = s;
  }
  return BD_OK;
}

typedef void say_it(bd_ctx *, bd_loc, const char *, ...) __attribute__((format(printf, 3, 4)));

// Why the plan is none for its model and cluster: `misfit`, unless its sequence is to blame.
static void say_misfit(bd_ctx *ctx, const recount *r, say_it *say, const char *misfit) {
  static const char *const rest = "what follows is as the file says it";
  const bd_plan *plan = &r->told->plan;
  bd_loc file = bd_loc_file(r->told->path);
  long long tokens = plan->sequence;
  const char *with = tokens ? bd_intern_f(ctx, " with samples of %lld tokens", tokens) : "";
  if (r->unknown)
    say(ctx, file, "the \"sequence\" of %lld tokens is none that the model '%s' can have: %s; %s",
        tokens, plan->model, misfit, rest);
  else if (r->others > tokens)
    say(ctx, file,
        "the \"sequence\" of %lld tokens is not what the plan was made for: its ops are those of "
        "'%s' with samples of %lld tokens; %s",
        tokens, plan->model, (long long)r->others, rest);
  else if (r->others)
    say(ctx, file,
        "the \"sequence\" of %lld tokens is not what the plan was made for: its ops are those of "
        "'%s' with shorter samples; %s",
        tokens, plan->model, rest);
  else
    say(ctx, file, "the plan does not fit its model '%s' on its cluster '%s'%s: %s; %s",
        plan->model, plan->cluster, with, misfit, rest);
}

static const char *const remedy = "'braid compile --plan FILE --emit plan' writes it anew";

void bd_told_check_planner(bd_ctx *ctx, const bd_told_plan *told) {
  recount r = {.told = told, .stage = -1};
  const bd_plan *plan = &told->plan;
  bd_loc file = bd_loc_file(told->path);
  say_it *say = told->contradicts ? bd_note : bd_warn;
  const char *misfit = ""; // why the plan is none for them
  bd_ctx *own = bd_ctx_create_child(ctx);
  if (!own) return;
  bd_status status = bd_ctx_run(own, predict, &r);
  for (const bd_diag *diag = own->first_diag; diag; diag = diag->next)
    if (diag->severity == BD_ERROR && !*misfit) misfit = bd_intern_z(ctx, diag->message);
  bd_ctx_destroy(own);
  if (status == BD_EXHAUSTED || !r.loaded) return;
  if (!r.fits)
    say_misfit(ctx, &r, say, misfit);
  else if (r.timed && differ(r.seconds, plan->step_seconds))
    say(ctx, file,
        "the planner predicts a step of %.6g s for this plan, not the %.6g s that the file "
        "says; %s",
        r.seconds, plan->step_seconds, remedy);
  else if (r.stage >= 0)
    say(ctx, file,
        "the planner predicts an arena of %lld bytes on stage %d for this plan, not the %lld "
        "that the file says; %s",
        (long long)r.arena, r.stage, (long long)plan->predicted[r.stage].memory.total_bytes,
        remedy);
  else if (r.cap && plan->cap_bytes > r.cap)
    say(ctx, file,
        "the devices of cluster '%s' have room for %lld bytes, not the %lld of the file's "
        "\"cap_bytes\"; %s",
        plan->cluster, (long long)r.cap, (long long)plan->cap_bytes, remedy);
}
