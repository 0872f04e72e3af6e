#include "planner/select/model.h"

#include <math.h>
#include <string.h>

typedef struct builder {
  bd_ctx *ctx;
  const bd_select_problem *p;
  const bd_select_domain *domain;
  int64_t forbid;
  bd_select_model *model;
  int64_t *cost;  // of each strategy of the model; INT64_MAX: more than fits
  int64_t *least; // of each edge of the model: what was taken out of its matrix
  int *node_of;   // of each node of the problem: its number in the model, or -1
} builder;

// Doubles hold sums of smaller costs exactly; the least of larger ones is told apart.
#define LARGE (INT64_C(1) << 40)

static int64_t sum(int64_t a, int64_t b) {
  int64_t both;
  return __builtin_add_overflow(a, b, &both) ? INT64_MAX : both;
}

// A forbidden cost that is not forbidden, since nothing else is left, is merely high.
static int64_t capped(const builder *b, int64_t cost) {
  return cost < b->p->forbidden ? cost : b->p->forbidden;
}

static double price(const builder *b, int64_t cost, int64_t least) {
  return cost >= b->forbid ? INFINITY : (double)(capped(b, cost) - least);
}

static void add_nodes(builder *b, const bd_select_times *times) {
  const bd_select_problem *p = b->p;
  bd_select_model *m = b->model;
  for (int i = 0; i < p->nodes; i++) {
    b->node_of[i] = -1;
    bool choice = b->domain->count[i] > 1;
    int node = m->nodes, next = m->start[node];
    for (size_t s = p->start[i]; s < p->start[i + 1]; s++) {
      if (!b->domain->live[s]) continue;
      if (!choice) {
        m->fixed[i] = (int)(s - p->start[i]);
        m->constant = sum(m->constant, capped(b, p->cost[s]));
        m->room[times->first[i]] -= p->usage[s];
        m->room[times->last[i]] += p->usage[s];
        continue;
      }
      m->strategy[next] = (int)(s - p->start[i]);
      b->cost[next] = capped(b, p->cost[s]);
      m->usage[next++] = p->usage[s];
    }
    if (!choice) continue;
    b->node_of[i] = node;
    m->fixed[i] = -1;
    m->origin[node] = i;
    m->first[node] = times->first[i];
    m->last[node] = times->last[i];
    m->start[++m->nodes] = next;
  }
  // So far `room` held differences between neighbouring points.
  for (int k = 1; k < m->points; k++)
    m->room[k] += m->room[k - 1];
}

// An edge with at most one node that has a choice: its costs join that node's.
static void absorb(builder *b, const bd_select_edge *edge) {
  bd_select_model *m = b->model;
  size_t columns = (size_t)bd_select_strategies(b->p, edge->to);
  int from = b->node_of[edge->from], to = b->node_of[edge->to];
  if (from < 0 && to < 0) {
    m->constant = sum(
        m->constant,
        capped(b,
               edge->matrix[(size_t)m->fixed[edge->from] * columns + (size_t)m->fixed[edge->to]]));
    return;
  }
  int node = from >= 0 ? from : to;
  for (int s = m->start[node]; s < m->start[node + 1]; s++) {
    int row = from >= 0 ? m->strategy[s] : m->fixed[edge->from];
    int column = to >= 0 ? m->strategy[s] : m->fixed[edge->to];
    b->cost[s] = sum(b->cost[s], capped(b, edge->matrix[(size_t)row * columns + (size_t)column]));
  }
}

// The least cost between live strategies, where it is large.
static int64_t least_between(const builder *b, const bd_select_edge *edge, int low, int high) {
  const bd_select_model *m = b->model;
  size_t width = (size_t)bd_select_strategies(b->p, edge->to);
  int64_t least = b->p->forbidden;
  for (int i = m->start[low]; i < m->start[low + 1]; i++) {
    const int64_t *row = edge->matrix + (size_t)m->strategy[i] * width;
    for (int j = m->start[high]; j < m->start[high + 1]; j++)
      least = row[m->strategy[j]] < least ? row[m->strategy[j]] : least;
  }
  return least < LARGE ? 0 : least;
}

