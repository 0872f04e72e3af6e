#include "planner/select/improve.h"
#include "planner/select/bucket.h"
#include "planner/select/random.h"

#include <math.h>
#include <string.h>

enum { MOST_PRICED = 16, MOST_TRIALS = 16, MOST_FRONTIER = 1024 };

struct bd_select_improver {
  bd_select_state *state;
  const double *hint; // of each point: a likely price
  uint64_t random;
  bd_select_bucket *bucket;
  bd_select_free_set set;
  bool *in;
  double cap;
  bd_deadline deadline;
  int frontier[MOST_FRONTIER];
  int old[BD_SELECT_MOST_FREE], trial[BD_SELECT_MOST_FREE], best[BD_SELECT_MOST_FREE];
  // Prices of points: known to be too low, known to be high enough (or INFINITY).
  int priced, point[MOST_PRICED];
  double price[MOST_PRICED], low[MOST_PRICED], high[MOST_PRICED];
};

// Entries of all tables of one elimination.
static size_t table_room(const bd_select_model *m) {
  enum { LEAST = 1 << 16, MOST = 1 << 22, PER_ENTRY = 16 };
  double entries = 0;
  for (int e = 0; e < m->edges; e++)
    entries += (double)bd_select_choices(m, m->low[e]) * bd_select_choices(m, m->high[e]);
  return (size_t)fmin(MOST, LEAST + PER_ENTRY * entries);
}

bd_select_improver *bd_select_improver_create(bd_ctx *ctx, bd_select_state *state,
                                              const double *hint, uint64_t seed) {
  bd_select_improver *v = BD_NEW(ctx->arena, bd_select_improver);
  v->state = state;
  v->hint = hint;
  v->random = bd_select_seed(seed);
  v->bucket = bd_select_bucket_create(ctx, state->model, table_room(state->model));
  v->set.allowed = BD_NEW_ARRAY(ctx->arena, int, state->model->start[state->model->nodes]);
  v->in = BD_NEW_ARRAY(ctx->arena, bool, state->model->nodes);
  return v;
}

// Frees about `target` nodes around `seed`.
static void grow(bd_select_improver *v, int seed, int target) {
  const bd_select_model *m = v->state->model;
  int waiting = 0;
  v->frontier[waiting++] = seed;
  for (int got = 0; waiting > 0 && got < target;) {
    int pick = bd_select_below(&v->random, waiting);
    int node = v->frontier[pick];
    v->frontier[pick] = v->frontier[--waiting];
    if (v->in[node] || v->set.count == BD_SELECT_MOST_FREE) continue;
    v->in[node] = true;
    v->set.node[v->set.count++] = node;
    got++;
    for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++)
      if (waiting < MOST_FRONTIER && !v->in[m->link[l].other])
        v->frontier[waiting++] = m->link[l].other;
  }
}

// A node of an edge whose present strategies are a forbidden pair; -1: there is none.
static int conflict(bd_select_improver *v) {
  const bd_select_state *state = v->state;
  const bd_select_model *m = state->model;
  if (state->cost < m->forbidden) return -1;
  int begin = bd_select_below(&v->random, m->edges + 1);
  for (int k = 0; k < m->edges; k++) {
    int e = (begin + k) % m->edges, low = state->choice[m->low[e]];
    double cost = bd_select_between(m, e, low, state->choice[m->high[e]]);
    if (cost >= m->forbidden) return m->low[e];
  }
  return -1;
}

// Every other time, nodes around a conflict, as long as there is one; else anywhere.
static void free_some(bd_select_improver *v) {
  const bd_select_model *m = v->state->model;
  v->set.count = 0;
  int most = m->nodes < BD_SELECT_MOST_FREE ? m->nodes : BD_SELECT_MOST_FREE;
  int groups = 1 + bd_select_below(&v->random, 4);
  int target = (most / 4 + bd_select_below(&v->random, most)) / groups + 2;
  int seed = bd_select_below(&v->random, 2) ? conflict(v) : -1;
  for (int g = 0; g < groups; g++) {
    grow(v, seed >= 0 ? seed : bd_select_below(&v->random, m->nodes), target);
    seed = -1;
  }
  for (int k = 0; k < v->set.count; k++) {
    int node = v->set.node[k], count = bd_select_choices(m, node);
    v->in[node] = false;
    v->set.start[k + 1] = v->set.start[k] + count;
    for (int s = 0; s < count; s++)
      v->set.allowed[v->set.start[k] + s] = s;
  }
}

// Adds the usages of strategies of the set, `sign` times.
static void load(bd_select_improver *v, const int *trial, int sign) {
  const bd_select_model *m = v->state->model;
  for (int k = 0; k < bd_select_bucket_count(v->bucket); k++) {
    int node = bd_select_bucket_node(v->bucket, k);
    bd_select_load_add(&v->state->load, m->first[node], m->last[node],
                       sign * m->usage[m->start[node] + trial[k]]);
  }
}

// The point that is exceeded most by a trial and by how much; -1: it fits.
static int worst(bd_select_improver *v, const int *trial, int64_t *out_excess) {
  load(v, trial, 1);
  int point = bd_select_load_worst(&v->state->load, out_excess);
  load(v, trial, -1);
  return *out_excess > 0 ? point : -1;
}

