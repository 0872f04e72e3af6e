#include "planner/sweep.h"
#include <math.h>

enum {
  EARLY_WEIGHT = 6, // of a batch before there is a plan, which later attempts are cut off at
  ANY_TRIES = 4,    // settings of a kind solved where any plan will do
  LEAN_TRIES = 6,   // settings solved in vain where a leaner plan is looked for with no cap yet
};

static int turn(bd_search *s) {
  return bd_agenda_turn(&s->agenda);
}

bd_status bd_sweep_fastest(bd_search *s) {
  while (!bd_search_is_over(s) && !bd_search_is_late(s) && !(s->lean && s->found)) {
    int most = s->found ? BD_BATCH_WEIGHT : EARLY_WEIGHT;
    bd_batch_fill(s, most, turn);
    if (!s->attempt_count) break;
    BD_TRY(bd_batch_run(s));
  }
  return BD_OK;
}

// The bounded item of the least bytes, if these are less than the leanest plan's; else -1.
static int leanest_item(bd_search *s) {
  int next = bd_agenda_leanest(&s->agenda);
  double most = (double)bd_search_for_layers(s, s->leanest_bytes);
  bool leaner = next >= 0 && (!s->leanest_bytes || s->agenda.items[next].of.bytes < most);
  return leaner ? next : -1;
}

bd_status bd_sweep_leanest(bd_search *s) {
  bool all = s->scene.request->rough;
  for (int in_vain = 0;
       !s->found && !bd_search_is_over(s) && (all || !s->leanest_bytes || in_vain < LEAN_TRIES);) {
    int most = bd_search_is_late(s) ? 1 : BD_BATCH_WEIGHT, solved = s->solved;
    int64_t before = s->leanest_bytes;
    bd_batch_fill(s, most, leanest_item);
    if (!s->attempt_count) break;
    BD_TRY(bd_batch_run(s));
    in_vain = s->leanest_bytes != before ? 0 : in_vain + s->solved - solved;
  }
  return BD_OK;
}

// Of bounded items that may have a plan within the cap that of the least bytes; -1: there is none.
static int fitting_item(bd_search *s) {
  int next = -1;
  for (int i = 0; i < s->agenda.item_count; i++) {
    const bd_item *item = &s->agenda.items[i];
    if (item->batched >= 0 || item->kind == BD_BOUND_DONE || item->kind < BD_BOUND_LAYERS ||
        isinf(item->of.seconds))
      continue;
    if (next < 0 || item->of.bytes < s->agenda.items[next].of.bytes) next = i;
  }
  return next;
}

// An item whose layers are to be bounded, or else of those that are; -1: there is none.
static int lean_item(bd_search *s) {
  for (int i = 0; i < s->agenda.item_count; i++) {
    const bd_item *item = &s->agenda.items[i];
    if (item->batched < 0 && item->kind < BD_BOUND_LAYERS && isfinite(item->of.seconds)) return i;
  }
  return fitting_item(s);
}

bd_status bd_sweep_lean(bd_search *s) {
  while (!s->found && !bd_search_is_over(s)) {
    bd_batch_fill(s, BD_BATCH_WEIGHT, lean_item);
    if (!s->attempt_count) break;
    BD_TRY(bd_batch_run(s));
  }
  return BD_OK;
}

// Settings among which any plan is looked for, one kind after another.
typedef enum any_kind { ANY_LEAN, ANY_OTHER, ANY_FINE, ANY_KINDS } any_kind;

// A micro-batch of one sample, or of one for each device of a stage, mostly holds least.
static any_kind kind_of(const bd_search *s, const bd_setting *setting) {
  int64_t micro_batch = setting->micro_batch;
  if (bd_setting_is_fine(setting)) return ANY_FINE;
  bool lean = micro_batch == 1 || micro_batch == bd_mesh_devices(&setting->mesh) ||
              s->scene.request->micro_batch;
  return lean ? ANY_LEAN : ANY_OTHER;
}

// Bounds settings of a kind by their layers.
static bd_status bound_kind(bd_search *s, any_kind kind) {
  for (int i = 0; i < s->agenda.settings && !bd_search_is_over(s);) {
    for (; s->attempt_count < BD_BATCH_WEIGHT && i < s->agenda.settings; i++)
      if (kind_of(s, &s->agenda.items[i].of.setting) == kind) bd_batch_add(s, i);
    BD_TRY(bd_batch_run(s));
  }
  return BD_OK;
}

// Whether some setting that is bounded may have a plan that fits, by its bytes.
static bool may_fit(const bd_search *s) {
  for (int i = 0; i < s->agenda.item_count; i++)
    if (s->agenda.items[i].kind >= BD_BOUND_LAYERS && s->agenda.items[i].of.bytes > 0 &&
        s->agenda.items[i].of.bytes <= (double)s->scene.layers_cap_bytes)
      return true;
  return false;
}

// Solves items, one after another, until there is a plan, or in vain. They are bounded within their
// memory before, a few at once.
static bd_status solve_some(bd_search *s, int (*next_of)(bd_search *), int tries) {
  for (int most = s->solved + tries; s->solved < most && !s->found && !bd_search_is_over(s);) {
    bd_batch_fill(s, EARLY_WEIGHT, next_of);
    if (!s->attempt_count) break;
    BD_TRY(bd_batch_run(s));
  }
  return BD_OK;
}

// Fine meshes take by far the longest, and hold hardly less than others: they are looked at where
// others may have a plan and none was found. Where nothing may fit, one setting tells by how much
// it does not.
bd_status bd_sweep_any(bd_search *s) {
  if (s->scene.layers_cap_bytes <= 0) return BD_OK;
  for (int kind = 0; kind < ANY_KINDS && !s->found; kind++) {
    if (kind == ANY_FINE && !may_fit(s)) break;
    BD_TRY(bound_kind(s, (any_kind)kind));
    BD_TRY(solve_some(s, fitting_item, ANY_TRIES));
  }
  return s->leanest_bytes ? BD_OK : solve_some(s, leanest_item, 1);
}
