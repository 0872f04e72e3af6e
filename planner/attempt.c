#include "planner/attempt.h"
#include "planner/attempt_bound.h"
#include "planner/attempt_fit.h"
#include "planner/candidates.h"
#include <math.h>

enum { PRICE_ROUNDS = 6 }; // of asking the layers for candidates at the price of the pipeline
// Pipelines that exceed the cap by such a factor do not come down to it when candidates are
// improved: of those measured none came down by more than 1.4.
#define FAR_OVER 1.5
// Plans that are worse than the plan in hand by no more may be better once candidates are improved
// for them, those of few layers by more.
#define NEARLY 1.01
#define NEARLY_OF_FEW 1.04

int64_t bd_attempt_plan_bytes(const bd_plan *plan) {
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most) most = plan->predicted[s].memory.total_bytes;
  return most;
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

// Candidates of fine meshes are looked for among options of plans that are not much slower.
static double below(const bd_attempt *a) {
  return bd_setting_is_fine(&a->setting) ? a->cutoff : INFINITY;
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
  for (int round = 0; round < PRICE_ROUNDS && lean && any && !bd_attempt_is_late(a); round++)
    BD_TRY(bd_candidates_ask_leaner(ctx, c, zero, &any));
  any = true;
  for (int round = 0; round < PRICE_ROUNDS && any && !bd_attempt_is_late(a); round++)
    BD_TRY(bd_candidates_ask(ctx, c, zero, false, &any));
  return BD_OK;
}

// Where that beats the plan at hand, candidates are looked for farther off.
static bd_status solve_states(bd_ctx *ctx, bd_attempt *a, int zero, bd_candidates *c) {
  double before = a->cutoff;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, c, zero);
  bool any;
  BD_TRY(bd_attempt_solve_pipeline(ctx, a, &problem));
  if (a->cutoff >= before || a->lean || bd_attempt_is_late(a)) return BD_OK;
  BD_TRY(bd_candidates_ask(ctx, c, zero, true, &any));
  if (!any) return BD_OK;
  problem = bd_candidates_pose(ctx, c, zero);
  return bd_attempt_solve_pipeline(ctx, a, &problem);
}

// With the tied form at hand, with the optimizer's state split and without, where that is open.
// Where improved candidates give nothing that is wanted, the first ones may all the same.
// `*last`: the candidates with the form before, none at first, and with this one.
static bd_status solve_tied(bd_ctx *ctx, bd_attempt *a, bd_candidates *last) {
  bd_candidates own;
  bool possible;
  // States in parts hold no more than whole ones.
  bool lean = a->lean || a->hopeless;
  int most = may_split(a), least = may_be_whole(a) && !lean ? 0 : most;
  BD_TRY(bd_candidates_measure(ctx, a->scene, &a->setting, a->price, below(a),
                               last->count ? last : NULL, &own, &possible));
  if (!possible) return BD_OK;
  bd_pipeline_problem first = bd_candidates_pose(ctx, &own, most);
  for (int zero = most; zero >= least; zero--)
    BD_TRY(improve(ctx, a, zero, &own));
  for (int zero = most; zero >= least; zero--)
    BD_TRY(solve_states(ctx, a, zero, &own));
  *last = own;
  return lean || a->fits ? BD_OK : bd_attempt_try_pipeline(ctx, a, &first);
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
  if (!a->lean && !a->scene->request->rough) a->cutoff *= few ? NEARLY_OF_FEW : NEARLY;
  for (int t = 0; t < a->tied_count && !bd_attempt_is_late(a); t++) {
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
  bool possible;
  a->setting = a->tied[0].setting;
  BD_TRY(bd_candidates_measure(ctx, a->scene, &a->setting, a->tied[0].price.seconds, below(a), NULL,
                               &own, &possible));
  if (!possible) return BD_OK;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, &own, may_split(a));
  return bd_attempt_try_pipeline(ctx, a, &problem);
}

static void keep_results(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = bd_arena_grow(ctx->arena, a->bounded, (size_t)a->bounded_count,
                             (size_t)a->bounded_count, sizeof *a->bounded);
  if (a->fits) a->fastest = bd_plan_copy(ctx, &a->fastest);
  if (a->lacks) a->leanest = bd_plan_copy(ctx, &a->leanest);
}

// What an attempt works on is large and not needed after it: it lives in an arena of its own.
bd_status bd_attempt_run(bd_ctx *ctx, bd_attempt *attempt) {
  static bd_status (*const run[])(bd_ctx *, bd_attempt *) = {bd_attempt_bound_apart,
                                                             bd_attempt_bound_sketch,
                                                             bd_attempt_bound_layers,
                                                             bd_attempt_bound_room,
                                                             try_out,
                                                             solve};
  bd_owned held;
  bd_arena *kept = ctx->arena, *own = bd_ctx_open_arena(ctx, &held);
  ctx->arena = own;
  bd_status status = run[attempt->kind](ctx, attempt);
  ctx->arena = kept;
  if (status == BD_OK) keep_results(ctx, attempt);
  bd_ctx_close_arena(ctx, &held);
  return status;
}
