#include "planner/choice/eliminate.h"
#include "planner/choice/classify.h"
#include "planner/choice/eliminate_order.h"
#include <math.h>

struct bd_elimination {
  bd_arena *arena;
  const bd_choice_problem *problem;
  int *live_count, **live; // per node
  bd_factor_pool pool;     // the problem's edges first
  double **copied;         // per edge: its table, where that is not the edge's own
  int step_count;
  bd_step *steps;
  double *value; // per live option of the node at hand
  // Of the last run: its weights by the scale, which makes that of costs 1 or 0; the sum of the
  // messages without a scope but the last, and of all.
  double scale, cost_weight, usage_weight, rest, bound;
};

static void find_live(bd_ctx *ctx, bd_elimination *e, bool *const *live) {
  const bd_choice_problem *p = e->problem;
  int most = 0;
  e->live_count = BD_NEW_ARRAY(ctx->arena, int, p->nodes);
  e->live = BD_NEW_ARRAY(ctx->arena, int *, p->nodes);
  for (int i = 0; i < p->nodes; i++) {
    e->live[i] = BD_NEW_ARRAY(ctx->arena, int, p->node[i].options);
    for (int o = 0; o < p->node[i].options; o++)
      if (!live || live[i][o]) e->live[i][e->live_count[i]++] = o;
    if (e->live_count[i] > most) most = e->live_count[i];
  }
  e->value = BD_NEW_ARRAY(ctx->arena, double, most);
}

// An end of an edge, without the classes that no live option has.
static bd_view live_view(const bd_elimination *e, bd_arena *scratch, int node,
                         const int *class_of) {
  int count = e->live_count[node];
  int *classes = BD_NEW_ARRAY(scratch, int, count), next = 0;
  bool in_order = count == e->problem->node[node].options;
  for (int x = 0; x < count; x++) {
    classes[x] = class_of[e->live[node][x]];
    in_order = in_order && classes[x] <= next;
    next += classes[x] == next;
  }
  if (in_order) return (bd_view){next, class_of};
  bd_classes left = bd_classify(e->arena, scratch, classes, sizeof *classes, count);
  return (bd_view){left.count, left.class_of};
}

static bool add_edges(bd_elimination *e, bd_arena *scratch) {
  for (int i = 0; i < e->problem->edges; i++) {
    const bd_choice_edge *edge = &e->problem->edge[i];
    bd_factor *f = &e->pool.items[e->pool.count++];
    *f = (bd_factor){.scope_count = 2, .scope = {edge->a, edge->b}};
    f->views[0] = live_view(e, scratch, edge->a, edge->class_a);
    f->views[1] = live_view(e, scratch, edge->b, edge->class_b);
    bd_arena_reset(scratch);
    bd_factor_set_strides(f);
    if (bd_factor_size(f) > BD_TABLE_LIMIT) return false;
  }
  return true;
}

// Steps for a node, each with as many of its factors as a step may have. False when there must be
// one and it would be too large.
static bool add_node(bd_elimination *e, bd_arena *scratch, int node, bool relaxed) {
  for (bool first = true; first || bd_pool_sees(&e->pool, node); first = false) {
    if (!first && !relaxed) return false;
    int count;
    bd_factor scope;
    bd_factor **factors = bd_pool_take_bucket(e->arena, &e->pool, node, &count, &scope);
    bd_step *s = &e->steps[e->step_count++];
    s->first = first;
    bool fits = bd_step_init(s, e->arena, scratch, e->live_count, node, count, factors, &scope,
                             &e->pool.items[e->pool.count]);
    bd_arena_reset(scratch);
    if (!fits) return false;
    e->pool.count++;
  }
  return true;
}

static int first_left(const bool *gone, int nodes, int last) {
  for (int i = 0; i < nodes; i++)
    if (!gone[i] && i != last) return i;
  return -1;
}

