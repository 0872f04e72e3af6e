#include "planner/attempt.h"
#include "planner/candidates.h"
#include <math.h>

enum {
  // Plans looked at, from the fastest to ever leaner ones, until the exact bytes of one fit.
  CAP_ROUNDS = 24,
  LEARN_ROUNDS = 2, // the first of these, by what stages of the plan before held beside
  TRY_ROUNDS = 3,   // the same where a setting is only tried
  LEAN_ROUNDS = 4,  // ... and where only leaner plans are wanted
  PRICE_ROUNDS = 6, // of asking the layers for candidates at the price that the pipeline has
};
// A guard: branches are counted, so that plans do not depend on time.
#define PIPELINE_LIMIT_SECONDS 600.0
#define LEAST_SECONDS 0.01
// Pipelines that exceed the cap by such a factor do not come down to it when candidates are
// improved: of those measured none came down by more than 1.4.
#define FAR_OVER 1.5
// Plans of few layers that are worse than the plan in hand by no more may be better once candidates
// are improved for them.
#define NEARLY 1.04

// Whether the search is over. What an attempt found until then is taken.
static bool is_late(const bd_attempt *a) {
  return bd_deadline_passed(a->deadline);
}

static double seconds_left(const bd_attempt *a) {
  return fmax(fmin(a->deadline.seconds - bd_clock_seconds(), PIPELINE_LIMIT_SECONDS),
              LEAST_SECONDS);
}

int64_t bd_attempt_plan_bytes(const bd_plan *plan) {
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most) most = plan->predicted[s].memory.total_bytes;
  return most;
}

static bd_status bound_apart(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = BD_NEW(ctx->arena, bd_bounded);
  a->bounded_count = 1;
  return bd_bound_apart(ctx, a->scene, &a->setting, a->cutoff, a->bounded);
}

static bd_status bound_sketch(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = BD_NEW(ctx->arena, bd_bounded);
  a->bounded_count = 1;
  return bd_bound_sketch(ctx, a->scene, &a->setting, a->cutoff, a->bounded);
}

// Of tied forms those that may beat the cutoff, whose layers are open, the least bound first.
static void bound_open_room(bd_ctx *ctx, bd_attempt *a, const bd_setting_layers *layers) {
  bd_setting_layers *of = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, a->bounded_count);
  int *from = BD_NEW_ARRAY(ctx->arena, int, a->bounded_count), count = 0;
  bd_bounded *bounded = BD_NEW_ARRAY(ctx->arena, bd_bounded, a->bounded_count);
  for (int t = 0; t < a->bounded_count; t++) {
    if (a->bounded[t].seconds >= a->cutoff) continue;
    int at = count++;
    for (; at > 0 && a->bounded[from[at - 1]].seconds > a->bounded[t].seconds; at--)
      from[at] = from[at - 1];
    from[at] = t;
  }
  for (int i = 0; i < count; i++) {
    of[i] = layers[from[i]];
    bounded[i] = a->bounded[from[i]];
  }
  bd_bound_room(ctx, a->scene, count, of, a->cutoff, bounded);
  for (int i = 0; i < count; i++)
    a->bounded[from[i]] = bounded[i];
}

// Where a sketch left the setting in doubt, layers seldom tell without workspaces.
static bd_status bound_layers(bd_ctx *ctx, bd_attempt *a) {
  bd_setting *tied;
  int count = bd_setting_tied_forms(ctx, a->scene, &a->setting, &tied);
  bd_setting_layers first, *layers = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, count);
  a->bounded = BD_NEW_ARRAY(ctx->arena, bd_bounded, count);
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &a->bounded[a->bounded_count];
    bd_setting_layers *open = &layers[a->bounded_count];
    out->setting = tied[t];
    out->price = a->bounded_count ? out[-1].price : a->tied[0].price; // most layers are the same
    BD_TRY(bd_setting_open(ctx, a->scene, &tied[t], t ? &first : NULL, open));
    if (!t) first = *open;
    bd_bound_layers(ctx, a->scene, open, a->cutoff, out);
    if (isfinite(out->bytes)) a->bounded_count++;
  }
  if (a->sketched) bound_open_room(ctx, a, layers);
  return BD_OK;
}

