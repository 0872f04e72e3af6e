#include "cli/advice.h"
#include "ir/pass.h"
#include "planner/full/full.h"
#include <math.h>
#include <string.h>

#define LIMIT_SECONDS 2.0 // of each that is tried

// Run in a context of its own: what goes wrong here is no news to the user.
typedef struct trial {
  const char *model;
  bd_model_options options;
  const bd_cluster *cluster;
  bd_plan_request request;
  bool fits;
} trial;

static bd_status try_sequence(bd_ctx *ctx, void *arg) {
  trial *t = arg;
  bd_module *graph, *train;
  bd_search_outcome outcome;
  BD_TRY(bd_model_load(ctx, t->model, &t->options, &graph));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, graph, &graph));
  const char *passes =
      bd_training_passes(t->request.precision, t->request.masters, t->request.target);
  BD_TRY(bd_pass_run_list(ctx, passes, NULL, stderr, graph, &train));
  t->request.sequence = bd_module_sequence(graph);
  BD_TRY((t->request.full ? bd_plan_look_full : bd_plan_look)(ctx, train, t->cluster, &t->request,
                                                              &outcome));
  t->fits = outcome.found && t->request.sequence == t->options.sequence;
  return BD_OK;
}

void bd_advise_sequence(bd_ctx *ctx, const char *model, const bd_model_options *options,
                        const bd_cluster *cluster, const bd_plan_request *request) {
  for (int64_t part = 2; part <= 4 && request->sequence / part > 0; part *= 2) {
    trial t = {model, *options, cluster, *request, false};
    bd_ctx *own = bd_ctx_create_child(ctx);
    if (!own) return;
    t.options.sequence = request->sequence / part;
    t.request.any = true;
    t.request.full = bd_plan_needs_full(request);
    t.request.progress = NULL;
    t.request.limit_seconds = fmin(LIMIT_SECONDS, request->limit_seconds);
    bool fits = bd_ctx_run(own, try_sequence, &t) == BD_OK && t.fits;
    bd_ctx_destroy(own);
    if (!fits) continue;
    bd_note(ctx, BD_NOWHERE, "so would --seq %lld", (long long)t.options.sequence);
    return;
  }
}
