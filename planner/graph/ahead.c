#include "planner/graph/ahead.h"
#include <math.h>

// A pass over the intervals.
typedef struct looking {
  bd_ahead *ahead;
  const bd_fronts *fronts;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  int forms, modes;
  bool stopped;
} looking;

static size_t index_of(const bd_layers_problem *p, int stage, int first, int mode, int form) {
  size_t at = (size_t)stage * (size_t)(p->layer_count + 1) + (size_t)first;
  return (at * (size_t)p->mode_count + (size_t)mode) * (size_t)p->form_count + (size_t)form;
}

const bd_ahead_least *bd_ahead_of(const bd_ahead *ahead, int stage, int first, int mode, int form) {
  return &ahead->at[index_of(ahead->fronts->setting->problem, stage, first, mode, form)];
}

static void spend(looking *c, int64_t work) {
  if (!bd_layers_spend(c->fronts->meter, work + 1, c->fronts->most_work)) c->stopped = true;
}

static void least(bd_ahead_least *out, const looking *c, int mode,
                  const bd_layers_criteria *criteria, const bd_ahead_least *then) {
  const bd_layers_setting *setting = c->setting;
  double fill = bd_layers_fill(setting, criteria), rest = bd_layers_rest(setting, criteria);
  double second = bd_layers_rest_second(setting, criteria), both = rest + second;
  double weight = setting->mode_weight[mode] / setting->capacity;
  out->fill = fmin(out->fill, fill + then->fill);
  out->rest = fmin(out->rest, fmax(rest, then->rest));
  out->second = fmin(out->second, fmax(second, then->second));
  out->mean = fmin(out->mean, fill + both / setting->stages + then->mean);
  out->share = fmin(out->share, fill + both * weight + then->share);
}

static const bd_ahead_least impossible = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};

// What the stages after a hand-over add at least, what they receive included.
static bd_ahead_least after_hand_over(const looking *c, int stage, int layer, int mode, int form,
                                      double receive) {
  bd_ahead_least out = *bd_ahead_of(c->ahead, stage, layer, mode, form);
  bd_layers_criteria criteria = bd_layers_criteria_both(c->setting, receive);
  double fill = bd_layers_fill(c->setting, &criteria);
  out.fill += fill;
  out.mean += fill;
  out.share += fill;
  return out;
}

// A stage that begins so: the least over its ends. With one criterion the fastest way is best in
// all that counts here.
static bd_ahead_least look_ahead(looking *c, int stage, int first, int mode, int form) {
  bd_ahead_least out = impossible;
  const bd_ahead_least nothing = {0};
  bool last = stage == c->setting->stages - 1;
  for (int end = bd_layers_first_end(c->setting, stage, first);
       end <= bd_layers_last_end(c->setting, stage) && !c->stopped; end++)
    for (int leave = 0; leave < c->forms; leave++) {
      const bd_front *front = bd_fronts_get(c->fronts, stage, mode, first, end, form, leave);
      int ways = c->setting->criteria == 1 && front->count ? 1 : front->count;
      spend(c, ways ? c->modes * c->forms : 1);
      for (int i = 0; last && i < ways; i++)
        least(&out, c, mode, &front->items[i].criteria, &nothing);
      for (int next = 0; !last && ways && next < c->modes * c->forms; next++) {
        const bd_layers_cut *cut = &c->problem->cuts[end];
        int at = bd_layers_hand_at(c->problem, mode, leave, next / c->forms, next % c->forms);
        if (!isfinite(cut->send[at]) || !isfinite(cut->receive[at])) continue;
        bd_ahead_least then =
            after_hand_over(c, stage + 1, end, next / c->forms, next % c->forms, cut->receive[at]);
        bd_layers_criteria send = bd_layers_criteria_both(c->setting, cut->send[at]);
        spend(c, ways);
        for (int i = 0; i < ways && isfinite(then.fill); i++) {
          bd_layers_criteria sum = front->items[i].criteria;
          bd_layers_criteria_add(c->setting, &sum, &send);
          least(&out, c, mode, &sum, &then);
        }
      }
    }
  return out;
}

static void look_all_ahead(looking *c) {
  int stages = c->setting->stages, layers = c->problem->layer_count;
  for (int s = stages - 1; s >= 0; s--)
    for (int l = 0; l <= layers && !c->stopped; l++) {
      spend(c, c->modes * c->forms);
      bool begins = s ? l >= s && l < bd_layers_last_end(c->setting, s) : l == 0;
      for (int n = 0; n < c->modes; n++)
        for (int f = 0; f < c->forms; f++)
          c->ahead->at[index_of(c->problem, s, l, n, f)] =
              begins ? look_ahead(c, s, l, n, f) : impossible;
    }
}

bool bd_ahead_open(bd_ctx *ctx, const bd_fronts *fronts, bd_ahead *out) {
  const bd_layers_setting *setting = fronts->setting;
  const bd_layers_problem *problem = setting->problem;
  *out = (bd_ahead){.fronts = fronts};
  out->at =
      bd_arena_array(ctx->arena, index_of(problem, setting->stages, 0, 0, 0), sizeof *out->at);
  looking c = {.ahead = out,
               .fronts = fronts,
               .setting = setting,
               .problem = problem,
               .forms = problem->form_count,
               .modes = problem->mode_count};
  look_all_ahead(&c);
  return !c.stopped;
}
