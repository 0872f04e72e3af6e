// All settings of a layer graph: the least bound first, with ever more effort.
#include "planner/graph/search.h"
#include "planner/graph/construct.h"
#include "planner/graph/devices.h"
#include "planner/graph/interleave.h"
#include "planner/graph/plan.h"
#include "planner/graph/room.h"
#include "planner/graph/sketch.h"
#include <math.h>
#include <stdlib.h>

enum { HURRIED_WAYS = 32, FIRST_WAYS = 32, LAST_ROUNDS = 3, LAST_EFFORT = 7 };
#define SLICES 4.0 // shares that one setting may take

typedef struct item {
  bd_schedule schedule;
  int micro_batches, stages, chunks;
  double bound; // no plan of the setting takes less
  bool cut;     // the last effort had no time for more
} item;

typedef struct solving {
  bd_ctx *ctx;
  const bd_layers_problem *problem;
  bd_layers_meter *meter;
  int64_t most_work; // by the meter
  bool hurried, any; // see bd_layers_aim
  bool again;        // only settings that were cut short
  bool first_alone;  // settings are listed until there is one
  int count, capacity;
  item *items;
  bd_layers_answer *best;
} solving;

// What one effort takes of the work that is left when it begins.
typedef struct stage_of_effort {
  int ways, labels;
  double share;
  bool bound_only, first;
  bool sketch; // with one chunk a stage that is all there is to it
} stage_of_effort;

// What is small is done before the first sketch.
static const stage_of_effort efforts[] = {
    {4, 2, 0.2, false, true, false},     {6, 4, 0.2, true, false, false},
    {32, 16, 0.2, false, false, false},  {16, 16, 0.3, false, false, true},
    {64, 512, 0.2, true, false, false},  {192, 1024, 0.3, false, false, false},
    {256, 512, 0.3, true, false, false}, {768, 4096, 0.5, false, false, false},
    {96, 512, 1, true, false, false},
};

static bool open_item(bd_ctx *ctx, const bd_layers_problem *problem, const item *at,
                      bd_layers_setting *out) {
  bool possible;
  bd_layers_setting_open(ctx, problem, at->schedule, at->stages, at->chunks, at->micro_batches, out,
                         &possible);
  return possible;
}

static void add_item(solving *s, item at) {
  bd_layers_setting setting;
  if (s->first_alone && s->count) return;
  if (!open_item(s->ctx, s->problem, &at, &setting) || !bd_layers_have_room(&setting)) return;
  if (s->count == s->capacity) {
    int wanted = s->capacity ? 2 * s->capacity : 64;
    s->items =
        bd_arena_grow(s->ctx->arena, s->items, (size_t)s->count, (size_t)wanted, sizeof *s->items);
    s->capacity = wanted;
  }
  at.bound = bd_layers_setting_bound(&setting);
  s->items[s->count++] = at;
}

// GPipe is no shorter than 1F1B and never holds less.
static bool is_allowed(const bd_layers_problem *problem, int schedule) {
  bool either = problem->schedules >> BD_SCHEDULE_1F1B & 1u;
  if (schedule == BD_SCHEDULE_GPIPE && either) return false;
  return problem->schedules >> schedule & 1u;
}

static void add_items(solving *s) {
  const bd_layers_problem *p = s->problem;
  int most = p->max_stages < p->layer_count ? p->max_stages : p->layer_count;
  int64_t possible = 0;
  for (int g = 0; g < p->group_count; g++)
    possible += bd_layers_most_stages(p, g);
  int least = p->min_stages > 1 ? p->min_stages : 1;
  if (most > possible) most = (int)possible;
  for (int m = 0; m < p->micro_batch_count; m++)
    for (int schedule = 0; schedule < BD_SCHEDULE_COUNT; schedule++)
      for (int stages = least; is_allowed(p, schedule) && stages <= most; stages++) {
        if (p->forbidden_stages && p->forbidden_stages[stages]) continue;
        bool several = schedule == BD_SCHEDULE_INTERLEAVED;
        for (int v = 0; v < (several ? p->chunk_count : 1); v++) {
          int chunks = several ? p->chunks[v] : 1;
          if (chunks > 1 && stages == 1) continue;
          add_item(s, (item){(bd_schedule)schedule, p->micro_batches[m], stages, chunks, 0, false});
        }
      }
}

static int by_bound(const void *left, const void *right) {
  const item *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->micro_batches != b->micro_batches) return a->micro_batches < b->micro_batches ? -1 : 1;
  if (a->schedule != b->schedule) return a->schedule < b->schedule ? -1 : 1;
  if (a->stages != b->stages) return a->stages < b->stages ? -1 : 1;
  return a->chunks < b->chunks ? -1 : a->chunks > b->chunks;
}

// For a first look: few stages cost little.
static int by_stages(const void *left, const void *right) {
  const item *a = left, *b = right;
  return a->stages != b->stages ? (a->stages > b->stages) - (a->stages < b->stages)
                                : by_bound(left, right);
}

// What one look at a setting takes; `with` NULL: a plan is constructed at once.
static bd_status run_item(const solving *s, const item *at, const stage_of_effort *with,
                          int64_t most_work, bd_layers_outcome *out) {
  bd_layers_setting setting;
  double cutoff = s->best->seconds;
  *out = (bd_layers_outcome){.bound = at->bound};
  if (!open_item(s->ctx, s->problem, at, &setting)) return BD_OK;
  if (!with) {
    int64_t choices = (int64_t)s->problem->mode_count * s->problem->form_count;
    bd_layers_spend(s->meter, s->problem->layer_count * choices, most_work);
    bd_layers_construct(s->ctx, &setting, cutoff, out);
    return BD_OK;
  }
  bool thorough = !s->hurried && (with->sketch || with->ways > FIRST_WAYS);
  bd_layers_effort effort = {with->ways, with->labels, s->meter, most_work, thorough};
  if (with->sketch && at->chunks == 1) {
    bd_layers_sketch(s->ctx, &setting, &effort, cutoff, out);
    return BD_OK;
  }
  return at->chunks > 1 ? bd_layers_interleave(s->ctx, &setting, &effort, cutoff, out)
                        : bd_layers_chain(s->ctx, &setting, &effort, cutoff, with->bound_only, out);
}

