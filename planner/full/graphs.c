#include "planner/full/graphs.h"
#include "planner/graph/lacking.h"
#include <string.h>

enum {
  MICRO_BATCHES = 6, // tried
  CAP_ROUNDS = 6,    // plans of one micro-batch, until the exact bytes of one fit
};

// What skips take is charged on every boundary, so that plans may be faster than their graph tells:
// those of up to so many times the best plan's seconds are looked at.
#define SKIPS_SLACK 1.25

#define LEANEST_WORK ((int64_t)1 << 25) // of a layer graph that has no plan within the caps

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

// The plan of a layer graph's answer, and by how much it exceeds the caps by its exact bytes.
static bd_status take(bd_full_graphs *g, const bd_full_problem *problem, const bd_layers_plan *of,
                      bd_plan *out_plan, int64_t *out_over) {
  bd_full_assemble(g->ctx, &g->space, problem, of, out_plan);
  out_plan->cap_bytes = bd_plan_cap_bytes(g->space.cluster, g->space.request->cap_bytes, out_plan);
  BD_TRY(bd_plan_predict(g->ctx, g->space.train, g->space.cluster, out_plan));
  int64_t over = *out_over = lacking_bytes(g, out_plan);
  g->solved++;
  bd_alternatives_note_plan(g->ctx, &g->alternatives, out_plan, over);
  if (over <= 0 && (!g->found || out_plan->step_seconds < g->best.step_seconds)) {
    g->best = *out_plan;
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
static bd_status try_problem(bd_full_graphs *g, bd_full_problem *problem) {
  bd_layers_group *groups = copy_groups(g, problem);
  for (int round = 0; round < CAP_ROUNDS && !is_late(g); round++) {
    bd_layers_answer answer;
    bd_plan plan;
    int64_t over;
    double cutoff = g->found ? g->best.step_seconds * (problem->skips ? SKIPS_SLACK : 1) : 1e30;
    BD_TRY(bd_layers_solve(g->ctx, &problem->layers, g->deadline, cutoff, true, &answer));
    if (!answer.found) return BD_OK;
    BD_TRY(take(g, problem, &answer.plan, &plan, &over));
    if (over <= 0) return BD_OK;
    for (int i = 0; i < g->space.group_count; i++)
      groups[i].cap_bytes -= over + groups[i].cap_bytes / 256;
  }
  return BD_OK;
}

// With skips, by what a graph tells, a few stages may look better than more: 1, 2, 4 and so on are
// tried for themselves.
static bd_status try_stages(bd_full_graphs *g, const bd_full_problem *problem) {
  for (int stages = 1; problem->skips && stages <= problem->layers.max_stages; stages *= 2) {
    bd_full_problem of = *problem;
    if (stages < of.layers.min_stages) continue;
    of.layers.min_stages = of.layers.max_stages = stages;
    BD_TRY(try_problem(g, &of));
  }
  bd_full_problem of = *problem;
  return try_problem(g, &of);
}

// Each schedule alone has all the work that a problem is given; what one finds cuts off the next.
// GPipe is no better than 1F1B.
static bd_status try_schedules(bd_full_graphs *g, bd_full_problem *problem) {
  unsigned all = problem->layers.schedules;
  g->posed++;
  if (all & 1u << BD_SCHEDULE_1F1B) all &= ~(1u << BD_SCHEDULE_GPIPE);
  for (int schedule = BD_SCHEDULE_COUNT - 1; schedule >= 0; schedule--) {
    bd_full_problem of = *problem;
    of.layers.schedules = all & 1u << schedule;
    if (of.layers.schedules) BD_TRY(try_stages(g, &of));
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

// Poses the layer graph of one micro-batch after another.
static bd_status pose_each(bd_full_graphs *g, const bd_plan *near,
                           bd_status (*act)(bd_full_graphs *, bd_full_problem *)) {
  int64_t sizes[MICRO_BATCHES];
  int count = list_micro_batches(g, near, sizes);
  for (int i = 0; i < count && !is_late(g); i++) {
    bd_full_problem problem;
    bool possible;
    BD_TRY(bd_full_pose(g->ctx, &g->space, sizes[i], g->deadline, &problem, &possible));
    if (possible) BD_TRY(act(g, &problem));
  }
  return BD_OK;
}

bd_status bd_full_look(bd_full_graphs *g, const bd_plan *near) {
  g->meshes += g->space.mode_count;
  return pose_each(g, near, try_schedules);
}

// The leanest plan of a graph does not depend on the caps: all begin at those less the least of
// them.
static bd_status seek(bd_full_graphs *g, bd_full_problem *problem) {
  bd_layers_group *groups = copy_groups(g, problem);
  bd_layers_answer answer;
  bd_plan plan;
  int64_t over, least = INT64_MAX;
  if (g->found) return BD_OK;
  for (int i = 0; i < g->space.group_count; i++)
    if (groups[i].cap_bytes < least) least = groups[i].cap_bytes;
  for (int i = 0; i < g->space.group_count; i++)
    groups[i].cap_bytes -= least;
  BD_TRY(bd_layers_find_lacking(g->ctx, &problem->layers, g->deadline, LEANEST_WORK, &answer));
  return answer.lacking_bytes < INT64_MAX ? take(g, problem, &answer.plan, &plan, &over) : BD_OK;
}

bd_status bd_full_seek_leanest(bd_full_graphs *g, const bd_plan *near) {
  return pose_each(g, near, seek);
}

bd_status bd_full_look_at(bd_full_graphs *g, const bd_full_least *least) {
  bd_full_space whole = g->space;
  bd_full_problem problem;
  bool possible;
  if (least->seconds * BD_FULL_NEARLY >= g->best.step_seconds || is_late(g)) return BD_OK;
  bd_full_space_aim(g->ctx, &whole, least->size_count, least->sizes, least->about_stages,
                    &g->space);
  BD_TRY(bd_full_pose(g->ctx, &g->space, least->micro_batch, g->deadline, &problem, &possible));
  if (possible) {
    g->posed++;
    g->meshes += g->space.mode_count;
    problem.layers.schedules = 1u << least->schedule;
    problem.layers.chunk_count = 1;
    problem.layers.chunks = &least->chunks;
    problem.layers.min_stages = least->least_stages;
    problem.layers.max_stages = least->most_stages;
    BD_TRY(try_problem(g, &problem));
  }
  g->space = whole;
  return BD_OK;
}
