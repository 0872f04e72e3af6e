#include "planner/full/graphs.h"
#include "planner/full/question.h"
#include "planner/graph/lacking.h"
#include <math.h>
#include <string.h>

enum {
  MICRO_BATCHES = 6, // tried
  MOST_AHEAD = 8,    // graphs
  CAP_ROUNDS = 6,    // plans of one micro-batch, until the exact bytes of one fit
};

// What skips take is charged on every boundary, so that plans may be faster than their graph tells:
// those of up to so many times the best plan's seconds are looked at.
#define SKIPS_SLACK 1.25
// The same of the best plan's own stages, whose graph takes it for as many as are told, or else for
// a few percent more.
#define AGAIN_SLACK 1.05

#define LEANEST_WORK ((int64_t)1 << 25) // of a layer graph that has no plan within the caps

bd_full_graphs bd_full_graphs_open(bd_ctx *ctx, bd_workers *workers, int threads) {
  return (bd_full_graphs){.ctx = ctx,
                          .workers = workers,
                          .ahead = threads < 1            ? 1
                                   : threads < MOST_AHEAD ? threads
                                                          : MOST_AHEAD};
}

// By how much the fullest stage exceeds its devices' cap.
static int64_t lacking_bytes(const bd_full_graphs *g, const bd_plan *plan) {
  int64_t most = INT64_MIN;
  for (int stage = 0; stage < plan->stages; stage++) {
    int group =
        bd_full_group_of(g->space.groups, g->space.group_count, bd_plan_first_device(plan, stage));
    int64_t over = plan->predicted[stage].memory.total_bytes - g->space.groups[group].cap_bytes;
    if (over > most) most = over;
  }
  return most;
}

// Whether there is no more time, or the user wants no more.
static bool is_late(bd_full_graphs *g) {
  g->cut = g->cut || bd_deadline_passed(g->deadline);
  return bd_deadline_passed(g->deadline);
}

// Fills in the plan's predictions. The programs that they are read off are large.
static bd_status predict(bd_full_graphs *g, bd_plan *plan) {
  bd_owned held;
  bd_arena *kept = g->ctx->arena;
  g->ctx->arena = bd_ctx_open_arena(g->ctx, &held);
  bd_status status = bd_plan_predict(g->ctx, g->space.train, g->space.cluster, plan);
  g->ctx->arena = kept;
  if (status == BD_OK)
    plan->predicted = bd_stage_predictions_copy(g->ctx, plan->stages, plan->predicted);
  bd_ctx_close_arena(g->ctx, &held);
  return status;
}

// The plan of a layer graph's answer, which takes it for `told` seconds, and by how much it exceeds
// the caps by its exact bytes.
static bd_status take(bd_full_graphs *g, const bd_full_space *space, const bd_full_problem *problem,
                      const bd_layers_plan *of, double told, bd_plan *out_plan, int64_t *out_over) {
  bd_full_assemble(g->ctx, space, problem, of, out_plan);
  out_plan->cap_bytes = bd_plan_cap_bytes(g->space.cluster, g->space.request->cap_bytes, out_plan);
  BD_TRY(predict(g, out_plan));
  int64_t over = *out_over = lacking_bytes(g, out_plan);
  g->solved++;
  bd_alternatives_note_plan(g->ctx, &g->alternatives, out_plan, over);
  if (over <= 0 && (!g->found || out_plan->step_seconds < g->best.step_seconds)) {
    g->best = *out_plan;
    g->told_seconds = told;
    g->found = true;
  } else if (over > 0 && (!g->over_bytes || over < g->over_bytes)) {
    g->leanest = *out_plan;
    g->over_bytes = over;
  }
  return BD_OK;
}

// The problem has groups of its own from now on.
static bd_layers_group *copy_groups(const bd_full_graphs *g, bd_full_problem *problem) {
  bd_layers_group *groups =
      bd_arena_copy(g->ctx->arena, problem->layers.groups, g->space.group_count, sizeof *groups);
  problem->layers.groups = groups;
  return groups;
}

// Solves with less and less room until the exact bytes of a plan fit.
static bd_status try_question(bd_full_graphs *g, bd_full_questions *all, int index) {
  bd_layers_answer answer;
  bd_plan plan;
  int64_t over;
  bd_full_question *q = &all->items[index];
  if (!bd_full_is_open(g, q)) return BD_OK;
  g->posed += q->graphs;
  g->meshes += q->meshes;
  BD_TRY(bd_full_answer(g, all, index, &answer));
  bd_layers_group *groups = copy_groups(g, &q->problem);
  for (int round = 1; answer.found; round++) {
    BD_TRY(take(g, q->space, &q->problem, &answer.plan, answer.seconds, &plan, &over));
    if (over <= 0 || round == CAP_ROUNDS || is_late(g)) break;
    for (int i = 0; i < g->space.group_count; i++)
      groups[i].cap_bytes -= over + groups[i].cap_bytes / 256;
    BD_TRY(bd_layers_solve(g->ctx, &q->problem.layers, g->deadline, bd_full_cutoff(g, q), true,
                           &answer));
  }
  return BD_OK;
}

