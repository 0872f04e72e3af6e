#include "planner/select/bucket.h"
#include "planner/select/bucket_plan.h"
#include "planner/select/message.h"

#include <math.h>
#include <string.h>

// A term of the sum that an elimination minimizes: a vector over the node's strategies for each
// combination of the nodes in `axis`, which index the scope of the elimination, ascending.
typedef struct factor {
  const double *data;
  int axes, axis[BD_SELECT_MOST_SCOPE];
  size_t stride[BD_SELECT_MOST_SCOPE];
} factor;

enum { MOST_FACTORS = BD_SELECT_MOST_FREE * (BD_SELECT_MOST_SCOPE + 1) };

struct bd_select_bucket {
  const bd_select_model *model;
  bd_select_bucket_order *order;
  const bd_select_free_set *set;
  int *first_factor; // of each elimination, and one past the last
  factor *factor;
  double **table;          // of each elimination, over its scope
  int *child, *next_child; // of each elimination: the tables whose innermost node it is; -1: none
  double *store;           // tables and turned matrices
  size_t used;
  double *base, *value; // of each strategy of the model
  double *sums;         // a vector per level of the scope
  size_t widest;
  double work;
};

bd_select_bucket *bd_select_bucket_create(bd_ctx *ctx, const bd_select_model *m, size_t entries) {
  bd_arena *arena = ctx->arena;
  bd_select_bucket *b = BD_NEW(arena, bd_select_bucket);
  size_t strategies = (size_t)m->start[m->nodes];
  b->model = m;
  b->widest = 1;
  for (int i = 0; i < m->nodes; i++) {
    size_t count = (size_t)bd_select_choices(m, i);
    b->widest = count > b->widest ? count : b->widest;
  }
  b->order = bd_select_bucket_order_create(ctx, m, entries);
  b->first_factor = BD_NEW_ARRAY(arena, int, BD_SELECT_MOST_FREE + 1);
  b->factor = BD_NEW_ARRAY(arena, factor, MOST_FACTORS);
  b->table = BD_NEW_ARRAY(arena, double *, BD_SELECT_MOST_FREE);
  b->child = BD_NEW_ARRAY(arena, int, BD_SELECT_MOST_FREE);
  b->next_child = BD_NEW_ARRAY(arena, int, BD_SELECT_MOST_FREE);
  b->store = BD_NEW_ARRAY(arena, double, entries);
  b->base = BD_NEW_ARRAY(arena, double, strategies);
  b->value = BD_NEW_ARRAY(arena, double, strategies);
  b->sums = BD_NEW_ARRAY(arena, double, (BD_SELECT_MOST_SCOPE + 1) * b->widest);
  return b;
}

int bd_select_bucket_count(const bd_select_bucket *b) {
  return b->order->count;
}

int bd_select_bucket_node(const bd_select_bucket *b, int index) {
  return b->order->step[index].node;
}

double bd_select_bucket_work(const bd_select_bucket *b) {
  return b->work;
}

// The strategies to choose from of an eliminated node.
static int allowed(const bd_select_bucket *b, int k, const int **out_list) {
  int member = b->order->step[k].member;
  *out_list = b->set->allowed + b->set->start[member];
  return b->set->start[member + 1] - b->set->start[member];
}

static size_t choices(const bd_select_bucket *b, int k) {
  const int *list;
  return (size_t)allowed(b, k, &list);
}

static double *take(bd_select_bucket *b, size_t entries) {
  double *at = b->store + b->used;
  b->used += entries;
  return at;
}

static int axis_of(const bd_select_bucket_step *step, int position) {
  int axis = 0;
  while (step->scope[axis] != position)
    axis++;
  return axis;
}

// The matrix of an edge between allowed strategies, the node at hand innermost.
static void add_pair(bd_select_bucket *b, int k, const bd_select_link *link, factor *f) {
  const bd_select_model *m = b->model;
  const int *mine, *theirs;
  int position = b->order->position[link->other];
  int count = allowed(b, k, &mine), others = allowed(b, position, &theirs);
  size_t columns = (size_t)bd_select_choices(m, m->high[link->edge]);
  size_t across = link->first ? columns : 1, along = link->first ? 1 : columns;
  const double *matrix = m->matrix[link->edge];
  double *copy = take(b, (size_t)count * (size_t)others);
  f->axes = 1;
  f->axis[0] = axis_of(&b->order->step[k], position);
  f->stride[0] = (size_t)count;
  f->data = copy;
  for (int t = 0; t < others; t++)
    for (int s = 0; s < count; s++)
      *copy++ = matrix[(size_t)mine[s] * across + (size_t)theirs[t] * along];
  b->work += (double)count * others;
}