static bool build(bd_elimination *e, bd_arena *scratch, int last, bool relaxed) {
  const bd_choice_problem *problem = e->problem;
  // Every step leaves fewer nodes in the scopes of all factors together.
  int most = 2 * problem->edges + problem->nodes;
  e->pool.items = BD_NEW_ARRAY(e->arena, bd_factor, problem->edges + most);
  e->copied = BD_NEW_ARRAY(e->arena, double *, problem->edges);
  if (!add_edges(e, scratch)) return false;
  e->steps = BD_NEW_ARRAY(e->arena, bd_step, most);
  bool *gone = BD_NEW_ARRAY(e->arena, bool, problem->nodes);
  for (int i = 0; i < problem->nodes; i++) {
    bool ends = last >= 0 && i + 1 == problem->nodes;
    int node = ends ? last : bd_pool_cheapest_node(&e->pool, problem->nodes, gone, last);
    if (node < 0 && relaxed) node = first_left(gone, problem->nodes, last);
    if (node < 0 || !add_node(e, scratch, node, relaxed)) return false;
    gone[node] = true;
  }
  return true;
}

static bd_elimination *create(bd_ctx *ctx, const bd_choice_problem *problem, bool *const *live,
                              int last, int64_t limit, bool relaxed) {
  bd_elimination *e = BD_NEW(ctx->arena, bd_elimination);
  e->arena = ctx->arena;
  e->problem = problem;
  find_live(ctx, e, live);
  e->pool.live_count = e->live_count;
  e->pool.limit = limit;
  bd_owned held;
  bd_arena *scratch = bd_ctx_open_arena(ctx, &held);
  bool fits = build(e, scratch, last, relaxed);
  bd_ctx_close_arena(ctx, &held);
  return fits ? e : NULL;
}

bd_elimination *bd_elimination_create(bd_ctx *ctx, const bd_choice_problem *problem,
                                      bool *const *live, int last) {
  return create(ctx, problem, live, last, BD_TABLE_LIMIT, false);
}

bd_elimination *bd_elimination_relax(bd_ctx *ctx, const bd_choice_problem *problem, int last,
                                     int64_t most_visits) {
  return create(ctx, problem, NULL, last, most_visits, true);
}

double bd_elimination_bound(const bd_elimination *e) {
  return e->scale * e->bound;
}

// Weighted, and INFINITY where it is not allowed, whatever the weight.
static double weighted(double weight, double value) {
  return isinf(value) ? value : weight * value;
}

static void copy_edge(bd_elimination *e, int index) {
  const bd_choice_edge *edge = &e->problem->edge[index];
  const bd_factor *f = &e->pool.items[index];
  const int *live_a = e->live[edge->a], *live_b = e->live[edge->b];
  int first_a = -1;
  for (int a = 0; a < e->live_count[edge->a]; a++) {
    if (f->views[0].class_of[a] != first_a + 1) continue;
    double *row = f->table + f->stride[0] * ++first_a;
    int last_b = -1;
    for (int b = 0; b < e->live_count[edge->b]; b++)
      if (f->views[1].class_of[b] == last_b + 1)
        row[++last_b] = weighted(e->cost_weight, bd_choice_edge_cost(edge, live_a[a], live_b[b]));
  }
}

// Costs of edges all of whose classes are live are read where they are, unless they count nothing.
static void fill_edges(bd_elimination *e) {
  for (int i = 0; i < e->problem->edges; i++) {
    const bd_choice_edge *edge = &e->problem->edge[i];
    bd_factor *f = &e->pool.items[i];
    bool whole = f->views[0].class_of == edge->class_a && f->views[1].class_of == edge->class_b &&
                 f->views[1].classes == edge->classes_b;
    f->table = edge->cost;
    if (whole && e->cost_weight == 1) continue;
    if (!e->copied[i]) e->copied[i] = BD_NEW_ARRAY(e->arena, double, bd_factor_size(f));
    f->table = e->copied[i];
    copy_edge(e, i);
  }
}

static double option_value(const bd_elimination *e, int node, int option) {
  const bd_choice_node *n = &e->problem->node[node];
  return weighted(e->cost_weight, n->cost[option]) + e->usage_weight * n->usage[option];
}

