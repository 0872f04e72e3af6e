#include "planner/layer/reading.h"
#include "planner/choice/classify.h"
#include "planner/layer/forms.h"
#include "planner/layer/gradient.h"
#include "planner/layer/hidden.h"
#include "planner/layer/pool.h"
#include "planner/layer/reshard.h"
#include "planner/layer/share.h"
#include "planner/layer/work.h"
#include <math.h>

bd_sharding bd_layer_operand_gradient(const bd_layer_space *space, int op, int operand,
                                      const int8_t split[BD_MAX_AXES]) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  bd_sharding form = bd_split_operand(&space->map[op], mesh, split, operand);
  for (int axis = 0; axis < mesh->axes; axis++)
    if (split[axis] >= 0 && form.at[axis] == BD_REPLICATED) form.at[axis] = BD_PARTIAL_SUM;
  return form;
}

// Partition lets partial sums of gradients pass some ops on their way to a weight whose sum waits
// for the step's end; and what has no ops in backward, as the sum with a constant, hands them on.
static bool may_stay_partial(const bd_layer_space *space, bd_id v) {
  int maker = space->forward->values[v].producer;
  bool any = false;
  for (int i = 0; maker >= 0 && i < space->backward->op_count; i++) {
    if (space->backward->ops[i].group != maker) continue;
    if (bd_op_keeps_sums(space->backward->ops[i].kind)) return true;
    any = true;
  }
  return maker >= 0 && !any && space->of_weights[v];
}

bd_reading bd_layer_reading(const bd_layer_space *space, int op, int operand) {
  const bd_op *reader = &space->forward->ops[op];
  bd_id v = reader->in[operand];
  return (bd_reading){.op = op,
                      .operand = operand,
                      .value = v,
                      .flows = space->flows[v] && space->flows[reader->out[0]],
                      .may_stay_partial = may_stay_partial(space, v),
                      .handed_share = bd_layer_handed_share(space, op, operand)};
}

enum { AGAIN = 4 }; // backward reads of one value by the ops of one group

// What an op of a cluster reads of a value under an option, and hands back.
typedef struct needs {
  bool possible;
  bd_sharding wanted, gradient;
  double sum_seconds; // its share of adding up the gradients that the value's readers hand back
  int again;          // backward reads it as well
  bd_sharding again_wanted[AGAIN];
} needs;

static needs needs_of(const bd_layer_space *space, const bd_cluster_ops *to,
                      const bd_layer_option *option, const bd_reading *r) {
  const bd_index_map *map = &space->map[r->op];
  int8_t split[BD_MAX_AXES];
  needs out = {.possible = bd_layer_split(space, to, option, r->op, split)};
  out.wanted = out.gradient = bd_sharding_replicated();
  if (!out.possible) return out;
  out.wanted = bd_split_operand(map, &space->request->cost.mesh, split, r->operand);
  out.gradient = bd_layer_operand_gradient(space, r->op, r->operand, split);
  out.sum_seconds = bd_layer_sum_seconds(space, r->op, r->operand, &out.gradient);
  out.again = bd_layer_backward_needs(space, r->op, split, r->value, AGAIN, out.again_wanted);
  return out;
}

static bool same_needs(const needs *a, const needs *b) {
  bool same = a->possible == b->possible && bd_sharding_equal(&a->wanted, &b->wanted) &&
              bd_sharding_equal(&a->gradient, &b->gradient) && a->sum_seconds == b->sum_seconds &&
              a->again == b->again;
  for (int i = 0; same && i < a->again; i++)
    same = bd_sharding_equal(&a->again_wanted[i], &b->again_wanted[i]);
  return same;
}

// The different needs of options of a reader.
typedef struct need_list {
  int count;
  needs *items;
  int *which; // per option
} need_list;