static bd_status try_item(solving *s, item *at, const stage_of_effort *with, int64_t most_work) {
  bd_layers_outcome outcome;
  bd_owned held;
  bd_arena *kept = s->ctx->arena, *arena = bd_ctx_open_arena(s->ctx, &held);
  s->ctx->arena = arena;
  bd_status status = run_item(s, at, with, most_work, &outcome);
  s->ctx->arena = kept;
  if (status == BD_OK) {
    at->bound = fmax(at->bound, outcome.bound);
    at->cut = with && outcome.cut;
    if (outcome.found) {
      s->best->found = true;
      s->best->seconds = outcome.seconds;
      s->best->plan = bd_layers_plan_clone(s->ctx, &outcome.plan, s->problem->layer_count);
    }
  }
  bd_ctx_close_arena(s->ctx, &held);
  return status;
}

// Whether the setting may still give a better plan, or a better bound.
static bool is_open(const solving *s, const stage_of_effort *with, const item *at) {
  if (at->bound >= s->best->seconds || (s->any && s->best->found)) return false;
  return !(with->bound_only && at->chunks > 1) && (at->cut || !s->again);
}

static bd_status construct_all(solving *s) {
  if (s->count > 1) qsort(s->items, (size_t)s->count, sizeof *s->items, by_bound);
  for (int i = 0; i < s->count && !(s->any && s->best->found); i++)
    if (s->items[i].bound < s->best->seconds && bd_layers_spend(s->meter, 0, s->most_work))
      BD_TRY(try_item(s, &s->items[i], NULL, s->most_work));
  return BD_OK;
}

static int count_open(const solving *s, const stage_of_effort *with) {
  int count = 0;
  for (int i = 0; i < s->count; i++)
    count += is_open(s, with, &s->items[i]);
  return count;
}

static bd_status try_all(solving *s, const stage_of_effort *with) {
  int64_t now = s->meter->used, most = now + (int64_t)(with->share * (double)(s->most_work - now));
  if (s->count > 1)
    qsort(s->items, (size_t)s->count, sizeof *s->items, with->first ? by_stages : by_bound);
  int left = count_open(s, with);
  for (int i = 0; i < s->count; i++) {
    item *at = &s->items[i];
    if (!is_open(s, with, at)) continue;
    if (!bd_layers_spend(s->meter, 0, most)) break;
    now = s->meter->used;
    // No setting takes much more than its share; settings that are done leave theirs.
    double part = fmin(1, SLICES / fmax(left, 1)) * (double)(most - now);
    BD_TRY(try_item(s, at, with, now + (int64_t)part));
    left--;
  }
  return BD_OK;
}

// The best plan of a search that was in a hurry.
static void touch_up(solving *s) {
  bd_layers_plan *plan = &s->best->plan;
  item at = {plan->schedule, plan->micro_batches, plan->stages, plan->chunks, 0, false};
  bd_layers_effort effort = {.meter = s->meter, .most_work = s->most_work};
  bd_layers_setting setting;
  bd_owned held;
  bd_arena *kept = s->ctx->arena, *arena = bd_ctx_open_arena(s->ctx, &held);
  s->ctx->arena = arena;
  if (open_item(s->ctx, s->problem, &at, &setting))
    bd_layers_touch_up(s->ctx, &setting, &effort, plan, &s->best->seconds);
  s->ctx->arena = kept;
  bd_ctx_close_arena(s->ctx, &held);
}

bool bd_layers_any_room(bd_ctx *ctx, const bd_layers_problem *problem) {
  bd_layers_answer none = {.seconds = INFINITY};
  solving s = {.ctx = ctx, .problem = problem, .first_alone = true, .best = &none};
  add_items(&s);
  return s.count > 0;
}

bd_status bd_layers_search(bd_ctx *ctx, const bd_layers_problem *problem, bd_layers_meter *meter,
                           int64_t most_work, double cutoff, bd_layers_aim aim,
                           bd_layers_answer *out) {
  bool hurried = aim == BD_LAYERS_GOOD;
  solving s = {.ctx = ctx,
               .problem = problem,
               .meter = meter,
               .most_work = most_work,
               .hurried = hurried,
               .any = aim == BD_LAYERS_ANY,
               .best = out};
  *out = (bd_layers_answer){.seconds = cutoff};
  add_items(&s);
  BD_TRY(construct_all(&s));
  for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++) {
    if (hurried && (efforts[i].sketch || efforts[i].bound_only || efforts[i].ways > HURRIED_WAYS))
      continue;
    BD_TRY(try_all(&s, &efforts[i]));
  }
  // What was cut short has the work that others left.
  s.again = true;
  for (int round = 0; !hurried && round < LAST_ROUNDS; round++)
    for (size_t i = LAST_EFFORT; i < sizeof efforts / sizeof *efforts; i++)
      if (count_open(&s, &efforts[i]) && bd_layers_spend(meter, 0, most_work))
        BD_TRY(try_all(&s, &efforts[i]));
  if (hurried && out->found) touch_up(&s);
  out->bound = out->seconds;
  for (int i = 0; i < s.count; i++)
    out->bound = fmin(out->bound, s.items[i].bound);
  out->proven = out->bound >= out->seconds;
  if (!out->found) out->seconds = INFINITY;
  return BD_OK;
}
