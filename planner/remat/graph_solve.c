// A search in layers that widens until it is exhaustive. A state is what is resident when the nodes
// before some node have been computed; from it a value is computed, after dropping one of the
// smallest sets of values that make room. Each round visits the most promising states of every
// layer, and remembers the least cost that anything it passed over could have: with that, what is
// found has a proven gap, and a round that passes over nothing proves the optimum.
#include "planner/remat/graph_search.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STATE_BYTES ((size_t)384 << 20)
// One in so many looks at the clock is taken.
#define CLOCK_LOOKS 32
// So many earlier visits of the layer are asked whether they dominate a state.
#define DOMINATORS 4096

typedef struct search {
  bd_ctx *ctx;
  const bd_graph *graph;
  bd_graph_bound bound;
  bd_graph_states states;
  bd_deadline until;
  int width;   // states visited per layer
  int choices; // sets of values dropped for one computation
  bool any;    // values are computed again though the next node does not need them
  int looks;   // at the clock
  bool late;   // the time is up
  double best; // cost of the cheapest sequence
  bd_remat_steps best_steps;
  double passed_over; // the least that anything passed over costs
  int *order;         // nodes by cost per byte, ascending
  // Scratch: sets of nodes, and what may be dropped for a computation.
  uint64_t *now, *wanted, *soon, *needed, *kept, *chosen, *child, *missing;
  int *candidate;
  double *depth;   // of missing nodes
  int64_t *behind; // bytes of this candidate and those behind it
} search;

static void pass_over(search *s, double least) {
  s->passed_over = fmin(s->passed_over, least);
}

static bool is_late(search *s) {
  if (!s->late && s->looks++ % CLOCK_LOOKS == 0) s->late = bd_deadline_passed(s->until);
  return s->late;
}

static int64_t bytes_of(const search *s, const uint64_t *set) {
  int64_t bytes = 0;
  for (int i = bd_set_next(set, s->graph->words, 0); i >= 0;
       i = bd_set_next(set, s->graph->words, i + 1))
    bytes += s->graph->bytes[i];
  return bytes;
}

// What has to be computed again before node `next` can be, into s->needed.
static int find_needed(search *s, int next, const uint64_t *resident) {
  int words = s->graph->words, count = 0;
  memset(s->needed, 0, (size_t)words * sizeof *s->needed);
  if (next == s->graph->nodes) return 0;
  for (int x = next; x >= 0; x--) {
    if (x < next && !bd_set_has(s->needed, x)) continue;
    count += x < next;
    const uint64_t *inputs = bd_graph_inputs(s->graph, x);
    for (int i = 0; i < words; i++)
      s->needed[i] |= inputs[i] & ~resident[i];
  }
  return count;
}

static void record(search *s, int last) {
  const bd_graph_states *states = &s->states;
  int words = states->words, count = 0;
  for (int i = last; states->state[i].parent >= 0; i = states->state[i].parent)
    count++;
  int *path = BD_NEW_ARRAY(s->ctx->arena, int, count);
  for (int i = last; states->state[i].parent >= 0; i = states->state[i].parent)
    path[--count] = i;
  s->best = states->state[last].spent;
  s->best_steps = (bd_remat_steps){0};
  for (;; count++) {
    int now = path[count], node = states->state[now].node;
    const uint64_t *was = bd_graph_resident(states, states->state[now].parent);
    const uint64_t *is = bd_graph_resident(states, now), *inputs = bd_graph_inputs(s->graph, node);
    for (int x = bd_set_next(was, words, 0); x >= 0; x = bd_set_next(was, words, x + 1))
      if (!bd_set_has(is, x) && !bd_set_has(inputs, x))
        bd_remat_steps_add(s->ctx, &s->best_steps, BD_GRAPH_DROP, x);
    bd_remat_steps_add(s->ctx, &s->best_steps, BD_GRAPH_COMPUTE, node);
    for (int x = bd_set_next(inputs, words, 0); x >= 0; x = bd_set_next(inputs, words, x + 1))
      if (!bd_set_has(is, x)) bd_remat_steps_add(s->ctx, &s->best_steps, BD_GRAPH_DROP, x);
    if (!bd_set_has(is, node)) bd_remat_steps_add(s->ctx, &s->best_steps, BD_GRAPH_DROP, node);
    if (now == last) return;
  }
}

