#include "planner/pipeline/label.h"
#include "planner/pipeline/placing.h"
#include <math.h>
#include <string.h>

enum {
  NARROW = 8, // labels kept of one stage and form, where no assignment is known,
  WIDE = 32,  // and where what cannot be better is left out
  OFFERED = 8 // whole assignments that are measured
};
// Sums may come in another order.
#define ROUNDING 1e-12

// An assignment of the first layers.
typedef struct label {
  // Of finished stages: seconds of a micro-batch; the longest of two kinds of paths that others
  // take beside it (planner/step/bound.h), or of gpipe's forward and backward passes; the longest
  // sums of gradients and the longest update.
  double sum, around, alone, reduce, apply;
  // Of the last stage, which is open:
  double forward, backward, own_reduce, own_apply, bytes, workspace;
  int stage, form; // of the last layer
  bool changed;    // within its run on the stage
  double rank;
  bd_placing placing;
} label;

typedef struct label_list {
  int count;
  label items[WIDE];
} label_list;

typedef struct labelling {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  const double *price;
  double cutoff;
  bd_layer_chain chain;
  int width;
  double least_after[BD_LABEL_LAYERS + 1]; // seconds that layers from here on take at least
  label_list *at, *next;                   // [stage][form], after so many layers and one more
} labelling;

static int ahead_of(const bd_pipeline_problem *p, int stage) {
  return bd_schedule_in_flight(p->schedule, stage, p->stages, p->micro_batches) - 1;
}

static void add_seconds(label *l, bd_both_ways seconds) {
  l->forward += seconds.forward;
  l->backward += seconds.backward;
}

// The open stage becomes a finished one.
static void finish(const bd_pipeline_problem *p, label *l) {
  double both = l->forward + l->backward;
  int others = p->micro_batches - 1, ahead = ahead_of(p, l->stage);
  l->sum += both;
  l->reduce = fmax(l->reduce, l->own_reduce);
  l->apply = fmax(l->apply, l->own_apply);
  if (p->schedule == BD_SCHEDULE_GPIPE) {
    l->around = fmax(l->around, others * l->forward);
    l->alone = fmax(l->alone, others * l->backward);
    return;
  }
  l->around = fmax(l->around + both, others > ahead ? (others - ahead) * both : -INFINITY);
  l->alone = fmax(l->alone, others * both - ahead * fmin(l->forward, l->backward));
}

static double rest_of(const bd_pipeline_problem *p, const label *l) {
  return p->schedule == BD_SCHEDULE_GPIPE ? l->around + l->alone
                                          : fmax(0, fmax(l->around, l->alone));
}

// What a step takes that begins so, at least: the layers that are left share the stages that are.
static double least_step(const labelling *m, const label *from, int placed) {
  const bd_pipeline_problem *p = m->problem;
  label l = *from;
  int stage = l.stage, left = p->stages - stage;
  double share = (l.forward + l.backward + m->least_after[placed]) / left, rest;
  finish(p, &l);
  rest = rest_of(p, &l);
  int passes = p->micro_batches - 1 - (p->schedule == BD_SCHEDULE_GPIPE ? 0 : ahead_of(p, stage));
  return l.sum + m->least_after[placed] + fmax(rest, passes * share) + l.reduce + l.apply;
}

// Where labels have the makers of values that are read later in other forms, none is better.
static bool same_live(const labelling *m, const label *a, const label *b, int placed) {
  for (int i = 0; i < m->problem->skip_count; i++) {
    const bd_pipeline_skip *skip = &m->problem->skips[i];
    if (skip->from < placed - 1 && skip->to >= placed &&
        bd_placing_candidate(&m->chain, &a->placing, skip->from)->form !=
            bd_placing_candidate(&m->chain, &b->placing, skip->from)->form)
      return false;
  }
  return true;
}

static bool dominates(const labelling *m, const label *a, const label *b, int placed) {
  return a->sum <= b->sum && a->around <= b->around && a->alone <= b->alone &&
         a->reduce <= b->reduce && a->apply <= b->apply &&
         a->forward + a->backward <= b->forward + b->backward && a->own_reduce <= b->own_reduce &&
         a->own_apply <= b->own_apply && a->bytes <= b->bytes && a->workspace <= b->workspace &&
         a->changed <= b->changed && same_live(m, a, b, placed);
}

// Keeps the labels in the order of their ranks.
static void keep(const labelling *m, label_list *list, const label *l, int placed) {
  int at = 0, kept = 0;
  for (; at < list->count && list->items[at].rank <= l->rank; at++)
    if (dominates(m, &list->items[at], l, placed)) return;
  if (at == m->width) return;
  for (int i = kept = at; i < list->count; i++)
    if (!dominates(m, l, &list->items[i], placed)) list->items[kept++] = list->items[i];
  list->count = kept < m->width ? kept : m->width - 1;
  memmove(&list->items[at + 1], &list->items[at], sizeof *l * (size_t)(list->count - at));
  list->items[at] = *l;
  list->count++;
}

