#include "planner/pipeline/lean_skips.h"
#include "planner/pipeline/placing.h"
#include <math.h>
#include <string.h>

enum {
  LABELS_MOST = 128, // of one stage and form
  PARTS_MOST = 8     // the first limit is by such a part of the way above the least
};

// An assignment of the first layers.
typedef struct label {
  double own, workspace; // of the open stage, what its layers share and what lies beside them aside
  double fullest;        // of the stages before it
  double closed[BD_LABEL_LAYERS]; // each of those
  int stage, form;                // of the last layer
  int first;                      // layer of the open stage
  bool changed;                   // the form, within the last layer's run on the stage
  double rank;
  bd_placing placing;
} label;

typedef struct label_list {
  int count, capacity;
  label *items;
} label_list;

typedef struct search {
  bd_ctx *ctx;
  bd_arena *scratch;
  const bd_pipeline_problem *problem;
  bd_layer_chain chain;
  double limit; // bytes of a stage
  bool complete;
  // Bytes at least: of the layers from here on; what handing on adds to a stage, and to it and all
  // after it, which is nothing or less.
  double least_after[BD_LABEL_LAYERS + 1];
  double least_sent[BD_LABEL_LAYERS], sent_after[BD_LABEL_LAYERS + 1];
  // [skip][form]: what its maker's stage comes to hold when it is read on another one, at least.
  double *pending;
  int *few, *few_count;  // [stage][run]: candidates that no other of their form beats in bytes
  label_list *at, *next; // [stage][form], after so many layers and one more
} search;

static double shared_bytes(const search *m, const label *l, int placed) {
  return bd_pipeline_shared_bytes(m->problem, m->chain.run_of[l->first],
                                  m->chain.run_of[placed - 1]);
}

static double open_bytes(const search *m, const label *l, int placed) {
  return l->own + l->workspace + shared_bytes(m, l, placed) +
         bd_pipeline_beside_bytes(m->problem, l->stage);
}

// Whether the value is made by now and read later on.
static bool is_live(const bd_pipeline_skip *skip, int placed) {
  return skip->from < placed && skip->to >= placed;
}

// Whether stage `stage` of `a` does not hold more than one of `b` from which all goes on that goes
// on from it.
static bool dominates_closed(const search *m, const label *a, const label *b, int placed,
                             int stage) {
  int of_b = -1;
  for (int i = 0; i < m->problem->skip_count; i++) {
    const bd_pipeline_skip *skip = &m->problem->skips[i];
    if (!is_live(skip, placed) || a->placing.stage_of[skip->from] != stage) continue;
    if (of_b >= 0 && of_b != b->placing.stage_of[skip->from]) return false;
    of_b = b->placing.stage_of[skip->from];
  }
  return of_b < 0 || a->closed[stage] <= b->closed[of_b];
}

// Whether what passes by takes `a` no more than `b`, wherever it is read.
static bool dominates_live(const search *m, const label *a, const label *b, int placed) {
  const bd_pipeline_problem *p = m->problem;
  for (int i = 0; i < p->skip_count; i++) {
    const bd_pipeline_skip *skip = &p->skips[i];
    if (!is_live(skip, placed)) continue;
    bd_layer_place from = bd_placing_at(&m->chain, &a->placing, skip->from),
                   other = bd_placing_at(&m->chain, &b->placing, skip->from);
    if (from.form != other.form || (from.stage == a->stage) != (other.stage == b->stage))
      return false;
    // The farther the reader, the more copies of the message.
    if (p->sends_held && from.stage < other.stage) return false;
    if (bd_pipeline_skip_is_there(p, skip, b->placing.stage_of, placed, b->stage) &&
        !bd_pipeline_skip_is_there(p, skip, a->placing.stage_of, placed, a->stage))
      return false;
  }
  for (int s = 0; s < a->stage; s++)
    if (!dominates_closed(m, a, b, placed, s)) return false;
  return true;
}

// Of one stage and form. What a stage shares grows by no more, the more layers it already has.
static bool dominates(const search *m, const label *a, const label *b, int placed) {
  if (a->fullest > b->fullest || a->workspace > b->workspace || a->own > b->own ||
      a->changed > b->changed)
    return false;
  double more = shared_bytes(m, a, placed) - shared_bytes(m, b, placed);
  return a->own + fmax(more, 0) <= b->own && dominates_live(m, a, b, placed);
}

// In the order of their ranks.
static void keep(search *m, label_list *list, const label *l, int placed) {
  int at = 0, kept;
  for (; at < list->count && list->items[at].rank <= l->rank; at++)
    if (dominates(m, &list->items[at], l, placed)) return;
  kept = at;
  for (int i = at; i < list->count; i++)
    if (!dominates(m, l, &list->items[i], placed)) list->items[kept++] = list->items[i];
  list->count = kept;
  if (kept == LABELS_MOST) {
    m->complete = false;
    if (at == kept) return;
    list->count--;
  }
  if (list->count == list->capacity) {
    int wanted = list->capacity ? 2 * list->capacity : 16;
    list->items = bd_arena_grow(m->scratch, list->items, (size_t)list->count, (size_t)wanted,
                                sizeof *list->items);
    list->capacity = wanted;
  }
  memmove(&list->items[at + 1], &list->items[at], sizeof *l * (size_t)(list->count - at));
  list->items[at] = *l;
  list->count++;
}

