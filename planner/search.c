// The pipeline search: every degree, mesh, micro-batch, boundary and schedule, each bounded before
// it is solved and dropped when it cannot beat the incumbent.
#include "planner/assemble.h"
#include "planner/layer_cache.h"
#include "planner/pipeline.h"
#include "planner/planner.h"
#include "planner/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Plans looked at, from the fastest to ever leaner ones, until the exact bytes of one fit.
#define CAP_ROUNDS 24
#define LAYER_LIMIT_SECONDS 10.0
#define PIPELINE_LIMIT_SECONDS 10.0

// A setting and what no plan of it can beat.
typedef struct bounded {
  bd_setting setting;
  bool known; // whether the time sufficed to find the bound; else it is 0
  double bound_seconds;
  int index; // in the order of enumeration
} bounded;

typedef struct search {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  bd_model_runs runs;
  int64_t cap_bytes;
  double bound_deadline, deadline;
  bool cut; // the time ran out before the space was searched
  bd_layer_cache *cache;
  bounded *settings;
  int setting_count, setting_capacity;
  bd_plan best;
  bool found;
  bd_plan leanest; // of all that do not fit
  int64_t leanest_bytes;
  int tried, dropped;
  bd_alternative *alternatives;
  int alternative_count, alternative_capacity;
} search;

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t plan_bytes(const bd_plan *plan) {
  int64_t most = 0;
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most) most = plan->predicted[s].memory.total_bytes;
  return most;
}

static bd_alternative *find_alternative(search *s, const char *what) {
  for (int i = 0; i < s->alternative_count; i++)
    if (strcmp(s->alternatives[i].what, what) == 0) return &s->alternatives[i];
  if (s->alternative_count == s->alternative_capacity) {
    int wanted = s->alternative_capacity ? 2 * s->alternative_capacity : 16;
    s->alternatives = bd_arena_grow(s->ctx->arena, s->alternatives, (size_t)s->alternative_count,
                                    (size_t)wanted, sizeof *s->alternatives);
    s->alternative_capacity = wanted;
  }
  s->alternatives[s->alternative_count] = (bd_alternative){what, INFINITY, INT64_MAX};
  return &s->alternatives[s->alternative_count++];
}

// Alternatives are the meshes and degrees, each with its best plan.
static void note_alternative(search *s, const bd_plan *plan, int64_t lacking) {
  const char *mesh = "";
  for (int a = 0; a < plan->mesh.axes; a++)
    mesh = bd_intern_f(s->ctx, "%s%s%d", mesh, a ? "x" : "", plan->mesh.size[a]);
  const char *what = bd_intern_f(s->ctx, "stages=%d mesh=%s", plan->stages, mesh);
  bd_alternative *entry = find_alternative(s, what);
  if (lacking <= 0 && plan->step_seconds < entry->step_seconds) {
    entry->step_seconds = plan->step_seconds;
    entry->lacking_bytes = 0;
  } else if (lacking > 0 && isinf(entry->step_seconds) && lacking < entry->lacking_bytes) {
    entry->lacking_bytes = lacking;
  }
}

static void offer(search *s, const bd_plan *plan) {
  int64_t bytes = plan_bytes(plan), lacking = bytes - s->cap_bytes;
  note_alternative(s, plan, lacking);
  if (lacking > 0) {
    if (s->leanest_bytes && bytes >= s->leanest_bytes) return;
    s->leanest = *plan;
    s->leanest_bytes = bytes;
  } else if (!s->found || plan->step_seconds < s->best.step_seconds) {
    s->best = *plan;
    s->found = true;
  }
}

static bd_status assemble(search *s, const bd_pipeline_problem *problem, const bd_setting *setting,
                          const int *count, bd_plan *out) {
  BD_TRY(bd_plan_assemble(s->ctx, s->request, s->cluster, problem, setting, count, out));
  out->cap_bytes = s->cap_bytes;
  return bd_plan_predict(s->ctx, s->train, s->cluster, out);
}

