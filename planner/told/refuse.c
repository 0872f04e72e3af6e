#include "planner/told/refuse.h"
#include "ir/base/clock.h"
#include "planner/full/full.h"
#include "planner/least.h"
#include "planner/told/blame.h"
#include "planner/told/tenants.h"
#include <math.h>
#include <string.h>

enum { LISTED = 5, DOUBLINGS = 4 };
// For all that is tried together, once it is known that nothing fits, and within the time limit of
// the search: as long as that took, and at least a second; time that others have of the processors
// does not count, but for so many times as much.
#define LIMIT_SECONDS 1.0
#define PATIENCE 12
#define LEAST_SECONDS 0.1
#define SHRINKS 0.9

typedef struct refusal {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  const bd_search_outcome *outcome;
  double begun_seconds, worked_seconds; // clocks when trying begins
  double limit_seconds;                 // of trying
} refusal;

// Where the request has plans.
static bd_status search_space(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                              const bd_plan_request *request, bd_search_outcome *out) {
  bool full = bd_plan_needs_full(request);
  return (full ? bd_plan_look_full : bd_plan_look)(ctx, train, cluster, request, out);
}

static int fullest_stage(const bd_plan *plan) {
  int fullest = 0;
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > plan->predicted[fullest].memory.total_bytes)
      fullest = s;
  return fullest;
}

static const char *kind_of(bd_segment segment) {
  switch (segment) {
  case BD_SEGMENT_WEIGHTS:
    return "weight, gradient and optimizer state";
  case BD_SEGMENT_TAPE:
    return "kept for backward";
  case BD_SEGMENT_BOUNDARY:
    return "between layers";
  default:
    return "workspace";
  }
}

static bd_status list_tensors(const refusal *r) {
  const bd_plan *plan = &r->outcome->plan;
  if (bd_plan_is_full(plan)) return BD_OK; // there is no program to look into
  bd_module *sharded, *spmd;
  bd_tenant *tenants;
  int count, stage = fullest_stage(plan);
  BD_TRY(bd_apply_plan(r->ctx, r->train, plan, &sharded));
  BD_TRY(bd_partition(r->ctx, sharded, &spmd));
  BD_TRY(bd_tenants_find(r->ctx, r->train, spmd, plan, stage, &tenants, &count));
  bd_text text = bd_text_init(r->ctx->arena);
  for (int i = 0; i < count && i < LISTED; i++) {
    bd_text_addf(&text, "%s%s ", i ? "; " : "", tenants[i].name);
    if (tenants[i].count > 1) bd_text_addf(&text, "and %d alike ", tenants[i].count - 1);
    bd_text_addf(&text, "(%s, ", kind_of(tenants[i].segment));
    bd_text_add_bytes(&text, tenants[i].bytes);
    bd_text_add(&text, ")");
  }
  bd_note(r->ctx, BD_NOWHERE, "the largest tensors of a rank, on stage %d: %s", stage, text.data);
  return BD_OK;
}

static double seconds_left(const refusal *r) {
  double now = bd_clock_seconds(), passed = now - r->begun_seconds;
  double worked = bd_clock_worked_seconds() - r->worked_seconds;
  if ((r->request->stop && *r->request->stop) || worked >= r->limit_seconds) return 0;
  return fmin(PATIENCE * r->limit_seconds - passed, r->outcome->deadline - now);
}

// The bytes that the leanest plan looked at lacks under other circumstances; 0: one fits. Where the
// time is up, or the states alone are too large, none is known to.
static bd_status look(const refusal *r, const bd_module *train, const bd_cluster *cluster,
                      bd_plan_request request, int64_t *out_lacking) {
  bd_search_outcome outcome;
  request.any = true;
  request.limit_seconds = seconds_left(r);
  request.progress = NULL;
  *out_lacking = INT64_MAX;
  bool hopeless = !bd_plan_needs_full(&request) && !bd_least_fits(train, cluster, &request);
  if (request.limit_seconds <= 0 || hopeless) return BD_OK;
  BD_TRY(search_space(r->ctx, train, cluster, &request, &outcome));
  *out_lacking = outcome.found ? 0 : outcome.lacking_bytes > 0 ? outcome.lacking_bytes : INT64_MAX;
  return BD_OK;
}

// Pins of which each alone is in the way.
static bd_status try_without_pins(const refusal *r, const char **helps) {
  bd_pin pins[BD_MAX_PINS];
  int count = bd_pins_of(r->ctx, r->request, pins);
  for (int i = 0; i < count; i++) {
    bd_plan_request open;
    bd_constraints constraints;
    int64_t lacking;
    bd_pin_drop(r->ctx, r->request, &pins[i], &open, &constraints);
    BD_TRY(look(r, r->train, r->cluster, open, &lacking));
    if (!lacking) *helps = bd_intern_f(r->ctx, "%s; leaving %s out", *helps, pins[i].words);
  }
  return BD_OK;
}