// What the stage holds when its layers are those from `first` to `last`.
static bool is_within(const labelling *m, const label *l, int first, int last) {
  double beside =
      bd_pipeline_beside_bytes(m->problem, l->stage) +
      bd_pipeline_shared_bytes(m->problem, m->chain.run_of[first], m->chain.run_of[last]);
  return l->bytes + l->workspace + beside <= (double)m->problem->cap_bytes;
}

static int first_layer(const label *l, int placed) {
  int first = placed - 1;
  while (first > 0 && l->placing.stage_of[first - 1] == l->stage)
    first--;
  return first;
}

// What the stage sends on past the next one, as if its form was the same there.
static void send_skips(const labelling *m, label *l, int placed) {
  const bd_pipeline_problem *p = m->problem;
  for (int i = 0; i < p->skip_count; i++) {
    const bd_pipeline_skip *skip = &p->skips[i];
    if (skip->from >= placed || skip->to < placed || l->placing.stage_of[skip->from] != l->stage)
      continue;
    bd_layer_place from = bd_placing_at(&m->chain, &l->placing, skip->from),
                   to = {l->stage + 1, from.form};
    bd_skip_cost cost = bd_pipeline_skip_cost(p, skip, from, to, false);
    add_seconds(l, cost.maker);
    l->bytes += cost.maker_bytes;
  }
}

// What the last layer reads beside what the one before hands on.
static void receive_skips(const labelling *m, label *l, int layer) {
  const bd_pipeline_problem *p = m->problem;
  for (int i = 0; i < p->skip_count; i++) {
    const bd_pipeline_skip *skip = &p->skips[i];
    if (skip->to != layer) continue;
    bool stays;
    bd_skip_cost cost = bd_placing_skip(&m->chain, &l->placing, skip, &stays);
    add_seconds(l, cost.reader);
    l->bytes += cost.reader_bytes;
    if (!stays) continue;
    add_seconds(l, cost.maker);
    l->bytes += cost.maker_bytes;
  }
}

// Goes on to the next stage in another form, or the same; false when the stage is over the cap.
static bool move_on(const labelling *m, label *l, int placed, int form) {
  const bd_pipeline_problem *p = m->problem;
  int run = m->chain.run_of[placed - 1], at = bd_pipeline_hand_at(p, l->stage, l->form, form);
  add_seconds(l, p->runs[run].send[at]);
  l->bytes += bd_pipeline_send_bytes(p, l->stage, run, l->form, form);
  send_skips(m, l, placed);
  if (!is_within(m, l, first_layer(l, placed), placed - 1)) return false;
  finish(p, l);
  l->stage++;
  l->forward = l->backward = l->own_reduce = l->own_apply = l->workspace = 0;
  l->changed = false;
  l->bytes = bd_pipeline_receive_bytes(p, l->stage, run, l->form, form);
  add_seconds(l, p->runs[run].receive[at]);
  return true;
}

// Goes on within the stage; false where a run would change its form twice.
static bool change(const labelling *m, label *l, int placed, int form) {
  const bd_pipeline_problem *p = m->problem;
  int run = m->chain.run_of[placed - 1];
  bool same_run = m->chain.run_of[placed] == run, changes = form != l->form;
  if (same_run && changes && l->changed) return false;
  l->changed = same_run && (l->changed || changes);
  add_seconds(l, p->runs[run].change[l->form * p->form_count + form]);
  l->bytes += bd_pipeline_change_bytes(p, l->stage, run, l->form, form);
  return true;
}

// Adds layer `placed` as a candidate, if that may become better than what is known.
static void add_layer(const labelling *m, const label *from, int placed, int k) {
  const bd_pipeline_problem *p = m->problem;
  const bd_layer_candidate *c = &p->runs[m->chain.run_of[placed]].candidates[k];
  label l = *from;
  add_seconds(&l, (bd_both_ways){c->forward_seconds, c->backward_seconds});
  l.own_reduce += c->sync_seconds[p->zero] - c->apply_seconds[p->zero];
  l.own_apply += c->apply_seconds[p->zero];
  l.bytes += bd_pipeline_layer_bytes(p, l.stage, c);
  l.workspace = fmax(l.workspace, (double)c->workspace_bytes);
  l.form = c->form;
  bd_placing_add(&l.placing, placed, l.stage, k);
  receive_skips(m, &l, placed);
  double least = least_step(m, &l, placed + 1);
  if (least >= m->cutoff * (1 - ROUNDING)) return;
  double worth = m->price ? m->price[l.stage] : 0;
  l.rank = least + worth * (l.bytes + l.workspace);
  keep(m, &m->next[l.stage * p->form_count + c->form], &l, placed + 1);
}