// What the last layer reads beside what the one before hands on.
static bool receive_skips(const search *m, label *l, int layer) {
  const bd_pipeline_problem *p = m->problem;
  for (int i = 0; i < p->skip_count; i++) {
    const bd_pipeline_skip *skip = &p->skips[i];
    if (skip->to != layer) continue;
    bool stays;
    bd_skip_cost cost = bd_placing_skip(&m->chain, &l->placing, skip, &stays);
    l->own += cost.reader_bytes;
    if (stays) {
      l->own += cost.maker_bytes;
      continue;
    }
    double *closed = &l->closed[l->placing.stage_of[skip->from]];
    *closed += cost.maker_bytes;
    l->fullest = fmax(l->fullest, *closed);
  }
  return l->fullest <= m->limit;
}

// What the stage will hold for values that are read later, at least.
static double pending_bytes(const search *m, const label *l, int placed) {
  double bytes = 0;
  for (int i = 0; i < m->problem->skip_count; i++) {
    const bd_pipeline_skip *skip = &m->problem->skips[i];
    if (!is_live(skip, placed) || l->placing.stage_of[skip->from] != l->stage) continue;
    bytes += m->pending[i * m->problem->form_count +
                        bd_placing_candidate(&m->chain, &l->placing, skip->from)->form];
  }
  return bytes;
}

static bool move_on(const search *m, label *l, int placed, int form) {
  const bd_pipeline_problem *p = m->problem;
  int run = m->chain.run_of[placed - 1];
  double bytes = open_bytes(m, l, placed) + bd_pipeline_send_bytes(p, l->stage, run, l->form, form);
  if (bytes + pending_bytes(m, l, placed) > m->limit) return false;
  l->closed[l->stage++] = bytes;
  l->fullest = fmax(l->fullest, bytes);
  l->workspace = 0;
  l->changed = false;
  l->first = placed;
  l->own = bd_pipeline_receive_bytes(p, l->stage, run, l->form, form);
  return true;
}

// Goes on within the stage; false where a run would change its form twice.
static bool change(const search *m, label *l, int placed, int form) {
  int run = m->chain.run_of[placed - 1];
  bool same_run = m->chain.run_of[placed] == run, changes = form != l->form;
  if (same_run && changes && l->changed) return false;
  l->changed = same_run && (l->changed || changes);
  l->own += bd_pipeline_change_bytes(m->problem, l->stage, run, l->form, form);
  return true;
}

static void add_layer(search *m, const label *from, int placed, int k) {
  const bd_pipeline_problem *p = m->problem;
  const bd_layer_candidate *c = &p->runs[m->chain.run_of[placed]].candidates[k];
  label l = *from;
  l.own += bd_pipeline_layer_bytes(p, l.stage, c);
  l.workspace = fmax(l.workspace, (double)c->workspace_bytes);
  l.form = c->form;
  bd_placing_add(&l.placing, placed, l.stage, k);
  if (!receive_skips(m, &l, placed)) return;
  double bytes = open_bytes(m, &l, placed + 1), all = (p->stages - l.stage) * m->limit;
  if (bytes + m->least_sent[l.stage] > m->limit) return;
  if (bytes + m->least_after[placed + 1] + m->sent_after[l.stage] > all) return;
  l.rank = fmax(l.fullest, bytes);
  keep(m, &m->next[l.stage * p->form_count + c->form], &l, placed + 1);
}

static const int *few_of(const search *m, int stage, int run) {
  return &m->few[bd_pipeline_index(m->problem, stage, run, 0)];
}

static int few_count(const search *m, int stage, int run) {
  return m->few_count[stage * m->problem->run_count + run];
}

static void extend(search *m, const label *l, int placed) {
  const bd_pipeline_problem *p = m->problem;
  int run = m->chain.run_of[placed], left = m->chain.layers - placed,
      stages_left = p->stages - 1 - l->stage;
  const bd_layer_candidate *list = p->runs[run].candidates;
  for (int form = 0; form < p->form_count; form++) {
    label stays = *l, moves = *l;
    // Later stages need a layer each.
    bool may_stay = left > stages_left && change(m, &stays, placed, form);
    bool may_move = stages_left > 0 && bd_placing_may_end(p, l->stage, placed) &&
                    move_on(m, &moves, placed, form);
    for (int i = 0; may_stay && i < few_count(m, stays.stage, run); i++) {
      int k = few_of(m, stays.stage, run)[i];
      if (list[k].form == form) add_layer(m, &stays, placed, k);
    }
    for (int i = 0; may_move && i < few_count(m, moves.stage, run); i++) {
      int k = few_of(m, moves.stage, run)[i];
      if (list[k].form == form) add_layer(m, &moves, placed, k);
    }
  }
}

