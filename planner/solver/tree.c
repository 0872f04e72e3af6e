#include "planner/solver/tree.h"
#include "ir/base/clock.h"
#include "planner/solver/relax.h"
#include <math.h>
#include <string.h>

#define WHOLE 1e-7     // how near to a whole number is one
#define BETTER_BY 1e-9 // of its cost, a solution than the one before
#define SLACK 1e-5     // of what columns are fixed by, in units of them
#define STUCK_MOST 8   // nodes that cannot be solved, before the search ends
// A column is tried by a few iterations until so much is known of it (Achterberg, Koch, Martin,
// Operations Research Letters 2005).
#define TRIED_OFTEN 4
#define LEAST_RISE 1e-9

// What nodes begin from: the ends of all columns, and the basis.
typedef struct state {
  double *lower, *upper;
  unsigned char *row, *column;
} state;

typedef struct node {
  struct node *next;
  double bound;       // nothing in it costs less
  const state *begin; // of the node that it branches off
  int column;         // whose end is moved
  bool up;
  double end;
  double part, above; // how far from the column's value there, and what that node costs
} node;

// By how much the cost rises for each unit that a column is moved, in the mean.
typedef struct rise {
  double sum;
  int count;
} rise;

typedef struct tree {
  bd_ctx *ctx;
  glp_prob *problem;
  const bd_program *program;
  const bd_tree_limits *limits;
  double wanted;     // what costs as much is of no use
  double unsolved;   // the least bound of nodes that could not be solved
  int made, stuck;   // nodes
  bool late;         // the clock has ended the search
  node *open, *dive; // the latter comes next, and is not among the former
  rise *rises[2];    // down, up
  state now;         // of the node at hand
  double *x;         // its relaxation's solution
  double cost, *values;
} tree;

// Of the node at hand, a column that has to be whole and is not.
typedef struct fraction {
  int column;
  double value;
  double bounds[2], rises[2]; // down, up: what costs no more, and by how much it may cost more
} fraction;

static int bound_kind(double lower, double upper) {
  if (isinf(lower)) return isinf(upper) ? GLP_FR : GLP_UP;
  if (isinf(upper)) return GLP_LO;
  return lower == upper ? GLP_FX : GLP_DB;
}

static void put_ends(tree *t, int column, double lower, double upper) {
  glp_set_col_bnds(t->problem, column + 1, bound_kind(lower, upper), lower, upper);
}

static void put_basis(tree *t) {
  for (int i = 0; i < t->program->rows; i++)
    glp_set_row_stat(t->problem, i + 1, t->now.row[i]);
  for (int i = 0; i < t->program->columns; i++)
    glp_set_col_stat(t->problem, i + 1, t->now.column[i]);
}

static void take_basis(tree *t) {
  for (int i = 0; i < t->program->rows; i++)
    t->now.row[i] = (unsigned char)glp_get_row_stat(t->problem, i + 1);
  for (int i = 0; i < t->program->columns; i++)
    t->now.column[i] = (unsigned char)glp_get_col_stat(t->problem, i + 1);
}

static void new_state(tree *t, state *out) {
  bd_arena *arena = t->ctx->arena;
  out->lower = BD_NEW_ARRAY(arena, double, t->program->columns);
  out->upper = BD_NEW_ARRAY(arena, double, t->program->columns);
  out->row = BD_NEW_ARRAY(arena, unsigned char, t->program->rows);
  out->column = BD_NEW_ARRAY(arena, unsigned char, t->program->columns);
}

static void copy_ends(tree *t, const double *lower, const double *upper, state *to) {
  size_t columns = (size_t)t->program->columns;
  memcpy(to->lower, lower, columns * sizeof *lower);
  memcpy(to->upper, upper, columns * sizeof *upper);
}

static void copy_state(tree *t, const state *from, state *to) {
  copy_ends(t, from->lower, from->upper, to);
  memcpy(to->row, from->row, (size_t)t->program->rows);
  memcpy(to->column, from->column, (size_t)t->program->columns);
}

static void move_end(tree *t, int column, bool up, double end) {
  *(up ? &t->now.lower[column] : &t->now.upper[column]) = end;
  put_ends(t, column, t->now.lower[column], t->now.upper[column]);
}

