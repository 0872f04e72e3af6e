#include "planner/told/groups.h"
#include "planner/full/alone.h"
#include "planner/told/alternatives.h"
#include <math.h>
#include <string.h>

#define WORTH_TELLING 0.98 // of the plan's seconds

// The groups as a cluster of their own: as the command line has them where it has the whole so.
static const char *name(bd_ctx *ctx, const bd_cluster *cluster, const char *groups) {
  bool named = strchr(cluster->name, '+') && strstr(cluster->name, groups);
  return named ? bd_intern_f(ctx, "--cluster %s", groups) : "a cluster of that alone";
}

// The request for the groups alone, of the default space.
static bd_plan_request ask(const bd_plan_request *from) {
  bd_plan_request out = *from;
  out.full = false;
  out.progress = NULL;
  return out;
}

static bd_status look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                      const bd_plan_request *request, double limit_seconds, double seconds,
                      const bd_plan **out_best) {
  const bd_deadline deadline = {bd_clock_seconds() + limit_seconds, request->stop};
  bd_module targeted = *train;
  bd_full_alone alone;
  *out_best = NULL;
  targeted.cuda = strcmp(request->target, "cuda") == 0;
  BD_TRY(bd_full_look_alone(ctx, &targeted, cluster, request, deadline, seconds, &alone));
  for (int i = 0; i < alone.count; i++)
    if (!*out_best || alone.plans[i].step_seconds < (*out_best)->step_seconds)
      *out_best = &alone.plans[i];
  return BD_OK;
}

bd_status bd_plan_tell_groups(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                              const bd_plan_request *request, double limit_seconds, bd_plan *plan) {
  bd_plan_request rough = ask(request);
  const bd_plan *best;
  double enough = plan->step_seconds * WORTH_TELLING;
  rough.rough = true;
  rough.slow_seconds = plan->step_seconds;
  BD_TRY(look(ctx, train, cluster, &rough, limit_seconds, enough, &best));
  if (!best || best->step_seconds >= enough) return BD_OK;
  bd_alternatives_add(ctx, best, cluster, plan);
  const char *groups = bd_full_name_groups(ctx, cluster, best);
  bd_warn(ctx, BD_NOWHERE,
          "%s alone takes %.4g s a step, the whole cluster %.4g s, as every device works like the "
          "slowest of them; give %s, or search with --space full",
          groups, best->step_seconds, plan->step_seconds, name(ctx, cluster, groups));
  return BD_OK;
}

bd_status bd_plan_tell_fitting_groups(bd_ctx *ctx, const bd_module *train,
                                      const bd_cluster *cluster, const bd_plan_request *request,
                                      double limit_seconds) {
  bd_plan_request any = ask(request);
  const bd_plan *plan;
  any.any = true;
  BD_TRY(look(ctx, train, cluster, &any, limit_seconds, INFINITY, &plan));
  if (!plan) return BD_OK;
  const char *groups = bd_full_name_groups(ctx, cluster, plan);
  bd_note(
      ctx, BD_NOWHERE,
      "every device is taken for the smallest of them: there is a plan on %s alone; give %s, or "
      "search with --space full",
      groups, name(ctx, cluster, groups));
  return BD_OK;
}