// `cluster` with twice its nodes; false if so many devices are never planned for.
static bool double_nodes(bd_cluster *cluster) {
  if (2 * bd_cluster_devices(cluster) > BD_MAX_DEVICES) return false;
  cluster->nodes *= 2;
  if (cluster->nodes == 2) cluster->inter = cluster->intra;
  return true;
}

// Twice as many devices, and again, until a plan fits: from the number on that would do if all that
// the leanest plan holds were split over them. Where that many do, fewer are tried that have room
// for the weights. `*out`: how many, or 0.
static bd_status double_devices(const refusal *r, const bd_plan_request *request, int *out) {
  double cap = (double)r->outcome->cap_bytes, devices = bd_cluster_devices(r->cluster);
  double least = fmax(bd_least_bytes(r->train, request) / cap, devices + 1);
  double likely = fmax(least, (cap + (double)r->outcome->lacking_bytes) / cap * devices);
  bd_cluster more = *r->cluster, fewer;
  int64_t lacking = r->outcome->lacking_bytes, before = INT64_MAX;
  *out = 0;
  do {
    if (!double_nodes(&more)) return BD_OK;
  } while (bd_cluster_devices(&more) < likely);
  fewer = more;
  // What does not shrink much with more devices will not fit with still more.
  for (int tried = 0; lacking > 0 && (double)lacking < SHRINKS * (double)before; tried++) {
    if (tried == DOUBLINGS || (tried && !double_nodes(&more))) return BD_OK;
    before = lacking;
    BD_TRY(look(r, r->train, &more, *request, &lacking));
  }
  if (lacking) return BD_OK;
  *out = bd_cluster_devices(&more);
  while (!lacking && *out == bd_cluster_devices(&fewer) && *out / 2 >= least) {
    fewer.nodes /= 2;
    BD_TRY(look(r, r->train, &fewer, *request, &lacking));
    if (!lacking) *out = bd_cluster_devices(&fewer);
  }
  return BD_OK;
}

// Pins that tell how many devices there are: dropped from `*open`, and listed.
static const char *drop_places(const refusal *r, bd_plan_request *open, bd_constraints *own) {
  bd_pin pins[BD_MAX_PINS];
  int count = bd_pins_of(r->ctx, r->request, pins);
  const char *dropped = "";
  *open = *r->request;
  open->stages = 0;
  open->mesh = (bd_mesh){0};
  if (open->constraints) {
    *own = *open->constraints;
    memset(own->degree, 0, sizeof own->degree);
    open->constraints = own;
  }
  for (int i = 0; i < count; i++)
    if (pins[i].kind == BD_PIN_STAGES || pins[i].kind == BD_PIN_MESH ||
        pins[i].kind == BD_PIN_DEGREE)
      dropped = bd_intern_f(r->ctx, "%s%s%s", dropped, *dropped ? ", " : "", pins[i].words);
  return dropped;
}

static bd_status try_more_devices(const refusal *r, const char **helps) {
  bd_plan_request open;
  bd_constraints constraints;
  int devices;
  BD_TRY(double_devices(r, r->request, &devices));
  if (devices) {
    *helps = bd_intern_f(r->ctx, "%s; %d such devices", *helps, devices);
    return BD_OK;
  }
  const char *dropped = drop_places(r, &open, &constraints);
  if (!*dropped) return BD_OK;
  BD_TRY(double_devices(r, &open, &devices));
  if (devices)
    *helps = bd_intern_f(r->ctx, "%s; %d such devices, leaving %s out", *helps, devices, dropped);
  return BD_OK;
}

static bd_status tell_helps(const refusal *r) {
  const char *helps = bd_intern_f(r->ctx, "--memory-cap %lld",
                                  (long long)(r->outcome->cap_bytes + r->outcome->lacking_bytes));
  int64_t own = r->cluster->memory_bytes - r->cluster->reserved_bytes;
  if (r->outcome->cap_bytes + r->outcome->lacking_bytes > own)
    helps = bd_intern_f(r->ctx, "devices with room for %lld bytes a rank",
                        (long long)(r->outcome->cap_bytes + r->outcome->lacking_bytes));
  BD_TRY(try_without_pins(r, &helps));
  if (!bd_cluster_is_mixed(r->cluster)) BD_TRY(try_more_devices(r, &helps));
  bd_note(r->ctx, BD_NOWHERE, "a plan would fit with %s%s%s", strchr(helps, ';') ? "any of: " : "",
          helps, seconds_left(r) <= 0 ? " (the time for looking for more was up)" : "");
  return BD_OK;
}