// Raises the price of an exceeded point. `gain`: what the trial saves, which bounds the price.
static bool raise_price(bd_select_improver *v, int point, double gain, double excess) {
  int q = 0;
  while (q < v->priced && v->point[q] != point)
    q++;
  if (q == MOST_PRICED) return false;
  if (q == v->priced) {
    v->priced++;
    v->point[q] = point;
    v->low[q] = 0;
    v->high[q] = INFINITY;
    v->price[q] = v->hint[point] > 0 ? v->hint[point] : gain / excess;
    return true;
  }
  v->low[q] = v->price[q];
  v->price[q] = v->high[q] < INFINITY ? (v->low[q] + v->high[q]) / 2 : 2 * v->price[q];
  return v->price[q] > v->low[q];
}

static void lower(bd_select_improver *v) {
  for (int q = 0; q < v->priced; q++) {
    v->high[q] = v->price[q];
    v->price[q] = (v->low[q] + v->high[q]) / 2;
  }
}

// Searches the free set; returns whether something at most as costly as the present was found.
static bool search(bd_select_improver *v, double present) {
  bool found = false;
  double least = present;
  v->priced = 0;
  for (int t = 0; t < MOST_TRIALS && !bd_deadline_passed(v->deadline); t++) {
    double value = bd_select_bucket_solve(v->bucket, v->point, v->price, v->priced, v->trial);
    // The load is that of the other nodes, less the room: what is left counts against the price.
    for (int q = 0; q < v->priced; q++)
      value += v->price[q] * (double)bd_select_load_at(&v->state->load, v->point[q]);
    if (!(value < least - 1e-9 * fabs(least) || (t == 0 && value <= present))) break;
    double cost = bd_select_bucket_cost(v->bucket, v->trial);
    int64_t excess = 0;
    int point = worst(v, v->trial, &excess);
    if (point >= 0) {
      if (!raise_price(v, point, present - cost, (double)excess)) break;
      continue;
    }
    if (cost < least || (cost == least && !found)) {
      least = cost;
      found = true;
      memcpy(v->best, v->trial, sizeof v->best);
    }
    if (v->priced == 0) break;
    lower(v);
  }
  return found;
}

static void try_once(bd_select_improver *v) {
  bd_select_state *state = v->state;
  bd_select_bucket_plan(v->bucket, &v->set, state->choice, v->cap, &v->random);
  for (int k = 0; k < bd_select_bucket_count(v->bucket); k++)
    v->old[k] = state->choice[bd_select_bucket_node(v->bucket, k)];
  double before = bd_select_bucket_cost(v->bucket, v->old);
  double present = bd_select_bucket_cost(v->bucket, v->old);
  load(v, v->old, -1);
  if (!search(v, present)) {
    load(v, v->old, 1);
    return;
  }
  load(v, v->best, 1);
  bool forbidden = state->cost >= state->model->forbidden;
  state->cost += bd_select_bucket_cost(v->bucket, v->best) - before;
  for (int k = 0; k < bd_select_bucket_count(v->bucket); k++)
    state->choice[bd_select_bucket_node(v->bucket, k)] = v->best[k];
  // Sums with forbidden pairs are rounded.
  if (forbidden) state->cost = bd_select_state_cost(state->model, state->choice);
}

void bd_select_improve(bd_select_improver *v, double work, double cap, bd_deadline deadline) {
  if (v->state->model->nodes == 0) return;
  v->cap = cap;
  v->deadline = deadline;
  double end = bd_select_bucket_work(v->bucket) + work;
  while (bd_select_bucket_work(v->bucket) < end && !bd_deadline_passed(deadline)) {
    free_some(v);
    try_once(v);
  }
}

// Puts a node into the set when the choices differ there.
static void add_differing(bd_select_improver *v, int node, const int *const *choices, int count) {
  int *list = v->set.allowed + v->set.start[v->set.count], made = 0;
  list[made++] = v->state->choice[node];
  for (int c = 0; c < count; c++) {
    int at = 0;
    while (at < made && list[at] != choices[c][node])
      at++;
    if (at == made) list[made++] = choices[c][node];
  }
  if (made == 1) return;
  v->set.node[v->set.count++] = node;
  v->set.start[v->set.count] = v->set.start[v->set.count - 1] + made;
}

void bd_select_fuse(bd_select_improver *v, const int *const *choices, int count, double cap,
                    bd_deadline deadline) {
  const bd_select_model *m = v->state->model;
  if (m->nodes == 0) return;
  // Large models are fused window by window; where the windows begin changes every time.
  int begin = bd_select_below(&v->random, m->nodes);
  v->cap = cap;
  v->deadline = deadline;
  v->set.count = 0;
  for (int i = 0; i < m->nodes && !bd_deadline_passed(deadline); i++) {
    add_differing(v, (begin + i) % m->nodes, choices, count);
    if (v->set.count < BD_SELECT_MOST_FREE && i + 1 < m->nodes) continue;
    if (v->set.count > 0) try_once(v);
    v->set.count = 0;
  }
}
