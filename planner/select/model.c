#include "planner/select/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
  bd_ctx *ctx;
  const bd_select_problem *p;
  const bd_select_domain *domain;
  double forbid;
  bd_select_model *model;
  int *node_of; // of each node of the problem: its number in the model, or -1
} builder;

// A forbidden cost that is not forbidden, since nothing else is left, is merely high.
static double price(const builder *b, int64_t cost) {
  return (double)cost >= b->forbid ? INFINITY : fmin((double)cost, (double)BD_SELECT_FORBIDDEN);
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
        m->constant += price(b, p->cost[s]);
        m->room[times->first[i]] -= p->usage[s];
        m->room[times->last[i]] += p->usage[s];
        continue;
      }
      m->strategy[next] = (int)(s - p->start[i]);
      m->cost[next] = price(b, p->cost[s]);
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
    m->constant +=
        price(b, edge->matrix[(size_t)m->fixed[edge->from] * columns + (size_t)m->fixed[edge->to]]);
    return;
  }
  int node = from >= 0 ? from : to;
  for (int s = m->start[node]; s < m->start[node + 1]; s++) {
    int row = from >= 0 ? m->strategy[s] : m->fixed[edge->from];
    int column = to >= 0 ? m->strategy[s] : m->fixed[edge->to];
    m->cost[s] += price(b, edge->matrix[(size_t)row * columns + (size_t)column]);
  }
}

// An edge between two nodes that have a choice, as the model orients it.
typedef struct joint {
  int low, high, edge;
} joint;

static int by_nodes(const void *a, const void *b) {
  const joint *x = a, *y = b;
  if (x->low != y->low) return x->low - y->low;
  if (x->high != y->high) return x->high - y->high;
  return x->edge - y->edge;
}

// Sums the matrices of parallel edges, live strategies only.
static void add_matrices(const builder *b, const joint *joints, size_t count, double *out) {
  const bd_select_model *m = b->model;
  int low = joints->low, high = joints->high;
  int rows = bd_select_choices(m, low), columns = bd_select_choices(m, high);
  for (size_t k = 0; k < count; k++) {
    const bd_select_edge *edge = &b->p->edge[joints[k].edge];
    bool straight = edge->from == m->origin[low];
    size_t width = (size_t)bd_select_strategies(b->p, edge->to);
    for (int i = 0; i < rows; i++) {
      size_t row = (size_t)m->strategy[m->start[low] + i];
      for (int j = 0; j < columns; j++) {
        size_t column = (size_t)m->strategy[m->start[high] + j];
        size_t at = straight ? row * width + column : column * width + row;
        out[(size_t)i * (size_t)columns + (size_t)j] += price(b, edge->matrix[at]);
      }
    }
  }
}

// Matrices are shared by edges of equal source and equal live strategies at both ends. An
// open-addressed table of edges of the model plus one.
typedef struct sharing {
  const int64_t **source; // of each edge of the model; NULL: a sum
  bool *straight;
  int *domain_of; // of each node of the model: a number that is equal for equal live strategies
  uint32_t *slot;
  size_t slots;
} sharing;

static bool same_domain(const bd_select_model *m, int a, int b) {
  int count = bd_select_choices(m, a);
  return count == bd_select_choices(m, b) &&
         memcmp(m->strategy + m->start[a], m->strategy + m->start[b],
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
    while (share->slot[at] && !same_domain(m, (int)share->slot[at] - 1, i))
      at = (at + 1) & (share->slots - 1);
    if (!share->slot[at]) share->slot[at] = (uint32_t)i + 1;
    share->domain_of[i] = (int)share->slot[at] - 1;
  }
  memset(share->slot, 0, share->slots * sizeof *share->slot);
}

