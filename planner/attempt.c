#include "planner/attempt.h"
#include "planner/pipeline/pipeline.h"
#include "planner/pipeline/shared.h"
#include <math.h>
#include <string.h>

enum {
  // Plans looked at, from the fastest to ever leaner ones, until the exact bytes of one fit.
  CAP_ROUNDS = 24,
  PRICE_ROUNDS = 6, // of asking the layers for candidates at the price that the pipeline has
};
// A guard: branches are counted, so that plans do not depend on time.
#define PIPELINE_LIMIT_SECONDS 600.0

int64_t bd_attempt_plan_bytes(const bd_plan *plan) {
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most) most = plan->predicted[s].memory.total_bytes;
  return most;
}

static bd_status bound_apart(bd_ctx *ctx, bd_attempt *a) {
  a->bounded = BD_NEW(ctx->arena, bd_bounded);
  a->bounded_count = 1;
  return bd_bound_apart(ctx, a->scene, &a->setting, a->bounded);
}

static bd_status bound_layers(bd_ctx *ctx, bd_attempt *a) {
  bd_sharding *tied;
  int count = bd_space_tied_forms(ctx, &a->setting.mesh, a->scene->runs->any_tied, &tied);
  bd_setting_layers first, layers;
  bool opened = false;
  a->bounded = BD_NEW_ARRAY(ctx->arena, bd_bounded, count);
  for (int t = 0; t < count; t++) {
    bd_bounded *out = &a->bounded[a->bounded_count];
    out->setting = a->setting;
    out->setting.tied_form = tied[t];
    out->price = a->bounded_count ? out[-1].price : 0; // the tables of most layers are the same
    if (!bd_constraints_allow_tied(a->scene->request->constraints, &out->setting.mesh, &tied[t]))
      continue;
    BD_TRY(bd_setting_open(ctx, a->scene, &out->setting, opened ? &first : NULL, &layers));
    if (!opened) first = layers;
    opened = true;
    bd_bound_layers(ctx, a->scene, &layers, a->cutoff, out);
    if (isfinite(out->bytes)) a->bounded_count++;
  }
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
  BD_TRY(bd_pipeline_leanest(ctx, problem, PIPELINE_LIMIT_SECONDS, &pipeline));
  if (!pipeline.feasible) return BD_OK;
  BD_TRY(assemble(ctx, a, problem, &pipeline, &plan));
  offer(a, &plan);
  return BD_OK;
}

// The exact bytes are known only of a whole plan. The next plan is the fastest that the program
// thinks leaner than the last; when many have been too large, the room shrinks by what they exceed
// it.
static bd_status solve_pipeline(bd_ctx *ctx, bd_attempt *a, bd_pipeline_problem *problem) {
  bd_pipeline pipeline;
  bd_plan plan;
  bool known = isfinite(a->cutoff);
  if (a->lean) BD_TRY(solve_leanest(ctx, a, problem));
  if (a->lean && a->fits) return BD_OK;
  for (int round = 0; round < CAP_ROUNDS && problem->cap_bytes > 0; round++) {
    BD_TRY(bd_pipeline_solve(ctx, problem, PIPELINE_LIMIT_SECONDS, a->cutoff, &pipeline));
    if (!pipeline.feasible) break;
    BD_TRY(assemble(ctx, a, problem, &pipeline, &plan));
    offer(a, &plan);
    int64_t over = bd_attempt_plan_bytes(&plan) - a->scene->cap_bytes;
    if (over <= 0) return BD_OK;
    problem->cap_bytes = pipeline.bytes - (round < CAP_ROUNDS / 2 ? 1 : over);
  }
  return a->lean || a->fits || (known && a->price <= 0) ? BD_OK : solve_leanest(ctx, a, problem);
}

// Numbers the forms that candidates have from 0; returns how many.
static int number_forms(bd_ctx *ctx, const bd_setting_layers *layers, int run_count,
                        bd_pipeline_run *runs, bd_sharding *out_forms) {
  int count = 0, *number = BD_NEW_ARRAY(ctx->arena, int, layers->form_count);
  memset(number, -1, sizeof *number * (size_t)layers->form_count);
  for (int r = 0; r < run_count; r++) {
    bd_layer_candidate *list =
        BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, runs[r].candidate_count);
    for (int k = 0; k < runs[r].candidate_count; k++) {
      list[k] = runs[r].candidates[k];
      if (number[list[k].form] < 0) {
        out_forms[count] = layers->forms[list[k].form];
        number[list[k].form] = count++;
      }
      list[k].form = number[list[k].form];
    }
    runs[r].candidates = list;
  }
  return count;
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