// The exact bytes are known only of a whole plan. The next plan is the fastest that the program
// thinks leaner than the last; when many have been too large, the room shrinks by what they exceed
// it.
static bd_status solve_setting(search *s, bd_pipeline_problem *problem, const bd_setting *setting) {
  double cutoff = s->found ? s->best.step_seconds : INFINITY;
  bd_pipeline pipeline;
  bd_plan plan;
  for (int round = 0; round < CAP_ROUNDS && problem->cap_bytes > 0; round++) {
    BD_TRY(bd_pipeline_solve(s->ctx, problem, PIPELINE_LIMIT_SECONDS, cutoff, &pipeline));
    if (!pipeline.feasible) break;
    BD_TRY(assemble(s, problem, setting, pipeline.count, &plan));
    offer(s, &plan);
    int64_t over = plan_bytes(&plan) - s->cap_bytes;
    if (over <= 0) return BD_OK;
    problem->cap_bytes = pipeline.bytes - (round < CAP_ROUNDS / 2 ? 1 : over);
  }
  if (s->found) return BD_OK;
  BD_TRY(bd_pipeline_leanest(s->ctx, problem, PIPELINE_LIMIT_SECONDS, &pipeline));
  if (!pipeline.feasible) return BD_OK;
  BD_TRY(assemble(s, problem, setting, pipeline.count, &plan));
  offer(s, &plan);
  return BD_OK;
}

static double boundary_seconds(const search *s, const bd_setting *setting,
                               const bd_pipeline_run *run) {
  bd_cost_model cost = {s->cluster, setting->mesh, setting->micro_batch};
  const bd_link *link = bd_cost_stage_link(&cost);
  return link->latency_seconds + (double)run->candidates[0].boundary_bytes / link->bytes_per_second;
}

static bd_layer_request layer_request(const search *s, const bd_setting *setting, int run) {
  int micro_batches = (int)(s->request->global_batch / setting->micro_batch);
  return (bd_layer_request){
      .train = s->train,
      .cost = {s->cluster, setting->mesh, setting->micro_batch},
      .function = s->runs.runs[run].function,
      .tied = s->runs.runs[run].tied,
      .boundary = setting->boundary,
      .micro_batches = micro_batches,
      .in_flight = micro_batches < setting->stages ? micro_batches : setting->stages,
      .optimizer = s->request->optimizer,
      .recompute = s->request->recompute,
      .limit_seconds = LAYER_LIMIT_SECONDS,
  };
}

// No plan of the setting takes less. With T the layers' time for a micro-batch, Y their
// synchronization, S stages and m micro-batches, the sum of stages is T, the slowest takes T/S or
// more and the longest synchronization Y/S or more: a step takes (S + m - 1)/S (T + Y/(S + m - 1))
// or more.
static bd_status find_bound(search *s, const bd_setting *setting, double *out_seconds) {
  int passes = (int)(s->request->global_batch / setting->micro_batch) + setting->stages - 1;
  *out_seconds = 0;
  for (int r = 0; r < s->runs.count && isfinite(*out_seconds); r++) {
    bd_layer_request request = layer_request(s, setting, r);
    request.micro_batches = passes;
    double seconds;
    BD_TRY(bd_layer_cache_bound(s->ctx, s->cache, &request, &seconds));
    *out_seconds += s->runs.runs[r].calls * seconds;
  }
  *out_seconds *= (double)passes / setting->stages;
  return BD_OK;
}

// Candidates of every run; false when some run has none.
static bd_status find_candidates(search *s, const bd_setting *setting, bd_pipeline_run *runs,
                                 bool *out_any) {
  *out_any = true;
  for (int r = 0; r < s->runs.count && *out_any; r++) {
    bd_layer_request request = layer_request(s, setting, r);
    bd_layer_candidate *candidates;
    runs[r].first = s->runs.runs[r].first;
    runs[r].calls = s->runs.runs[r].calls;
    BD_TRY(bd_layer_cache_candidates(s->ctx, s->cache, &request, &candidates,
                                     &runs[r].candidate_count));
    runs[r].candidates = candidates;
    *out_any = runs[r].candidate_count > 0;
  }
  return BD_OK;
}

