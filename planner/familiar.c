#include "planner/familiar.h"
#include <math.h>

enum { MOST = 8, MICRO_BATCHES = 3 };
#define LIMIT_SECONDS 5.0

typedef struct comparing {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  bd_plan *plan;
} comparing;

static void take(bd_familiar *out, const bd_search_outcome *outcome) {
  if (outcome->found && outcome->plan.step_seconds < out->step_seconds) {
    out->step_seconds = outcome->plan.step_seconds;
    out->lacking_bytes = 0;
  } else if (!outcome->found && isinf(out->step_seconds) && outcome->lacking_bytes > 0 &&
             (!out->lacking_bytes || outcome->lacking_bytes < out->lacking_bytes)) {
    out->lacking_bytes = outcome->lacking_bytes;
  }
}

// Solves under a request's pins for micro-batches of `least` samples, then of four times as many
// and so on while plans fit.
static bd_status try_sizes(const comparing *c, bd_plan_request request, int64_t least,
                           bd_familiar *out) {
  int64_t batch = request.global_batch, size = least;
  for (int tried = 0; tried < MICRO_BATCHES && size <= batch; tried++, size *= 4) {
    while (size <= batch && (batch % size || size % least))
      size++;
    if (size > batch) break;
    bd_search_outcome outcome;
    request.micro_batch = size;
    BD_TRY(bd_plan_look(c->ctx, c->train, c->cluster, &request, &outcome));
    take(out, &outcome);
    if (!outcome.found) break;
  }
  return BD_OK;
}

static bd_familiar *add(const comparing *c, const char *name, const char *pins) {
  bd_plan_details *details = c->plan->details;
  bd_familiar *out = &details->familiar[details->familiar_count++];
  *out = (bd_familiar){.name = name, .pins = pins, .step_seconds = INFINITY};
  return out;
}

static bd_plan_request open_request(const comparing *c) {
  bd_plan_request out = *c->request;
  out.stages = 0;
  out.micro_batch = 0;
  out.mesh = (bd_mesh){0};
  out.constraints = NULL;
  out.limit_seconds = fmin(LIMIT_SECONDS, out.limit_seconds);
  return out;
}

static bd_status compare_degree(const comparing *c, const char *name, bd_cut kind) {
  int devices = bd_cluster_devices(c->cluster);
  bd_constraints constraints = {.degree[BD_CUT_FEATURES] = 1};
  constraints.degree[kind] = devices;
  bd_plan_request request = open_request(c);
  request.stages = 1;
  request.constraints = &constraints;
  const char *word = kind == BD_CUT_SAMPLES ? "dp" : "tp";
  bd_familiar *out = add(c, name, bd_intern_f(c->ctx, "%s=%d,pp=1", word, devices));
  return try_sizes(c, request, kind == BD_CUT_SAMPLES ? devices : 1, out);
}

static bd_status compare_pipeline(const comparing *c) {
  int devices = bd_cluster_devices(c->cluster);
  bd_plan_request request = open_request(c);
  bd_familiar *out = add(c, "pipeline only", bd_intern_f(c->ctx, "pp=%d", devices));
  request.stages = devices;
  return devices <= BD_MAX_STAGES ? try_sizes(c, request, 1, out) : BD_OK;
}

// The plan's own degrees, with another choice of what is recomputed.
static bd_status compare_recompute(const comparing *c, const char *name, int recompute) {
  const bd_plan *plan = c->plan;
  bd_plan_request request = open_request(c);
  request.stages = plan->stages;
  request.mesh = plan->mesh;
  request.micro_batch = plan->micro_batch;
  request.recompute = recompute;
  const char *pins = bd_intern_f(c->ctx, "pp=%d,mb=%lld,recompute=%s", plan->stages,
                                 (long long)plan->micro_batch, recompute ? "full" : "none");
  bd_search_outcome outcome;
  bd_familiar *out = add(c, name, pins);
  BD_TRY(bd_plan_look(c->ctx, c->train, c->cluster, &request, &outcome));
  take(out, &outcome);
  return BD_OK;
}

bd_status bd_plan_compare_familiar(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                   const bd_plan_request *request, bd_plan *plan) {
  comparing c = {ctx, train, cluster, request, plan};
  plan->details->familiar = BD_NEW_ARRAY(ctx->arena, bd_familiar, MOST);
  plan->details->familiar_count = 0;
  if (bd_cluster_devices(cluster) > 1) {
    BD_TRY(compare_degree(&c, "pure data parallel", BD_CUT_SAMPLES));
    BD_TRY(compare_degree(&c, "tensor parallel over all", BD_CUT_FEATURES));
    BD_TRY(compare_pipeline(&c));
  }
  if (request->recompute < 0) {
    BD_TRY(compare_recompute(&c, "everything recomputed", 1));
    BD_TRY(compare_recompute(&c, "nothing recomputed", 0));
  }
  return BD_OK;
}