// The costs of the longest paths to the missing values from what is there. With equal bounds, the
// state with the smaller sum has its values spread more evenly.
static double depth_of(search *s, const uint64_t *missing) {
  double sum = 0;
  int words = s->graph->words;
  for (int x = bd_set_next(missing, words, 0); x >= 0; x = bd_set_next(missing, words, x + 1)) {
    const uint64_t *inputs = bd_graph_inputs(s->graph, x);
    double longest = 0;
    for (int i = bd_set_next(inputs, words, 0); i >= 0; i = bd_set_next(inputs, words, i + 1))
      if (bd_set_has(missing, i)) longest = fmax(longest, s->depth[i]);
    s->depth[x] = longest + s->graph->cost[x];
    sum += s->depth[x];
  }
  return sum;
}

// Adds the state after `node` is computed from state `from` with only `kept` left resident.
static void add_child(search *s, int from, const uint64_t *kept, int node) {
  const bd_graph_state *parent = &s->states.state[from];
  bd_graph_state child = {.spent = parent->spent + s->graph->cost[node],
                          .parent = from,
                          .next = parent->next + (node == parent->next),
                          .node = node};
  int layer = child.next & 1, words = s->graph->words;
  const uint64_t *useful = bd_graph_useful(&s->bound, child.next);
  for (int i = 0; i < words; i++)
    s->child[i] = kept[i];
  bd_set_add(s->child, node);
  for (int i = 0; i < words; i++)
    s->child[i] &= useful[i];
  double rest = bd_graph_bound_of(&s->bound, child.next, s->child, s->missing);
  child.least = fmax(parent->least, child.spent + rest);
  if (child.least >= s->best) return;
  child.depth = depth_of(s, s->missing);
  child.missing = find_needed(s, child.next, s->child);
  int count = s->states.count;
  if (!bd_graph_states_add(&s->states, &child, s->child, layer)) pass_over(s, child.least);
  if (child.next == s->graph->nodes && s->states.count > count) record(s, count);
}

// The choice of what to drop for one computation.
typedef struct dropping {
  int from, node, candidates;
  int64_t excess;        // bytes that have to go
  int choices, attempts; // left
} dropping;

// Keeps what need not go, the last candidates before the first. Whether there was any.
static bool keep_more(search *s, const dropping *d, int64_t freed) {
  bool any = false;
  for (int i = d->candidates - 1; i >= 0; i--) {
    int node = s->candidate[i];
    if (bd_set_has(s->kept, node) || freed - s->graph->bytes[node] < d->excess) continue;
    bd_set_add(s->kept, node);
    freed -= s->graph->bytes[node];
    any = true;
  }
  return any;
}

// The first choice is made smaller where it can be; others that could be are left to their smaller
// selves.
static void drop_chosen(search *s, dropping *d, int64_t freed) {
  size_t bytes = (size_t)s->graph->words * sizeof *s->kept;
  memcpy(s->chosen, s->kept, bytes);
  if (!keep_more(s, d, freed) || d->choices == s->choices) {
    d->choices--;
    add_child(s, d->from, s->kept, d->node);
  }
  memcpy(s->kept, s->chosen, bytes);
}

// Tries the candidates from `first` on, dropped before kept.
static void drop_from(search *s, dropping *d, int first, int64_t freed) {
  if (freed >= d->excess) {
    drop_chosen(s, d, freed);
    return;
  }
  if (first == d->candidates || freed + s->behind[first] < d->excess) return;
  if (d->choices <= 0 || d->attempts-- <= 0 || is_late(s)) {
    pass_over(s, s->states.state[d->from].least);
    return;
  }
  int node = s->candidate[first];
  bd_set_remove(s->kept, node);
  drop_from(s, d, first + 1, freed + s->graph->bytes[node]);
  bd_set_add(s->kept, node);
  drop_from(s, d, first + 1, freed);
}

