#include "planner/layer_reshard.h"

enum { PLACES = BD_REPLICATED - BD_PARTIAL_LSE }; // that partial results take before the others

// Of one type. A form is a number: its axes are the digits, one for each dimension and for what is
// not cut. 0 seconds: not known yet.
typedef struct bd_reshard_table {
  int axes, digits;
  double **seconds;    // per form before, per form after that is nowhere partial
  double *hop_seconds; // per form before, axis, and place of the axis after: of one collective
} bd_reshard_table;

static size_t number(const bd_reshard_table *t, const bd_sharding *form) {
  size_t out = 0;
  for (int axis = 0; axis < t->axes; axis++)
    out = out * (size_t)t->digits + (size_t)(form->at[axis] - BD_PARTIAL_LSE);
  return out;
}

// Among the forms that are nowhere partial.
static size_t whole_number(const bd_reshard_table *t, const bd_sharding *form) {
  size_t out = 0;
  for (int axis = 0; axis < t->axes; axis++)
    out = out * (size_t)(t->digits - PLACES) + (size_t)(form->at[axis] - BD_REPLICATED);
  return out;
}

static size_t power(int base, int exponent) {
  size_t out = 1;
  while (exponent-- > 0)
    out *= (size_t)base;
  return out;
}

static bd_reshard_table *table_of(bd_layer_space *space, int type) {
  bd_arena *arena = space->ctx->arena;
  if (!space->reshards)
    space->reshards = BD_NEW_ARRAY(arena, bd_reshard_table *, space->forward->value_count);
  if (space->reshards[type]) return space->reshards[type];
  bd_reshard_table *t = space->reshards[type] = BD_NEW(arena, bd_reshard_table);
  t->axes = space->request->cost.mesh.axes;
  t->digits = space->forward->values[type].type.rank + 1 + PLACES;
  size_t forms = power(t->digits, t->axes);
  t->seconds = bd_arena_array(arena, forms, sizeof *t->seconds);
  t->hop_seconds =
      bd_arena_array(arena, forms, sizeof *t->hop_seconds * (size_t)(t->axes * t->digits));
  return t;
}

static double hop_seconds(const bd_cost_model *cost, const bd_type *type, bd_reshard_table *t,
                          const bd_reshard_step *step) {
  size_t at = number(t, &step->before) * (size_t)t->axes + (size_t)step->axis;
  double *seconds = &t->hop_seconds[at * (size_t)t->digits +
                                    (size_t)(step->after.at[step->axis] - BD_PARTIAL_LSE)];
  if (*seconds == 0) *seconds = bd_cost_reshard_step(cost, type, step);
  return *seconds;
}

double bd_layer_reshard_seconds(bd_layer_space *space, bd_id value, const bd_sharding *from,
                                const bd_sharding *to) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_type *type = &space->forward->values[value].type;
  if (bd_sharding_equal(from, to)) return 0;
  if (bd_sharding_has_partial(to)) return bd_cost_reshard(cost, type, from, to);
  bd_reshard_table *t = table_of(space, space->type_of[value]);
  double **row = &t->seconds[number(t, from)];
  if (!*row) {
    size_t forms = power(t->digits - PLACES, t->axes);
    *row = bd_arena_array(space->ctx->arena, forms, sizeof **row);
  }
  double *seconds = &(*row)[whole_number(t, to)];
  if (*seconds > 0) return *seconds;
  bd_reshard_step steps[BD_MAX_RESHARD_STEPS];
  int count = bd_reshard_steps(&cost->mesh, from, to, steps);
  for (int i = 0; i < count; i++)
    *seconds += hop_seconds(cost, type, t, &steps[i]);
  return *seconds;
}