// Many options of a reader need the same of a value.
static need_list tell_needs_apart(bd_arena *scratch, const bd_layer_space *space,
                                  const bd_reading *r, const bd_cluster_ops *to, const int *options,
                                  int count) {
  need_list out = {0, bd_arena_array(scratch, (size_t)count, sizeof *out.items),
                   BD_NEW_ARRAY(scratch, int, count)};
  for (int y = 0; y < count; y++) {
    needs own = needs_of(space, to, &to->options[options[y]], r);
    int at = 0;
    while (at < out.count && !same_needs(&out.items[at], &own))
      at++;
    if (at == out.count) out.items[out.count++] = own;
    out.which[y] = at;
  }
  return out;
}

// Seconds between every two of some forms before and some forms after, INFINITY where the value
// must not go there. What is partial among these is a gradient.
typedef struct ways {
  bd_classes from, to;
  double *seconds;
} ways;

static ways tell_ways_apart(bd_arena *arena, bd_arena *scratch, const bd_sharding *from,
                            int from_count, const bd_sharding *to, int to_count) {
  return (ways){bd_classify(arena, scratch, from, sizeof *from, from_count),
                bd_classify(arena, scratch, to, sizeof *to, to_count), NULL};
}

static void price_ways(bd_arena *arena, bd_layer_space *space, bd_id value, const bd_sharding *from,
                       const bd_sharding *to, ways *out) {
  out->seconds = BD_NEW_ARRAY(arena, double, (int64_t)out->from.count * out->to.count);
  for (int f = 0; f < out->from.count; f++)
    for (int t = 0; t < out->to.count; t++) {
      const bd_sharding *before = &from[out->from.first[f]], *after = &to[out->to.first[t]];
      out->seconds[(size_t)f * (size_t)out->to.count + (size_t)t] =
          bd_layer_keeps_pool(space, value, before, after)
              ? bd_layer_settle_seconds(space, value, true, before, after)
              : INFINITY;
    }
}

static ways find_ways(bd_arena *scratch, bd_layer_space *space, bd_id value,
                      const bd_sharding *from, int from_count, const bd_sharding *to,
                      int to_count) {
  ways out = tell_ways_apart(scratch, scratch, from, from_count, to, to_count);
  price_ways(scratch, space, value, from, to, &out);
  return out;
}

static double way(const ways *w, int from, int to) {
  return w
      ->seconds[(size_t)w->from.class_of[from] * (size_t)w->to.count + (size_t)w->to.class_of[to]];
}

// Of a reading, the ways from every source to what the different needs want, and back.
typedef struct carrying {
  ways there, back, passed, again[AGAIN];
} carrying;

double bd_layer_bring_both(bd_layer_space *space, bd_id value, const bd_sharding *home,
                           double home_seconds, const bd_sharding *passed, double passed_seconds) {
  if (isinf(home_seconds)) return home_seconds;
  double onward = bd_layer_reshard_seconds(space, value, home, passed);
  double back = bd_layer_reshard_seconds(space, value, passed, home);
  return fmin(home_seconds + fmin(onward, passed_seconds),
              passed_seconds + fmin(back, home_seconds));
}

static bool goes_back(const bd_reading *r, const needs *n) {
  return r->flows && (!bd_sharding_has_partial(&n->gradient) || !r->may_stay_partial);
}

static carrying find_carrying(bd_arena *scratch, bd_layer_space *space, const bd_reading *r,
                              const bd_sources *from, const need_list *list) {
  carrying out;
  bd_sharding *forms = bd_arena_array(scratch, (size_t)list->count, sizeof *forms);
  for (int d = 0; d < list->count; d++)
    forms[d] = list->items[d].wanted;
  out.there = find_ways(scratch, space, r->value, from->form, from->count, forms, list->count);
  for (int d = 0; d < list->count; d++)
    forms[d] = goes_back(r, &list->items[d]) ? list->items[d].gradient : bd_sharding_replicated();
  out.back = find_ways(scratch, space, r->value, forms, list->count, from->home, from->count);
  if (from->passed)
    out.passed = find_ways(scratch, space, r->value, forms, list->count, from->passed, from->count);
  int most = 0;
  for (int d = 0; d < list->count; d++)
    most = list->items[d].again > most ? list->items[d].again : most;
  for (int i = 0; i < most; i++) {
    for (int d = 0; d < list->count; d++)
      forms[d] =
          i < list->items[d].again ? list->items[d].again_wanted[i] : bd_sharding_replicated();
    out.again[i] = find_ways(scratch, space, r->value, from->form, from->count, forms, list->count);
  }
  return out;
}

