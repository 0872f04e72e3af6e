#include "planner/told/familiar.h"
#include "ir/base/workers.h"
#include "planner/assemble.h"
#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/solver.h"
#include "planner/space.h"
#include "planner/told/alternatives.h"
#include "planner/told/blame.h"
#include <math.h>
#include <string.h>

enum { MOST = 11 };

// A choice that only a search can evaluate.
typedef struct question {
  int familiar; // of the list; -1: it is no choice that people know, and not listed
  bool own;     // it is about the plan's own degrees, on its own devices
  bd_plan_request request;
  bd_search_outcome outcome;
} question;

typedef struct comparing {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  bd_plan *plan;
  bool few_layers;
  bd_full_range own; // the plan's own devices: the cluster, or groups of it alone
  bd_familiar_list *list;
  int question_count;
  question questions[MOST];
} comparing;

enum { TOLD_PINS = 4 };

static const char *join_pins(bd_ctx *ctx, const char *list, const char *words, int count) {
  if (count > TOLD_PINS) return list;
  if (count == TOLD_PINS) return bd_intern_f(ctx, "%s and more", list);
  return bd_intern_f(ctx, "%s%s%s", list, count ? ", " : "", words);
}

// The name of a choice, and which pins of the user's it keeps and which it drops.
static const char *name_with_pins(const comparing *c, const char *name,
                                  const bd_plan_request *request) {
  bd_pin asked[BD_MAX_PINS], own[BD_MAX_PINS];
  int asked_count = bd_pins_of(c->ctx, c->request, asked), kept_count = 0, dropped_count = 0;
  int own_count = bd_pins_of(c->ctx, request, own);
  const char *kept = "", *dropped = "";
  for (int i = 0; i < asked_count; i++) {
    bool is_kept = false;
    for (int k = 0; k < own_count && !is_kept; k++)
      is_kept = own[k].kind == asked[i].kind && strcmp(own[k].words, asked[i].words) == 0;
    if (is_kept)
      kept = join_pins(c->ctx, kept, asked[i].words, kept_count++);
    else
      dropped = join_pins(c->ctx, dropped, asked[i].words, dropped_count++);
  }
  if (!asked_count) return name;
  return bd_intern_f(c->ctx, "%s (%s%s%s%s%s)", name, kept_count ? "keeps " : "", kept,
                     kept_count && dropped_count ? "; " : "", dropped_count ? "without " : "",
                     dropped);
}

static const bd_cluster *cluster_of(const comparing *c, bool own) {
  return own ? &c->own.cluster : c->cluster;
}

static bd_familiar *list_choice(comparing *c, const char *name, const char *pins, bool own,
                                const bd_plan_request *request) {
  bd_familiar *out = &c->list->items[c->list->count++];
  *out = (bd_familiar){
      .name = name_with_pins(c, name, request), .pins = pins, .step_seconds = INFINITY};
  out->reason = bd_pins_impossible(c->ctx, c->train, cluster_of(c, own), request);
  return out;
}

// Lists a choice that is searched, unless it is impossible.
static void add(comparing *c, const char *name, const char *pins, bool own,
                const bd_plan_request *request) {
  int index = c->list->count;
  if (!list_choice(c, name, pins, own, request)->reason)
    c->questions[c->question_count++] =
        (question){.familiar = index, .own = own, .request = *request};
}

static bd_status search(bd_ctx *ctx, void *arg, int index) {
  comparing *c = arg;
  question *q = &c->questions[index];
  return bd_plan_look(ctx, c->train, cluster_of(c, q->own), &q->request, &q->outcome);
}

static void take(bd_ctx *ctx, void *arg, int index) {
  comparing *c = arg;
  bd_search_outcome *outcome = &c->questions[index].outcome;
  int familiar = c->questions[index].familiar;
  if (outcome->found) outcome->plan = bd_plan_copy(ctx, &outcome->plan);
  if (outcome->found && c->questions[index].own) bd_full_shift(ctx, c->own.first, &outcome->plan);
  if (familiar < 0) return;
  bd_familiar *out = &c->list->items[familiar];
  if (outcome->found)
    out->step_seconds = outcome->plan.step_seconds;
  else
    out->lacking_bytes = outcome->lacking_bytes;
  if (!outcome->found && outcome->lacking_bytes <= 0)
    out->reason = outcome->interrupted ? "the search was interrupted"
                                       : "no plan of the search space keeps these pins";
}

// Side by side, as most of these searches have few settings. They share the threads.
static bd_status search_all(comparing *c) {
  bd_owned held;
  int threads = c->request->threads, count = c->question_count;
  for (int i = 0; i < count; i++)
    c->questions[i].request.threads = (threads + count - 1) / count;
  bd_workers *workers = bd_workers_start(c->ctx, &held, threads, bd_solver_leave_thread);
  bd_work work = {count, search, take, c};
  bd_status status = bd_workers_run(c->ctx, workers, &work);
  bd_workers_stop(c->ctx, workers, &held);
  return status;
}