// The largest size up to `most` that divides the batch.
static int64_t largest_part(int64_t batch, int64_t most) {
  if (most > batch) most = batch;
  while (most > 1 && batch % most != 0)
    most--;
  return most;
}

static bool is_listed(int count, const int64_t *sizes, int64_t size) {
  for (int i = 0; i < count; i++)
    if (sizes[i] == size) return true;
  return false;
}

// Sizes that divide the batch: the near plan's and those about it, or ever larger ones; each about
// twice another.
static int list_micro_batches(const bd_full_graphs *g, const bd_plan *near, int64_t *out) {
  const bd_plan_request *request = g->space.request;
  int count = 0;
  static const int up[] = {1, 1, 1, 2, 1, 1, 4}, down[] = {1, 2, 4, 1, 8, 16, 1};
  static const bd_mesh one = {1, {1}};
  for (size_t i = 0; i < sizeof up / sizeof *up && count < MICRO_BATCHES; i++) {
    int64_t about = near ? near->micro_batch / down[i] * up[i] : (int64_t)1 << i;
    int64_t size = largest_part(request->global_batch, about);
    if (request->micro_batch) size = request->micro_batch;
    if (about > 0 && request->global_batch % size == 0 && !is_listed(count, out, size) &&
        bd_constraints_allow_micro_batch(request->constraints, &one, size))
      out[count++] = size;
  }
  return count;
}

// Poses the next layer graphs; `*out_more` false: there are none.
typedef bd_status (*posing)(bd_full_graphs *g, void *arg, bd_full_questions *all, bool *out_more);

// Graphs are posed as they are needed.
static bd_status try_all(bd_full_graphs *g, posing pose, void *arg) {
  bd_full_questions all = {0};
  bool more = true;
  for (int index = 0;; index++) {
    while (more && all.count - index < g->ahead && !is_late(g))
      BD_TRY(pose(g, arg, &all, &more));
    if (index == all.count || is_late(g)) return BD_OK;
    BD_TRY(try_question(g, &all, index));
  }
}

// With skips, by what a graph tells, a few stages may look better than more: 1, 2, 4 and so on are
// tried for themselves.
static void ask_stages(bd_full_graphs *g, bd_full_question *q, bd_full_questions *all) {
  bd_layers_problem *p = &q->problem.layers;
  int least = p->min_stages, most = p->max_stages;
  for (int stages = 1; q->problem.skips && stages <= most; stages *= 2) {
    if (stages < least) continue;
    p->min_stages = p->max_stages = stages;
    bd_full_ask(g, all, q);
    q->graphs = 0;
  }
  p->min_stages = least;
  p->max_stages = most;
  bd_full_ask(g, all, q);
  q->graphs = 0;
}

// Each schedule alone has all the work that a problem is given; what one finds cuts off the next.
// GPipe is no better than 1F1B.
static void ask_schedules(bd_full_graphs *g, const bd_full_problem *problem,
                          bd_full_questions *all) {
  unsigned schedules = problem->layers.schedules;
  bd_full_question q = {.space = &g->space, .problem = *problem, .slack = 1, .graphs = 1};
  if (problem->skips) q.slack = SKIPS_SLACK;
  if (schedules & 1u << BD_SCHEDULE_1F1B) schedules &= ~(1u << BD_SCHEDULE_GPIPE);
  for (int schedule = BD_SCHEDULE_COUNT - 1; schedule >= 0; schedule--) {
    q.problem.layers.schedules = schedules & 1u << schedule;
    if (q.problem.layers.schedules) ask_stages(g, &q, all);
  }
}

// Micro-batches, one after another.
typedef struct micro_batches {
  int count, next;
  int64_t sizes[MICRO_BATCHES];
} micro_batches;

static bd_status pose_size(bd_full_graphs *g, int64_t size, bd_full_problem *out,
                           bool *out_possible) {
  return bd_full_pose(g->ctx, g->workers, &g->space, size, g->deadline, out, out_possible);
}

static bd_status pose_next(bd_full_graphs *g, void *arg, bd_full_questions *all, bool *out_more) {
  micro_batches *m = arg;
  bd_full_problem problem;
  bool possible;
  *out_more = m->next < m->count;
  if (!*out_more) return BD_OK;
  BD_TRY(pose_size(g, m->sizes[m->next++], &problem, &possible));
  if (possible) ask_schedules(g, &problem, all);
  return BD_OK;
}

bd_status bd_full_look(bd_full_graphs *g, const bd_plan *near) {
  micro_batches m = {0};
  m.count = list_micro_batches(g, near, m.sizes);
  g->meshes += g->space.mode_count;
  return try_all(g, pose_next, &m);
}