// The table that an earlier elimination left.
static void add_table(bd_select_bucket *b, const bd_select_bucket_step *step, int earlier,
                      factor *f) {
  const bd_select_bucket_step *from = &b->order->step[earlier];
  size_t stride = choices(b, (int)(step - b->order->step));
  f->data = b->table[earlier];
  f->axes = from->scope_count - 1;
  for (int q = f->axes; q-- > 0;) {
    f->axis[q] = axis_of(step, from->scope[q]);
    f->stride[q] = stride;
    stride *= choices(b, from->scope[q]);
  }
}

static void build_factors(bd_select_bucket *b) {
  const bd_select_model *m = b->model;
  int made = 0;
  b->used = 0;
  for (int k = 0; k < b->order->count; k++)
    b->child[k] = -1;
  for (int k = 0; k < b->order->count; k++) {
    const bd_select_bucket_step *step = &b->order->step[k];
    b->first_factor[k] = made;
    for (int l = m->link_start[step->node]; l < m->link_start[step->node + 1]; l++)
      if (b->order->position[m->link[l].other] > k) add_pair(b, k, &m->link[l], &b->factor[made++]);
    for (int c = b->child[k]; c >= 0; c = b->next_child[c])
      add_table(b, step, c, &b->factor[made++]);
    if (step->scope_count == 0) continue;
    size_t size = 1;
    for (int q = 0; q < step->scope_count; q++)
      size *= choices(b, step->scope[q]);
    b->table[k] = take(b, size);
    int heir = step->scope[step->scope_count - 1];
    b->next_child[k] = b->child[heir];
    b->child[heir] = k;
  }
  b->first_factor[b->order->count] = made;
}

// What each allowed strategy of a node costs beside the nodes that are not eliminated.
static void add_neighbours(bd_select_bucket *b, int k, const int *choice) {
  const bd_select_model *m = b->model;
  const int *list;
  int node = b->order->step[k].node, count = allowed(b, k, &list);
  double *base = b->base + m->start[node];
  for (int s = 0; s < count; s++)
    base[s] = m->cost[m->start[node] + list[s]];
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++) {
    const bd_select_link *link = &m->link[l];
    if (b->order->position[link->other] >= 0) continue;
    int fixed = choice[link->other];
    for (int s = 0; s < count; s++) {
      base[s] += link->first ? bd_select_between(m, link->edge, list[s], fixed)
                             : bd_select_between(m, link->edge, fixed, list[s]);
    }
    b->work += count;
  }
}

void bd_select_bucket_plan(bd_select_bucket *b, const bd_select_free_set *set, const int *choice,
                           double cap, uint64_t *random) {
  b->set = set;
  b->work += bd_select_bucket_order_plan(b->order, set, cap, random);
  for (int k = 0; k < b->order->count; k++)
    add_neighbours(b, k, choice);
  build_factors(b);
}

// One elimination under way: the factors, and which strategies of the scope are looked at.
typedef struct sweep {
  bd_select_bucket *b;
  const bd_select_bucket_step *step;
  const factor *factor;
  int factors, count;
  int at[BD_SELECT_MOST_SCOPE];
  double *out;
} sweep;

// Where the vector of a factor begins, its axes up to `level` as they are and its others at 0.
static const double *row(const sweep *s, const factor *f, int level) {
  size_t offset = 0;
  for (int q = 0; q < f->axes && f->axis[q] <= level; q++)
    offset += (size_t)s->at[f->axis[q]] * f->stride[q];
  return f->data + offset;
}

static bool belongs(const factor *f, int level) {
  return f->axes > 0 ? f->axis[f->axes - 1] == level : level < 0;
}

static void add_row(double *sum, const double *values, int count) {
  for (int s = 0; s < count; s++)
    sum[s] += values[s];
}

static double least(const double *values, int count) {
  double most = INFINITY;
  for (int s = 0; s < count; s++)
    most = values[s] < most ? values[s] : most;
  return most;
}