static const char *stages_of(bd_ctx *ctx, const bd_plan *plan) {
  int devices = bd_mesh_devices(&plan->mesh);
  if (plan->stage_mesh) return bd_intern_f(ctx, "%d stages of meshes of their own", plan->stages);
  return bd_intern_f(ctx, "%d stage%s of %d device%s each", plan->stages,
                     bd_plural(plan->stages, "s"), devices, bd_plural(devices, "s"));
}

static bd_status refuse_bytes(const refusal *r) {
  const bd_plan *nearest = &r->outcome->plan;
  int64_t lacking = r->outcome->lacking_bytes, cap = r->outcome->cap_bytes;
  bool cut = r->outcome->cut;
  bd_fail(
      r->ctx, BD_INFEASIBLE, BD_NOWHERE,
      "no plan %s: the leanest%s needs %lld bytes a rank, the cap is %lld: %s%lld byte%s lacking",
      cut                ? "was found in time"
      : r->request->full ? "of the full space was found that fits"
                         : "fits",
      cut || r->request->full ? " that was found" : "", (long long)(cap + lacking), (long long)cap,
      cut ? "at most " : "", (long long)lacking, lacking == 1 ? " is" : "s are");
  bd_note(r->ctx, BD_NOWHERE, "the nearest plan has %s, a micro-batch of %lld, schedule %s",
          stages_of(r->ctx, nearest), (long long)nearest->micro_batch,
          bd_schedule_name(nearest->schedule));
  BD_TRY(list_tensors(r));
  if (cut)
    bd_note(r->ctx, BD_NOWHERE,
            "the time limit stopped the search: plans that need less were perhaps not looked at; "
            "a longer --time-limit may find them");
  return tell_helps(r);
}

// Nothing that the request allows is a plan, whatever the cap.
static bd_status refuse_pins(const refusal *r) {
  const bd_plan_request *request = r->request;
  bd_pin pins[BD_MAX_PINS];
  int count = bd_pins_of(r->ctx, request, pins), devices = bd_cluster_devices(r->cluster);
  const char *guilty = NULL;
  int guilty_count = 0;
  const char *reason = bd_pins_impossible(r->ctx, r->train, r->cluster, request);
  for (int i = 0; i < count && !reason; i++) {
    bd_plan_request open;
    bd_constraints constraints;
    bd_search_outcome outcome;
    bd_pin_drop(r->ctx, request, &pins[i], &open, &constraints);
    open.any = true;
    open.limit_seconds = fmax(seconds_left(r), LEAST_SECONDS);
    open.progress = NULL;
    BD_TRY(search_space(r->ctx, r->train, r->cluster, &open, &outcome));
    if (!outcome.found && outcome.lacking_bytes <= 0) continue;
    guilty = guilty_count++ ? bd_intern_f(r->ctx, "%s, %s", guilty, pins[i].words) : pins[i].words;
  }
  if (reason)
    return bd_fail(r->ctx, BD_INFEASIBLE, BD_NOWHERE, "no plan runs '%s' with %s", request->model,
                   reason);
  if (guilty)
    return bd_fail(r->ctx, BD_INFEASIBLE, BD_NOWHERE, "no plan runs '%s' on %d device%s with %s%s",
                   request->model, devices, bd_plural(devices, "s"), guilty,
                   guilty_count == 1 ? "; without it there is one"
                                     : " together; without any one of them there is one");
  const char *all = count ? pins[0].words : "these options";
  for (int i = 1; i < count; i++)
    all = bd_intern_f(r->ctx, "%s, %s", all, pins[i].words);
  return bd_fail(r->ctx, BD_INFEASIBLE, BD_NOWHERE,
                 "no plan runs '%s' on %d device%s with %s and a global batch of %lld",
                 request->model, devices, bd_plural(devices, "s"), all,
                 (long long)request->global_batch);
}

bd_status bd_plan_refuse(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, const bd_search_outcome *outcome) {
  refusal r = {ctx, train, cluster, request, outcome, bd_clock_seconds(), bd_clock_worked_seconds(),
               0};
  double searched_since = outcome->deadline - request->limit_seconds;
  r.limit_seconds = fmax(r.begun_seconds - searched_since, LIMIT_SECONDS);
  if (outcome->lacking_bytes <= 0) return refuse_pins(&r);
  BD_TRY(refuse_bytes(&r));
  return BD_INFEASIBLE;
}