static void offer(const search *m, const label *l, bd_pipeline *out) {
  bd_placing_count(m->ctx, &m->chain, &l->placing, &out->count, &out->entry);
  out->bytes = (int64_t)bd_pipeline_bytes(m->problem, out->count, out->entry);
}

// The leanest within the limit, if there is one.
static bool find_within(search *m, bd_pipeline *out) {
  const bd_pipeline_problem *p = m->problem;
  int lists = p->stages * p->form_count;
  const label none = {0}, *best = NULL;
  m->complete = true;
  for (int i = 0; i < lists; i++)
    m->next[i].count = 0;
  for (int i = 0; i < few_count(m, 0, 0); i++)
    add_layer(m, &none, 0, few_of(m, 0, 0)[i]);
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
  for (int i = lists - p->form_count; i < lists; i++)
    if (m->at[i].count && (!best || m->at[i].items[0].rank < best->rank)) best = m->at[i].items;
  if (best) offer(m, best, out);
  return best;
}

static void find_few(search *m, int stage, int run) {
  const bd_pipeline_problem *p = m->problem;
  const bd_layer_candidate *list = p->runs[run].candidates;
  int *few = &m->few[bd_pipeline_index(p, stage, run, 0)], count = 0;
  for (int k = 0; k < p->runs[run].candidate_count; k++) {
    double bytes = bd_pipeline_layer_bytes(p, stage, &list[k]);
    bool beaten = false;
    for (int j = 0; j < p->runs[run].candidate_count && !beaten; j++) {
      double other = bd_pipeline_layer_bytes(p, stage, &list[j]);
      bool less = other < bytes || list[j].workspace_bytes < list[k].workspace_bytes || j < k;
      beaten = list[j].form == list[k].form && other <= bytes &&
               list[j].workspace_bytes <= list[k].workspace_bytes && less && j != k;
    }
    if (!beaten) few[count++] = k;
  }
  m->few_count[stage * p->run_count + run] = count;
}

static void find_pending(search *m) {
  const bd_pipeline_problem *p = m->problem;
  for (int i = 0; i < p->skip_count && p->stages > 1; i++)
    for (int f = 0; f < p->form_count; f++) {
      double least = INFINITY;
      for (int g = 0; g < p->form_count; g++) {
        bd_layer_place from = {0, f}, to = {1, g};
        least = fmin(least, bd_pipeline_skip_cost(p, &p->skips[i], from, to, true).maker_bytes);
      }
      m->pending[i * p->form_count + f] = least;
    }
}

static void find_least(search *m) {
  const bd_pipeline_problem *p = m->problem;
  for (int layer = m->chain.layers - 1; layer >= 0; layer--) {
    const bd_pipeline_run *run = &p->runs[m->chain.run_of[layer]];
    double least = INFINITY;
    for (int k = 0; k < run->candidate_count; k++)
      least = fmin(least, bd_pipeline_layer_bytes(p, p->stages - 1, &run->candidates[k]));
    m->least_after[layer] = m->least_after[layer + 1] + least;
  }
  for (int s = p->stages - 2; s >= 0; s--) {
    m->least_sent[s] = bd_pipeline_least_sent_bytes(p, s);
    m->sent_after[s] = m->sent_after[s + 1] + m->least_sent[s];
  }
}

static bool start(search *m) {
  const bd_pipeline_problem *p = m->problem;
  if (!bd_layer_chain_list(p, &m->chain)) return false;
  m->pending = BD_NEW_ARRAY(m->scratch, double, p->skip_count * p->form_count);
  m->few = BD_NEW_ARRAY(m->scratch, int, p->stages *bd_pipeline_candidates(p));
  m->few_count = BD_NEW_ARRAY(m->scratch, int, p->stages * p->run_count);
  m->at = BD_NEW_ARRAY(m->scratch, label_list, p->stages * p->form_count);
  m->next = BD_NEW_ARRAY(m->scratch, label_list, p->stages * p->form_count);
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      find_few(m, s, r);
  find_pending(m);
  find_least(m);
  return true;
}

void bd_pipeline_lean_skips(bd_ctx *ctx, const bd_pipeline_problem *problem, double least_bytes,
                            bd_pipeline *pipeline) {
  bd_owned held;
  search m = {.ctx = ctx, .scratch = bd_ctx_open_arena(ctx, &held), .problem = problem};
  double above = (double)pipeline->bytes - least_bytes;
  bool found = above <= 0 || !start(&m);
  for (int part = PARTS_MOST; part > 0 && !found; part /= 2) {
    m.limit = part > 1 ? least_bytes + above / part : (double)pipeline->bytes - 1;
    found = find_within(&m, pipeline);
    if (found || part == 1) pipeline->optimal = m.complete;
  }
  bd_ctx_close_arena(ctx, &held);
}