// What may be dropped: first what no later node reads itself, then what the next one does not need,
// the cheapest per byte before the others.
static void list_candidates(search *s, dropping *d) {
  const bd_graph *graph = s->graph;
  const uint64_t *inputs = bd_graph_inputs(graph, d->node);
  int next = s->states.state[d->from].next;
  for (int rank = 0; rank < 4; rank++)
    for (int i = 0; i < graph->nodes; i++) {
      int x = s->order[i];
      if (!bd_set_has(s->now, x) || bd_set_has(inputs, x) || graph->bytes[x] == 0) continue;
      bool read = bd_set_next(bd_graph_consumers(graph, x), graph->words, next) >= 0;
      if (2 * bd_set_has(s->soon, x) + read == rank) s->candidate[d->candidates++] = x;
    }
}

static void compute(search *s, int from, int node) {
  const bd_graph *graph = s->graph;
  dropping d = {.from = from, .node = node, .choices = s->choices, .attempts = 16 * s->choices};
  d.excess = bytes_of(s, s->now) + graph->bytes[node] - s->bound.budget;
  memcpy(s->kept, s->now, (size_t)graph->words * sizeof *s->kept);
  list_candidates(s, &d);
  s->behind[d.candidates] = 0;
  for (int i = d.candidates - 1; i >= 0; i--)
    s->behind[i] = s->behind[i + 1] + graph->bytes[s->candidate[i]];
  drop_from(s, &d, 0, 0);
}

// What the next node and those wanted for it read.
static void find_soon(search *s, int next) {
  int words = s->graph->words;
  memcpy(s->soon, bd_graph_inputs(s->graph, next), (size_t)words * sizeof *s->soon);
  for (int x = bd_set_next(s->wanted, words, 0); x >= 0; x = bd_set_next(s->wanted, words, x + 1))
    for (int i = 0; i < words; i++)
      s->soon[i] |= bd_graph_inputs(s->graph, x)[i];
}

static void expand(search *s, int from) {
  const bd_graph *graph = s->graph;
  int words = graph->words, next = s->states.state[from].next;
  const uint64_t *useful = bd_graph_useful(&s->bound, next);
  memcpy(s->now, bd_graph_resident(&s->states, from), (size_t)words * sizeof *s->now);
  find_needed(s, next, s->now);
  memcpy(s->wanted, s->needed, (size_t)words * sizeof *s->wanted);
  find_soon(s, next);
  if (bd_set_within(bd_graph_inputs(graph, next), s->now, words)) compute(s, from, next);
  for (int x = bd_set_next(useful, words, 0); x >= 0; x = bd_set_next(useful, words, x + 1)) {
    if (bd_set_has(s->now, x) || !bd_set_within(bd_graph_inputs(graph, x), s->now, words)) continue;
    if (s->any || bd_set_has(s->wanted, x))
      compute(s, from, x);
    else
      pass_over(s, s->states.state[from].least);
  }
}

// Whether an earlier visit of the layer had all that the state has, and had spent no more.
static bool dominated(const search *s, int state, const int *visited, int count) {
  const bd_graph_states *states = &s->states;
  const uint64_t *resident = bd_graph_resident(states, state);
  for (int i = 0; i < count; i++)
    if (states->state[visited[i]].spent <= states->state[state].spent &&
        bd_set_within(resident, bd_graph_resident(states, visited[i]), states->words))
      return true;
  return false;
}

static void leave_layer(search *s, int layer) {
  for (int state; (state = bd_graph_states_pop(&s->states, layer, false)) >= 0;)
    pass_over(s, s->states.state[state].least);
  s->states.heap[layer][true].count = 0;
}

// Every other visit goes to the state that is nearest to the next layer: a narrow round gets there.
static void visit_layer(search *s, int next) {
  int layer = next & 1, count = 0;
  int *visited = BD_NEW_ARRAY(s->states.arena, int, s->width < DOMINATORS ? s->width : DOMINATORS);
  for (int visits = 0; visits < s->width && !is_late(s);) {
    int state = bd_graph_states_pop(&s->states, layer, visits & 1);
    if (state < 0) break;
    if (s->states.state[state].least >= s->best) continue;
    if (bd_graph_states_stale(&s->states, state) || dominated(s, state, visited, count)) continue;
    if (count < DOMINATORS) visited[count++] = state;
    visits++;
    expand(s, state);
  }
  leave_layer(s, layer);
}