// The classes of the options chosen for the neighbours of a step's node.
static void assign(const bd_step *s, const int *option, int *assigned) {
  for (int k = 0; k < s->message->scope_count; k++)
    assigned[k] = s->message->views[k].class_of[option[s->message->scope[k]]];
}

static void find_values(bd_elimination *e, int node) {
  for (int x = 0; x < e->live_count[node]; x++)
    e->value[x] = option_value(e, node, e->live[node][x]);
}

// The option, as a place among the live ones, that is best for the neighbours chosen so far with
// all the factors of a node's steps.
static int best_option(bd_elimination *e, const bd_step *steps, int count, const int *option) {
  int best = 0, assigned[BD_MAX_SCOPE], node = steps->node;
  find_values(e, node);
  for (int i = 0; i < count; i++) {
    assign(&steps[i], option, assigned);
    bd_step_add(&steps[i], assigned, e->value);
  }
  for (int x = 0; x < e->live_count[node]; x++)
    if (e->value[x] < e->value[best]) best = x;
  return best;
}

// Chosen options from the last step back; those after step `from` are known as places among the
// live ones.
static void trace(bd_elimination *e, int from, int *option) {
  for (int i = from; i >= 0; i--) {
    const bd_step *s = &e->steps[i];
    int assigned[BD_MAX_SCOPE], count = 1;
    double least;
    while (!s->first) {
      s = &e->steps[--i];
      count++;
    }
    if (count > 1) {
      option[s->node] = best_option(e, s, count, option);
      continue;
    }
    assign(s, option, assigned);
    option[s->node] = s->cheapest[bd_step_best_class(s, assigned, &least)];
  }
  for (int i = 0; i < e->problem->nodes; i++)
    option[i] = e->live[i][option[i]];
}

bool bd_elimination_run(bd_elimination *e, double cost_weight, double usage_weight,
                        int *out_option) {
  e->scale = cost_weight > 0 ? cost_weight : 1;
  e->cost_weight = cost_weight > 0 ? 1 : 0;
  e->usage_weight = usage_weight / e->scale;
  e->rest = e->bound = 0;
  for (int i = 0; i < e->problem->nodes; i++)
    if (!e->live_count[i]) e->rest = e->bound = INFINITY;
  if (isinf(e->rest)) return false;
  fill_edges(e);
  for (int i = 0; i < e->step_count; i++) {
    if (e->steps[i].first) find_values(e, e->steps[i].node);
    bd_step_run(&e->steps[i], e->steps[i].first ? e->value : NULL);
    const bd_factor *message = e->steps[i].message;
    if (!message->scope_count && i + 1 < e->step_count) e->rest += message->table[0];
    if (!message->scope_count) e->bound += message->table[0];
    if (!message->scope_count && isinf(message->table[0])) return false;
  }
  trace(e, e->step_count - 1, out_option);
  return true;
}

// Of the node that went last, as a place among its live options; -1: it is none of them.
static int place_of(const bd_elimination *e, int node, int option) {
  int x = e->live_count[node] - 1;
  while (x >= 0 && e->live[node][x] != option)
    x--;
  return x;
}

double bd_elimination_least(const bd_elimination *e, int option) {
  const bd_step *s = &e->steps[e->step_count - 1];
  int x = place_of(e, s->node, option);
  if (isinf(e->rest) || x < 0) return INFINITY;
  double least = e->rest + option_value(e, s->node, option);
  for (int f = 0; f < s->factor_count; f++)
    least += s->factors[f]->table[s->own_offset[f][s->own.class_of[x]]];
  return e->scale * least;
}

double bd_elimination_choose(bd_elimination *e, int option, int *out_option) {
  int node = e->steps[e->step_count - 1].node;
  double least = bd_elimination_least(e, option);
  if (isinf(least)) return INFINITY;
  out_option[node] = place_of(e, node, option);
  trace(e, e->step_count - 2, out_option);
  return least;
}