// The costs between live strategies, less the least.
static const double *live_matrix(const builder *b, const bd_select_edge *edge, int low, int high,
                                 int64_t least) {
  const bd_select_model *m = b->model;
  int rows = bd_select_choices(m, low), columns = bd_select_choices(m, high);
  size_t width = (size_t)bd_select_strategies(b->p, edge->to);
  double *matrix = BD_NEW_ARRAY(b->ctx->arena, double, (size_t)rows *(size_t)columns);
  double *next = matrix;
  for (int i = 0; i < rows; i++) {
    const int64_t *row = edge->matrix + (size_t)m->strategy[m->start[low] + i] * width;
    for (int j = 0; j < columns; j++)
      *next++ = price(b, row[m->strategy[m->start[high] + j]], least);
  }
  return matrix;
}

// The costs of nodes, the least of each taken out where it is large.
static void set_costs(builder *b) {
  bd_select_model *m = b->model;
  for (int i = 0; i < m->nodes; i++) {
    int64_t least = INT64_MAX;
    for (int s = m->start[i]; s < m->start[i + 1]; s++)
      least = b->cost[s] < least ? b->cost[s] : least;
    if (least < LARGE) least = 0;
    m->constant = sum(m->constant, least);
    for (int s = m->start[i]; s < m->start[i + 1]; s++)
      m->cost[s] = (double)(b->cost[s] - least);
  }
}

// Matrices are shared by edges of equal source and equal live strategies at both ends. An
// open-addressed table of edges of the model plus one.
typedef struct sharing {
  const int64_t **source; // of each edge of the model
  int *domain_of; // of each node of the model: a number that is equal for equal live strategies
  uint32_t *slot;
  size_t slots;
} sharing;

// Whether two nodes have the same live strategies of equally many: then an equal matrix stays one.
static bool same_domain(const builder *b, int a, int c) {
  const bd_select_model *m = b->model;
  int count = bd_select_choices(m, a);
  return count == bd_select_choices(m, c) &&
         bd_select_strategies(b->p, m->origin[a]) == bd_select_strategies(b->p, m->origin[c]) &&
         memcmp(m->strategy + m->start[a], m->strategy + m->start[c],
                (size_t)count * sizeof *m->strategy) == 0;
}

static size_t mix(size_t h, size_t value) {
  h = (h ^ value) * 0xff51afd7ed558ccdu;
  return h ^ h >> 32;
}

static void number_domains(const builder *b, sharing *share) {
  const bd_select_model *m = b->model;
  memset(share->slot, 0, share->slots * sizeof *share->slot);
  for (int i = 0; i < m->nodes; i++) {
    size_t h = 1;
    for (int s = m->start[i]; s < m->start[i + 1]; s++)
      h = mix(h, (size_t)m->strategy[s] + 1);
    size_t at = h & (share->slots - 1);
    while (share->slot[at] && !same_domain(b, (int)share->slot[at] - 1, i))
      at = (at + 1) & (share->slots - 1);
    if (!share->slot[at]) share->slot[at] = (uint32_t)i + 1;
    share->domain_of[i] = (int)share->slot[at] - 1;
  }
  memset(share->slot, 0, share->slots * sizeof *share->slot);
}

// An equal earlier edge, or -1, after which `edge` is the one to be found.
static int find_equal(const bd_select_model *m, sharing *share, int edge) {
  int low = share->domain_of[m->low[edge]], high = share->domain_of[m->high[edge]];
  size_t h = mix(mix((size_t)share->source[edge], (size_t)low), (size_t)high);
  size_t at = h & (share->slots - 1);
  for (; share->slot[at]; at = (at + 1) & (share->slots - 1)) {
    int other = (int)share->slot[at] - 1;
    if (share->source[other] == share->source[edge] && share->domain_of[m->low[other]] == low &&
        share->domain_of[m->high[other]] == high) {
      return other;
    }
  }
  share->slot[at] = (uint32_t)edge + 1;
  return -1;
}

static void add_edges(builder *b) {
  bd_select_model *m = b->model;
  bd_arena *arena = b->ctx->arena;
  size_t most = (size_t)b->p->edges;
  m->low = BD_NEW_ARRAY(arena, int, most);
  m->high = BD_NEW_ARRAY(arena, int, most);
  b->least = BD_NEW_ARRAY(arena, int64_t, most);
  m->matrix = BD_NEW_ARRAY(arena, const double *, most);
  sharing share = {.source = BD_NEW_ARRAY(arena, const int64_t *, most),
                   .domain_of = BD_NEW_ARRAY(arena, int, m->nodes),
                   .slots = 16};
  while (share.slots <= 2 * (most + (size_t)m->nodes))
    share.slots *= 2;
  share.slot = BD_NEW_ARRAY(arena, uint32_t, share.slots);
  number_domains(b, &share);
  for (int k = 0; k < b->p->edges; k++) {
    const bd_select_edge *edge = &b->p->edge[k];
    int low = b->node_of[edge->from], high = b->node_of[edge->to];
    if (low < 0 || high < 0) {
      absorb(b, edge);
      continue;
    }
    int e = m->edges++;
    m->low[e] = low;
    m->high[e] = high;
    share.source[e] = edge->matrix;
    int equal = find_equal(m, &share, e);
    b->least[e] = equal < 0 ? least_between(b, edge, low, high) : b->least[equal];
    m->matrix[e] = equal < 0 ? live_matrix(b, edge, low, high, b->least[e]) : m->matrix[equal];
    m->constant = sum(m->constant, b->least[e]);
  }
}