static bd_pipeline_problem pose_empty(bd_ctx *ctx, const bd_attempt *a, int zero) {
  const bd_plan_request *request = a->scene->request;
  bd_pipeline_problem problem = {
      .solver = request->solver,
      .stages = a->setting.stages,
      .micro_batches = (int)(request->global_batch / a->setting.micro_batch),
      .schedule = bd_scene_schedule(a->scene),
      .zero = zero,
      .run_count = a->scene->runs->count,
      .cap_bytes = a->scene->layers_cap_bytes,
      .sends_held = a->scene->train->cuda,
      .rough = request->rough,
  };
  int *least, *most;
  bd_constraints_cuts(ctx, request->constraints, problem.stages, a->scene->runs->calls, &least,
                      &most);
  problem.cut_least = least;
  problem.cut_most = most;
  return problem;
}

// A run's candidates for another run whose layers pose the same problem.
static const bd_layer_candidate *named_after(bd_ctx *ctx, const bd_pipeline_run *run,
                                             const bd_function *function) {
  bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, run->candidate_count);
  for (int k = 0; k < run->candidate_count; k++) {
    list[k] = run->candidates[k];
    list[k].strategy.name = list[k].strategy.function = function->name;
  }
  return list;
}

// The candidates of every run as they were measured, by run; runs that pose the problem of an
// earlier one have none of their own.
typedef struct measured {
  bd_setting_layers layers;
  bd_layer_candidate **candidates;
  int *count;
} measured;

// Layers that are the same as `before`, with another tied form, keep their candidates; NULL: there
// are none. False when a run has no candidates.
static bd_status measure(bd_ctx *ctx, const bd_attempt *a, int in_flight, const measured *before,
                         measured *out, bool *out_possible) {
  const bd_model_runs *runs = a->scene->runs;
  *out_possible = false;
  BD_TRY(
      bd_setting_open(ctx, a->scene, &a->setting, before ? &before->layers : NULL, &out->layers));
  out->candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate *, runs->count);
  out->count = BD_NEW_ARRAY(ctx->arena, int, runs->count);
  for (int r = 0; r < runs->count; r++) {
    if (runs->runs[r].like < r) continue;
    if (before && before->layers.layers[r] == out->layers.layers[r]) {
      out->candidates[r] = before->candidates[r];
      out->count[r] = before->count[r];
    } else {
      BD_TRY(bd_layer_candidates(ctx, out->layers.layers[r], in_flight, a->price,
                                 &out->candidates[r], &out->count[r]));
    }
    if (!out->count[r]) return BD_OK;
  }
  *out_possible = true;
  return BD_OK;
}

static bd_pipeline_problem pose(bd_ctx *ctx, const bd_attempt *a, int zero, const measured *m) {
  bd_pipeline_problem problem = pose_empty(ctx, a, zero);
  bd_pipeline_run *runs = BD_NEW_ARRAY(ctx->arena, bd_pipeline_run, problem.run_count);
  for (int r = 0; r < problem.run_count; r++) {
    const bd_run *run = &a->scene->runs->runs[r];
    runs[r] = (bd_pipeline_run){.calls = run->calls,
                                .candidate_count = m->count[run->like],
                                .candidates = m->candidates[run->like]};
    if (run->like < r) runs[r].candidates = named_after(ctx, &runs[r], run->function);
  }
  bd_sharding *forms = BD_NEW_ARRAY(ctx->arena, bd_sharding, m->layers.form_count);
  bd_shared_set_apart(ctx, a->scene, &a->setting, runs, &problem);
  problem.form_count = number_forms(ctx, &m->layers, problem.run_count, runs, forms);
  for (int r = 0; r < problem.run_count; r++)
    bd_setting_hand_on(ctx, a->scene, &a->setting, r, problem.form_count, forms, &runs[r]);
  problem.runs = runs;
  return problem;
}

// Candidates at the price of a byte of one stage.
static bd_status reprice(bd_ctx *ctx, const bd_attempt *a, const bd_pipeline_problem *problem,
                         int stage, double price, measured *m, bool *any) {
  const bd_model_runs *runs = a->scene->runs;
  int in_flight =
      bd_schedule_in_flight(problem->schedule, stage, problem->stages, problem->micro_batches);
  for (int r = 0; r < runs->count; r++) {
    bool added;
    if (runs->runs[r].like < r) continue;
    BD_TRY(bd_layer_reprice(ctx, m->layers.layers[r], in_flight, price, runs->runs[r].calls,
                            &m->candidates[r], &m->count[r], &added));
    *any |= added;
  }
  return BD_OK;
}

