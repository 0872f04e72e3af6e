#include "planner/layer_edge.h"
#include "planner/layer_gradient.h"
#include <string.h>

// What an operand's gradient looks like: partial over axes whose loop the operand lacks.
static bd_sharding operand_gradient(const bd_layer_space *space, const bd_index_map *map,
                                    const int8_t split[BD_MAX_AXES], int operand) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  bd_sharding form = bd_split_operand(map, mesh, split, operand);
  for (int axis = 0; axis < mesh->axes; axis++)
    if (split[axis] >= 0 && form.at[axis] == BD_REPLICATED) form.at[axis] = BD_PARTIAL_SUM;
  return form;
}

// Partition lets partial sums of gradients pass some ops on their way to a weight whose sum waits
// for the step's end.
static bool may_stay_partial(const bd_layer_space *space, bd_id v) {
  int maker = space->forward->values[v].producer;
  for (int i = 0; maker >= 0 && i < space->backward->op_count; i++)
    if (space->backward->ops[i].group == maker && bd_op_keeps_sums(space->backward->ops[i].kind))
      return true;
  return false;
}

// One operand of one op that reads a value of another cluster or of the boundary.
typedef struct reading {
  int op, operand;
  bd_id value;
  bool flows, may_stay_partial;
} reading;

static reading reading_of(const bd_layer_space *space, int op, int operand) {
  const bd_op *reader = &space->forward->ops[op];
  bd_id v = reader->in[operand];
  return (reading){.op = op,
                   .operand = operand,
                   .value = v,
                   .flows = space->flows[v] && space->flows[reader->out[0]],
                   .may_stay_partial = may_stay_partial(space, v)};
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
                      const bd_layer_option *option, const reading *r) {
  const bd_index_map *map = &space->map[r->op];
  int8_t split[BD_MAX_AXES];
  needs out = {.possible = bd_layer_split(space, to, option, r->op, split)};
  if (!out.possible) return out;
  out.wanted = bd_split_operand(map, &space->request->cost.mesh, split, r->operand);
  out.gradient = operand_gradient(space, map, split, r->operand);
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

// Many options of a reader need the same of a value. Fills `which` with the place of each option's
// needs among the different ones, and returns how many these are.
static int tell_needs_apart(const bd_layer_space *space, const bd_cluster_ops *to,
                            const int *options, int count, const reading *r, needs *different,
                            int *which) {
  int found = 0;
  for (int y = 0; y < count; y++) {
    needs own = needs_of(space, to, &to->options[options[y]], r);
    int at = 0;
    while (at < found && !same_needs(&different[at], &own))
      at++;
    if (at == found) different[found++] = own;
    which[y] = at;
  }
  return found;
}

// Seconds to carry a value from its form to an op, its gradient back to where it is wanted, and the
// value again to backward. What several readers want is shared among them.
static double carry(bd_layer_space *space, const reading *r, const needs *n,
                    const bd_sharding *form, const bd_sharding *home) {
  if (!n->possible) return 0;
  double seconds = bd_layer_reshard_seconds(space, r->value, form, &n->wanted);
  if (r->flows && (!bd_sharding_has_partial(&n->gradient) || !r->may_stay_partial))
    seconds += bd_layer_reshard_seconds(space, r->value, &n->gradient, home);
  seconds = seconds / space->consumers[r->value] + n->sum_seconds;
  for (int i = 0; i < n->again; i++)
    seconds += bd_layer_reshard_seconds(space, r->value, form, &n->again_wanted[i]) /
               space->backward_reads[r->value];
  return seconds;
}

// What tells options apart on an edge.
typedef struct key {
  bd_layer_option option;
  int64_t form, home; // of a value, and of its gradient
} key;

static size_t hash_of(const key *k) {
  const unsigned char *bytes = (const unsigned char *)k;
  size_t hash = 1469598103u;
  for (size_t i = 0; i < sizeof *k; i++)
    hash = (hash ^ bytes[i]) * 16777619u;
  return hash;
}

typedef struct classes {
  int count, *class_of, *first; // first: an option of each class
} classes;

static classes classify(bd_ctx *ctx, const key *keys, int count) {
  size_t buckets = 16;
  while (buckets < 2 * (size_t)count)
    buckets *= 2;
  int *member = BD_NEW_ARRAY(ctx->arena, int, buckets); // an option of the class, from 1; 0: free
  classes out = {0, BD_NEW_ARRAY(ctx->arena, int, count), BD_NEW_ARRAY(ctx->arena, int, count)};
  for (int o = 0; o < count; o++) {
    size_t at = hash_of(&keys[o]) % buckets;
    while (member[at] && memcmp(&keys[member[at] - 1], &keys[o], sizeof keys[o]) != 0)
      at = (at + 1) % buckets;
    out.class_of[o] = member[at] ? out.class_of[member[at] - 1] : out.count;
    if (member[at]) continue;
    member[at] = o + 1;
    out.first[out.count++] = o;
  }
  return out;
}

static int64_t pack(const bd_sharding *sharding) {
  int64_t packed = 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    packed = packed << 8 | (int64_t)(sharding->at[axis] + 8);
  return packed;
}

// Producers differ by the form of the value and that of its gradient; by more when several values
// cross, or when running the producer again depends on how it is split.
static classes producer_classes(bd_ctx *ctx, const bd_layer_space *space, int from,
                                const reading *readings, int count) {
  const bd_cluster_ops *c = &space->clusters[from];
  key *keys = BD_NEW_ARRAY(ctx->arena, key, c->option_count);
  bool one = c->needed_count > 0;
  for (int i = 1; i < count; i++)
    one = one && readings[i].value == readings[0].value;
  for (int o = 0; o < c->option_count; o++) {
    memset(&keys[o], 0, sizeof keys[o]);
    if (one) {
      bd_sharding form = bd_layer_form(space, c, &c->options[o], readings[0].value);
      bd_sharding home = bd_layer_gradient_home(space, c, &c->options[o], readings[0].value);
      keys[o].form = pack(&form);
      keys[o].home = pack(&home);
    } else {
      memcpy(keys[o].option.split, c->options[o].split, sizeof keys[o].option.split);
      memcpy(keys[o].option.scatter, c->options[o].scatter, sizeof keys[o].option.scatter);
    }
  }
  return classify(ctx, keys, c->option_count);
}

// Readers differ by their split; followers also by where sums are scattered, and where it matters
// (`again`, or NULL), by how many of them run again.
static classes reader_classes(bd_ctx *ctx, const bd_cluster_ops *c, bool only_anchor,
                              const int *again) {
  key *keys = BD_NEW_ARRAY(ctx->arena, key, c->option_count);
  for (int o = 0; o < c->option_count; o++) {
    memset(&keys[o], 0, sizeof keys[o]);
    memcpy(keys[o].option.split, c->options[o].split, sizeof keys[o].option.split);
    if (!only_anchor)
      memcpy(keys[o].option.scatter, c->options[o].scatter, sizeof keys[o].option.scatter);
    if (again) keys[o].form = again[o];
  }
  return classify(ctx, keys, c->option_count);
}

static bool crosses(const bd_layer_space *space, bd_id v, int from) {
  int maker = space->forward->values[v].producer;
  return maker >= 0 && space->cluster_of_op[maker] == from && !space->is_result[v];
}

static reading *find_readings(bd_ctx *ctx, const bd_layer_space *space, int from, int to,
                              int *out_count) {
  const bd_cluster_ops *reader = &space->clusters[to];
  reading *list = BD_NEW_ARRAY(ctx->arena, reading, reader->op_count * BD_MAX_OPERANDS);
  *out_count = 0;
  for (int i = 0; i < reader->op_count; i++)
    for (int k = 0; k < space->forward->ops[reader->ops[i]].in_count; k++)
      if (crosses(space, space->forward->ops[reader->ops[i]].in[k], from))
        list[(*out_count)++] = reading_of(space, reader->ops[i], k);
  return list;
}

bool bd_layer_reads(const bd_layer_space *space, int from, int to) {
  const bd_cluster_ops *reader = &space->clusters[to];
  for (int i = 0; i < reader->op_count; i++)
    for (int k = 0; k < space->forward->ops[reader->ops[i]].in_count; k++)
      if (crosses(space, space->forward->ops[reader->ops[i]].in[k], from)) return true;
  return false;
}

// Running a reader again reruns the anchor of a producer whose values nobody keeps because backward
// does not need them; all readers share that.
static double rerun_seconds(bd_layer_space *space, const bd_cluster_ops *from,
                            const bd_layer_option *own) {
  int readers = 0;
  for (int i = 0; i < from->op_count; i++) {
    const bd_op *op = &space->forward->ops[from->ops[i]];
    for (int r = 0; r < op->out_count; r++)
      readers += space->consumers[op->out[r]];
  }
  return bd_layer_work(space, from->ops[0], own->split)->clone / readers;
}

static void start_edge(bd_ctx *ctx, bd_choice_edge *edge, int a, int b, classes at_a,
                       classes at_b) {
  *edge = (bd_choice_edge){a, b, at_a.count, at_b.count, at_a.class_of, at_b.class_of, NULL};
  edge->cost =
      bd_arena_array(ctx->arena, (size_t)at_a.count * (size_t)at_b.count, sizeof *edge->cost);
}

// Per option of the reader, how many of its readings run again and rerun the producer; NULL when
// the producer's values are known to backward, which alone decides about them.
static const int *count_again(bd_ctx *ctx, const bd_layer_space *space,
                              const bd_cluster_ops *producer, const bd_cluster_ops *reader,
                              const reading *readings, int count) {
  if (producer->needed_count) return NULL;
  int *again = BD_NEW_ARRAY(ctx->arena, int, reader->option_count);
  for (int o = 0; o < reader->option_count; o++)
    for (int i = 0; i < count; i++)
      again[o] += bd_layer_runs_again(space, &reader->options[o], readings[i].op);
  return again;
}

void bd_layer_add_edge(bd_ctx *ctx, bd_layer_space *space, int from, int to, bd_choice_edge *edge) {
  const bd_cluster_ops *producer = &space->clusters[from], *reader = &space->clusters[to];
  int count;
  reading *readings = find_readings(ctx, space, from, to, &count);
  const int *again = count_again(ctx, space, producer, reader, readings, count);
  bool only_anchor = true;
  for (int i = 0; i < count; i++)
    only_anchor = only_anchor && readings[i].op == reader->ops[0];
  classes a = producer_classes(ctx, space, from, readings, count);
  classes b = reader_classes(ctx, reader, only_anchor, again);
  start_edge(ctx, edge, from, to, a, b);
  needs *wanted = BD_NEW_ARRAY(ctx->arena, needs, b.count);
  int *which = BD_NEW_ARRAY(ctx->arena, int, b.count);
  double *carried = BD_NEW_ARRAY(ctx->arena, double, b.count);
  for (int i = 0; i < count; i++) {
    int different = tell_needs_apart(space, reader, b.first, b.count, &readings[i], wanted, which);
    for (int x = 0; x < a.count; x++) {
      const bd_layer_option *own = &producer->options[a.first[x]];
      bd_sharding form = bd_layer_form(space, producer, own, readings[i].value);
      bd_sharding home = bd_layer_gradient_home(space, producer, own, readings[i].value);
      for (int d = 0; d < different; d++)
        carried[d] = carry(space, &readings[i], &wanted[d], &form, &home);
      for (int y = 0; y < b.count; y++)
        edge->cost[(size_t)x * (size_t)b.count + (size_t)y] += carried[which[y]];
    }
  }
  for (int x = 0; again && x < a.count; x++) {
    double seconds = rerun_seconds(space, producer, &producer->options[a.first[x]]);
    for (int y = 0; y < b.count; y++)
      edge->cost[(size_t)x * (size_t)b.count + (size_t)y] += again[b.first[y]] * seconds;
  }
}

// Inputs come in the boundary's form, and results are read in it.
static bool lies_on_boundary(const bd_layer_space *space, int cluster, bd_id v) {
  int maker = space->forward->values[v].producer;
  if (space->is_weight[v]) return false;
  return maker < 0 || (space->is_result[v] && space->cluster_of_op[maker] != cluster);
}

bool bd_layer_meets_boundary(const bd_layer_space *space, int to) {
  const bd_cluster_ops *c = &space->clusters[to];
  for (int i = 0; i < c->op_count; i++) {
    const bd_op *op = &space->forward->ops[c->ops[i]];
    for (int k = 0; k < op->in_count; k++)
      if (lies_on_boundary(space, to, op->in[k])) return true;
    for (int r = 0; r < op->out_count; r++)
      if (space->is_result[op->out[r]]) return true;
  }
  return false;
}

// A result settles in the boundary's form, and its gradient comes back from there.
static double settle(bd_layer_space *space, const bd_cluster_ops *c, const bd_layer_option *option,
                     bd_id v, const bd_sharding *form) {
  bd_sharding produced = bd_layer_produced(space, c, option, v);
  double seconds = bd_layer_reshard_seconds(space, v, &produced, form);
  if (space->flows[v] && bd_layer_reads_gradient(space, space->forward->values[v].producer)) {
    bd_sharding home = bd_layer_gradient_home(space, c, option, v);
    seconds += bd_layer_reshard_seconds(space, v, form, &home);
  }
  return seconds;
}

static double boundary_seconds(bd_layer_space *space, int to, const bd_layer_option *option,
                               int form) {
  const bd_cluster_ops *c = &space->clusters[to];
  double seconds = 0;
  for (int i = 0; i < c->op_count; i++) {
    const bd_op *op = &space->forward->ops[c->ops[i]];
    for (int k = 0; k < op->in_count; k++) {
      if (!lies_on_boundary(space, to, op->in[k])) continue;
      reading r = reading_of(space, c->ops[i], k);
      needs wanted = needs_of(space, c, option, &r);
      bd_sharding at = bd_layer_boundary(space, form, op->in[k]);
      seconds += carry(space, &r, &wanted, &at, &at);
    }
    for (int r = 0; r < op->out_count; r++) {
      if (!space->is_result[op->out[r]]) continue;
      bd_sharding at = bd_layer_boundary(space, form, op->out[r]);
      seconds += settle(space, c, option, op->out[r], &at);
    }
  }
  return seconds;
}

void bd_layer_add_boundary_edge(bd_ctx *ctx, bd_layer_space *space, int to, bd_choice_edge *edge) {
  int forms = space->request->form_count;
  const bd_cluster_ops *c = &space->clusters[to];
  classes a = {forms, BD_NEW_ARRAY(ctx->arena, int, forms), NULL};
  for (int f = 0; f < forms; f++)
    a.class_of[f] = f;
  classes b = reader_classes(ctx, c, false, NULL);
  start_edge(ctx, edge, space->cluster_count, to, a, b);
  for (int f = 0; f < forms; f++)
    for (int y = 0; y < b.count; y++)
      edge->cost[(size_t)f * (size_t)b.count + (size_t)y] =
          boundary_seconds(space, to, &c->options[b.first[y]], f);
}