// One pass over all layers. Returns the least that anything passed over costs, at most s->best.
static double run_round(search *s, bd_arena *arena) {
  const bd_graph *graph = s->graph;
  size_t bytes = (size_t)graph->words * 8 + sizeof(bd_graph_state) + 32;
  bd_graph_states_init(&s->states, arena, graph->words, (int)(STATE_BYTES / bytes));
  s->passed_over = INFINITY;
  memset(s->child, 0, (size_t)graph->words * sizeof *s->child);
  bd_graph_state start = {.least = bd_graph_bound_of(&s->bound, 0, s->child, s->missing),
                          .parent = -1};
  if (!bd_graph_states_add(&s->states, &start, s->child, 0)) pass_over(s, start.least);
  for (int next = 0; next < graph->nodes; next++)
    visit_layer(s, next);
  leave_layer(s, graph->nodes & 1);
  return fmin(s->passed_over, s->best);
}

static int *order_by_density(bd_ctx *ctx, const bd_graph *graph) {
  int *order = BD_NEW_ARRAY(ctx->arena, int, graph->nodes);
  for (int i = 0; i < graph->nodes; i++) {
    int at = i;
    // Cost per byte compared crosswise: bytes may be 0.
    for (; at > 0; at--) {
      int other = order[at - 1];
      if (graph->cost[other] * (double)graph->bytes[i] <=
          graph->cost[i] * (double)graph->bytes[other])
        break;
      order[at] = other;
    }
    order[at] = i;
  }
  return order;
}

static void init_search(bd_ctx *ctx, const bd_graph *graph, int64_t budget, bd_deadline until,
                        search *s) {
  size_t words = (size_t)graph->words;
  *s = (search){.ctx = ctx, .graph = graph, .until = until, .best = INFINITY};
  bd_graph_bound_init(ctx, graph, budget, &s->bound);
  s->order = order_by_density(ctx, graph);
  uint64_t **sets[] = {&s->now,  &s->wanted, &s->soon,  &s->needed,
                       &s->kept, &s->chosen, &s->child, &s->missing};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    *sets[i] = BD_NEW_ARRAY(ctx->arena, uint64_t, words);
  s->candidate = BD_NEW_ARRAY(ctx->arena, int, graph->nodes);
  s->depth = BD_NEW_ARRAY(ctx->arena, double, graph->nodes);
  s->behind = BD_NEW_ARRAY(ctx->arena, int64_t, graph->nodes + 1);
}

// Rounds of growing width until one proves the optimum, the time is up, or, with `first`, something
// is found. Returns the bound.
static double widen(search *s, bool first) {
  double bound = 0;
  bd_owned held;
  bd_arena *arena = bd_ctx_open_arena(s->ctx, &held);
  for (int round = 0; !s->late; round++) {
    s->width = 16 << (2 * (round < 10 ? round : 10));
    s->choices = 4 << (2 * (round < 10 ? round : 10));
    s->any = round >= 2;
    bd_arena_reset(arena);
    bound = fmax(bound, run_round(s, arena));
    if (bound >= s->best * (1 - 1e-12) || (first && isfinite(s->best))) break;
  }
  bd_ctx_close_arena(s->ctx, &held);
  return bound;
}

bd_status bd_graph_solve(bd_ctx *ctx, const bd_graph *graph, int64_t budget, bd_deadline deadline,
                         bd_remat_answer *out) {
  if (budget < bd_graph_widest(graph)) return BD_INFEASIBLE;
  search s;
  init_search(ctx, graph, budget, deadline, &s);
  out->bound = widen(&s, false);
  out->cost = s.best;
  out->steps = s.best_steps;
  out->cut = s.late && out->bound < out->cost;
  if (isfinite(s.best)) return BD_OK;
  return isinf(out->bound) ? BD_INFEASIBLE : BD_EXHAUSTED;
}

int64_t bd_graph_smallest_budget(bd_ctx *ctx, const bd_graph *graph, bd_deadline deadline) {
  int64_t low = bd_graph_widest(graph), high = bd_graph_full(graph);
  double part = (deadline.seconds - bd_clock_seconds()) / 8;
  while (low < high && !bd_deadline_passed(deadline)) {
    int64_t middle = low + (high - low) / 2;
    search s;
    init_search(ctx, graph, middle, bd_deadline_within(deadline, part), &s);
    (void)widen(&s, true);
    if (isfinite(s.best))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}
