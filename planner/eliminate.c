#include "planner/eliminate.h"
#include <math.h>
#include <string.h>

// Entries visited by one elimination, at most.
#define TABLE_LIMIT ((int64_t)1 << 24)
enum { MAX_SCOPE = 12 };

// A node's live options as a factor sees them.
typedef struct view {
  int classes;
  const int *class_of; // per live option
} view;

// A function of a few nodes.
typedef struct factor {
  int scope_count, scope[MAX_SCOPE];
  view views[MAX_SCOPE];
  int64_t stride[MAX_SCOPE];
  double *table;
  int edge; // of the problem, or -1: a message
  bool used;
} factor;

// Of a node whose elimination would visit too many entries there are several steps, one after
// another, each with a share of its factors; the first has the node's own costs.
typedef struct step {
  int node, factor_count;
  bool first;
  factor **factors;
  view own;             // of the node, as all its factors see it
  int64_t **own_offset; // per factor and own class: entries into the factor's table
  int64_t ***offset;    // per factor, node of the message's scope, and class of it
  factor *message;      // over the neighbours
  double *value;        // per own class: of its cheapest option
  int *cheapest;        // per own class: that option's place among the live ones
  bool *last_sees;      // per factor: whether it sees the last neighbour
  double *sum, *more;   // per own class: with the factors that do not, and with more of them
  double *total;        // per live option, of a node with several steps
} step;

struct bd_elimination {
  const bd_choice_problem *problem;
  int *live_count, **live; // per node
  int factor_count, step_count;
  factor *factors;
  step *steps;
  int64_t limit; // entries visited by one step
  bool relaxed;
  // Of the last run: its weights, the sum of the messages without a scope but the last, and of all.
  double cost_weight, usage_weight, rest, bound;
};

static int64_t table_size(const factor *f) {
  int64_t size = 1;
  for (int i = 0; i < f->scope_count; i++) {
    size *= f->views[i].classes;
    if (size > TABLE_LIMIT) return size;
  }
  return size;
}

static void set_strides(factor *f) {
  int64_t stride = 1;
  for (int i = f->scope_count - 1; i >= 0; i--) {
    f->stride[i] = stride;
    stride *= f->views[i].classes;
  }
}

static int position(const factor *f, int node) {
  for (int i = 0; i < f->scope_count; i++)
    if (f->scope[i] == node) return i;
  return -1;
}

// The classes of options that neither view tells apart.
static view join(bd_ctx *ctx, int count, view a, view b) {
  size_t buckets = 16;
  while (buckets < 2 * (size_t)count)
    buckets *= 2;
  int *member = BD_NEW_ARRAY(ctx->arena, int, buckets); // an option of the class, from 1; 0: free
  int *class_of = BD_NEW_ARRAY(ctx->arena, int, count);
  view out = {0, class_of};
  for (int x = 0; x < count; x++) {
    size_t at = ((size_t)a.class_of[x] * 2654435761u + (size_t)b.class_of[x] * 40503u) % buckets;
    while (member[at] && (a.class_of[member[at] - 1] != a.class_of[x] ||
                          b.class_of[member[at] - 1] != b.class_of[x]))
      at = (at + 1) % buckets;
    class_of[x] = member[at] ? class_of[member[at] - 1] : out.classes++;
    if (!member[at]) member[at] = x + 1;
  }
  return out;
}

