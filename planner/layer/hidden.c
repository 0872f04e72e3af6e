#include "planner/layer/hidden.h"
#include "planner/layer/reading.h"
#include "planner/layer/reshard.h"
#include "planner/layer/work.h"
#include <math.h>
#include <string.h>

// Of a value or its gradient, one of the forms in which products leave it partial.
typedef struct longest {
  bd_sharding form;
  bd_cut_product product;
} longest;

typedef struct bd_longest_table {
  bool known;
  int count, capacity;
  longest *items;
} bd_longest_table;

// Whether anything is hidden.
static bool has_parts(const bd_layer_space *space) {
  return bd_cost_has_parts(&space->request->cost, space->request->train);
}

double bd_layer_exposed_seconds(const bd_layer_space *space, const bd_cut_product *product,
                                double collective) {
  if (!has_parts(space)) return collective;
  return collective - bd_cost_hidden_at_most(&space->request->cost, product, collective);
}

static void add(bd_arena *arena, bd_longest_table *table, const bd_sharding *form,
                bd_cut_product product) {
  if (!bd_sharding_has_partial(form)) return;
  int at = 0;
  while (at < table->count && !bd_sharding_equal(&table->items[at].form, form))
    at++;
  if (at == table->count) {
    if (table->count == table->capacity) {
      int wanted = table->capacity ? 2 * table->capacity : 8;
      table->items = bd_arena_grow(arena, table->items, (size_t)table->capacity, (size_t)wanted,
                                   sizeof *table->items);
      table->capacity = wanted;
    }
    table->items[table->count++] = (longest){*form, {0, INFINITY}};
  }
  bd_cut_product *own = &table->items[at].product;
  own->seconds = fmax(own->seconds, product.seconds);
  own->start_seconds = fmin(own->start_seconds, product.start_seconds);
}

// An op that makes a value, or the gradient of its operand `operand`.
typedef struct maker {
  bd_layer_space *space;
  int op, operand; // operand -1: it makes the value
  bd_longest_table *table;
} maker;

// Goes on with a split from an axis on.
static void try_axis(const maker *m, int axis, int8_t split[BD_MAX_AXES]) {
  bd_layer_space *space = m->space;
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->map[m->op];
  if (axis == cost->mesh.axes) {
    if (!bd_split_valid(map, &cost->mesh, cost->micro_batch, split)) return;
    bd_sharding form = m->operand < 0 ? bd_split_result(map, &cost->mesh, split, 0)
                                      : bd_layer_operand_gradient(space, m->op, m->operand, split);
    if (!bd_sharding_has_partial(&form)) return;
    add(space->tables, m->table, &form,
        m->operand < 0
            ? bd_cost_cut_product(cost, space->forward, &space->forward->ops[m->op], map, split)
            : bd_layer_gradient_product(space, m->op, split));
    return;
  }
  for (int loop = -1; loop < (cost->mesh.size[axis] > 1 ? map->loops : 0); loop++) {
    if (loop >= 0 && !bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, loop)) continue;
    split[axis] = (int8_t)loop;
    try_axis(m, axis + 1, split);
  }
  split[axis] = -1;
}

static void find(bd_layer_space *space, bd_id value, bool gradient, bd_longest_table *table) {
  const bd_function *f = space->forward;
  int8_t split[BD_MAX_AXES];
  memset(split, -1, sizeof split);
  table->known = true;
  for (int i = 0; i < f->op_count; i++) {
    if (f->ops[i].kind != BD_OP_CONTRACT) continue;
    if (!gradient && f->ops[i].out[0] == value) try_axis(&(maker){space, i, -1, table}, 0, split);
    for (int k = 0; gradient && k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] == value) try_axis(&(maker){space, i, k, table}, 0, split);
  }
}

// That product, with the shortest start of all; 0 seconds: none leaves it so.
static bd_cut_product longest_product(bd_layer_space *space, bd_id value, bool gradient,
                                      const bd_sharding *form) {
  if (!space->longest)
    space->longest =
        BD_NEW_ARRAY(space->tables, bd_longest_table, 2 * (int64_t)space->forward->value_count);
  bd_longest_table *table = &space->longest[2 * value + gradient];
  if (!table->known) find(space, value, gradient, table);
  for (int i = 0; i < table->count; i++)
    if (bd_sharding_equal(&table->items[i].form, form)) return table->items[i].product;
  return (bd_cut_product){0, INFINITY};
}

double bd_layer_exposed_sum(bd_layer_space *space, bd_id value, bool gradient,
                            const bd_sharding *from, double collective) {
  if (!has_parts(space) || !bd_sharding_has_partial(from)) return collective;
  bd_cut_product product = longest_product(space, value, gradient, from);
  return bd_layer_exposed_seconds(space, &product, collective);
}

double bd_layer_settle_seconds(bd_layer_space *space, bd_id value, bool gradient,
                               const bd_sharding *from, const bd_sharding *to) {
  return bd_layer_exposed_sum(space, value, gradient, from,
                              bd_layer_reshard_seconds(space, value, from, to));
}