// Whether a schedule and ZeRO come to the same as 1F1B or none.
static bool is_same(const search *s, const bd_setting *setting, bd_schedule schedule, int zero) {
  bool one_pass = setting->stages == 1 || setting->micro_batch == s->request->global_batch;
  if (one_pass && s->request->schedule < 0 && schedule == BD_SCHEDULE_GPIPE) return true;
  return bd_mesh_devices(&setting->mesh) == 1 && s->request->zero < 0 && zero == 1;
}

// What a layer's share is taken from: the cap less what every rank of a GPU program holds. Messages
// on their way between stages are counted when the plan is whole.
static int64_t layers_cap(const search *s) {
  return s->cap_bytes - (s->train->cuda ? BD_LIBRARY_BYTES : 0);
}

static bd_status try_setting(search *s, const bd_setting *setting) {
  bd_pipeline_run *runs = BD_NEW_ARRAY(s->ctx->arena, bd_pipeline_run, s->runs.count);
  bool any;
  BD_TRY(find_candidates(s, setting, runs, &any));
  if (!any) return BD_OK;
  int micro_batches = (int)(s->request->global_batch / setting->micro_batch);
  double send = boundary_seconds(s, setting, &runs[0]);
  for (int schedule = BD_SCHEDULE_COUNT - 1; schedule >= 0;
       schedule--) // 1F1B holds less: it wins ties
    for (int zero = 0; zero < 2; zero++) {
      bool pinned = (s->request->schedule >= 0 && schedule != s->request->schedule) ||
                    (s->request->zero >= 0 && zero != s->request->zero);
      if (pinned || is_same(s, setting, (bd_schedule)schedule, zero)) continue;
      bd_pipeline_problem problem = {
          setting->stages, micro_batches, (bd_schedule)schedule, zero, s->runs.count, runs, send,
          layers_cap(s)};
      s->tried++;
      BD_TRY(solve_setting(s, &problem, setting));
    }
  return BD_OK;
}

static bool mesh_pinned_away(const bd_plan_request *request, const bd_mesh *mesh) {
  if (!request->mesh.axes) return false;
  if (request->mesh.axes != mesh->axes) return true;
  for (int a = 0; a < mesh->axes; a++)
    if (request->mesh.size[a] != mesh->size[a]) return true;
  return false;
}

static bd_status add_setting(search *s, const bd_setting *setting) {
  double bound = 0;
  bool known = now_seconds() <= s->bound_deadline;
  if (known) BD_TRY(find_bound(s, setting, &bound));
  if (isinf(bound)) return BD_OK;
  if (s->setting_count == s->setting_capacity) {
    int wanted = s->setting_capacity ? 2 * s->setting_capacity : 64;
    s->settings = bd_arena_grow(s->ctx->arena, s->settings, (size_t)s->setting_count,
                                (size_t)wanted, sizeof *s->settings);
    s->setting_capacity = wanted;
  }
  s->settings[s->setting_count] = (bounded){*setting, known, bound, s->setting_count};
  s->setting_count++;
  return BD_OK;
}

static bd_status bound_mesh(search *s, int stages, const bd_mesh *mesh) {
  const bd_plan_request *request = s->request;
  for (int64_t micro = 1; micro <= request->global_batch; micro++) {
    if (request->global_batch % micro) continue;
    if (request->micro_batch && micro != request->micro_batch) continue;
    bd_boundary *boundaries;
    int count =
        bd_space_boundaries(s->ctx, mesh, micro, request->sequence, s->runs.any_tied, &boundaries);
    for (int b = 0; b < count; b++) {
      bd_setting setting = {stages, *mesh, micro, boundaries[b]};
      BD_TRY(add_setting(s, &setting));
    }
  }
  return BD_OK;
}

static bd_status bound_all(search *s) {
  int devices = bd_cluster_devices(s->cluster), layers = 0;
  for (int r = 0; r < s->runs.count; r++)
    layers += s->runs.runs[r].calls;
  for (int stages = 1; stages <= devices && stages <= layers && stages <= BD_MAX_STAGES; stages++) {
    if (devices % stages || (s->request->stages && stages != s->request->stages)) continue;
    bd_mesh *meshes;
    int count = bd_space_meshes(s->ctx, devices / stages, &meshes);
    for (int m = 0; m < count; m++)
      if (!mesh_pinned_away(s->request, &meshes[m])) BD_TRY(bound_mesh(s, stages, &meshes[m]));
  }
  return BD_OK;
}

