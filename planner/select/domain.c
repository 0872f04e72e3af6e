#include "planner/select/domain.h"
#include "planner/select/load.h"

#include <string.h>

bd_select_domain bd_select_domain_create(bd_ctx *ctx, const bd_select_problem *p) {
  size_t n = (size_t)p->nodes;
  bd_select_domain domain = {.live = BD_NEW_ARRAY(ctx->arena, bool, p->start[n]),
                             .count = BD_NEW_ARRAY(ctx->arena, int, n)};
  memset(domain.live, true, p->start[n] * sizeof *domain.live);
  for (int i = 0; i < p->nodes; i++)
    domain.count[i] = bd_select_strategies(p, i);
  return domain;
}

typedef struct pruning {
  const bd_select_problem *p;
  const bd_select_times *times;
  bd_select_domain *domain;
  int64_t forbid;
  int *edge_start, *edge_of; // the edges of each node
  int *queue;                // nodes whose edges are to be looked at, a ring
  bool *queued;
  size_t head, waiting;
} pruning;

static void enqueue(pruning *r, int node) {
  if (r->queued[node]) return;
  r->queued[node] = true;
  r->queue[(r->head + r->waiting++) % (size_t)r->p->nodes] = node;
}

static void drop(pruning *r, int node, size_t strategy) {
  r->domain->live[strategy] = false;
  r->domain->count[node]--;
  enqueue(r, node);
}

// Drops the strategies of `from` or of `to` without a partner on the edge.
static void support(pruning *r, const bd_select_edge *edge, bool *has_column) {
  const bd_select_problem *p = r->p;
  const bool *live = r->domain->live;
  size_t rows = p->start[edge->from], columns = p->start[edge->to];
  size_t row_count = (size_t)bd_select_strategies(p, edge->from);
  size_t column_count = (size_t)bd_select_strategies(p, edge->to);
  memset(has_column, 0, column_count * sizeof *has_column);
  for (size_t i = 0; i < row_count; i++) {
    if (!live[rows + i]) continue;
    const int64_t *row = edge->matrix + i * column_count;
    bool has = false;
    for (size_t j = 0; j < column_count; j++) {
      bool fine = (edge->from != edge->to || i == j) && live[columns + j] && row[j] < r->forbid;
      has |= fine;
      has_column[j] |= fine;
    }
    if (!has) drop(r, edge->from, rows + i);
  }
  for (size_t j = 0; j < column_count; j++)
    if (live[columns + j] && !has_column[j]) drop(r, edge->to, columns + j);
}

static bool support_all(pruning *r, bool *has_column) {
  while (r->waiting > 0) {
    int node = r->queue[r->head];
    r->head = (r->head + 1) % (size_t)r->p->nodes;
    r->waiting--;
    r->queued[node] = false;
    if (r->domain->count[node] == 0) return false;
    for (int e = r->edge_start[node]; e < r->edge_start[node + 1]; e++)
      support(r, &r->p->edge[r->edge_of[e]], has_column);
  }
  return true;
}

static int64_t least_usage(const pruning *r, int node) {
  int64_t least = INT64_MAX;
  for (size_t s = r->p->start[node]; s < r->p->start[node + 1]; s++)
    if (r->domain->live[s] && r->p->usage[s] < least) least = r->p->usage[s];
  return least;
}

// Drops strategies that do not fit beside the least usages of all others.
static bool fit_all(pruning *r, bd_select_load *load) {
  const bd_select_times *t = r->times;
  bd_select_load_clear(load);
  for (int i = 0; i < r->p->nodes; i++)
    bd_select_load_add(load, t->first[i], t->last[i], least_usage(r, i));
  bool dropped = false;
  for (int i = 0; i < r->p->nodes; i++) {
    if (t->first[i] == t->last[i]) continue;
    int64_t least = least_usage(r, i);
    int64_t room = r->p->limit - bd_select_load_max(load, t->first[i], t->last[i]) + least;
    for (size_t s = r->p->start[i]; s < r->p->start[i + 1]; s++) {
      if (!r->domain->live[s] || r->p->usage[s] <= room) continue;
      drop(r, i, s);
      dropped = true;
    }
  }
  return dropped;
}

static void list_edges(bd_arena *arena, pruning *r) {
  const bd_select_problem *p = r->p;
  r->edge_start = BD_NEW_ARRAY(arena, int, p->nodes + 1);
  r->edge_of = BD_NEW_ARRAY(arena, int, 2 * (size_t)p->edges);
  for (int e = 0; e < p->edges; e++) {
    r->edge_start[p->edge[e].from]++;
    r->edge_start[p->edge[e].to]++;
  }
  for (int i = 0, sum = 0; i <= p->nodes; i++) {
    sum += i < p->nodes ? r->edge_start[i] : 0;
    r->edge_start[i] = sum;
  }
  for (int e = p->edges; e-- > 0;) {
    r->edge_of[--r->edge_start[p->edge[e].from]] = e;
    r->edge_of[--r->edge_start[p->edge[e].to]] = e;
  }
}

bool bd_select_domain_prune(bd_ctx *ctx, const bd_select_problem *p, const bd_select_times *times,
                            int64_t forbid, bd_select_domain *domain) {
  bd_arena *arena = ctx->arena;
  pruning r = {.p = p, .times = times, .domain = domain, .forbid = forbid};
  list_edges(arena, &r);
  r.queue = BD_NEW_ARRAY(arena, int, p->nodes);
  r.queued = BD_NEW_ARRAY(arena, bool, p->nodes);
  bd_select_load load = bd_select_load_create(arena, times->points);
  int widest = 0;
  for (int i = 0; i < p->nodes; i++) {
    widest = bd_select_strategies(p, i) > widest ? bd_select_strategies(p, i) : widest;
    for (size_t s = p->start[i]; s < p->start[i + 1]; s++)
      if (domain->live[s] && p->cost[s] >= forbid) drop(&r, i, s);
    enqueue(&r, i);
  }
  bool *has_column = BD_NEW_ARRAY(arena, bool, widest);
  do {
    if (!support_all(&r, has_column)) return false;
  } while (fit_all(&r, &load));
  return true;
}