// The matrix of an equal earlier edge, or NULL, after which `edge` is the one to be found.
static const double *find_matrix(const bd_select_model *m, sharing *share, int edge) {
  int low = share->domain_of[m->low[edge]], high = share->domain_of[m->high[edge]];
  size_t h =
      mix(mix((size_t)share->source[edge], (size_t)low * 2 + share->straight[edge]), (size_t)high);
  size_t at = h & (share->slots - 1);
  for (; share->slot[at]; at = (at + 1) & (share->slots - 1)) {
    int other = (int)share->slot[at] - 1;
    if (share->source[other] == share->source[edge] &&
        share->straight[other] == share->straight[edge] && share->domain_of[m->low[other]] == low &&
        share->domain_of[m->high[other]] == high) {
      return m->matrix[other];
    }
  }
  share->slot[at] = (uint32_t)edge + 1;
  return NULL;
}

static void add_edges(builder *b, joint *joints, size_t count) {
  bd_select_model *m = b->model;
  bd_arena *arena = b->ctx->arena;
  m->low = BD_NEW_ARRAY(arena, int, count);
  m->high = BD_NEW_ARRAY(arena, int, count);
  m->matrix = BD_NEW_ARRAY(arena, const double *, count);
  sharing share = {.source = BD_NEW_ARRAY(arena, const int64_t *, count),
                   .straight = BD_NEW_ARRAY(arena, bool, count),
                   .domain_of = BD_NEW_ARRAY(arena, int, m->nodes),
                   .slots = 16};
  while (share.slots <= 2 * (count + (size_t)m->nodes))
    share.slots *= 2;
  share.slot = BD_NEW_ARRAY(arena, uint32_t, share.slots);
  number_domains(b, &share);
  for (size_t k = 0, next; k < count; k = next) {
    int low = joints[k].low, high = joints[k].high, e = m->edges++;
    for (next = k + 1; next < count && joints[next].low == low && joints[next].high == high;)
      next++;
    const bd_select_edge *edge = &b->p->edge[joints[k].edge];
    m->low[e] = low;
    m->high[e] = high;
    share.source[e] = edge->matrix;
    share.straight[e] = edge->from == m->origin[low];
    m->matrix[e] = next == k + 1 ? find_matrix(m, &share, e) : NULL;
    if (next != k + 1) share.source[e] = NULL;
    if (m->matrix[e]) continue;
    double *matrix = BD_NEW_ARRAY(
        arena, double, (size_t)bd_select_choices(m, low) * (size_t)bd_select_choices(m, high));
    add_matrices(b, joints + k, next - k, matrix);
    m->matrix[e] = matrix;
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
  return m;
}

bd_select_model *bd_select_model_create(bd_ctx *ctx, const bd_select_problem *p,
                                        const bd_select_times *times,
                                        const bd_select_domain *domain, double forbid) {
  builder b = {.ctx = ctx,
               .p = p,
               .domain = domain,
               .forbid = forbid,
               .model = model_alloc(ctx, p, times, domain),
               .node_of = BD_NEW_ARRAY(ctx->arena, int, p->nodes)};
  add_nodes(&b, times);
  joint *joints = BD_NEW_ARRAY(ctx->arena, joint, p->edges);
  size_t count = 0;
  for (int e = 0; e < p->edges; e++) {
    int from = b.node_of[p->edge[e].from], to = b.node_of[p->edge[e].to];
    if (from < 0 || to < 0 || from == to) {
      absorb(&b, &p->edge[e]);
      continue;
    }
    joints[count++] = from < to ? (joint){from, to, e} : (joint){to, from, e};
  }
  qsort(joints, count, sizeof *joints, by_nodes);
  add_edges(&b, joints, count);
  list_links(ctx->arena, b.model);
  return b.model;
}

void bd_select_model_expand(const bd_select_model *m, int problem_nodes, const int *choice,
                            int *out_choice) {
  memcpy(out_choice, m->fixed, (size_t)problem_nodes * sizeof *out_choice);
  for (int i = 0; i < m->nodes; i++)
    out_choice[m->origin[i]] = m->strategy[m->start[i] + choice[i]];
}
