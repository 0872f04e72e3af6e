#include "planner/candidates.h"
#include "planner/pipeline/label.h"
#include "planner/pipeline/shared.h"
#include "planner/pipeline/skip.h"
#include <math.h>
#include <string.h>

// Options that few layers may use where the others are fast are wanted as well.
#define BELOW_FACTOR 1.02

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

static bd_pipeline_problem pose_empty(bd_ctx *ctx, const bd_candidates *c, int zero) {
  const bd_plan_request *request = c->scene->request;
  bd_pipeline_problem problem = {
      .solver = request->solver,
      .stages = c->setting.stages,
      .micro_batches = bd_scene_micro_batches(c->scene, c->setting.micro_batch),
      .schedule = bd_scene_schedule(c->scene),
      .zero = zero,
      .run_count = c->scene->runs->count,
      .cap_bytes = c->scene->layers_cap_bytes,
      .sends_held = c->scene->train->cuda,
      .rough = request->rough && !request->exact,
  };
  int *least, *most;
  bd_constraints_cuts(ctx, request->constraints, problem.stages, c->scene->runs->calls, &least,
                      &most);
  problem.cut_least = least;
  problem.cut_most = most;
  return problem;
}

bd_layer_candidate *bd_candidates_named_after(bd_ctx *ctx, int count,
                                              const bd_layer_candidate *candidates,
                                              const bd_function *function) {
  bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, count);
  for (int k = 0; k < count; k++) {
    list[k] = candidates[k];
    list[k].strategy.name = list[k].strategy.function = function->name;
  }
  return list;
}

// No layers: no plan is as fast as the options that are wanted.
static bd_status open_layers(bd_ctx *ctx, double below, const bd_candidates *before,
                             bd_candidates *out) {
  const bd_setting_layers *share = before ? &before->layers : NULL;
  bd_bounded own = {.setting = out->setting};
  if (isinf(below) || (share && !share->sketches))
    return bd_setting_open(ctx, out->scene, &out->setting, share, &out->layers);
  return bd_setting_open_below(ctx, out->scene, below * BELOW_FACTOR, share, 1, &own, &out->layers);
}

bd_status bd_candidates_measure(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                double price, double below, const bd_candidates *before,
                                bd_candidates *out, bool *out_possible) {
  const bd_model_runs *runs = scene->runs;
  int micro_batches = bd_scene_micro_batches(scene, setting->micro_batch);
  int in_flight =
      bd_schedule_in_flight(bd_scene_schedule(scene), 0, setting->stages, micro_batches);
  *out_possible = false;
  *out = (bd_candidates){.scene = scene,
                         .setting = *setting,
                         .list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate *, runs->count),
                         .count = BD_NEW_ARRAY(ctx->arena, int, runs->count)};
  BD_TRY(open_layers(ctx, below, before, out));
  for (int r = 0; r < runs->count; r++) {
    if (runs->runs[r].like < r) continue;
    if (!out->layers.layers) return BD_OK;
    if (before && before->layers.layers[r] == out->layers.layers[r]) {
      out->list[r] = before->list[r];
      out->count[r] = before->count[r];
    } else {
      BD_TRY(bd_layer_candidates(ctx, out->layers.layers[r], in_flight, price, &out->list[r],
                                 &out->count[r]));
    }
    if (!out->count[r]) return BD_OK;
  }
  *out_possible = true;
  return BD_OK;
}

bd_pipeline_problem bd_candidates_pose(bd_ctx *ctx, const bd_candidates *c, int zero) {
  bd_pipeline_problem problem = pose_empty(ctx, c, zero);
  bd_pipeline_run *runs = BD_NEW_ARRAY(ctx->arena, bd_pipeline_run, problem.run_count);
  for (int r = 0; r < problem.run_count; r++) {
    const bd_run *run = &c->scene->runs->runs[r];
    runs[r] = (bd_pipeline_run){.calls = run->calls,
                                .candidate_count = c->count[run->like],
                                .candidates = c->list[run->like]};
    if (run->like < r)
      runs[r].candidates = bd_candidates_named_after(ctx, runs[r].candidate_count,
                                                     runs[r].candidates, run->function);
  }
  bd_sharding *forms = BD_NEW_ARRAY(ctx->arena, bd_sharding, c->layers.form_count);
  bd_shared_set_apart(ctx, c->scene, &c->setting, runs, &problem);
  bd_stage_links links = bd_setting_links(ctx, c->scene, &c->setting);
  problem.link = links.of;
  problem.form_count = number_forms(ctx, &c->layers, problem.run_count, runs, forms);
  for (int r = 0; r < problem.run_count; r++)
    bd_setting_hand_on(ctx, c->scene, &c->setting, r, -1, &links, problem.form_count, forms,
                       &runs[r]);
  problem.runs = runs;
  if (bd_model_has_few_layers(c->scene->runs))
    bd_skips_find(ctx, c->scene, &c->setting, &links, problem.form_count, forms, &problem);
  return problem;
}