// An upper bound on the classes of a node's options that the factors left tell apart.
static int64_t classes_at_most(const bd_elimination *e, int node, int neighbour) {
  int64_t classes = 1;
  for (int i = 0; i < e->factor_count; i++) {
    const factor *f = &e->factors[i];
    if (f->used || position(f, neighbour) < 0) continue;
    int at = position(f, node);
    if (at >= 0) classes *= f->views[at].classes;
    if (classes >= e->live_count[node]) return e->live_count[node];
  }
  return classes;
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

static int64_t visits_of(const bd_elimination *e, int node, const factor *scope) {
  int64_t visits = classes_at_most(e, node, node);
  for (int i = 0; i < scope->scope_count && visits <= e->limit; i++)
    visits *= classes_at_most(e, scope->scope[i], node);
  return visits;
}

// The node whose elimination visits the fewest entries; among those that visit too many, the first
// one, or -1 when that is not wanted.
static int cheapest_node(const bd_elimination *e, const bool *gone, int last) {
  int found = -1, first = -1;
  int64_t least = e->limit;
  for (int i = 0; i < e->problem->nodes; i++) {
    factor scope;
    if (gone[i] || i == last) continue;
    if (first < 0) first = i;
    if (!find_neighbours(e, i, &scope)) continue;
    int64_t visits = visits_of(e, i, &scope);
    if (visits > least || (found >= 0 && visits == least)) continue;
    least = visits;
    found = i;
  }
  return found < 0 && e->relaxed ? first : found;
}

// Some of the factors of a node, and the other nodes that they see, with the product of the classes
// of each.
typedef struct bucket {
  int node, factor_count;
  factor **factors;
  factor scope;
  int64_t own, seen[MAX_SCOPE];
} bucket;

static int64_t capped(int64_t classes, int view, int options) {
  return classes * view < options ? classes * view : options;
}

// Puts a factor into the bucket unless it would then visit more entries than a step may.
static bool add_to_bucket(const bd_elimination *e, bucket *b, factor *f) {
  bucket more = *b;
  for (int i = 0; i < f->scope_count; i++) {
    int node = f->scope[i], at = position(&more.scope, node), options = e->live_count[node];
    if (node == b->node) {
      more.own = capped(more.own, f->views[i].classes, options);
      continue;
    }
    if (at < 0 && more.scope.scope_count == MAX_SCOPE) return false;
    if (at < 0) {
      at = more.scope.scope_count++;
      more.scope.scope[at] = node;
      more.seen[at] = 1;
    }
    more.seen[at] = capped(more.seen[at], f->views[i].classes, options);
  }
  int64_t visits = more.own;
  for (int i = 0; i < more.scope.scope_count && visits <= e->limit; i++)
    visits *= more.seen[i];
  if (visits > e->limit && b->factor_count > 0 && more.scope.scope_count > 0) return false;
  *b = more;
  b->factors[b->factor_count++] = f;
  f->used = true;
  return true;
}

// The next of the buckets that a node's factors are put into, in order, each factor where it fits
// (mini-buckets: Dechter and Rish, Journal of the ACM 50, 2003, section 3). Exact: there is one.
static bucket next_bucket(bd_ctx *ctx, bd_elimination *e, int node) {
  bucket b = {.node = node, .own = 1};
  b.factors = BD_NEW_ARRAY(ctx->arena, factor *, e->factor_count);
  for (int i = 0; i < e->factor_count; i++) {
    factor *f = &e->factors[i];
    if (!f->used && position(f, node) >= 0) (void)add_to_bucket(e, &b, f);
  }
  return b;
}

static bool has_factors(const bd_elimination *e, int node) {
  for (int i = 0; i < e->factor_count; i++)
    if (!e->factors[i].used && position(&e->factors[i], node) >= 0) return true;
  return false;
}

// Where the entries of each factor lie for the classes of the node and of the message's scope.
static void find_offsets(bd_ctx *ctx, const bd_elimination *e, step *s) {
  s->own_offset = BD_NEW_ARRAY(ctx->arena, int64_t *, s->factor_count);
  s->offset = BD_NEW_ARRAY(ctx->arena, int64_t **, s->factor_count);
  for (int i = 0; i < s->factor_count; i++) {
    const factor *f = s->factors[i];
    int own = position(f, s->node);
    s->own_offset[i] = BD_NEW_ARRAY(ctx->arena, int64_t, s->own.classes);
    for (int x = 0; x < e->live_count[s->node]; x++)
      s->own_offset[i][s->own.class_of[x]] = f->stride[own] * f->views[own].class_of[x];
    s->offset[i] = BD_NEW_ARRAY(ctx->arena, int64_t *, s->message->scope_count);
    for (int k = 0; k < s->message->scope_count; k++) {
      int node = s->message->scope[k], at = position(f, node);
      const view *joint = &s->message->views[k];
      s->offset[i][k] = BD_NEW_ARRAY(ctx->arena, int64_t, joint->classes);
      for (int x = 0; at >= 0 && x < e->live_count[node]; x++)
        s->offset[i][k][joint->class_of[x]] = f->stride[at] * f->views[at].class_of[x];
    }
  }
}

static view whole_view(bd_ctx *ctx, int count) {
  return (view){1, BD_NEW_ARRAY(ctx->arena, int, count)};
}

// The neighbour that the fewest factors see goes last: its entries take the least work.
static void put_lonely_last(const step *s, factor *message) {
  int lonely = 0, least = s->factor_count + 1, last = message->scope_count - 1;
  for (int k = 0; k <= last; k++) {
    int seeing = 0;
    for (int f = 0; f < s->factor_count; f++)
      seeing += position(s->factors[f], message->scope[k]) >= 0;
    bool wider = seeing == least && message->views[k].classes > message->views[lonely].classes;
    if (seeing > least || (seeing == least && !wider)) continue;
    least = seeing;
    lonely = k;
  }
  if (last < 0) return;
  int node = message->scope[lonely];
  view seen = message->views[lonely];
  message->scope[lonely] = message->scope[last];
  message->views[lonely] = message->views[last];
  message->scope[last] = node;
  message->views[last] = seen;
}

// False when the message would be too large.
static bool add_step(bd_ctx *ctx, bd_elimination *e, step *s, const bucket *b) {
  int node = s->node = b->node;
  s->factors = b->factors;
  s->factor_count = b->factor_count;
  s->own = whole_view(ctx, e->live_count[node]);
  factor message = b->scope;
  for (int k = 0; k < message.scope_count; k++)
    message.views[k] = whole_view(ctx, e->live_count[message.scope[k]]);
  for (int i = 0; i < s->factor_count; i++) {
    const factor *f = s->factors[i];
    s->own = join(ctx, e->live_count[node], s->own, f->views[position(f, node)]);
    for (int k = 0; k < message.scope_count; k++) {
      int there = position(f, message.scope[k]);
      if (there >= 0)
        message.views[k] =
            join(ctx, e->live_count[message.scope[k]], message.views[k], f->views[there]);
    }
  }
  put_lonely_last(s, &message);
  int64_t size = table_size(&message);
  if (size * s->own.classes > TABLE_LIMIT) return false;
  message.edge = -1;
  message.used = message.scope_count == 0;
  set_strides(&message);
  message.table = BD_NEW_ARRAY(ctx->arena, double, size);
  s->message = &e->factors[e->factor_count++];
  *s->message = message;
  s->value = BD_NEW_ARRAY(ctx->arena, double, s->own.classes);
  s->sum = BD_NEW_ARRAY(ctx->arena, double, s->own.classes);
  s->more = BD_NEW_ARRAY(ctx->arena, double, s->own.classes);
  s->total = BD_NEW_ARRAY(ctx->arena, double, e->live_count[node]);
  s->last_sees = BD_NEW_ARRAY(ctx->arena, bool, s->factor_count);
  for (int f = 0; f < s->factor_count && message.scope_count; f++)
    s->last_sees[f] = position(s->factors[f], message.scope[message.scope_count - 1]) >= 0;
  s->cheapest = BD_NEW_ARRAY(ctx->arena, int, s->own.classes);
  find_offsets(ctx, e, s);
  return true;
}

static void find_live(bd_ctx *ctx, bd_elimination *e, bool *const *live) {
  const bd_choice_problem *p = e->problem;
  e->live_count = BD_NEW_ARRAY(ctx->arena, int, p->nodes);
  e->live = BD_NEW_ARRAY(ctx->arena, int *, p->nodes);
  for (int i = 0; i < p->nodes; i++) {
    e->live[i] = BD_NEW_ARRAY(ctx->arena, int, p->node[i].options);
    for (int o = 0; o < p->node[i].options; o++)
      if (!live || live[i][o]) e->live[i][e->live_count[i]++] = o;
  }
}

// An end of an edge, without the classes that no live option has.
static view live_view(bd_ctx *ctx, const bd_elimination *e, int node, const int *class_of) {
  int count = e->live_count[node];
  int *classes = BD_NEW_ARRAY(ctx->arena, int, count);
  for (int x = 0; x < count; x++)
    classes[x] = class_of[e->live[node][x]];
  view whole = whole_view(ctx, count);
  return join(ctx, count, (view){0, classes}, whole);
}

static bool add_edges(bd_ctx *ctx, bd_elimination *e) {
  for (int i = 0; i < e->problem->edges; i++) {
    const bd_choice_edge *edge = &e->problem->edge[i];
    factor *f = &e->factors[e->factor_count++];
    *f = (factor){.scope_count = 2, .scope = {edge->a, edge->b}, .edge = i};
    f->views[0] = live_view(ctx, e, edge->a, edge->class_a);
    f->views[1] = live_view(ctx, e, edge->b, edge->class_b);
    set_strides(f);
    if (table_size(f) > TABLE_LIMIT) return false;
    f->table = BD_NEW_ARRAY(ctx->arena, double, table_size(f));
  }
  return true;
}

// Steps for a node, each with as many of its factors as a step may have. False when there must be
// one and it would be too large.
static bool add_node(bd_ctx *ctx, bd_elimination *e, int node) {
  for (bool first = true; first || has_factors(e, node); first = false) {
    bucket b = next_bucket(ctx, e, node);
    step *s = &e->steps[e->step_count++];
    s->first = first;
    if (!first && !e->relaxed) return false;
    if (!add_step(ctx, e, s, &b)) return false;
  }
  return true;
}

static bd_elimination *create(bd_ctx *ctx, const bd_choice_problem *problem, bool *const *live,
                              int last, int64_t limit, bool relaxed) {
  bd_elimination *e = BD_NEW(ctx->arena, bd_elimination);
  e->problem = problem;
  e->limit = limit;
  e->relaxed = relaxed;
  find_live(ctx, e, live);
  // Every step leaves fewer nodes in the scopes of all factors together.
  int most = 2 * problem->edges + problem->nodes;
  e->factors = BD_NEW_ARRAY(ctx->arena, factor, problem->edges + most);
  if (!add_edges(ctx, e)) return NULL;
  e->steps = BD_NEW_ARRAY(ctx->arena, step, most);
  bool *gone = BD_NEW_ARRAY(ctx->arena, bool, problem->nodes);
  for (int i = 0; i < problem->nodes; i++) {
    bool ends = last >= 0 && i + 1 == problem->nodes;
    int node = ends ? last : cheapest_node(e, gone, last);
    if (node < 0 || !add_node(ctx, e, node)) return NULL;
    gone[node] = true;
  }
  return e;
}

bd_elimination *bd_elimination_create(bd_ctx *ctx, const bd_choice_problem *problem,
                                      bool *const *live, int last) {
  return create(ctx, problem, live, last, TABLE_LIMIT, false);
}

bd_elimination *bd_elimination_relax(bd_ctx *ctx, const bd_choice_problem *problem, int last,
                                     int64_t most_visits) {
  return create(ctx, problem, NULL, last, most_visits, true);
}

double bd_elimination_bound(const bd_elimination *e) {
  return e->bound;
}

// Weighted, and INFINITY where it is not allowed, whatever the weight.
static double weighted(double weight, double value) {
  return isinf(value) ? value : weight * value;
}

static void fill_edges(bd_elimination *e) {
  for (int i = 0; i < e->problem->edges; i++) {
    const bd_choice_edge *edge = &e->problem->edge[i];
    const factor *f = &e->factors[i];
    int *option[2];
    int ends[2] = {edge->a, edge->b}, first_a = -1, last_b;
    for (int end = 0; end < 2; end++)
      option[end] = e->live[ends[end]];
    for (int a = 0; a < e->live_count[ends[0]]; a++) {
      if (f->views[0].class_of[a] != first_a + 1) continue;
      first_a++;
      last_b = -1;
      double *row = f->table + f->stride[0] * first_a;
      for (int b = 0; b < e->live_count[ends[1]]; b++)
        if (f->views[1].class_of[b] == last_b + 1)
          row[++last_b] =
              weighted(e->cost_weight, bd_choice_edge_cost(edge, option[0][a], option[1][b]));
    }
  }
}

static double option_value(const bd_elimination *e, int node, int option) {
  const bd_choice_node *n = &e->problem->node[node];
  return weighted(e->cost_weight, n->cost[option]) + e->usage_weight * n->usage[option];
}

// The node's cheapest option of each class.
static void find_cheapest(const bd_elimination *e, step *s) {
  for (int c = 0; c < s->own.classes; c++)
    s->value[c] = INFINITY;
  memset(s->cheapest, 0, sizeof *s->cheapest * (size_t)s->own.classes);
  for (int x = 0; x < e->live_count[s->node]; x++) {
    int c = s->own.class_of[x];
    double value = s->first ? option_value(e, s->node, e->live[s->node][x]) : 0;
    if (value >= s->value[c]) continue;
    s->value[c] = value;
    s->cheapest[c] = x;
  }
}

// The entries of a factor for an assignment of the first `scope` neighbours.
static const double *row_of(const step *s, int f, const int *assigned, int scope) {
  const double *row = s->factors[f]->table;
  for (int k = 0; k < scope; k++)
    row += s->offset[f][k][assigned[k]];
  return row;
}

// The least of sums of two, several at a time: additions need not wait for comparisons.
static double least_sum(const double *sum, const double *row, const int64_t *offset, int count) {
  double least[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
  int c = 0;
  for (; c + 4 <= count; c += 4)
    for (int lane = 0; lane < 4; lane++) {
      double total = sum[c + lane] + row[offset[c + lane]];
      least[lane] = total < least[lane] ? total : least[lane];
    }
  for (; c < count; c++)
    least[0] = sum[c] + row[offset[c]] < least[0] ? sum[c] + row[offset[c]] : least[0];
  for (int lane = 1; lane < 4; lane++)
    least[0] = least[lane] < least[0] ? least[lane] : least[0];
  return least[0];
}

// The last neighbour runs fastest. Entries for all of its classes, the others being assigned.
static void minimize_row(step *s, const int *assigned, double *out) {
  int last = s->message->scope_count - 1, seeing = -1, count = s->own.classes;
  memcpy(s->sum, s->value, sizeof *s->sum * (size_t)count);
  for (int f = 0; f < s->factor_count; f++) {
    if (s->last_sees[f]) {
      seeing = f;
      continue;
    }
    const double *row = row_of(s, f, assigned, last);
    for (int c = 0; c < count; c++)
      s->sum[c] += row[s->own_offset[f][c]];
  }
  for (int q = 0; q < s->message->views[last].classes; q++) {
    const double *row = row_of(s, seeing, assigned, last) + s->offset[seeing][last][q];
    const double *sum = s->sum;
    for (int f = 0; f < s->factor_count; f++) {
      if (f == seeing || !s->last_sees[f]) continue;
      const double *more = row_of(s, f, assigned, last) + s->offset[f][last][q];
      for (int c = 0; c < count; c++)
        s->more[c] = sum[c] + more[s->own_offset[f][c]];
      sum = s->more;
    }
    out[q] = least_sum(sum, row, s->own_offset[seeing], count);
  }
}

// The node's best class for one assignment of its neighbours, and its value.
static int best_class(const step *s, const int *assigned, double *out_least) {
  int best = 0;
  *out_least = INFINITY;
  for (int c = 0; c < s->own.classes; c++) {
    double total = s->value[c];
    for (int f = 0; f < s->factor_count; f++)
      total += row_of(s, f, assigned, s->message->scope_count)[s->own_offset[f][c]];
    if (total >= *out_least) continue;
    *out_least = total;
    best = c;
  }
  return best;
}

static void run_step(const bd_elimination *e, step *s) {
  find_cheapest(e, s);
  int assigned[MAX_SCOPE] = {0}, scope = s->message->scope_count;
  if (!scope) {
    best_class(s, assigned, &s->message->table[0]);
    return;
  }
  int64_t size = table_size(s->message), row = s->message->views[scope - 1].classes;
  for (int64_t index = 0; index < size; index += row) {
    minimize_row(s, assigned, s->message->table + index);
    for (int i = scope - 2; i >= 0; i--) {
      if (++assigned[i] < s->message->views[i].classes) break;
      assigned[i] = 0;
    }
  }
}

// The option, as a place among the live ones, that is best for the neighbours chosen so far with
// all the factors of a node's steps.
static int best_option(const bd_elimination *e, const step *steps, int count, const int *option) {
  const step *s = &steps[0];
  int best = 0, assigned[MAX_SCOPE];
  double least = INFINITY;
  double *total = s->total;
  for (int x = 0; x < e->live_count[s->node]; x++)
    total[x] = option_value(e, s->node, e->live[s->node][x]);
  for (int i = 0; i < count; i++) {
    s = &steps[i];
    for (int k = 0; k < s->message->scope_count; k++)
      assigned[k] = s->message->views[k].class_of[option[s->message->scope[k]]];
    for (int f = 0; f < s->factor_count; f++) {
      const double *row = row_of(s, f, assigned, s->message->scope_count);
      for (int x = 0; x < e->live_count[s->node]; x++)
        total[x] += row[s->own_offset[f][s->own.class_of[x]]];
    }
  }
  for (int x = 0; x < e->live_count[s->node]; x++) {
    if (total[x] >= least) continue;
    least = total[x];
    best = x;
  }
  return best;
}

// Chosen options from the last step back; those after step `from` are known as places among the
// live ones.
static void trace(const bd_elimination *e, int from, int *option) {
  for (int i = from; i >= 0; i--) {
    const step *s = &e->steps[i];
    int assigned[MAX_SCOPE], count = 1;
    double least;
    while (!s->first) {
      s = &e->steps[--i];
      count++;
    }
    if (count > 1) {
      option[s->node] = best_option(e, s, count, option);
      continue;
    }
    for (int k = 0; k < s->message->scope_count; k++)
      assigned[k] = s->message->views[k].class_of[option[s->message->scope[k]]];
    option[s->node] = s->cheapest[best_class(s, assigned, &least)];
  }
  for (int i = 0; i < e->problem->nodes; i++)
    option[i] = e->live[i][option[i]];
}

bool bd_elimination_run(bd_elimination *e, double cost_weight, double usage_weight,
                        int *out_option) {
  e->cost_weight = cost_weight;
  e->usage_weight = usage_weight;
  e->rest = e->bound = 0;
  for (int i = 0; i < e->problem->nodes; i++)
    if (!e->live_count[i]) e->rest = e->bound = INFINITY;
  if (isinf(e->rest)) return false;
  fill_edges(e);
  for (int i = 0; i < e->step_count; i++) {
    run_step(e, &e->steps[i]);
    const factor *message = e->steps[i].message;
    if (!message->scope_count && i + 1 < e->step_count) e->rest += message->table[0];
    if (!message->scope_count) e->bound += message->table[0];
    if (!message->scope_count && isinf(message->table[0])) return false;
  }
  trace(e, e->step_count - 1, out_option);
  return true;
}

double bd_elimination_choose(const bd_elimination *e, int option, int *out_option) {
  const step *s = &e->steps[e->step_count - 1];
  if (isinf(e->rest)) return INFINITY;
  double least = INFINITY;
  for (int x = 0; x < e->live_count[s->node]; x++) {
    if (e->live[s->node][x] != option) continue;
    least = e->rest + option_value(e, s->node, option);
    for (int f = 0; f < s->factor_count; f++)
      least += s->factors[f]->table[s->own_offset[f][s->own.class_of[x]]];
    out_option[s->node] = x;
  }
  if (isfinite(least)) trace(e, e->step_count - 2, out_option);
  return least;
}
