#include "planner/eliminate.h"
#include <math.h>
#include <string.h>

// Entries visited by one elimination, at most.
#define TABLE_LIMIT ((int64_t)1 << 24)
enum { MAX_SCOPE = 12 };

// A function of a few nodes.
typedef struct factor {
  int scope_count, scope[MAX_SCOPE];
  int64_t stride[MAX_SCOPE];
  double *table;
  int edge; // of the problem, or -1: a message
  bool used;
} factor;

typedef struct step {
  int node, factor_count;
  factor **factors;
  factor *message; // over the neighbours
  int *best;       // per entry of the message: the node's best option among its live ones
} step;

struct bd_elimination {
  const bd_choice_problem *problem;
  int *live_count, **live; // per node
  int factor_count;
  factor *factors;
  step *steps;
  double *node_value, *total; // per live option of the node at hand
};

static int64_t table_size(const bd_elimination *e, const factor *f) {
  int64_t size = 1;
  for (int i = 0; i < f->scope_count; i++) {
    size *= e->live_count[f->scope[i]];
    if (size > TABLE_LIMIT) return size;
  }
  return size;
}

static void set_strides(const bd_elimination *e, factor *f) {
  int64_t stride = 1;
  for (int i = f->scope_count - 1; i >= 0; i--) {
    f->stride[i] = stride;
    stride *= e->live_count[f->scope[i]];
  }
}

static int position(const factor *f, int node) {
  for (int i = 0; i < f->scope_count; i++)
    if (f->scope[i] == node) return i;
  return -1;
}

// The neighbours of `node` among the factors that are left; false when there are too many.
static bool find_neighbours(const bd_elimination *e, int node, factor *out) {
  out->scope_count = 0;
  for (int i = 0; i < e->factor_count; i++) {
    const factor *f = &e->factors[i];
    if (f->used || position(f, node) < 0) continue;
    for (int k = 0; k < f->scope_count; k++) {
      if (f->scope[k] == node || position(out, f->scope[k]) >= 0) continue;
      if (out->scope_count == MAX_SCOPE) return false;
      out->scope[out->scope_count++] = f->scope[k];
    }
  }
  return true;
}

// The node whose elimination visits the fewest entries; -1 when all visit too many.
static int cheapest_node(const bd_elimination *e, const bool *gone, factor *out_scope) {
  int found = -1;
  int64_t least = TABLE_LIMIT;
  for (int i = 0; i < e->problem->nodes; i++) {
    factor scope;
    if (gone[i] || !find_neighbours(e, i, &scope)) continue;
    int64_t visits = table_size(e, &scope) * e->live_count[i];
    if (visits > least || (found >= 0 && visits == least)) continue;
    least = visits;
    found = i;
    *out_scope = scope;
  }
  return found;
}

static void add_step(bd_ctx *ctx, bd_elimination *e, step *s, int node, const factor *scope) {
  *s = (step){.node = node, .factors = BD_NEW_ARRAY(ctx->arena, factor *, e->factor_count)};
  for (int i = 0; i < e->factor_count; i++) {
    factor *f = &e->factors[i];
    if (f->used || position(f, node) < 0) continue;
    f->used = true;
    s->factors[s->factor_count++] = f;
  }
  s->message = &e->factors[e->factor_count++];
  *s->message = *scope;
  s->message->edge = -1;
  s->message->used = scope->scope_count == 0;
  set_strides(e, s->message);
  int64_t size = table_size(e, s->message);
  s->message->table = BD_NEW_ARRAY(ctx->arena, double, size);
  s->best = BD_NEW_ARRAY(ctx->arena, int, size);
}

static void find_live(bd_ctx *ctx, bd_elimination *e, bool *const *live) {
  const bd_choice_problem *p = e->problem;
  e->live_count = BD_NEW_ARRAY(ctx->arena, int, p->nodes);
  e->live = BD_NEW_ARRAY(ctx->arena, int *, p->nodes);
  int most = 1;
  for (int i = 0; i < p->nodes; i++) {
    e->live[i] = BD_NEW_ARRAY(ctx->arena, int, p->node[i].options);
    for (int o = 0; o < p->node[i].options; o++)
      if (live[i][o]) e->live[i][e->live_count[i]++] = o;
    if (e->live_count[i] > most) most = e->live_count[i];
  }
  e->node_value = BD_NEW_ARRAY(ctx->arena, double, most);
  e->total = BD_NEW_ARRAY(ctx->arena, double, most);
}

