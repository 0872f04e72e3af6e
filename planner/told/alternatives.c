#include "planner/told/alternatives.h"
#include "planner/full/stage.h"
#include <math.h>

enum { LISTED = 16 };

static const char *describe(bd_ctx *ctx, int stages, const bd_mesh *mesh) {
  return bd_intern_f(ctx, "stages=%d mesh=%s", stages, bd_mesh_words(ctx, mesh));
}

static const char *add_schedule(bd_ctx *ctx, const char *what, const bd_plan *plan) {
  return bd_intern_f(ctx, "%s schedule=%s", what, bd_schedule_name(plan->schedule));
}

static const char *describe_plan(bd_ctx *ctx, const bd_alternatives *list, const bd_plan *plan) {
  const char *what = describe(ctx, plan->stages, &plan->mesh);
  for (int s = 1; plan->stage_mesh && s < plan->stages; s++)
    what = bd_intern_f(ctx, "%s,%s", what, bd_mesh_words(ctx, &plan->stage_mesh[s]));
  if (list->schedules) what = add_schedule(ctx, what, plan);
  const char *groups = list->cluster ? bd_full_name_groups(ctx, list->cluster, plan) : "";
  return *groups ? bd_intern_f(ctx, "%s on=%s", what, groups) : what;
}

static bd_alternative *find(bd_ctx *ctx, bd_alternatives *list, const char *what) {
  for (int i = 0; i < list->count; i++)
    if (list->items[i].what == what) return &list->items[i];
  if (list->count == list->capacity) {
    int wanted = list->capacity ? 2 * list->capacity : 32;
    list->items = bd_arena_grow(ctx->arena, list->items, (size_t)list->count, (size_t)wanted,
                                sizeof *list->items);
    list->capacity = wanted;
  }
  list->items[list->count] = (bd_alternative){what, INFINITY, 0, INFINITY};
  return &list->items[list->count++];
}

void bd_alternatives_note_plan(bd_ctx *ctx, bd_alternatives *list, const bd_plan *plan,
                               int64_t lacking) {
  bd_alternative *entry = find(ctx, list, describe_plan(ctx, list, plan));
  if (lacking <= 0) {
    entry->step_seconds = fmin(entry->step_seconds, plan->step_seconds);
    entry->lacking_bytes = 0;
  } else if (isinf(entry->step_seconds) &&
             (!entry->lacking_bytes || lacking < entry->lacking_bytes)) {
    entry->lacking_bytes = lacking;
  }
}

void bd_alternatives_note_bound(bd_ctx *ctx, bd_alternatives *list, int stages, const bd_mesh *mesh,
                                double seconds) {
  bd_alternative *entry = find(ctx, list, describe(ctx, stages, mesh));
  entry->bound_seconds = fmin(entry->bound_seconds, seconds);
}

void bd_alternatives_take(bd_ctx *ctx, bd_alternatives *list, const bd_plan *from) {
  for (int i = 0; i < from->alternative_count; i++) {
    const bd_alternative *item = &from->alternatives[i];
    *find(ctx, list, add_schedule(ctx, item->what, from)) =
        (bd_alternative){add_schedule(ctx, item->what, from), item->step_seconds,
                         item->lacking_bytes, item->bound_seconds};
  }
}

void bd_alternatives_replace(bd_ctx *ctx, const bd_plan *before, bool schedules,
                             const bd_cluster *cluster, bd_plan *plan) {
  bd_alternatives list = {.schedules = schedules, .cluster = cluster};
  for (int i = 0; i < before->alternative_count; i++)
    *find(ctx, &list, before->alternatives[i].what) = before->alternatives[i];
  const char *what = describe_plan(ctx, &list, before);
  *find(ctx, &list, what) = (bd_alternative){what, before->step_seconds, 0, before->bound_seconds};
  bd_alternatives_list(ctx, &list, plan);
}

void bd_alternatives_add(bd_ctx *ctx, const bd_plan *other, const bd_cluster *cluster,
                         bd_plan *plan) {
  bd_alternatives list = {.cluster = cluster};
  for (int i = 0; i < plan->alternative_count; i++)
    *find(ctx, &list, plan->alternatives[i].what) = plan->alternatives[i];
  *find(ctx, &list, describe_plan(ctx, &list, other)) = (bd_alternative){
      describe_plan(ctx, &list, other), other->step_seconds, 0, other->bound_seconds};
  bd_alternatives_list(ctx, &list, plan);
}

// Plans by their seconds, what was not looked at by its bound, what does not fit last.
static double rank(const bd_alternative *item) {
  if (isfinite(item->step_seconds)) return item->step_seconds;
  return item->lacking_bytes > 0 ? INFINITY : item->bound_seconds;
}

void bd_alternatives_list(bd_ctx *ctx, const bd_alternatives *list, bd_plan *plan) {
  const char *own = describe_plan(ctx, list, plan);
  bd_alternative *out = BD_NEW_ARRAY(ctx->arena, bd_alternative, list->count);
  int count = 0;
  for (int i = 0; i < list->count; i++) {
    const bd_alternative *item = &list->items[i];
    if (item->what == own) continue;
    int at = count++;
    for (; at > 0 && rank(&out[at - 1]) > rank(item); at--)
      out[at] = out[at - 1];
    out[at] = *item;
  }
  int least = 0;
  for (int i = 1; i < count; i++)
    if (out[i].bound_seconds < out[least].bound_seconds) least = i;
  if (least >= LISTED) out[LISTED - 1] = out[least];
  plan->alternatives = out;
  plan->alternative_count = count < LISTED ? count : LISTED;
}
