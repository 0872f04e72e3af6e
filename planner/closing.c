#include "planner/closing.h"
#include "planner/bound/slowest.h"

enum { TOGETHER = 4 }; // settings, each with all its tied forms
#define NEAR 0.99      // of the plan's seconds; bounds above it are near enough

// Items of one setting.
typedef struct work {
  int count, *item;
  bd_bounded *bounded;
} work;

typedef struct closing {
  bd_search *search;
  bd_deadline deadline;
  bool *closed; // per item
  int count;
  work works[TOGETHER];
} closing;

static bd_status run_work(bd_ctx *ctx, void *arg, int index) {
  closing *c = arg;
  bd_owned held;
  bd_arena *kept = ctx->arena;
  ctx->arena = bd_ctx_open_arena(ctx, &held);
  bd_status status =
      bd_bound_slowest(ctx, &c->search->scene, c->deadline, c->search->agenda.best_seconds * NEAR,
                       c->works[index].count, c->works[index].bounded);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

static void take_work(bd_ctx *ctx, void *arg, int index) {
  (void)ctx;
  closing *c = arg;
  const work *of = &c->works[index];
  for (int i = 0; i < of->count; i++)
    c->search->agenda.items[of->item[i]].of = of->bounded[i];
}

static bool is_far(const closing *c, int item) {
  const bd_agenda *agenda = &c->search->agenda;
  return agenda->items[item].of.seconds < agenda->best_seconds * NEAR;
}

static bool may_rise(const closing *c, int item) {
  return !c->closed[item] && is_far(c, item) && c->search->agenda.items[item].of.setting.stages > 1;
}

// Of the items whose bound may rise that of the least; -1: there is none.
static int next_item(const closing *c) {
  const bd_item *items = c->search->agenda.items;
  int next = -1;
  for (int i = 0; i < c->search->agenda.item_count; i++)
    if (may_rise(c, i) && (next < 0 || items[i].of.seconds < items[next].of.seconds)) next = i;
  return next;
}

// Whether the least bound of all is one that nothing raises.
static bool is_final(const closing *c, int next) {
  const bd_item *items = c->search->agenda.items;
  for (int i = 0; i < c->search->agenda.item_count; i++)
    if (!may_rise(c, i) && items[i].of.seconds <= items[next].of.seconds) return true;
  return false;
}

static bool goes_with(const closing *c, int item, int other) {
  const bd_item *items = c->search->agenda.items;
  return may_rise(c, other) && bd_setting_same(&items[item].of.setting, &items[other].of.setting);
}

static void add_work(closing *c, int item) {
  const bd_agenda *agenda = &c->search->agenda;
  work *of = &c->works[c->count++];
  int room = 0;
  for (int i = 0; i < agenda->item_count; i++)
    room += goes_with(c, item, i);
  *of = (work){.item = BD_NEW_ARRAY(agenda->ctx->arena, int, room),
               .bounded = BD_NEW_ARRAY(agenda->ctx->arena, bd_bounded, room)};
  for (int i = 0; i < agenda->item_count; i++) {
    if (!goes_with(c, item, i)) continue;
    of->item[of->count] = i;
    of->bounded[of->count++] = agenda->items[i].of;
  }
  for (int i = 0; i < of->count; i++)
    c->closed[of->item[i]] = true;
}

bd_status bd_search_close(bd_search *s) {
  closing c = {.search = s, .deadline = {s->deadline, s->scene.request->stop}};
  c.closed = BD_NEW_ARRAY(s->ctx->arena, bool, s->agenda.item_count);
  while (s->found && s->cut == BD_NOT_CUT) {
    int next = next_item(&c);
    if (next < 0 || is_final(&c, next) || bd_search_is_over(s)) break;
    for (c.count = 0; next >= 0 && c.count < TOGETHER; next = next_item(&c))
      add_work(&c, next);
    bd_work all = {c.count, run_work, take_work, &c};
    BD_TRY(bd_workers_run(s->ctx, s->workers, &all));
    bd_search_is_over(s);
  }
  return BD_OK;
}