static void enter(tree *t, const node *n) {
  copy_state(t, n->begin, &t->now);
  for (int i = 0; i < t->program->columns; i++)
    put_ends(t, i, t->now.lower[i], t->now.upper[i]);
  if (n->column >= 0) move_end(t, n->column, n->up, n->end);
  put_basis(t);
}

// What the cost of the relaxation leaves no room for.
static void fix_columns(tree *t, double cost) {
  if (isinf(t->wanted)) return;
  for (int i = 0; i < t->program->columns; i++) {
    double price = glp_get_col_dual(t->problem, i + 1);
    bool up = t->now.column[i] == GLP_NU;
    if (!t->program->integral[i] || t->now.lower[i] == t->now.upper[i]) continue;
    if ((t->now.column[i] != GLP_NL && !up) || (up ? -price : price) <= LEAST_RISE) continue;
    double most = floor((t->wanted - cost) / fabs(price) + SLACK);
    if (most >= t->now.upper[i] - t->now.lower[i]) continue;
    move_end(t, i, up, up ? t->now.upper[i] - most : t->now.lower[i] + most);
  }
}

static void record(tree *t) {
  const bd_program *p = t->program;
  double *x = BD_NEW_ARRAY(t->ctx->arena, double, p->columns), cost = 0;
  for (int i = 0; i < p->columns; i++) {
    x[i] = p->integral[i] ? nearbyint(t->x[i]) : t->x[i];
    cost += glp_get_obj_coef(t->problem, i + 1) * x[i];
  }
  if (cost >= t->wanted) return;
  t->cost = cost;
  t->values = x;
  t->wanted = cost - BETTER_BY * (1 + fabs(cost));
}

static double part_of(double value, bool up) {
  return up ? ceil(value) - value : value - floor(value);
}

static void learn(tree *t, int column, bool up, double rise, double part) {
  t->rises[up][column].sum += fmax(rise, 0) / part;
  t->rises[up][column].count++;
}

// One side of a column: what is known of the column, or else what a few iterations find out.
static void look(tree *t, double cost, bool up, fraction *f) {
  const rise *r = &t->rises[up][f->column];
  double part = part_of(f->value, up), lower = t->now.lower[f->column],
         upper = t->now.upper[f->column];
  f->bounds[up] = cost;
  if (r->count < TRIED_OFTEN) {
    put_ends(t, f->column, up ? ceil(f->value) : lower, up ? upper : floor(f->value));
    f->bounds[up] = bd_relax_roughly(t->problem, cost, t->wanted, t->limits->end_seconds);
    put_ends(t, f->column, lower, upper);
    put_basis(t);
    if (f->bounds[up] >= t->wanted) return;
    learn(t, f->column, up, f->bounds[up] - cost, part);
  }
  f->rises[up] = r->sum / r->count * part;
}

static void add_child(tree *t, const state *begin, double cost, const fraction *f, bool up) {
  node *n = BD_NEW(t->ctx->arena, node);
  *n = (node){.bound = f->bounds[up],
              .begin = begin,
              .column = f->column,
              .up = up,
              .end = up ? ceil(f->value) : floor(f->value),
              .part = part_of(f->value, up),
              .above = cost};
  t->made++;
  bool dives = f->rises[up] < f->rises[!up] || (up && f->rises[0] == f->rises[1]);
  if (dives) {
    t->dive = n;
    return;
  }
  n->next = t->open;
  t->open = n;
}

static double score_of(const fraction *f, double cost) {
  double least = LEAST_RISE * (1 + fabs(cost));
  return fmax(f->rises[0], least) * fmax(f->rises[1], least);
}

// Of a solved relaxation: two nodes, or a solution. True where an end was moved instead, as nothing
// of use is on its one side: the relaxation is to be solved again.
static bool branch(tree *t, double cost) {
  fraction best = {.column = -1};
  double score = 0;
  for (int i = 0; i < t->program->columns; i++) {
    double value = t->x[i];
    if (!t->program->integral[i] || fabs(value - nearbyint(value)) <= WHOLE) continue;
    fraction f = {.column = i, .value = value};
    look(t, cost, false, &f);
    look(t, cost, true, &f);
    bool beaten[2] = {f.bounds[0] >= t->wanted, f.bounds[1] >= t->wanted};
    if (beaten[0] && beaten[1]) return false;
    if (beaten[0] || beaten[1]) {
      move_end(t, i, beaten[0], beaten[0] ? ceil(value) : floor(value));
      return true;
    }
    if (best.column >= 0 && score_of(&f, cost) <= score) continue;
    best = f;
    score = score_of(&f, cost);
  }
  if (best.column < 0) {
    record(t);
    return false;
  }
  state *begin = BD_NEW(t->ctx->arena, state);
  new_state(t, begin);
  copy_state(t, &t->now, begin);
  add_child(t, begin, cost, &best, false);
  add_child(t, begin, cost, &best, true);
  return false;
}