static int by_bound(const void *left, const void *right) {
  const bounded *a = left, *b = right;
  if (a->known != b->known) return a->known ? -1 : 1;
  if (a->bound_seconds != b->bound_seconds) return a->bound_seconds < b->bound_seconds ? -1 : 1;
  return a->index - b->index;
}

// The most promising first; those without a bound last.
static bd_status try_all(search *s) {
  if (s->setting_count) qsort(s->settings, (size_t)s->setting_count, sizeof *s->settings, by_bound);
  for (int i = 0; i < s->setting_count; i++) {
    if (s->found && s->settings[i].bound_seconds >= s->best.step_seconds) {
      s->dropped++;
      continue;
    }
    if (now_seconds() > s->deadline && (s->found || s->leanest_bytes)) {
      s->cut = true;
      break;
    }
    BD_TRY(try_setting(s, &s->settings[i].setting));
  }
  return BD_OK;
}

// What no plan of the space beats, searched or not.
static double space_bound(const search *s) {
  double least = s->best.step_seconds;
  for (int i = 0; i < s->setting_count; i++)
    least = fmin(least, s->settings[i].bound_seconds);
  return least;
}

static bd_status refuse(search *s) {
  if (!s->leanest_bytes)
    return bd_fail(s->ctx, BD_INFEASIBLE, BD_NOWHERE,
                   "no plan runs '%s' on %d devices with these pins and a global batch of %lld",
                   s->request->model, bd_cluster_devices(s->cluster),
                   (long long)s->request->global_batch);
  bd_fail(
      s->ctx, BD_INFEASIBLE, BD_NOWHERE,
      "no plan fits: the leanest needs %lld bytes a rank, the cap is %lld: %lld bytes are lacking",
      (long long)s->leanest_bytes, (long long)s->cap_bytes,
      (long long)(s->leanest_bytes - s->cap_bytes));
  bd_note(s->ctx, BD_NOWHERE,
          "the nearest plan has %d stages, %d devices each, a micro-batch of %lld, schedule %s; a "
          "higher --memory-cap, more devices, or a smaller --seq would help",
          s->leanest.stages, bd_mesh_devices(&s->leanest.mesh), (long long)s->leanest.micro_batch,
          bd_schedule_name(s->leanest.schedule));
  return BD_INFEASIBLE;
}

bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, bd_plan *out_plan) {
  bd_module targeted = *train;
  targeted.cuda = strcmp(request->target, "cuda") == 0;
  search s = {.ctx = ctx, .train = &targeted, .cluster = cluster, .request = request};
  s.runs = bd_model_runs_find(ctx, &targeted);
  s.cap_bytes = cluster->memory_bytes - cluster->reserved_bytes;
  if (request->cap_bytes && request->cap_bytes < s.cap_bytes) s.cap_bytes = request->cap_bytes;
  s.deadline = now_seconds() + request->limit_seconds;
  s.bound_deadline = s.deadline - request->limit_seconds / 2; // the other half is for solving
  s.cache = bd_layer_cache_create(ctx);
  BD_TRY(bound_all(&s));
  BD_TRY(try_all(&s));
  if (!s.found) return refuse(&s);
  *out_plan = s.best;
  out_plan->bound_seconds = space_bound(&s);
  out_plan->gap =
      out_plan->bound_seconds > 0 ? s.best.step_seconds / out_plan->bound_seconds - 1 : INFINITY;
  out_plan->search =
      bd_intern_f(ctx, "%s: of %d settings %d dropped by their bound, %d programs solved",
                  s.cut ? "stopped by the time limit" : "whole space searched", s.setting_count,
                  s.dropped, s.tried);
  out_plan->alternatives = s.alternatives;
  out_plan->alternative_count = s.alternative_count;
  return BD_OK;
}