// Candidates at the price of a byte of one stage.
static bd_status reprice(bd_ctx *ctx, bd_candidates *c, const bd_pipeline_problem *problem,
                         int stage, double price, bool *any) {
  const bd_model_runs *runs = c->scene->runs;
  int in_flight =
      bd_schedule_in_flight(problem->schedule, stage, problem->stages, problem->micro_batches);
  for (int r = 0; r < runs->count; r++) {
    bool added;
    if (runs->runs[r].like < r) continue;
    BD_TRY(bd_layer_reprice(ctx, c->layers.layers[r], in_flight, price, runs->runs[r].calls,
                            &c->list[r], &c->count[r], &added));
    *any |= added;
  }
  return BD_OK;
}

// Candidates near those that a stage uses, as it has so much time for a byte.
static bd_status polish(bd_ctx *ctx, bd_candidates *c, const bd_pipeline_problem *problem,
                        const int *count, int stage, double price, bool others, bool *any) {
  const bd_model_runs *runs = c->scene->runs;
  bd_layer_stage at = {.in_flight = bd_schedule_in_flight(problem->schedule, stage, problem->stages,
                                                          problem->micro_batches),
                       .zero = problem->zero,
                       .price = price};
  for (int r = 0; r < runs->count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      int like = runs->runs[r].like;
      bool added;
      if (!count[bd_pipeline_index(problem, stage, r, k)]) continue;
      at.layers = runs->runs[r].calls;
      BD_TRY(bd_layer_polish(ctx, c->layers.layers[like], &at, others,
                             &problem->runs[r].candidates[k], &c->list[like], &c->count[like],
                             &added));
      *any |= added;
    }
  return BD_OK;
}

// Candidates between those of the forms that a stage uses.
static bd_status fill_between(bd_ctx *ctx, bd_candidates *c, const bd_pipeline_problem *problem,
                              const int *count, int stage, bool *any) {
  const bd_model_runs *runs = c->scene->runs;
  for (int r = 0; r < runs->count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *used = &problem->runs[r].candidates[k];
      int like = runs->runs[r].like;
      bool added;
      if (!count[bd_pipeline_index(problem, stage, r, k)]) continue;
      BD_TRY(bd_layer_fill_between(ctx, c->layers.layers[like], used, &c->list[like],
                                   &c->count[like], &added));
      *any |= added;
    }
  return BD_OK;
}

bd_status bd_candidates_ask_leaner(bd_ctx *ctx, bd_candidates *c, int zero, bool *out_any) {
  bd_pipeline pipeline;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, c, zero);
  *out_any = false;
  bd_pipeline_leanest(ctx, &problem, &pipeline);
  for (int s = 0; pipeline.feasible && s < problem.stages; s++) {
    BD_TRY(polish(ctx, c, &problem, pipeline.count, s, BD_ANY_PRICE, false, out_any));
    BD_TRY(reprice(ctx, c, &problem, s, BD_ANY_PRICE, out_any));
  }
  return BD_OK;
}

bd_status bd_candidates_ask(bd_ctx *ctx, bd_candidates *c, int zero, bool others, bool *out_any) {
  bool few = bd_model_has_few_layers(c->scene->runs);
  bd_pipeline pipeline;
  bd_pipeline_problem problem = bd_candidates_pose(ctx, c, zero);
  *out_any = false;
  bd_pipeline_estimate(ctx, &problem, &pipeline);
  if (!pipeline.feasible && few) return bd_candidates_ask_leaner(ctx, c, zero, out_any);
  if (others) bd_pipeline_label(ctx, &problem, INFINITY, pipeline.price, &pipeline);
  for (int s = 0; pipeline.price && s < problem.stages; s++) {
    double price = pipeline.price[s];
    BD_TRY(polish(ctx, c, &problem, pipeline.count, s, price, others, out_any));
    if (few && price > 0 && (s == 0 || price != pipeline.price[s - 1]))
      BD_TRY(reprice(ctx, c, &problem, s, price, out_any));
    if (few && price > 0 && others)
      BD_TRY(fill_between(ctx, c, &problem, pipeline.count, s, out_any));
  }
  return BD_OK;
}