// The leanest plan of a graph does not depend on the caps: all begin at those less the least of
// them.
static bd_status seek(bd_full_graphs *g, bd_full_problem *problem) {
  bd_layers_group *groups = copy_groups(g, problem);
  bd_layers_answer answer;
  bd_plan plan;
  int64_t over, least = INT64_MAX;
  for (int i = 0; i < g->space.group_count; i++)
    if (groups[i].cap_bytes < least) least = groups[i].cap_bytes;
  for (int i = 0; i < g->space.group_count; i++)
    groups[i].cap_bytes -= least;
  BD_TRY(bd_layers_find_lacking(g->ctx, &problem->layers, g->deadline, LEANEST_WORK, &answer));
  if (answer.lacking_bytes == INT64_MAX) return BD_OK;
  return take(g, &g->space, problem, &answer.plan, 0, &plan, &over);
}

bd_status bd_full_seek_leanest(bd_full_graphs *g, const bd_plan *near) {
  micro_batches m;
  m.count = list_micro_batches(g, near, m.sizes);
  for (m.next = 0; m.next < m.count && !g->found && !is_late(g); m.next++) {
    bd_full_problem problem;
    bool possible;
    BD_TRY(pose_size(g, m.sizes[m.next], &problem, &possible));
    if (possible) BD_TRY(seek(g, &problem));
  }
  return BD_OK;
}

// Parts of the space, one after another.
typedef struct least_parts {
  const bd_full_bounds *bounds;
  int next;
  double slack; // see bd_full_question
  bool more;    // see bd_full_space
} least_parts;

static bd_status pose_part(bd_full_graphs *g, void *arg, bd_full_questions *all, bool *out_more) {
  least_parts *parts = arg;
  bool possible;
  *out_more = parts->next < parts->bounds->least_count;
  if (!*out_more) return BD_OK;
  const bd_full_least *least = &parts->bounds->least[parts->next++];
  bd_full_question q = {.seconds = least->seconds, .slack = parts->slack, .graphs = 1};
  if (!bd_full_is_open(g, &q)) return BD_OK;
  bd_full_space *space = BD_NEW(g->ctx->arena, bd_full_space);
  bd_full_space_aim(g->ctx, &g->space, least->size_count, least->sizes, least->about_stages, space);
  space->more = parts->more;
  BD_TRY(bd_full_pose(g->ctx, g->workers, space, least->micro_batch, g->deadline, &q.problem,
                      &possible));
  if (!possible) return BD_OK;
  if (q.problem.skips) q.slack = SKIPS_SLACK;
  q.space = space;
  q.meshes = space->mode_count;
  q.problem.layers.schedules = 1u << least->schedule;
  q.problem.layers.chunk_count = 1;
  q.problem.layers.chunks = &least->chunks;
  q.problem.layers.min_stages = least->least_stages;
  q.problem.layers.max_stages = least->most_stages;
  bd_full_ask(g, all, &q);
  return BD_OK;
}

bd_status bd_full_look_at(bd_full_graphs *g, const bd_full_bounds *bounds) {
  least_parts parts = {bounds, 0, 1, false};
  return try_all(g, pose_part, &parts);
}

// The sizes of a plan's stages, as far as they are of the full space.
static void list_sizes(const bd_full_graphs *g, const bd_plan *plan, bd_full_least *out) {
  out->sizes = BD_NEW_ARRAY(g->ctx->arena, bd_floor_size, plan->stages);
  for (int s = 0; s < plan->stages; s++) {
    int devices = bd_mesh_devices(bd_plan_mesh(plan, s)), first = bd_plan_first_device(plan, s);
    int group = bd_full_group_of(g->space.groups, g->space.group_count, first), listed = 0;
    if (group < 0 || !bd_full_has_size(&g->space, group, devices)) continue;
    while (listed < out->size_count &&
           (out->sizes[listed].group != group || out->sizes[listed].devices != devices))
      listed++;
    if (listed == out->size_count) out->sizes[out->size_count++] = (bd_floor_size){group, devices};
  }
}

bd_status bd_full_look_again(bd_full_graphs *g, double bound) {
  bd_full_bounds own = {.least_count = 1};
  double told = g->told_seconds / g->best.step_seconds;
  least_parts parts = {&own, 0, fmax(AGAIN_SLACK, told), true};
  own.least[0] = (bd_full_least){.seconds = bound,
                                 .micro_batch = g->best.micro_batch,
                                 .schedule = g->best.schedule,
                                 .chunks = bd_plan_chunks(&g->best),
                                 .about_stages = g->best.stages,
                                 .least_stages = g->best.stages,
                                 .most_stages = g->best.stages};
  list_sizes(g, &g->best, &own.least[0]);
  return own.least[0].size_count ? try_all(g, pose_part, &parts) : BD_OK;
}