static void extend(const labelling *m, const label *l, int placed) {
  const bd_pipeline_problem *p = m->problem;
  const bd_pipeline_run *run = &p->runs[m->chain.run_of[placed]];
  int left = m->chain.layers - placed, stages_left = p->stages - 1 - l->stage;
  for (int form = 0; form < p->form_count; form++) {
    label stays = *l, moves = *l;
    // Later stages need a layer each.
    bool may_stay = left > stages_left && change(m, &stays, placed, form);
    bool may_move = stages_left > 0 && bd_placing_may_end(p, l->stage, placed) &&
                    move_on(m, &moves, placed, form);
    for (int k = 0; k < run->candidate_count; k++) {
      if (run->candidates[k].form != form) continue;
      if (may_stay) add_layer(m, &stays, placed, k);
      if (may_move) add_layer(m, &moves, placed, k);
    }
  }
}

// The assignment of a label that places all layers.
static void offer(const labelling *m, const label *l, bd_pipeline *out) {
  const bd_pipeline_problem *p = m->problem;
  int *count, *entry;
  bd_placing_count(m->ctx, &m->chain, &l->placing, &count, &entry);
  double seconds = bd_pipeline_seconds(p, count, entry);
  if (seconds >= fmin(m->cutoff, out->seconds)) return;
  out->count = count;
  out->entry = entry;
  out->seconds = seconds;
  out->bytes = (int64_t)bd_pipeline_bytes(p, count, entry);
  out->feasible = true;
  out->optimal = false;
}

static void offer_best(const labelling *m, bd_pipeline *out) {
  const bd_pipeline_problem *p = m->problem;
  label_list best = {0};
  for (int form = 0; form < p->form_count; form++) {
    const label_list *list = &m->at[(p->stages - 1) * p->form_count + form];
    for (int i = 0; i < list->count; i++)
      if (is_within(m, &list->items[i], first_layer(&list->items[i], m->chain.layers),
                    m->chain.layers - 1))
        keep(m, &best, &list->items[i], m->chain.layers);
  }
  for (int i = 0; i < best.count && i < OFFERED; i++)
    offer(m, &best.items[i], out);
}

static void search(labelling *m, int width, bd_pipeline *out) {
  const bd_pipeline_problem *p = m->problem;
  int lists = p->stages * p->form_count;
  label none = {.around = p->schedule == BD_SCHEDULE_GPIPE ? 0 : -INFINITY};
  m->width = width;
  m->cutoff = fmin(m->cutoff, out->seconds);
  for (int i = 0; i < lists; i++)
    m->next[i].count = 0;
  for (int k = 0; k < p->runs[0].candidate_count; k++)
    add_layer(m, &none, 0, k);
  for (int placed = 1; placed <= m->chain.layers; placed++) {
    label_list *before = m->at;
    m->at = m->next;
    m->next = before;
    for (int i = 0; i < lists; i++)
      m->next[i].count = 0;
    for (int i = 0; placed < m->chain.layers && i < lists; i++)
      for (int n = 0; n < m->at[i].count; n++)
        extend(m, &m->at[i].items[n], placed);
  }
  offer_best(m, out);
}

static bool start(labelling *m, bd_arena *lists_arena) {
  const bd_pipeline_problem *p = m->problem;
  if (!bd_layer_chain_list(p, &m->chain) || p->stages > m->chain.layers) return false;
  for (int layer = m->chain.layers - 1; layer >= 0; layer--) {
    const bd_pipeline_run *run = &p->runs[m->chain.run_of[layer]];
    double least = INFINITY;
    for (int k = 0; k < run->candidate_count; k++)
      least = fmin(least, bd_pipeline_layer_seconds(&run->candidates[k]));
    m->least_after[layer] = m->least_after[layer + 1] + least;
  }
  int lists = p->stages * p->form_count;
  m->at = bd_arena_array(lists_arena, (size_t)lists, sizeof *m->at);
  m->next = bd_arena_array(lists_arena, (size_t)lists, sizeof *m->next);
  return true;
}

void bd_pipeline_label(bd_ctx *ctx, const bd_pipeline_problem *problem, double cutoff,
                       const double *price, bd_pipeline *out) {
  labelling m = {.ctx = ctx, .problem = problem, .price = price, .cutoff = cutoff};
  bd_owned held;
  bd_arena *scratch = bd_ctx_open_arena(ctx, &held);
  if (start(&m, scratch)) {
    if (!out->feasible) search(&m, NARROW, out);
    search(&m, WIDE, out);
  }
  bd_ctx_close_arena(ctx, &held);
}
