// The pipeline search: every degree, mesh and micro-batch, each bounded by the op table, then by
// its layer problems, before it is solved; the least bound first, until none can beat the
// incumbent.
#include "planner/alternatives.h"
#include "planner/bound.h"
#include "planner/pipeline.h"
#include "planner/planner.h"
#include "planner/refuse.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum {
  // Plans looked at, from the fastest to ever leaner ones, until the exact bytes of one fit.
  CAP_ROUNDS = 24,
  FINER_DEVICES = 64,
  DIVE_FACTOR = 2, // more settings bounded before one is solved out of turn again
};
#define PIPELINE_LIMIT_SECONDS 10.0

typedef enum bound_kind { BOUND_WORK, BOUND_LAYERS, BOUND_DONE } bound_kind;

// A setting and what no plan of it can beat. By its work alone it stands for all tied forms.
typedef struct item {
  bd_setting setting;
  bound_kind kind;
  double seconds, bytes;
} item;

typedef struct search {
  bd_ctx *ctx;
  bd_scene scene;
  bd_model_runs runs;
  double deadline;
  bool cut; // the time ran out before the space was searched
  int item_count, item_capacity;
  item *items;
  bd_plan best;
  bool found;
  bd_plan leanest; // of all that do not fit
  int64_t leanest_bytes;
  int settings, bounded, solved;
  int usual, next_dive; // where the look for usual settings stands; settings bounded by then
  bd_alternatives alternatives;
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

// What a setting takes to work on is large and not needed after it: it lives in an arena of its
// own.
typedef struct scratch {
  bd_arena *kept, *arena; // the caller's, and the one beside it
  bd_owned held;
} scratch;

static void destroy_arena(void *arena) {
  bd_arena_destroy(arena);
}

static void enter_scratch(bd_ctx *ctx, scratch *s) {
  s->kept = ctx->arena;
  s->arena = bd_ctx_create_arena(ctx);
  bd_own(ctx, &s->held, destroy_arena, s->arena);
  ctx->arena = s->arena;
}

static void leave_scratch(bd_ctx *ctx, scratch *s) {
  bd_disown(ctx, &s->held);
  bd_arena_destroy(s->arena);
  ctx->arena = s->kept;
}

static void add_item(search *s, const bd_setting *setting, bound_kind kind, double seconds,
                     double bytes) {
  if (s->item_count == s->item_capacity) {
    int wanted = s->item_capacity ? 2 * s->item_capacity : 256;
    s->items = bd_arena_grow(s->ctx->arena, s->items, (size_t)s->item_count, (size_t)wanted,
                             sizeof *s->items);
    s->item_capacity = wanted;
  }
  s->items[s->item_count++] = (item){*setting, kind, seconds, bytes};
}

// Three axes are tried on clusters where that leaves the space small. A pinned mesh may have axes
// that the space does not.
static int stage_meshes(search *s, int devices, bd_mesh **out_meshes) {
  const bd_plan_request *request = s->scene.request;
  const bd_cluster *cluster = s->scene.cluster;
  bool finer = bd_cluster_devices(cluster) <= FINER_DEVICES;
  if (!request->mesh.axes && !bd_constraints_have_degrees(request->constraints))
    return bd_space_meshes(s->ctx, devices, finer ? cluster->devices_per_node : 0, out_meshes);
  *out_meshes = BD_NEW(s->ctx->arena, bd_mesh);
  if (!request->mesh.axes) return bd_constraints_mesh(request->constraints, devices, *out_meshes);
  **out_meshes = request->mesh;
  return bd_mesh_devices(&request->mesh) == devices;
}

static bd_status add_stages(search *s, int stages) {
  const bd_plan_request *request = s->scene.request;
  bd_mesh *meshes;
  int count = stage_meshes(s, bd_cluster_devices(s->scene.cluster) / stages, &meshes);
  for (int64_t micro = 1; micro <= request->global_batch; micro++) {
    if (request->global_batch % micro) continue;
    if (request->micro_batch && micro != request->micro_batch) continue;
    double seconds;
    if (count) BD_TRY(bd_bound_work(s->ctx, &s->scene, stages, micro, &seconds));
    for (int m = 0; m < count; m++) {
      if (!bd_constraints_allow_setting(request->constraints, stages, &meshes[m], micro)) continue;
      bd_setting setting = {stages, meshes[m], micro, bd_sharding_replicated()};
      add_item(s, &setting, BOUND_WORK, seconds, 0);
      s->settings++;
    }
  }
  return BD_OK;
}

static bd_status add_all(search *s) {
  int devices = bd_cluster_devices(s->scene.cluster), layers = 0;
  for (int r = 0; r < s->runs.count; r++)
    layers += s->runs.runs[r].calls;
  for (int stages = 1; stages <= devices && stages <= layers && stages <= BD_MAX_STAGES; stages++)
    if (devices % stages == 0 && (!s->scene.request->stages || stages == s->scene.request->stages))
      BD_TRY(add_stages(s, stages));
  return BD_OK;
}

// An item of settings becomes one for each tied form, bounded by its layers.
static bd_status bound_item(search *s, const item *from) {
  const bd_setting *setting = &from->setting;
  scratch own;
  enter_scratch(s->ctx, &own);
  bd_sharding *tied;
  int count = bd_space_tied_forms(s->ctx, &setting->mesh, s->runs.any_tied, &tied);
  bd_setting_layers first, layers;
  bd_status status = BD_OK;
  for (int t = 0; t < count && status == BD_OK; t++) {
    bd_setting one = *setting;
    double seconds, bytes;
    one.tied_form = tied[t];
    if (!bd_constraints_allow_tied(s->scene.request->constraints, &one.mesh, &one.tied_form))
      continue;
    status = bd_setting_open(s->ctx, &s->scene, &one, t ? &first : NULL, &layers);
    if (status != BD_OK) break;
    if (t == 0) first = layers;
    bd_bound_layers(s->ctx, &s->scene, &one, &layers, &seconds, &bytes);
    seconds = fmax(seconds, from->seconds);
    s->ctx->arena = own.kept;
    if (isfinite(bytes)) add_item(s, &one, BOUND_LAYERS, seconds, bytes);
    s->ctx->arena = own.arena;
  }
  leave_scratch(s->ctx, &own);
  s->bounded++;
  return status;
}

static void offer(search *s, bd_arena *kept, const bd_plan *plan) {
  int64_t bytes = plan_bytes(plan), lacking = bytes - s->scene.cap_bytes;
  bd_arena *arena = s->ctx->arena;
  s->ctx->arena = kept;
  bd_alternatives_note_plan(s->ctx, &s->alternatives, plan, lacking);
  if (lacking > 0 && (!s->leanest_bytes || bytes < s->leanest_bytes)) {
    s->leanest = bd_plan_copy(s->ctx, plan);
    s->leanest_bytes = bytes;
  } else if (lacking <= 0 && (!s->found || plan->step_seconds < s->best.step_seconds)) {
    s->best = bd_plan_copy(s->ctx, plan);
    s->found = true;
  }
  s->ctx->arena = arena;
}

// Splitting the optimizer's state costs nothing and holds less, so plans are solved with it; where
// it is not needed, the plan does without.
static bd_status assemble(search *s, const bd_pipeline_problem *problem, const bd_setting *setting,
                          const bd_pipeline *pipeline, bd_plan *out) {
  const bd_scene *scene = &s->scene;
  BD_TRY(bd_plan_assemble(s->ctx, scene->request, scene->cluster, problem, setting, pipeline, out));
  out->cap_bytes = scene->cap_bytes;
  BD_TRY(bd_plan_predict(s->ctx, scene->train, scene->cluster, out));
  if (!out->zero_axes || scene->request->zero >= 0) return BD_OK;
  bd_plan whole = *out;
  whole.zero_axes = 0;
  BD_TRY(bd_plan_predict(s->ctx, scene->train, scene->cluster, &whole));
  if (plan_bytes(&whole) <= scene->cap_bytes && whole.step_seconds <= out->step_seconds)
    *out = whole;
  return BD_OK;
}

// The exact bytes are known only of a whole plan. The next plan is the fastest that the program
// thinks leaner than the last; when many have been too large, the room shrinks by what they exceed
// it.
static bd_status solve_pipeline(search *s, bd_arena *kept, bd_pipeline_problem *problem,
                                const bd_setting *setting) {
  double cutoff = s->found ? s->best.step_seconds : INFINITY;
  bd_pipeline pipeline;
  bd_plan plan;
  for (int round = 0; round < CAP_ROUNDS && problem->cap_bytes > 0; round++) {
    BD_TRY(bd_pipeline_solve(s->ctx, problem, PIPELINE_LIMIT_SECONDS, cutoff, &pipeline));
    if (!pipeline.feasible) break;
    BD_TRY(assemble(s, problem, setting, &pipeline, &plan));
    offer(s, kept, &plan);
    int64_t over = plan_bytes(&plan) - s->scene.cap_bytes;
    if (over <= 0) return BD_OK;
    problem->cap_bytes = pipeline.bytes - (round < CAP_ROUNDS / 2 ? 1 : over);
  }
  if (s->found) return BD_OK;
  BD_TRY(bd_pipeline_leanest(s->ctx, problem, PIPELINE_LIMIT_SECONDS, &pipeline));
  if (!pipeline.feasible) return BD_OK;
  BD_TRY(assemble(s, problem, setting, &pipeline, &plan));
  offer(s, kept, &plan);
  return BD_OK;
}

// Numbers the forms that candidates have from 0; returns how many.
static int number_forms(search *s, const bd_setting_layers *layers, int run_count,
                        bd_pipeline_run *runs, bd_sharding *out_forms) {
  int count = 0, *number = BD_NEW_ARRAY(s->ctx->arena, int, layers->form_count);
  memset(number, -1, sizeof *number * (size_t)layers->form_count);
  for (int r = 0; r < run_count; r++) {
    bd_layer_candidate *list =
        BD_NEW_ARRAY(s->ctx->arena, bd_layer_candidate, runs[r].candidate_count);
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

// GPipe holds more than 1F1B and is no faster, so that it is used only when it is asked for or
// comes to the same.
static bd_pipeline_problem pose(const search *s, const bd_setting *setting) {
  const bd_plan_request *request = s->scene.request;
  bool split = bd_mesh_devices(&setting->mesh) > 1 && request->zero != 0;
  bd_pipeline_problem problem = {
      .stages = setting->stages,
      .micro_batches = (int)(request->global_batch / setting->micro_batch),
      .schedule = request->schedule < 0 ? BD_SCHEDULE_1F1B : (bd_schedule)request->schedule,
      .zero = split || request->zero == 1,
      .run_count = s->runs.count,
      .cap_bytes = s->scene.layers_cap_bytes,
      .sends_held = s->scene.train->cuda,
  };
  int layers = 0, *least, *most;
  for (int r = 0; r < s->runs.count; r++)
    layers += s->runs.runs[r].calls;
  bd_constraints_cuts(s->ctx, request->constraints, problem.stages, layers, &least, &most);
  problem.cut_least = least;
  problem.cut_most = most;
  return problem;
}

static bd_status solve_scratch(search *s, bd_arena *kept, const bd_setting *setting) {
  bd_setting_layers layers;
  BD_TRY(bd_setting_open(s->ctx, &s->scene, setting, NULL, &layers));
  bd_pipeline_problem problem = pose(s, setting);
  int in_flight = bd_schedule_in_flight(problem.schedule, 0, problem.stages, problem.micro_batches);
  bd_pipeline_run *runs = BD_NEW_ARRAY(s->ctx->arena, bd_pipeline_run, s->runs.count);
  for (int r = 0; r < s->runs.count; r++) {
    bd_layer_candidate *candidates;
    runs[r].calls = s->runs.runs[r].calls;
    BD_TRY(bd_layer_candidates(s->ctx, layers.layers[r], in_flight, &candidates,
                               &runs[r].candidate_count));
    if (!runs[r].candidate_count) return BD_OK;
    runs[r].candidates = candidates;
  }
  bd_sharding *forms = BD_NEW_ARRAY(s->ctx->arena, bd_sharding, layers.form_count);
  problem.form_count = number_forms(s, &layers, s->runs.count, runs, forms);
  for (int r = 0; r < s->runs.count; r++)
    bd_setting_hand_on(s->ctx, &s->scene, setting, r, problem.form_count, forms, &runs[r]);
  problem.runs = runs;
  s->solved++;
  return solve_pipeline(s, kept, &problem, setting);
}

static bd_status solve_item(search *s, const item *from) {
  bd_setting setting = from->setting;
  scratch own;
  enter_scratch(s->ctx, &own);
  bd_status status = solve_scratch(s, own.kept, &setting);
  leave_scratch(s->ctx, &own);
  return status;
}

// The item of the least bound, the earlier one of equals; `bounded`: of those whose layers are.
static int next_item(const search *s, bool bounded) {
  int next = -1;
  for (int i = 0; i < s->item_count; i++)
    if (s->items[i].kind != BOUND_DONE && isfinite(s->items[i].seconds) &&
        (!bounded || s->items[i].kind == BOUND_LAYERS) &&
        (next < 0 || s->items[i].seconds < s->items[next].seconds))
      next = i;
  return next;
}

// Whether a setting looks like what people choose: the near axis of the mesh fills a node, and the
// far one splits the batch down to a sample or two.
static bool is_usual(const search *s, const bd_setting *setting) {
  int devices = bd_mesh_devices(&setting->mesh), node = s->scene.cluster->devices_per_node;
  int near = setting->mesh.size[setting->mesh.axes - 1];
  if (setting->mesh.axes > 2 || near != (devices < node ? devices : node)) return false;
  int64_t samples = setting->micro_batch / (devices / near);
  return setting->micro_batch % (devices / near) == 0 && samples >= 1 && samples <= 2;
}

// The least bound first would bound many settings before it solved one. So the usual ones come
// first, and now and then, the best of those that are bounded has its turn: there is a plan early.
static int turn(search *s) {
  while (s->usual < s->settings) {
    int next = s->usual++;
    if (is_usual(s, &s->items[next].setting)) return next;
  }
  if (s->bounded >= s->next_dive) {
    s->next_dive = s->bounded + 1 + s->bounded * DIVE_FACTOR;
    int dive = next_item(s, true);
    if (dive >= 0 && (!s->found || s->items[dive].seconds < s->best.step_seconds)) return dive;
  }
  return next_item(s, false);
}

static bool out_of_time(search *s) {
  s->cut = now_seconds() > s->deadline && (s->found || s->leanest_bytes);
  return s->cut;
}

static bd_status search_fastest(search *s) {
  for (int i = turn(s); i >= 0 && !out_of_time(s); i = turn(s)) {
    item from = s->items[i];
    if (s->found && (s->scene.request->any || from.seconds >= s->best.step_seconds)) break;
    BD_TRY(from.kind == BOUND_WORK ? bound_item(s, &from) : solve_item(s, &from));
    // What an item has become carries its bound on.
    s->items[i].kind = BOUND_DONE;
    if (from.kind == BOUND_WORK) s->items[i].seconds = INFINITY;
  }
  return BD_OK;
}

// When nothing fits, settings that cannot fit are looked at as well, the leanest first.
static bd_status search_leanest(search *s) {
  while (!s->found && !out_of_time(s)) {
    int next = -1;
    for (int i = 0; i < s->item_count; i++)
      if (s->items[i].kind == BOUND_LAYERS &&
          (next < 0 || s->items[i].bytes < s->items[next].bytes))
        next = i;
    if (next < 0) break;
    if (s->leanest_bytes && s->items[next].bytes >= (double)s->leanest_bytes) break;
    item from = s->items[next];
    s->items[next].kind = BOUND_DONE;
    BD_TRY(solve_item(s, &from));
  }
  return BD_OK;
}

// What no plan of the space beats, searched or not.
static double space_bound(const search *s) {
  double least = s->best.step_seconds;
  for (int i = 0; i < s->item_count; i++)
    least = fmin(least, s->items[i].seconds);
  return least;
}

// Whether anything holds less than the leanest plan: the same search under a cap one byte below it,
// until it finds nothing. So what a refusal asks for is exact as far as this search can tell.
static bd_status confirm_leanest(search *s) {
  while (!s->found && s->leanest_bytes && !s->cut) {
    search again = {.ctx = s->ctx, .runs = s->runs, .scene = s->scene, .deadline = s->deadline};
    int64_t less = s->scene.cap_bytes - (s->leanest_bytes - 1);
    again.scene.runs = &again.runs;
    again.scene.cap_bytes -= less;
    again.scene.layers_cap_bytes -= less;
    BD_TRY(add_all(&again));
    BD_TRY(search_fastest(&again));
    s->cut = again.cut;
    if (!again.found) break;
    s->leanest = again.best;
    s->leanest_bytes = plan_bytes(&again.best);
    if (s->leanest_bytes > s->scene.cap_bytes) continue;
    s->best = again.best;
    s->found = true;
  }
  return BD_OK;
}

// What the plan in hand came to.
static void report(search *s, bd_search_outcome *out) {
  *out = (bd_search_outcome){.found = s->found, .cut = s->cut, .cap_bytes = s->scene.cap_bytes};
  out->plan = s->found ? s->best : s->leanest;
  if (!s->found) {
    out->lacking_bytes = s->leanest_bytes ? s->leanest_bytes - s->scene.cap_bytes : 0;
    return;
  }
  bd_plan *plan = &out->plan;
  plan->bound_seconds = space_bound(s);
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : INFINITY;
  plan->search =
      bd_intern_f(s->ctx, "%s: of %d settings %d bounded by their layers, %d pipelines solved",
                  s->cut ? "stopped by the time limit" : "whole space searched", s->settings,
                  s->bounded, s->solved);
  for (int i = 0; i < s->item_count; i++)
    bd_alternatives_note_bound(s->ctx, &s->alternatives, s->items[i].setting.stages,
                               &s->items[i].setting.mesh, s->items[i].seconds);
  bd_alternatives_list(s->ctx, &s->alternatives, plan);
}

bd_status bd_plan_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_plan_request *request, bd_search_outcome *out) {
  bd_module targeted = *train;
  targeted.cuda = strcmp(request->target, "cuda") == 0;
  search s = {.ctx = ctx, .runs = bd_model_runs_find(ctx, &targeted, request->constraints)};
  int64_t cap = cluster->memory_bytes - cluster->reserved_bytes;
  if (request->cap_bytes && request->cap_bytes < cap) cap = request->cap_bytes;
  s.scene = (bd_scene){&targeted,
                       cluster,
                       request,
                       &s.runs,
                       request->sequence,
                       cap,
                       cap - (targeted.cuda ? BD_LIBRARY_BYTES : 0)};
  s.deadline = now_seconds() + request->limit_seconds;
  BD_TRY(add_all(&s));
  BD_TRY(search_fastest(&s));
  BD_TRY(search_leanest(&s));
  BD_TRY(confirm_leanest(&s));
  report(&s, out);
  return BD_OK;
}

bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, bd_plan *out_plan) {
  bd_search_outcome outcome;
  BD_TRY(bd_plan_look(ctx, train, cluster, request, &outcome));
  if (!outcome.found) return bd_plan_refuse(ctx, train, cluster, request, &outcome);
  *out_plan = outcome.plan;
  return BD_OK;
}