static bd_status bound_room(bd_ctx *ctx, bd_attempt *a) {
  bd_setting_layers *layers = BD_NEW_ARRAY(ctx->arena, bd_setting_layers, a->tied_count);
  a->bounded = bd_arena_copy(ctx->arena, a->tied, a->tied_count, sizeof *a->bounded);
  a->bounded_count = a->tied_count;
  for (int t = 0; t < a->tied_count; t++)
    BD_TRY(bd_setting_open(ctx, a->scene, &a->tied[t].setting, t ? &layers[0] : NULL, &layers[t]));
  bd_bound_room(ctx, a->scene, a->tied_count, layers, a->cutoff, a->bounded);
  return BD_OK;
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
static bd_status solve_pipeline(bd_ctx *ctx, bd_attempt *a, bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  bool known = isfinite(a->cutoff), learns = true, none = false;
  int64_t leanest = INT64_MAX;
  problem->rough |= a->lean;
  if (a->lean || a->hopeless) BD_TRY(solve_leanest(ctx, a, problem));
  if (a->hopeless || (a->lean && a->fits)) return BD_OK;
  int rounds = a->scene->request->any ? 0 : a->lean ? LEAN_ROUNDS : CAP_ROUNDS;
  for (int round = 0; round < rounds && problem->cap_bytes > 0 && !is_late(a); round++) {
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

// Whether the optimizer's state may be split over replicas, and be whole.
static bool may_split(const bd_attempt *a) {
  const bd_plan_request *r = a->scene->request;
  return bd_mesh_devices(&a->setting.mesh) > 1
             ? bd_constraints_split_states(r->constraints, r->zero)
             : !bd_constraints_allow_zero(r->constraints, r->zero, 0);
}

static bool may_be_whole(const bd_attempt *a) {
  const bd_plan_request *r = a->scene->request;
  return bd_constraints_allow_zero(r->constraints, r->zero, 0);
}

static bool is_far_over(bd_ctx *ctx, const bd_candidates *c, int zero) {
  bd_pipeline pipeline;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, c, zero);
  bd_pipeline_leanest(ctx, &problem, &pipeline);
  return !pipeline.feasible || (double)pipeline.bytes > FAR_OVER * (double)problem.cap_bytes;
}

// Until there are no new ones. How much a rough comparison lacks is told by those it begins with.
static bd_status improve(bd_ctx *ctx, bd_attempt *a, int zero, bd_candidates *c) {
  bool any = true, lean = a->lean || a->hopeless;
  if (a->hopeless && a->scene->request->rough) return BD_OK;
  a->far_over = a->lean && !a->hopeless && is_far_over(ctx, c, zero);
  if (a->far_over) return BD_OK;
  for (int round = 0; round < PRICE_ROUNDS && lean && any && !is_late(a); round++)
    BD_TRY(bd_candidates_ask_leaner(ctx, c, zero, &any));
  any = true;
  for (int round = 0; round < PRICE_ROUNDS && any && !is_late(a); round++)
    BD_TRY(bd_candidates_ask(ctx, c, zero, false, &any));
  return BD_OK;
}

// Where that beats the plan at hand, candidates are looked for farther off.
static bd_status solve_states(bd_ctx *ctx, bd_attempt *a, int zero, bd_candidates *c) {
  double before = a->cutoff;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, c, zero);
  bool any;
  BD_TRY(solve_pipeline(ctx, a, &problem));
  if (a->cutoff >= before || a->lean || is_late(a)) return BD_OK;
  BD_TRY(bd_candidates_ask(ctx, c, zero, true, &any));
  if (!any) return BD_OK;
  problem = bd_candidates_pose(ctx, c, zero);
  return solve_pipeline(ctx, a, &problem);
}

// With the tied form at hand, with the optimizer's state split and without, where that is open.
// `*last`: the candidates with the form before, none at first, and with this one.
static bd_status solve_tied(bd_ctx *ctx, bd_attempt *a, bd_candidates *last) {
  bd_candidates own;
  bool possible;
  // States in parts hold no more than whole ones.
  bool lean = a->lean || a->hopeless;
  int most = may_split(a), least = may_be_whole(a) && !lean ? 0 : most;
  BD_TRY(bd_candidates_measure(ctx, a->scene, &a->setting, a->price, last->count ? last : NULL,
                               &own, &possible));
  if (!possible) return BD_OK;
  for (int zero = most; zero >= least; zero--)
    BD_TRY(improve(ctx, a, zero, &own));
  for (int zero = most; zero >= least; zero--)
    BD_TRY(solve_states(ctx, a, zero, &own));
  *last = own;
  return BD_OK;
}

// Of tied forms with which nothing fits, a rough search looks at the leanest alone.
static bool is_left_out(const bd_attempt *a, int tied) {
  const bd_bounded *of = &a->tied[tied];
  if (!a->scene->request->rough || isfinite(of->seconds)) return false;
  for (int t = 0; t < a->tied_count; t++)
    if (isfinite(a->tied[t].seconds) || a->tied[t].bytes < of->bytes ||
        (t < tied && a->tied[t].bytes == of->bytes))
      return true;
  return false;
}

// Among fewer choices candidates are better: where weights may lie in parts, bounds of bytes say
// little of workspaces. So a lean plan is also looked for with nothing but states in parts.
static bd_status solve_tied_whole(bd_ctx *ctx, bd_attempt *a) {
  const bd_scene *scene = a->scene;
  bd_plan_request request = *scene->request;
  bd_scene narrow = *scene;
  bd_candidates none = {0};
  if (bd_mesh_devices(&a->setting.mesh) == 1 || request.zero >= 0 ||
      !bd_constraints_allow_zero(request.constraints, request.zero, 1))
    return BD_OK;
  request.zero = 1;
  narrow.request = bd_arena_copy(ctx->arena, &request, 1, sizeof request);
  a->scene = bd_arena_copy(ctx->arena, &narrow, 1, sizeof narrow);
  bd_status status = solve_tied(ctx, a, &none);
  a->scene = scene;
  return status;
}

static bd_status solve(bd_ctx *ctx, bd_attempt *a) {
  bd_candidates last = {0};
  bool few = bd_model_has_few_layers(a->scene->runs);
  if (few && !a->lean && !a->scene->request->rough) a->cutoff *= NEARLY;
  for (int t = 0; t < a->tied_count && !is_late(a); t++) {
    if (a->tied[t].seconds >= a->cutoff && isfinite(a->cutoff)) continue;
    if (is_left_out(a, t)) continue;
    a->setting = a->tied[t].setting;
    a->price = a->tied[t].price.seconds;
    a->hopeless = isinf(a->tied[t].seconds);
    a->far_over = false;
    a->solved++;
    BD_TRY(solve_tied(ctx, a, &last));
    if (a->lean && !a->hopeless && !a->fits && !a->far_over) BD_TRY(solve_tied_whole(ctx, a));
  }
  return BD_OK;
}

// A plan without much ado: the first candidates of the tied form of the least bound, a pipeline
// that is constructed and not solved.
static bd_status try_out(bd_ctx *ctx, bd_attempt *a) {
  bd_candidates own;
  bd_pipeline pipeline;
  bd_plan plan;
  bool possible;
  a->setting = a->tied[0].setting;
  BD_TRY(bd_candidates_measure(ctx, a->scene, &a->setting, a->tied[0].price.seconds, NULL, &own,
                               &possible));
  if (!possible) return BD_OK;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, &own, may_split(a));
  for (int round = 0; round < TRY_ROUNDS && problem.cap_bytes > 0; round++) {
    bd_pipeline_estimate(ctx, &problem, &pipeline);
    if (!pipeline.feasible) break;
    BD_TRY(assemble(ctx, a, &problem, &pipeline, &plan));
    int64_t over = bd_attempt_plan_bytes(&plan) - a->scene->cap_bytes;
    if (over <= 0) {
      offer(a, &plan);
      break;
    }
    problem.cap_bytes = pipeline.bytes - over;
  }
  return BD_OK;
}

static void keep_results(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = bd_arena_grow(ctx->arena, a->bounded, (size_t)a->bounded_count,
                             (size_t)a->bounded_count, sizeof *a->bounded);
  if (a->fits) a->fastest = bd_plan_copy(ctx, &a->fastest);
  if (a->lacks) a->leanest = bd_plan_copy(ctx, &a->leanest);
}

// What an attempt works on is large and not needed after it: it lives in an arena of its own.
bd_status bd_attempt_run(bd_ctx *ctx, bd_attempt *attempt) {
  static bd_status (*const run[])(bd_ctx *, bd_attempt *) = {
      bound_apart, bound_sketch, bound_layers, bound_room, try_out, solve};
  bd_owned held;
  bd_arena *kept = ctx->arena, *own = bd_ctx_open_arena(ctx, &held);
  ctx->arena = own;
  bd_status status = run[attempt->kind](ctx, attempt);
  ctx->arena = kept;
  if (status == BD_OK) keep_results(ctx, attempt);
  bd_ctx_close_arena(ctx, &held);
  return status;
}
