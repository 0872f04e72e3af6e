#include "cli/advice.h"
#include "ir/base/clock.h"
#include "ir/optimizer.h"
#include "ir/pass.h"
#include "planner/full/full.h"
#include "planner/least.h"
#include <math.h>
#include <string.h>

#define LIMIT_SECONDS 5.0 // of each that is tried

typedef struct advice {
  bd_ctx *ctx;
  const char *model;
  const bd_model_options *options;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  double until; // a clock's time
  const char *words;
} advice;

// Run in a context of its own: what goes wrong here is no news to the user.
typedef struct trial {
  const advice *of;
  bd_model_options options;
  bd_plan_request request;
  bool fits;
} trial;

static bd_status try_it(bd_ctx *ctx, void *arg) {
  trial *t = arg;
  bd_module *graph, *train;
  bd_search_outcome outcome;
  BD_TRY(bd_model_load(ctx, t->of->model, &t->options, &graph));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, graph, &graph));
  const char *passes = bd_training_passes(t->request.precision, t->request.masters,
                                          t->request.gradients, t->request.target);
  BD_TRY(bd_pass_run_list(ctx, passes, NULL, stderr, graph, &train));
  t->request.sequence = bd_module_sequence(graph);
  if (!t->request.full && !bd_least_fits(train, t->of->cluster, &t->request)) return BD_OK;
  BD_TRY((t->request.full ? bd_plan_look_full : bd_plan_look)(ctx, train, t->of->cluster,
                                                              &t->request, &outcome));
  t->fits = outcome.found && (!t->options.sequence || t->request.sequence == t->options.sequence);
  return BD_OK;
}

static trial like(const advice *a) {
  trial t = {a, *a->options, *a->request, false};
  t.request.any = true;
  t.request.full = bd_plan_needs_full(a->request);
  t.request.progress = NULL;
  return t;
}

// Whether there is a plan; if so, `words` are said of it.
static bool fits(advice *a, trial *t, const char *words) {
  t->request.limit_seconds = fmin(LIMIT_SECONDS, a->until - bd_clock_seconds());
  bd_ctx *own = t->request.limit_seconds > 0 ? bd_ctx_create_child(a->ctx) : NULL;
  if (!own) return false;
  bool found = bd_ctx_run(own, try_it, t) == BD_OK && t->fits;
  bd_ctx_destroy(own);
  if (found) a->words = bd_intern_f(a->ctx, "%s%s%s", a->words, *a->words ? ", " : "", words);
  return found;
}

static void try_weights(advice *a) {
  const bd_optimizer *own = bd_optimizer_find(a->request->optimizer);
  bool lighter = own->moments > 0, narrower = a->request->precision == BD_F32;
  bool rounds = a->request->precision == BD_BF16 && a->request->masters == BD_MASTERS_F32;
  bool halves = a->request->masters == BD_MASTERS_NONE && a->request->gradients == BD_GRADIENTS_F32;
  trial narrow = like(a), rounded = narrow, light = narrow, halved = narrow, least;
  narrow.request.precision = BD_BF16;
  rounded.request.masters = BD_MASTERS_NONE;
  halved.request.gradients = BD_GRADIENTS_BF16;
  light.request.optimizer = bd_optimizer_names()[BD_OPTIMIZER_ADAFACTOR];
  least = narrow;
  least.request.masters = BD_MASTERS_NONE;
  least.request.optimizer = bd_optimizer_names()[BD_OPTIMIZER_ADAFACTOR];
  bool any = narrower && fits(a, &narrow, "--precision bf16");
  any = (rounds && fits(a, &rounded, "--masters none")) || any;
  any = (halves && fits(a, &halved, "--gradients bf16")) || any;
  any = (lighter && fits(a, &light, "--optimizer adafactor")) || any;
  if (any || !lighter || (!narrower && !rounds)) return;
  fits(a, &least,
       narrower ? "--precision bf16 --masters none --optimizer adafactor"
                : "--masters none --optimizer adafactor");
}

static void try_sequences(advice *a) {
  for (int64_t part = 2; part <= 4 && a->request->sequence / part > 0; part *= 2) {
    trial t = like(a);
    t.options.sequence = a->request->sequence / part;
    if (fits(a, &t, bd_intern_f(a->ctx, "--seq %lld", (long long)t.options.sequence))) return;
  }
}

void bd_advise(bd_ctx *ctx, const char *model, const bd_model_options *options,
               const bd_cluster *cluster, const bd_plan_request *request) {
  double until = bd_clock_seconds() + request->limit_seconds;
  advice a = {ctx, model, options, cluster, request, until, ""};
  try_weights(&a);
  try_sequences(&a);
  if (!*a.words) return;
  bd_note(ctx, BD_NOWHERE, "a plan would also fit with %s%s",
          strchr(a.words, ',') ? "any of: " : "", a.words);
}