// Candidates near those that a stage uses.
static bd_status polish(bd_ctx *ctx, const bd_attempt *a, const bd_pipeline_problem *problem,
                        const bd_pipeline *pipeline, int stage, bool others, measured *m,
                        bool *any) {
  const bd_model_runs *runs = a->scene->runs;
  bd_layer_stage at = {.in_flight = bd_schedule_in_flight(problem->schedule, stage, problem->stages,
                                                          problem->micro_batches),
                       .zero = problem->zero,
                       .price = pipeline->price[stage]};
  for (int r = 0; r < runs->count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      int like = runs->runs[r].like;
      bool added;
      if (!pipeline->count[bd_pipeline_index(problem, stage, r, k)]) continue;
      at.layers = runs->runs[r].calls;
      BD_TRY(bd_layer_polish(ctx, m->layers.layers[like], &at, others,
                             &problem->runs[r].candidates[k], &m->candidates[like], &m->count[like],
                             &added));
      *any |= added;
    }
  return BD_OK;
}

// Asks for candidates about those that a quick solution uses. Where a model has many layers, they
// mix what is best at several prices.
static bd_status ask(bd_ctx *ctx, const bd_attempt *a, int zero, bool others, measured *m,
                     bool *out_any) {
  bool between = m->layers.requests[0].between;
  bd_pipeline pipeline;
  bd_pipeline_problem problem = pose(ctx, a, zero, m);
  *out_any = false;
  bd_pipeline_estimate(ctx, &problem, &pipeline);
  for (int s = 0; pipeline.price && s < problem.stages; s++) {
    BD_TRY(polish(ctx, a, &problem, &pipeline, s, others, m, out_any));
    if (between && pipeline.price[s] > 0 && (s == 0 || pipeline.price[s] != pipeline.price[s - 1]))
      BD_TRY(reprice(ctx, a, &problem, s, pipeline.price[s], m, out_any));
  }
  return BD_OK;
}

// Until there are no new ones.
static bd_status improve(bd_ctx *ctx, const bd_attempt *a, int zero, measured *m) {
  bool any = true;
  for (int round = 0; round < PRICE_ROUNDS && any; round++)
    BD_TRY(ask(ctx, a, zero, false, m, &any));
  return BD_OK;
}

// Where that beats the plan at hand, candidates are looked for farther off.
static bd_status solve_states(bd_ctx *ctx, bd_attempt *a, int zero, measured *m) {
  double before = a->cutoff;
  bd_pipeline_problem problem = pose(ctx, a, zero, m);
  bool any;
  BD_TRY(solve_pipeline(ctx, a, &problem));
  if (a->cutoff >= before || a->lean) return BD_OK;
  BD_TRY(ask(ctx, a, zero, true, m, &any));
  if (!any) return BD_OK;
  problem = pose(ctx, a, zero, m);
  return solve_pipeline(ctx, a, &problem);
}

// With the tied form at hand, with the optimizer's state split and without, where that is open.
// `*last`: what was measured with the form before, nothing at first, and with this one.
static bd_status solve_tied(bd_ctx *ctx, bd_attempt *a, measured *last) {
  measured m;
  bool possible;
  int most = may_split(a), least = may_be_whole(a) ? 0 : most;
  bd_pipeline_problem problem = pose_empty(ctx, a, most);
  int in_flight = bd_schedule_in_flight(problem.schedule, 0, problem.stages, problem.micro_batches);
  BD_TRY(measure(ctx, a, in_flight, last->count ? last : NULL, &m, &possible));
  if (!possible) return BD_OK;
  for (int zero = most; zero >= least; zero--)
    BD_TRY(improve(ctx, a, zero, &m));
  for (int zero = most; zero >= least; zero--)
    BD_TRY(solve_states(ctx, a, zero, &m));
  *last = m;
  return BD_OK;
}

static bd_status solve(bd_ctx *ctx, bd_attempt *a) {
  measured last = {0};
  for (int t = 0; t < a->tied_count; t++) {
    if (a->tied[t].seconds >= a->cutoff && isfinite(a->cutoff)) continue;
    a->setting = a->tied[t].setting;
    a->price = a->tied[t].price;
    a->solved++;
    BD_TRY(solve_tied(ctx, a, &last));
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
  static bd_status (*const run[])(bd_ctx *, bd_attempt *) = {bound_apart, bound_layers, bound_room,
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
