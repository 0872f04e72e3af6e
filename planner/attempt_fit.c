#include "planner/attempt_fit.h"
#include "planner/assemble.h"
#include <math.h>

enum {
  // Plans looked at, from the fastest to ever leaner ones, until the exact bytes of one fit.
  CAP_ROUNDS = 24,
  LEARN_ROUNDS = 2, // the first of these, by what stages of the plan before held beside
  TRY_ROUNDS = 3,   // the same where a setting is only tried
  LEAN_ROUNDS = 4,  // ... and where only leaner plans are wanted
};
// A guard: branches are counted, so that plans do not depend on time.
#define PIPELINE_LIMIT_SECONDS 600.0
#define LEAST_SECONDS 0.01

bool bd_attempt_is_late(const bd_attempt *a) {
  return bd_deadline_passed(a->deadline);
}

static double seconds_left(const bd_attempt *a) {
  return fmax(fmin(a->deadline.seconds - bd_clock_seconds(), PIPELINE_LIMIT_SECONDS),
              LEAST_SECONDS);
}

static void offer(bd_attempt *a, const bd_plan *plan) {
  int64_t bytes = bd_attempt_plan_bytes(plan);
  if (bytes <= a->scene->cap_bytes) {
    if (plan->step_seconds >= a->cutoff) return;
    a->fits = true;
    a->fastest = *plan;
    a->cutoff = plan->step_seconds;
  } else if (!a->lacks || bytes < a->leanest_bytes) {
    a->lacks = true;
    a->leanest = *plan;
    a->leanest_bytes = bytes;
  }
}

static bd_status assemble(bd_ctx *ctx, const bd_attempt *a, const bd_pipeline_problem *problem,
                          const bd_pipeline *pipeline, bd_plan *out) {
  const bd_scene *scene = a->scene;
  BD_TRY(
      bd_plan_assemble(ctx, scene->request, scene->cluster, problem, &a->setting, pipeline, out));
  out->cap_bytes = scene->cap_bytes;
  return bd_plan_predict(ctx, scene->train, scene->cluster, out);
}

static bd_status solve_leanest(bd_ctx *ctx, bd_attempt *a, const bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  bd_pipeline_leanest(ctx, problem, &pipeline);
  if (!pipeline.feasible) return BD_OK;
  BD_TRY(assemble(ctx, a, problem, &pipeline, &plan));
  offer(a, &plan);
  return BD_OK;
}

// What stages of a plan hold beside what its pipeline says.
static const double *learn_beside(bd_ctx *ctx, const bd_attempt *a,
                                  const bd_pipeline_problem *problem, const bd_pipeline *pipeline,
                                  const bd_plan *plan) {
  double *beside = BD_NEW_ARRAY(ctx->arena, double, problem->stages);
  bd_pipeline_stage_bytes(problem, pipeline->count, pipeline->entry, beside);
  int64_t library = a->scene->cap_bytes - a->scene->layers_cap_bytes;
  for (int s = 0; s < problem->stages; s++)
    beside[s] = (double)(plan->predicted[s].memory.total_bytes - library) - beside[s] +
                bd_pipeline_beside_bytes(problem, s);
  return beside;
}

// Of the fullest stage, with nothing beside its layers.
static int64_t plain_bytes(const bd_pipeline_problem *problem, const bd_pipeline *pipeline) {
  bd_pipeline_problem plain = *problem;
  plain.beside_bytes = NULL;
  return (int64_t)bd_pipeline_bytes(&plain, pipeline->count, pipeline->entry);
}

// The exact bytes are known only of a whole plan. The next plan is the fastest whose stages have as
// much beside as those of the last; then, with nothing beside, the fastest that the program thinks
// leaner than all before; when many have been too large, the room shrinks by what they exceed it.
bd_status bd_attempt_solve_pipeline(bd_ctx *ctx, bd_attempt *a, bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  bool known = isfinite(a->cutoff), learns = true, none = false;
  int64_t leanest = INT64_MAX;
  problem->rough |= a->lean;
  if (a->lean || a->hopeless) BD_TRY(solve_leanest(ctx, a, problem));
  if (a->hopeless || (a->lean && a->fits)) return BD_OK;
  int rounds = a->scene->request->any ? 0 : a->lean ? LEAN_ROUNDS : CAP_ROUNDS;
  for (int round = 0; round < rounds && problem->cap_bytes > 0 && !bd_attempt_is_late(a); round++) {
    int64_t over = 1;
    BD_TRY(bd_pipeline_solve(ctx, problem, seconds_left(a), a->cutoff, &pipeline));
    none = !pipeline.feasible && !problem->beside_bytes;
    if (none) break;
    learns = learns && pipeline.feasible && round < LEARN_ROUNDS;
    if (pipeline.feasible) {
      BD_TRY(assemble(ctx, a, problem, &pipeline, &plan));
      offer(a, &plan);
      over = bd_attempt_plan_bytes(&plan) - a->scene->cap_bytes;
      if (over <= 0) return BD_OK;
      int64_t bytes = plain_bytes(problem, &pipeline);
      if (bytes < leanest) leanest = bytes;
    }
    problem->beside_bytes = learns ? learn_beside(ctx, a, problem, &pipeline, &plan) : NULL;
    if (!learns) problem->cap_bytes = leanest - (round < rounds / 2 ? 1 : over);
  }
  bool enough = a->lean || a->fits || (known && (none || a->price <= 0));
  return enough ? BD_OK : solve_leanest(ctx, a, problem);
}

bd_status bd_attempt_try_pipeline(bd_ctx *ctx, bd_attempt *a, bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  for (int round = 0; round < TRY_ROUNDS && problem->cap_bytes > 0; round++) {
    bd_pipeline_estimate(ctx, problem, &pipeline);
    if (!pipeline.feasible) break;
    BD_TRY(assemble(ctx, a, problem, &pipeline, &plan));
    int64_t over = bd_attempt_plan_bytes(&plan) - a->scene->cap_bytes;
    if (over <= 0) {
      offer(a, &plan);
      break;
    }
    problem->cap_bytes = pipeline.bytes - over;
  }
  return BD_OK;
}