static void list_links(bd_arena *arena, bd_select_model *m) {
  m->link_start = BD_NEW_ARRAY(arena, int, m->nodes + 1);
  m->link = BD_NEW_ARRAY(arena, bd_select_link, 2 * (size_t)m->edges);
  int *next = BD_NEW_ARRAY(arena, int, m->nodes + 1);
  for (int e = 0; e < m->edges; e++) {
    m->link_start[m->low[e] + 1]++;
    m->link_start[m->high[e] + 1]++;
  }
  for (int i = 0; i < m->nodes; i++) {
    m->link_start[i + 1] += m->link_start[i];
    next[i] = m->link_start[i];
  }
  // Edges ascend by low, then high: first each node's links downwards, then those upwards.
  for (int e = 0; e < m->edges; e++)
    m->link[next[m->high[e]]++] = (bd_select_link){e, m->low[e], false};
  for (int e = 0; e < m->edges; e++)
    m->link[next[m->low[e]]++] = (bd_select_link){e, m->high[e], true};
}

static bd_select_model *model_alloc(bd_ctx *ctx, const bd_select_problem *p,
                                    const bd_select_times *times, const bd_select_domain *domain) {
  bd_arena *arena = ctx->arena;
  bd_select_model *m = BD_NEW(arena, bd_select_model);
  size_t nodes = 0, strategies = 0;
  for (int i = 0; i < p->nodes; i++) {
    nodes += domain->count[i] > 1;
    strategies += domain->count[i] > 1 ? (size_t)domain->count[i] : 0;
  }
  m->points = times->points;
  m->origin = BD_NEW_ARRAY(arena, int, nodes);
  m->first = BD_NEW_ARRAY(arena, int, nodes);
  m->last = BD_NEW_ARRAY(arena, int, nodes);
  m->start = BD_NEW_ARRAY(arena, int, nodes + 1);
  m->strategy = BD_NEW_ARRAY(arena, int, strategies);
  m->cost = BD_NEW_ARRAY(arena, double, strategies);
  m->usage = BD_NEW_ARRAY(arena, int64_t, strategies);
  m->room = BD_NEW_ARRAY(arena, int64_t, times->points + 1);
  m->fixed = BD_NEW_ARRAY(arena, int, p->nodes);
  m->room[0] = p->limit;
  m->forbidden = (double)p->forbidden;
  return m;
}

bd_select_model *bd_select_model_create(bd_ctx *ctx, const bd_select_problem *p,
                                        const bd_select_times *times,
                                        const bd_select_domain *domain, int64_t forbid) {
  builder b = {.ctx = ctx,
               .p = p,
               .domain = domain,
               .forbid = forbid,
               .model = model_alloc(ctx, p, times, domain),
               .node_of = BD_NEW_ARRAY(ctx->arena, int, p->nodes)};
  b.cost = BD_NEW_ARRAY(ctx->arena, int64_t, p->start[p->nodes]);
  add_nodes(&b, times);
  add_edges(&b);
  set_costs(&b);
  list_links(ctx->arena, b.model);
  return b.model;
}

void bd_select_model_expand(const bd_select_model *m, int problem_nodes, const int *choice,
                            int *out_choice) {
  memcpy(out_choice, m->fixed, (size_t)problem_nodes * sizeof *out_choice);
  for (int i = 0; i < m->nodes; i++)
    out_choice[m->origin[i]] = m->strategy[m->start[i] + choice[i]];
}

int64_t bd_select_model_total(const bd_select_model *m, double above) {
  double whole = ceil(above);
  if (whole >= 0x1p63) return INT64_MAX;
  return whole > 0 ? sum(m->constant, (int64_t)whole) : m->constant;
}