// In the space of programs, whatever the plan is from: it takes a fraction of the time.
static bd_plan_request open_request(const comparing *c) {
  bd_plan_request out = *c->request;
  out.stages = 0;
  out.micro_batch = 0;
  out.mesh = (bd_mesh){0};
  out.constraints = NULL;
  out.rough = true;
  out.slow_seconds = c->plan->step_seconds;
  out.progress = NULL;
  out.full = false;
  if (bd_plan_needs_full(&out)) out.schedule = -1;
  return out;
}

// A batch that does not divide among the devices is raised until it does: what matters is whether
// the model fits at all.
static void compare_data(comparing *c, const char *name, int zero) {
  int devices = bd_cluster_devices(c->cluster);
  bd_constraints *constraints = BD_NEW(c->ctx->arena, bd_constraints);
  constraints->degree[BD_CUT_SAMPLES] = devices;
  bd_plan_request request = open_request(c);
  if (c->request->zero >= 0 && c->request->zero != zero) return;
  int64_t batch = (request.global_batch + devices - 1) / devices * devices;
  if (batch != request.global_batch)
    name = bd_intern_f(c->ctx, "%s, of a batch of %lld", name, (long long)batch);
  request.global_batch = batch;
  request.stages = 1;
  request.zero = zero;
  request.constraints = constraints;
  add(c, name, bd_intern_f(c->ctx, "dp=%d,pp=1,zero=%d", devices, zero), false, &request);
}

static void compare_tensor(comparing *c) {
  int devices = bd_cluster_devices(c->cluster);
  bd_constraints *constraints = BD_NEW(c->ctx->arena, bd_constraints);
  constraints->degree[BD_CUT_FEATURES] = devices;
  bd_plan_request request = open_request(c);
  request.stages = 1;
  request.constraints = constraints;
  add(c, "tensor parallel over all", bd_intern_f(c->ctx, "tp=%d,pp=1", devices), false, &request);
}

static void compare_pipeline(comparing *c) {
  int devices = bd_cluster_devices(c->cluster);
  bd_plan_request request = open_request(c);
  request.stages = devices;
  add(c, "pipeline only", bd_intern_f(c->ctx, "pp=%d", devices), false, &request);
}

// The plan's degrees or mesh as a pin.
static const char *mesh_words(const comparing *c) {
  const bd_constraints *constraints = c->request->constraints;
  if (bd_constraints_have_degrees(constraints)) return bd_pin_degrees(c->ctx, constraints);
  return bd_intern_f(c->ctx, "mesh=%s", bd_mesh_words(c->ctx, &c->plan->mesh));
}

// Whether the plan keeps or recomputes all that can be.
static bool does_already(const comparing *c, int recompute) {
  for (int s = 0; s < c->plan->strategy_count; s++) {
    const bd_strategy *strategy = &c->plan->strategies[s];
    const bd_function *f = bd_module_find(c->train, strategy->function);
    for (int i = 0; i < f->save_count; i++) {
      bd_id v = f->saves[i];
      bool handed_on = false;
      for (int r = 0; r < f->result_count; r++)
        handed_on = handed_on || f->results[r] == v;
      if (f->values[v].producer >= 0 && !handed_on && strategy->saved[v] == (recompute == 1))
        return false;
    }
  }
  return true;
}

// The plan's own degrees.
static bd_plan_request own_request(const comparing *c) {
  bd_plan_request request = open_request(c);
  request.stages = c->plan->stages;
  request.constraints = c->request->constraints;
  if (!bd_constraints_have_degrees(request.constraints)) request.mesh = c->plan->mesh;
  request.micro_batch = c->plan->micro_batch;
  request.one_head = c->plan->one_head;
  request.exact = true;
  return request;
}

// A search as narrow as that may keep candidates that make the plan faster; nothing is told of it.
static void look_narrower(comparing *c, const bd_plan_request *request) {
  if (!bd_pins_impossible(c->ctx, c->train, cluster_of(c, true), request))
    c->questions[c->question_count++] =
        (question){.familiar = -1, .own = true, .request = *request};
}

// The plan's own degrees with another choice of what is recomputed.
static void compare_recompute(comparing *c, const char *name, int recompute) {
  const bd_plan *plan = c->plan;
  bd_plan_request request = own_request(c);
  request.recompute = recompute;
  const char *pins =
      bd_intern_f(c->ctx, "pp=%d,%s,mb=%lld,recompute=%s", plan->stages, mesh_words(c),
                  (long long)plan->micro_batch, recompute ? "full" : "none");
  // The plan is the answer where it is of the space that is searched.
  if (!bd_plan_is_one_program(plan) || !does_already(c, recompute)) {
    add(c, name, pins, true, &request);
    return;
  }
  list_choice(c, name, pins, true, &request)->step_seconds = plan->step_seconds;
  look_narrower(c, &request);
}

