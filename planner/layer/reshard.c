#include "planner/layer/reshard.h"
#include <assert.h>

enum { PARTIALS = BD_REPLICATED - BD_PARTIAL_LSE }; // that come before the others

// A form is a number: its axes are digits, with a value for each dimension and for what is not cut.
// Forms that are nowhere partial are numbered among themselves as well.
typedef struct numbering {
  int axes, values;
  size_t place[BD_MAX_AXES], whole_place[BD_MAX_AXES]; // what 1 in a digit counts
  size_t forms, wholes;
} numbering;

// Of values of one rank: the first collective from a form to one that is nowhere partial, as
// 1 + its axis * BD_MAX_VALUES + the digit after it; 0: not known yet. The rest of the way is that
// from where it leads.
enum { MAX_VALUES = BD_MAX_RANK + 1 + PARTIALS };
typedef struct ways {
  numbering numbers;
  uint8_t *first_hop;
} ways;

// Of values of one type; 0 seconds: not known yet.
typedef struct bd_reshard_table {
  ways *ways;
  double **seconds;    // per form before, per form after that is nowhere partial
  double *hop_seconds; // per form before, axis, and digit after: of one collective
} bd_reshard_table;

struct bd_reshards {
  bd_arena *arena;
  ways *ways[BD_MAX_RANK + 1];
  bd_reshard_table **table; // per forward value that is the first of its type
};

bd_reshards *bd_reshards_create(bd_arena *arena, const bd_function *forward) {
  bd_reshards *out = BD_NEW(arena, bd_reshards);
  out->arena = arena;
  out->table = BD_NEW_ARRAY(arena, bd_reshard_table *, forward->value_count);
  return out;
}

static numbering number_forms(int axes, int rank) {
  numbering n = {.axes = axes, .values = rank + 1 + PARTIALS, .forms = 1, .wholes = 1};
  for (int axis = axes - 1; axis >= 0; axis--) {
    n.place[axis] = n.forms;
    n.whole_place[axis] = n.wholes;
    n.forms *= (size_t)n.values;
    n.wholes *= (size_t)(n.values - PARTIALS);
  }
  return n;
}

static int digit(const bd_sharding *form, int axis) {
  return form->at[axis] - BD_PARTIAL_LSE;
}

static size_t number(const numbering *n, const bd_sharding *form) {
  size_t out = 0;
  for (int axis = 0; axis < n->axes; axis++)
    out += n->place[axis] * (size_t)digit(form, axis);
  return out;
}

static size_t whole_number(const numbering *n, const bd_sharding *form) {
  size_t out = 0;
  for (int axis = 0; axis < n->axes; axis++)
    out += n->whole_place[axis] * (size_t)(form->at[axis] - BD_REPLICATED);
  return out;
}

static ways *ways_of(bd_reshards *r, int axes, int rank) {
  if (r->ways[rank]) return r->ways[rank];
  ways *w = r->ways[rank] = BD_NEW(r->arena, ways);
  w->numbers = number_forms(axes, rank);
  w->first_hop = bd_arena_array(r->arena, w->numbers.forms, w->numbers.wholes);
  return w;
}

static bd_reshard_table *table_of(bd_reshards *r, const bd_layer_space *space, bd_id value) {
  bd_reshard_table **t = &r->table[space->type_of[value]];
  if (*t) return *t;
  *t = BD_NEW(r->arena, bd_reshard_table);
  (*t)->ways = ways_of(r, space->request->cost.mesh.axes, space->forward->values[value].type.rank);
  const numbering *n = &(*t)->ways->numbers;
  (*t)->seconds = bd_arena_array(r->arena, n->forms, sizeof *(*t)->seconds);
  (*t)->hop_seconds =
      bd_arena_array(r->arena, n->forms * (size_t)(n->axes * n->values), sizeof *(*t)->hop_seconds);
  return *t;
}

// Notes every hop of the way, which is also the first one of the rest of the way.
static void find_way(ways *w, const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to) {
  bd_reshard_step steps[BD_MAX_RESHARD_STEPS];
  int count = bd_reshard_steps(mesh, from, to, steps);
  size_t whole = whole_number(&w->numbers, to);
  for (int i = 0; i < count; i++)
    w->first_hop[number(&w->numbers, &steps[i].before) * w->numbers.wholes + whole] =
        (uint8_t)(1 + steps[i].axis * MAX_VALUES + digit(&steps[i].after, steps[i].axis));
}

static bd_op_kind kind_of(int8_t before, int8_t after) {
  if (before < BD_REPLICATED)
    return after == BD_REPLICATED ? BD_OP_ALL_REDUCE : BD_OP_REDUCE_SCATTER;
  if (before == BD_REPLICATED) return BD_OP_SHARD;
  return after == BD_REPLICATED ? BD_OP_ALL_GATHER : BD_OP_ALL_TO_ALL;
}

// Of the collective along an axis that brings a value from `before` to `after`.
static double hop_seconds(const bd_layer_space *space, bd_id value, bd_reshard_table *t, int axis,
                          const bd_sharding *before, const bd_sharding *after) {
  const numbering *n = &t->ways->numbers;
  size_t at = number(n, before) * (size_t)n->axes + (size_t)axis;
  double *seconds = &t->hop_seconds[at * (size_t)n->values + (size_t)digit(after, axis)];
  bd_reshard_step step = {kind_of(before->at[axis], after->at[axis]), axis, *before, *after};
  if (*seconds == 0)
    *seconds =
        bd_cost_reshard_step(&space->request->cost, &space->forward->values[value].type, &step);
  return *seconds;
}

static double way_seconds(const bd_layer_space *space, bd_id value, bd_reshard_table *t,
                          const bd_sharding *from, const bd_sharding *to) {
  ways *w = t->ways;
  size_t whole = whole_number(&w->numbers, to);
  double seconds = 0;
  for (bd_sharding at = *from; !bd_sharding_equal(&at, to);) {
    const uint8_t *hop = &w->first_hop[number(&w->numbers, &at) * w->numbers.wholes + whole];
    if (!*hop) find_way(w, &space->request->cost.mesh, &at, to);
    int axis = (*hop - 1) / MAX_VALUES;
    bd_sharding next = at;
    next.at[axis] = (int8_t)((*hop - 1) % MAX_VALUES + BD_PARTIAL_LSE);
    seconds += hop_seconds(space, value, t, axis, &at, &next);
    at = next;
  }
  return seconds;
}

double bd_layer_reshard_seconds(bd_layer_space *space, bd_id value, const bd_sharding *from,
                                const bd_sharding *to) {
  if (bd_sharding_equal(from, to)) return 0;
  assert(!bd_sharding_has_partial(to));
  bd_reshard_table *t = table_of(space->reshards, space, value);
  double **row = &t->seconds[number(&t->ways->numbers, from)];
  if (!*row) *row = BD_NEW_ARRAY(space->reshards->arena, double, t->ways->numbers.wholes);
  double *seconds = &(*row)[whole_number(&t->ways->numbers, to)];
  if (*seconds == 0) *seconds = way_seconds(space, value, t, from, to);
  return *seconds;
}