bd_elimination *bd_elimination_create(bd_ctx *ctx, const bd_choice_problem *problem,
                                      bool *const *live) {
  bd_elimination *e = BD_NEW(ctx->arena, bd_elimination);
  e->problem = problem;
  find_live(ctx, e, live);
  e->factors = BD_NEW_ARRAY(ctx->arena, factor, problem->edges + problem->nodes);
  for (int i = 0; i < problem->edges; i++) {
    factor *f = &e->factors[e->factor_count++];
    *f = (factor){.scope_count = 2, .scope = {problem->edge[i].a, problem->edge[i].b}, .edge = i};
    set_strides(e, f);
    if (table_size(e, f) > TABLE_LIMIT) return NULL;
    f->table = BD_NEW_ARRAY(ctx->arena, double, table_size(e, f));
  }
  e->steps = BD_NEW_ARRAY(ctx->arena, step, problem->nodes);
  bool *gone = BD_NEW_ARRAY(ctx->arena, bool, problem->nodes);
  for (int i = 0; i < problem->nodes; i++) {
    factor scope;
    int node = cheapest_node(e, gone, &scope);
    if (node < 0) return NULL;
    gone[node] = true;
    add_step(ctx, e, &e->steps[i], node, &scope);
  }
  return e;
}

// Weighted, and INFINITY where it is not allowed, whatever the weight.
static double weighted(double weight, double value) {
  return isinf(value) ? value : weight * value;
}

static void fill_edges(bd_elimination *e, double cost_weight) {
  for (int i = 0; i < e->problem->edges; i++) {
    const bd_choice_edge *edge = &e->problem->edge[i];
    double *table = e->factors[i].table;
    size_t columns = (size_t)e->problem->node[edge->b].options;
    for (int a = 0; a < e->live_count[edge->a]; a++)
      for (int b = 0; b < e->live_count[edge->b]; b++)
        *table++ = weighted(
            cost_weight,
            edge->cost[(size_t)e->live[edge->a][a] * columns + (size_t)e->live[edge->b][b]]);
  }
}

// Where a factor's entries for an assignment of the message's scope begin.
static int64_t entry(const factor *f, const factor *scope, const int *assigned) {
  int64_t at = 0;
  for (int i = 0; i < scope->scope_count; i++) {
    int k = position(f, scope->scope[i]);
    if (k >= 0) at += f->stride[k] * assigned[i];
  }
  return at;
}

// The node's best option for one assignment of its neighbours.
static void minimize(const bd_elimination *e, step *s, const int *assigned, int64_t index) {
  int count = e->live_count[s->node], best = 0;
  double *total = e->total, least = INFINITY;
  memcpy(total, e->node_value, sizeof *total * (size_t)count);
  for (int f = 0; f < s->factor_count; f++) {
    const factor *term = s->factors[f];
    const double *from = term->table + entry(term, s->message, assigned);
    int64_t stride = term->stride[position(term, s->node)];
    for (int x = 0; x < count; x++)
      total[x] += from[x * stride];
  }
  for (int x = 0; x < count; x++)
    if (total[x] < least) {
      least = total[x];
      best = x;
    }
  s->message->table[index] = least;
  s->best[index] = best;
}

static void run_step(const bd_elimination *e, step *s, double cost_weight, double usage_weight) {
  const bd_choice_node *node = &e->problem->node[s->node];
  for (int x = 0; x < e->live_count[s->node]; x++) {
    int o = e->live[s->node][x];
    e->node_value[x] = weighted(cost_weight, node->cost[o]) + usage_weight * node->usage[o];
  }
  int assigned[MAX_SCOPE] = {0};
  int64_t size = table_size(e, s->message);
  for (int64_t index = 0; index < size; index++) {
    minimize(e, s, assigned, index);
    for (int i = s->message->scope_count - 1; i >= 0; i--) {
      if (++assigned[i] < e->live_count[s->message->scope[i]]) break;
      assigned[i] = 0;
    }
  }
}

bool bd_elimination_run(bd_elimination *e, double cost_weight, double usage_weight,
                        int *out_option) {
  int nodes = e->problem->nodes;
  for (int i = 0; i < nodes; i++)
    if (!e->live_count[i]) return false;
  fill_edges(e, cost_weight);
  for (int i = 0; i < nodes; i++) {
    run_step(e, &e->steps[i], cost_weight, usage_weight);
    const factor *message = e->steps[i].message;
    if (!message->scope_count && isinf(message->table[0])) return false;
  }
  // `out_option` holds positions among the live options until all are known.
  for (int i = nodes - 1; i >= 0; i--) {
    const step *s = &e->steps[i];
    int64_t at = 0;
    for (int k = 0; k < s->message->scope_count; k++)
      at += s->message->stride[k] * out_option[s->message->scope[k]];
    out_option[s->node] = s->best[at];
  }
  for (int i = 0; i < nodes; i++)
    out_option[i] = e->live[i][out_option[i]];
  return true;
}