// The plan's own degrees with a stage of ZeRO for all weights.
static void look_with_states(comparing *c, int zero) {
  bd_plan_request request = own_request(c);
  request.zero = zero;
  look_narrower(c, &request);
}

static bool splits_gradients(const bd_plan *plan) {
  for (int s = 0; s < plan->strategy_count; s++) {
    const bd_strategy *strategy = &plan->strategies[s];
    for (int v = 0; strategy->gradient && v < strategy->value_count; v++)
      if (!bd_sharding_equal(&strategy->gradient[v], &strategy->form[v])) return true;
  }
  return false;
}

// With all states in parts, as mostly pays, or whole; with gradients in parts where the plan has
// such. Where many layers mix candidates, one of these is mostly what the plan mixes.
static void look_with_all_states(comparing *c) {
  if (c->request->zero >= 0) return;
  bool splits = splits_gradients(c->plan);
  if (c->few_layers) look_with_states(c, 0);
  if (c->few_layers || !splits) look_with_states(c, 1);
  if (splits) look_with_states(c, 2);
}

// Whether a choice that was solved with pins of its own is one that the request allows, with as
// much room for libraries, for which the bound holds.
static bool is_allowed(const comparing *c, const question *q) {
  const bd_plan_request *asked = c->request;
  const bd_plan *plan = &q->outcome.plan;
  const bd_mesh *mesh = &asked->mesh;
  return plan->global_batch == asked->global_batch && plan->one_head == c->plan->one_head &&
         (!asked->constraints || q->request.constraints == asked->constraints) &&
         (asked->schedule < 0 || (int)plan->schedule == asked->schedule) &&
         (!asked->stages || plan->stages == asked->stages) &&
         (!asked->micro_batch || plan->micro_batch == asked->micro_batch) &&
         (!mesh->axes || bd_mesh_same(mesh, &plan->mesh));
}

// The search keeps a few candidates of a layer; a narrower one may keep better ones. What it found
// of the same space is as good a plan, and the bound of the whole space holds for it too. One that
// the time limit stopped is left out.
static void take_faster(comparing *c) {
  bd_plan *plan = c->plan;
  double found_seconds = plan->step_seconds;
  for (int i = 0; i < c->question_count; i++) {
    const question *q = &c->questions[i];
    const bd_plan *other = &q->outcome.plan;
    if (!q->outcome.found || q->outcome.cut || other->step_seconds >= plan->step_seconds ||
        !is_allowed(c, q))
      continue;
    bd_plan faster = *other;
    faster.bound_seconds = plan->bound_seconds;
    faster.gap = faster.step_seconds / faster.bound_seconds - 1;
    faster.search = plan->search;
    faster.cut = plan->cut;
    faster.interrupted = plan->interrupted;
    bd_alternatives_replace(c->ctx, plan, c->request->full, c->cluster, &faster);
    *plan = faster;
  }
  if (plan->cut && plan->step_seconds < found_seconds)
    bd_warn(
        c->ctx, BD_NOWHERE,
        "a narrower search found a faster plan, which is taken: %.4g s a step (a gap of %.1f %%)",
        plan->step_seconds, 100 * plan->gap);
}

bd_status bd_plan_compare_familiar(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                   const bd_plan_request *request, bd_plan *plan,
                                   bd_familiar_list *out) {
  comparing *c = BD_NEW(ctx->arena, comparing);
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  *c = (comparing){.ctx = ctx,
                   .train = train,
                   .cluster = cluster,
                   .request = request,
                   .plan = plan,
                   .few_layers = bd_model_has_few_layers(&runs),
                   .list = out};
  if (!bd_full_range_of(ctx, cluster, plan, &c->own)) c->own.cluster = *cluster;
  *out = (bd_familiar_list){0, BD_NEW_ARRAY(ctx->arena, bd_familiar, MOST)};
  if (bd_cluster_devices(cluster) > 1) {
    compare_data(c, "pure data parallel", 0);
    for (int zero = 1; zero <= BD_MAX_ZERO; zero += 2)
      compare_data(c, bd_intern_f(ctx, "ZeRO-%d data parallel", zero), zero);
    compare_tensor(c);
    compare_pipeline(c);
  }
  if (request->recompute < 0) {
    compare_recompute(c, "everything recomputed", 1);
    compare_recompute(c, "nothing recomputed", 0);
  }
  look_with_all_states(c);
  if (!c->question_count) return BD_OK;
  BD_TRY(search_all(c));
  take_faster(c);
  return BD_OK;
}
