// The least growth of all caps with which a layer graph has a plan, by bisection.
#include "planner/graph/lacking.h"
#include "planner/graph/search.h"
#include <math.h>

// Nothing needs caps that are larger by this.
#define MOST ((int64_t)1 << 62)
// One look takes at most this part of the work and of the time that are left, so that those which
// settle nothing leave some to the others.
enum { LOOK_PART = 4 };

typedef struct lacking {
  bd_ctx *ctx;
  const bd_layers_problem *problem;
  bd_deadline deadline;
  int64_t work_left;
  int64_t none;   // caps larger by this have no plan
  int64_t missed; // the most by which caps were larger when no plan was found
  int64_t some;   // caps larger by this have one; INT64_MAX: none was found
  bd_layers_plan leanest;
} lacking;

// By how much the fullest stage of a plan exceeds its cap.
static int64_t exceeded(const bd_layers_problem *problem, const bd_layers_plan *plan) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  int64_t most = 0;
  bd_layers_measure(problem, plan, stages);
  for (int s = 0; s < plan->stages; s++) {
    int64_t over = stages[s].bytes - problem->groups[problem->modes[plan->mode[s]].group].cap_bytes;
    if (over > most) most = over;
  }
  return most;
}

// The problem with every cap larger by `more`.
static bd_layers_problem enlarge(const lacking *l, int64_t more) {
  bd_layers_problem larger = *l->problem;
  bd_layers_group *groups =
      bd_arena_copy(l->ctx->arena, larger.groups, larger.group_count, sizeof *groups);
  for (int g = 0; g < larger.group_count; g++)
    groups[g].cap_bytes += more;
  larger.groups = groups;
  return larger;
}

static bool has_room(const lacking *l, int64_t more) {
  bd_owned held;
  bd_arena *kept = l->ctx->arena, *arena = bd_ctx_open_arena(l->ctx, &held);
  l->ctx->arena = arena;
  bd_layers_problem larger = enlarge(l, more);
  bool any = bd_layers_any_room(l->ctx, &larger);
  l->ctx->arena = kept;
  bd_ctx_close_arena(l->ctx, &held);
  return any;
}

// What arithmetic tells: by how much caps may be larger without room for the layers.
static void begin_with_room(lacking *l) {
  int64_t none = 0, some = l->some < MOST ? l->some : MOST;
  while (some - none > 1 && !bd_deadline_passed(l->deadline)) {
    int64_t middle = none + (some - none) / 2;
    *(has_room(l, middle) ? &some : &none) = middle;
  }
  l->none = l->missed = none;
}

// Looks for plans when every cap is larger by `more`.
static bd_status look_with(lacking *l, int64_t more) {
  bd_layers_problem larger = enlarge(l, more);
  bd_layers_answer answer;
  double seconds_left = l->deadline.seconds - bd_clock_seconds();
  bd_layers_meter meter = {.deadline = bd_deadline_within(l->deadline, seconds_left / LOOK_PART)};
  BD_TRY(bd_layers_search(l->ctx, &larger, &meter, l->work_left / LOOK_PART, INFINITY,
                          BD_LAYERS_ANY, &answer));
  l->work_left -= meter.used < l->work_left ? meter.used : l->work_left;
  if (answer.found) {
    l->some = exceeded(l->problem, &answer.plan);
    l->leanest = answer.plan;
    return BD_OK;
  }
  l->missed = more;
  if (isinf(answer.bound)) l->none = more;
  return BD_OK;
}

bd_status bd_layers_find_lacking(bd_ctx *ctx, const bd_layers_problem *problem,
                                 bd_deadline deadline, int64_t most_work, bd_layers_answer *out) {
  lacking l = {.ctx = ctx,
               .problem = problem,
               .deadline = deadline,
               .work_left = most_work,
               .some = INT64_MAX};
  BD_TRY(look_with(&l, MOST));
  if (l.none < MOST) begin_with_room(&l);
  if (l.some < INT64_MAX)
    while (l.some - l.missed > 1 && !bd_deadline_passed(deadline))
      BD_TRY(look_with(&l, l.missed + (l.some - l.missed) / 2));
  out->plan = l.leanest;
  out->lacking_bytes = l.some;
  out->least_lacking_bytes = l.none == MOST ? INT64_MAX : l.none + 1;
  return BD_OK;
}