static void leave_unsolved(tree *t, double bound, bd_relaxed how) {
  t->unsolved = fmin(t->unsolved, bound);
  t->stuck++;
  if (how == BD_RELAX_LATE) t->late = true;
}

static void visit(tree *t, const node *n) {
  double bound = n->bound;
  bool again = true;
  enter(t, n);
  for (int round = 0; again; round++) {
    bd_relaxed how = bd_relax_again(t->problem, t->wanted, t->limits->end_seconds);
    if (how == BD_RELAX_BEATEN) return;
    if (how != BD_RELAXED || round > t->program->columns) {
      leave_unsolved(t, bound, how);
      return;
    }
    double cost = glp_get_obj_val(t->problem);
    if (round == 0 && n->column >= 0) learn(t, n->column, n->up, cost - n->above, n->part);
    bound = fmax(bound, cost);
    if (bound >= t->wanted) return;
    take_basis(t);
    for (int i = 0; i < t->program->columns; i++)
      t->x[i] = glp_get_col_prim(t->problem, i + 1);
    fix_columns(t, cost);
    again = branch(t, bound);
  }
}

// The one of the least bound, or the child that was to come next.
static node *take_next(tree *t) {
  node **least = &t->open, *out = t->dive;
  t->dive = NULL;
  if (out && out->bound < t->wanted) return out;
  for (node **at = &t->open; *at; at = &(*at)->next)
    if ((*at)->bound < (*least)->bound) least = at;
  out = *least;
  if (out) *least = out->next;
  return out && out->bound < t->wanted ? out : NULL;
}

static double least_bound(const tree *t) {
  double least = t->unsolved;
  if (t->dive) least = fmin(least, t->dive->bound);
  for (const node *n = t->open; n; n = n->next)
    least = fmin(least, n->bound);
  return least >= t->wanted ? INFINITY : least;
}

static void tell(const tree *t, bd_solution *out) {
  double least = least_bound(t), cutoff = t->limits->cutoff;
  out->bound = fmin(least, t->values ? t->cost : cutoff);
  out->cost = t->cost;
  out->values = t->values;
  if (t->values)
    out->outcome = isinf(least) ? BD_SOLVER_OPTIMAL : BD_SOLVER_FEASIBLE;
  else
    out->outcome = isinf(least) ? BD_SOLVER_INFEASIBLE : BD_SOLVER_UNKNOWN;
}

void bd_tree_search(bd_ctx *ctx, glp_prob *problem, const bd_program *program,
                    const bd_tree_limits *limits, bd_solution *out) {
  tree t = {.ctx = ctx,
            .problem = problem,
            .program = program,
            .limits = limits,
            .wanted = limits->cutoff,
            .unsolved = INFINITY};
  state begin;
  node root = {.bound = glp_get_obj_val(problem), .begin = &begin, .column = -1};
  for (int up = 0; up < 2; up++)
    t.rises[up] = BD_NEW_ARRAY(ctx->arena, rise, program->columns);
  t.x = BD_NEW_ARRAY(ctx->arena, double, program->columns);
  new_state(&t, &begin);
  new_state(&t, &t.now);
  copy_ends(&t, program->lower, program->upper, &t.now);
  take_basis(&t);
  copy_state(&t, &t.now, &begin);
  t.dive = &root;
  t.made = 1;
  while (t.made <= limits->nodes && t.stuck < STUCK_MOST && !t.late) {
    const node *next = take_next(&t);
    if (!next) break;
    visit(&t, next);
    t.late = t.late || bd_clock_seconds() >= limits->end_seconds;
  }
  tell(&t, out);
}