// Minimizes for all strategies of the scope from `level` inwards; sums[level] holds the terms of
// the levels further out.
static void descend(sweep *s, int level) {
  bd_select_bucket *b = s->b;
  int size = (int)choices(b, s->step->scope[level]);
  bool last = level + 1 == s->step->scope_count;
  const double *outer = b->sums + (size_t)level * b->widest;
  double *sum = b->sums + (size_t)(level + 1) * b->widest;
  const factor *here[BD_SELECT_MOST_FREE + BD_SELECT_MOST_SCOPE];
  const double *from[BD_SELECT_MOST_FREE + BD_SELECT_MOST_SCOPE];
  int found = 0;
  for (int f = 0; f < s->factors; f++) {
    if (!belongs(&s->factor[f], level)) continue;
    from[found] = row(s, &s->factor[f], level - 1);
    here[found++] = &s->factor[f];
  }
  b->work += last ? (double)size * s->count * (found + 1) : 0;
  // The innermost node of the scope stands right outside the node that is eliminated.
  if (last && found == 1) {
    bd_select_min_columns(from[0], size, s->count, outer, s->out);
    s->out += size;
    return;
  }
  for (int a = 0; a < size; a++) {
    s->at[level] = a;
    memcpy(sum, outer, (size_t)s->count * sizeof *sum);
    for (int f = 0; f < found; f++)
      add_row(sum, from[f] + (size_t)a * here[f]->stride[here[f]->axes - 1], s->count);
    if (last)
      *s->out++ = least(sum, s->count);
    else
      descend(s, level + 1);
  }
}

static sweep begin(bd_select_bucket *b, int k) {
  const bd_select_bucket_step *step = &b->order->step[k];
  return (sweep){.b = b,
                 .step = step,
                 .factor = b->factor + b->first_factor[k],
                 .factors = b->first_factor[k + 1] - b->first_factor[k],
                 .count = (int)choices(b, k),
                 .out = b->table[k]};
}

// Leaves the table of an elimination; returns the minimum when its scope is empty, else 0.
static double eliminate(bd_select_bucket *b, int k) {
  sweep s = begin(b, k);
  memcpy(b->sums, b->value + b->model->start[s.step->node], (size_t)s.count * sizeof *b->sums);
  for (int f = 0; f < s.factors; f++)
    if (belongs(&s.factor[f], -1)) add_row(b->sums, s.factor[f].data, s.count);
  if (s.step->scope_count == 0) return least(b->sums, s.count);
  descend(&s, 0);
  return 0;
}

// The best strategy of a node, those of its scope being known.
static int decide(bd_select_bucket *b, int k, const int *trial) {
  sweep s = begin(b, k);
  for (int q = 0; q < s.step->scope_count; q++)
    s.at[q] = trial[s.step->scope[q]];
  memcpy(b->sums, b->value + b->model->start[s.step->node], (size_t)s.count * sizeof *b->sums);
  for (int f = 0; f < s.factors; f++)
    add_row(b->sums, row(&s, &s.factor[f], BD_SELECT_MOST_SCOPE), s.count);
  int best = 0;
  for (int t = 1; t < s.count; t++)
    if (b->sums[t] < b->sums[best]) best = t;
  return best;
}

double bd_select_bucket_solve(bd_select_bucket *b, const int *point, const double *price,
                              int priced, int *out_trial) {
  const bd_select_model *m = b->model;
  double sum = 0;
  for (int k = 0; k < b->order->count; k++) {
    int node = b->order->step[k].node;
    double rate = 0;
    for (int q = 0; q < priced; q++)
      rate += point[q] >= m->first[node] && point[q] < m->last[node] ? price[q] : 0;
    const int *list;
    for (int s = 0, count = allowed(b, k, &list); s < count; s++) {
      b->value[m->start[node] + s] =
          b->base[m->start[node] + s] + rate * (double)m->usage[m->start[node] + list[s]];
    }
  }
  for (int k = 0; k < b->order->count; k++)
    sum += eliminate(b, k);
  for (int k = b->order->count; k-- > 0;)
    out_trial[k] = decide(b, k, out_trial);
  for (int k = 0; k < b->order->count; k++) {
    const int *list;
    allowed(b, k, &list);
    out_trial[k] = list[out_trial[k]];
  }
  return sum;
}

double bd_select_bucket_cost(const bd_select_bucket *b, const int *trial) {
  const bd_select_model *m = b->model;
  double cost = 0;
  for (int k = 0; k < b->order->count; k++) {
    int node = b->order->step[k].node;
    const int *list;
    allowed(b, k, &list);
    int at = 0;
    while (list[at] != trial[k])
      at++;
    cost += b->base[m->start[node] + at];
    for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++) {
      const bd_select_link *link = &m->link[l];
      int other = b->order->position[link->other];
      if (other <= k) continue;
      cost += link->first ? bd_select_between(m, link->edge, trial[k], trial[other])
                          : bd_select_between(m, link->edge, trial[other], trial[k]);
    }
  }
  return cost;
}