// The reader's part of what all readers of a value share. What no way leads to stays so, also for
// readers that have no part.
static double counted(const bd_layer_space *space, const bd_reading *r, double seconds) {
  return isinf(seconds) ? seconds : seconds * bd_layer_share(space, r->op, r->value);
}

static double back_seconds(bd_layer_space *space, const bd_reading *r, const bd_sources *from,
                           const carrying *c, int source, int need) {
  double home = way(&c->back, need, source);
  return from->passed ? bd_layer_bring_both(space, r->value, &from->home[source], home,
                                            &from->passed[source], way(&c->passed, need, source))
                      : home;
}

static double carry(bd_layer_space *space, const bd_reading *r, const bd_sources *from,
                    const carrying *c, const needs *n, int source, int need) {
  if (!n->possible) return 0;
  double seconds = way(&c->there, source, need);
  double back = goes_back(r, n) ? back_seconds(space, r, from, c, source, need) : 0;
  seconds += isinf(back) ? back : back * r->handed_share;
  seconds = counted(space, r, seconds) + n->sum_seconds;
  for (int i = 0; i < n->again; i++)
    seconds += way(&c->again[i], source, need) / space->backward_reads[r->value];
  return seconds;
}

void bd_layer_add_carrying(bd_arena *scratch, bd_layer_space *space, const bd_reading *r,
                           const bd_sources *from, const bd_cluster_ops *to, const int *options,
                           int count, double *cost) {
  need_list list = tell_needs_apart(scratch, space, r, to, options, count);
  carrying ways = find_carrying(scratch, space, r, from, &list);
  double *carried = BD_NEW_ARRAY(scratch, double, list.count);
  for (int x = 0; x < from->count; x++) {
    for (int d = 0; d < list.count; d++)
      carried[d] = carry(space, r, from, &ways, &list.items[d], x, d);
    for (int y = 0; y < count; y++)
      cost[(size_t)x * (size_t)count + (size_t)y] += carried[list.which[y]];
  }
}

bool bd_layer_carry_there(bd_arena *arena, bd_arena *scratch, bd_layer_space *space,
                          const bd_reading *r, const bd_sources *from, const bd_cluster_ops *to,
                          int64_t most, bd_choice_edge *edge) {
  bd_sharding *wanted = bd_arena_array(scratch, (size_t)to->option_count, sizeof *wanted);
  for (int o = 0; o < to->option_count; o++) {
    int8_t split[BD_MAX_AXES];
    wanted[o] = bd_sharding_replicated();
    if (bd_layer_split(space, to, &to->options[o], r->op, split))
      wanted[o] =
          bd_split_operand(&space->map[r->op], &space->request->cost.mesh, split, r->operand);
  }
  ways w = tell_ways_apart(arena, scratch, from->form, from->count, wanted, to->option_count);
  int64_t count = (int64_t)w.from.count * w.to.count;
  if (count > most) return false;
  price_ways(arena, space, r->value, from->form, wanted, &w);
  for (int64_t i = 0; i < count; i++)
    w.seconds[i] = counted(space, r, w.seconds[i]);
  edge->classes_a = w.from.count;
  edge->classes_b = w.to.count;
  edge->class_a = w.from.class_of;
  edge->class_b = w.to.class_of;
  edge->cost = w.seconds;
  return true;
}
