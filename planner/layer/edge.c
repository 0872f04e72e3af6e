#include "planner/layer/edge.h"
#include "planner/choice/classify.h"
#include "planner/layer/forms.h"
#include "planner/layer/gradient.h"
#include "planner/layer/hidden.h"
#include "planner/layer/reading.h"
#include "planner/layer/reshard.h"
#include "planner/layer/work.h"
#include <string.h>

// Costs of an edge, at most: 32 MiB of them. Edges come near where a mesh has four axes and values
// have many dimensions.
#define EDGE_LIMIT ((int64_t)1 << 22)

// What tells options apart on an edge.
typedef struct key {
  bd_layer_option option;
  int64_t form, home, passed; // of a value, of its gradient, and of that where additions hand it on
} key;

static int64_t pack(const bd_sharding *sharding) {
  int64_t packed = 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    packed = packed << 8 | (int64_t)(sharding->at[axis] + 8);
  return packed;
}

// Where the options of a cluster leave a value.
static bd_sources sources_of(bd_arena *scratch, const bd_layer_space *space,
                             const bd_cluster_ops *c, const int *options, int count, bd_id value) {
  bd_sources out = {.count = count};
  out.form = bd_arena_array(scratch, (size_t)count, sizeof *out.form);
  out.home = bd_arena_array(scratch, (size_t)count, sizeof *out.home);
  bd_id passed = space->passes_to[value];
  if (passed != BD_NO_ID) out.passed = bd_arena_array(scratch, (size_t)count, sizeof *out.passed);
  for (int i = 0; i < count; i++) {
    const bd_layer_option *option = &c->options[options ? options[i] : i];
    out.form[i] = bd_layer_form(space, c, option, value);
    out.home[i] = bd_layer_gradient_home(space, c, option, value);
    if (out.passed) out.passed[i] = bd_layer_gradient_home(space, c, option, passed);
  }
  return out;
}

// Producers differ by the form of the value and that of its gradient; by more when several values
// cross, or when running the producer again depends on how it is split.
static bd_classes producer_classes(bd_ctx *ctx, bd_arena *scratch, const bd_layer_space *space,
                                   int from, const bd_reading *readings, int count) {
  const bd_cluster_ops *c = &space->clusters[from];
  key *keys = BD_NEW_ARRAY(scratch, key, c->option_count);
  bool one = c->needed_count > 0;
  for (int i = 1; i < count; i++)
    one = one && readings[i].value == readings[0].value;
  bd_sources own = {0};
  if (one) own = sources_of(scratch, space, c, NULL, c->option_count, readings[0].value);
  for (int o = 0; o < c->option_count; o++) {
    if (one) {
      keys[o].form = pack(&own.form[o]);
      keys[o].home = pack(&own.home[o]);
      if (own.passed) keys[o].passed = pack(&own.passed[o]);
    } else {
      memcpy(keys[o].option.split, c->options[o].split, sizeof keys[o].option.split);
      memcpy(keys[o].option.scatter, c->options[o].scatter, sizeof keys[o].option.scatter);
    }
  }
  return bd_classify(ctx->arena, scratch, keys, sizeof *keys, c->option_count);
}

// Readers differ by their split; followers also by where sums are scattered, and where it matters
// (`again`, or NULL), by how many of them run again.
static bd_classes reader_classes(bd_ctx *ctx, bd_arena *scratch, const bd_cluster_ops *c,
                                 bool only_anchor, const int *again) {
  key *keys = BD_NEW_ARRAY(scratch, key, c->option_count);
  for (int o = 0; o < c->option_count; o++) {
    memcpy(keys[o].option.split, c->options[o].split, sizeof keys[o].option.split);
    if (!only_anchor)
      memcpy(keys[o].option.scatter, c->options[o].scatter, sizeof keys[o].option.scatter);
    if (again) keys[o].form = again[o];
  }
  return bd_classify(ctx->arena, scratch, keys, sizeof *keys, c->option_count);
}

static bool crosses(const bd_layer_space *space, bd_id v, int from) {
  int maker = space->forward->values[v].producer;
  return maker >= 0 && space->cluster_of_op[maker] == from && !space->is_result[v];
}

static bd_reading *find_readings(bd_arena *scratch, const bd_layer_space *space, int from, int to,
                                 int *out_count) {
  const bd_cluster_ops *reader = &space->clusters[to];
  bd_reading *list = BD_NEW_ARRAY(scratch, bd_reading, reader->op_count * BD_MAX_OPERANDS);
  *out_count = 0;
  for (int i = 0; i < reader->op_count; i++)
    for (int k = 0; k < space->forward->ops[reader->ops[i]].in_count; k++)
      if (crosses(space, space->forward->ops[reader->ops[i]].in[k], from))
        list[(*out_count)++] = bd_layer_reading(space, reader->ops[i], k);
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
  return bd_layer_rerun_seconds(space, from->ops[0], own->split) / readers;
}

// An edge that is too wide to be priced in full: where the costs to carry a value there, without
// those of the way back, are few enough, it has these; else none. Costs left out are never below 0,
// so that the problem's optimum stays a bound.
static void add_wide_edge(bd_ctx *ctx, bd_arena *scratch, bd_layer_space *space, int from, int to,
                          const bd_reading *reading, bd_choice_edge *edge) {
  const bd_cluster_ops *producer = &space->clusters[from], *reader = &space->clusters[to];
  bd_sources all =
      sources_of(scratch, space, producer, NULL, producer->option_count, reading->value);
  *edge = (bd_choice_edge){.a = from, .b = to};
  if (bd_layer_carry_there(ctx->arena, scratch, space, reading, &all, reader, EDGE_LIMIT, edge))
    return;
  edge->classes_a = edge->classes_b = 1;
  edge->class_a = BD_NEW_ARRAY(ctx->arena, int, producer->option_count);
  edge->class_b = BD_NEW_ARRAY(ctx->arena, int, reader->option_count);
  edge->cost = BD_NEW(ctx->arena, double);
}

static void start_edge(bd_ctx *ctx, bd_choice_edge *edge, int a, int b, bd_classes at_a,
                       bd_classes at_b) {
  *edge = (bd_choice_edge){a, b, at_a.count, at_b.count, at_a.class_of, at_b.class_of, NULL};
  edge->cost =
      bd_arena_array(ctx->arena, (size_t)at_a.count * (size_t)at_b.count, sizeof *edge->cost);
}

// Per option of the reader, how many of its readings run again and rerun the producer; NULL when
// the producer's values are known to backward, which alone decides about them.
static const int *count_again(bd_arena *scratch, const bd_layer_space *space,
                              const bd_cluster_ops *producer, const bd_cluster_ops *reader,
                              const bd_reading *readings, int count) {
  if (producer->needed_count) return NULL;
  int *again = BD_NEW_ARRAY(scratch, int, reader->option_count);
  for (int o = 0; o < reader->option_count; o++)
    for (int i = 0; i < count; i++)
      again[o] += bd_layer_runs_again(space, &reader->options[o], readings[i].op);
  return again;
}

void bd_layer_add_edge(bd_ctx *ctx, bd_arena *scratch, bd_layer_space *space, int from, int to,
                       bd_choice_edge *edge) {
  const bd_cluster_ops *producer = &space->clusters[from], *reader = &space->clusters[to];
  int count;
  bd_reading *readings = find_readings(scratch, space, from, to, &count);
  const int *again = count_again(scratch, space, producer, reader, readings, count);
  bool only_anchor = true;
  for (int i = 0; i < count; i++)
    only_anchor = only_anchor && readings[i].op == reader->ops[0];
  bd_classes a = producer_classes(ctx, scratch, space, from, readings, count);
  bd_classes b = reader_classes(ctx, scratch, reader, only_anchor, again);
  if ((int64_t)a.count * b.count > EDGE_LIMIT) {
    add_wide_edge(ctx, scratch, space, from, to, &readings[0], edge);
    return;
  }
  start_edge(ctx, edge, from, to, a, b);
  for (int i = 0; i < count; i++) {
    bd_sources sources = sources_of(scratch, space, producer, a.first, a.count, readings[i].value);
    bd_layer_add_carrying(scratch, space, &readings[i], &sources, reader, b.first, b.count,
                          edge->cost);
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

// Of a result's gradient, from the boundary's form.
static double come_back(bd_layer_space *space, const bd_cluster_ops *c,
                        const bd_layer_option *option, bd_id v, const bd_sharding *at) {
  bd_id passed = space->passes_to[v];
  bd_sharding home = bd_layer_gradient_home(space, c, option, v);
  double seconds = bd_layer_reshard_seconds(space, v, at, &home);
  if (passed == BD_NO_ID) return seconds;
  bd_sharding onward = bd_layer_gradient_home(space, c, option, passed);
  return bd_layer_bring_both(space, v, &home, seconds, &onward,
                             bd_layer_reshard_seconds(space, v, at, &onward));
}

// A result settles in the boundary's form, and its gradient comes back from there.
static void add_settling(bd_layer_space *space, const bd_cluster_ops *c, const bd_classes *options,
                         bd_id v, double *cost) {
  for (int y = 0; y < options->count; y++) {
    const bd_layer_option *option = &c->options[options->first[y]];
    bd_sharding produced = bd_layer_produced(space, c, option, v);
    for (int form = 0; form < space->request->form_count; form++) {
      bd_sharding at = bd_layer_boundary(space, form, v);
      double seconds = bd_layer_settle_seconds(space, v, false, &produced, &at);
      if (space->flows[v] && bd_layer_reads_gradient(space, space->forward->values[v].producer))
        seconds += come_back(space, c, option, v, &at);
      cost[(size_t)form * (size_t)options->count + (size_t)y] += seconds;
    }
  }
}

// A value that enters in the boundary's form, where its gradient is wanted as well.
static bd_sources boundary_sources(bd_arena *scratch, const bd_layer_space *space, bd_id value) {
  int forms = space->request->form_count;
  bd_sharding *at = bd_arena_array(scratch, (size_t)forms, sizeof *at);
  for (int form = 0; form < forms; form++)
    at[form] = bd_layer_boundary(space, form, value);
  return (bd_sources){forms, at, at, NULL};
}

void bd_layer_add_boundary_edge(bd_ctx *ctx, bd_arena *scratch, bd_layer_space *space, int to,
                                bd_choice_edge *edge) {
  int forms = space->request->form_count;
  const bd_cluster_ops *c = &space->clusters[to];
  bd_classes a = {forms, BD_NEW_ARRAY(ctx->arena, int, forms), NULL};
  for (int f = 0; f < forms; f++)
    a.class_of[f] = f;
  bd_classes b = reader_classes(ctx, scratch, c, false, NULL);
  start_edge(ctx, edge, space->cluster_count, to, a, b);
  for (int i = 0; i < c->op_count; i++) {
    const bd_op *op = &space->forward->ops[c->ops[i]];
    for (int k = 0; k < op->in_count; k++) {
      if (!lies_on_boundary(space, to, op->in[k])) continue;
      bd_reading r = bd_layer_reading(space, c->ops[i], k);
      bd_sources sources = boundary_sources(scratch, space, op->in[k]);
      bd_layer_add_carrying(scratch, space, &r, &sources, c, b.first, b.count, edge->cost);
    }
    for (int r = 0; r < op->out_count; r++)
      if (space->is_result[op->out[r]]) add_settling(space, c, &b, op->out[r], edge->cost);
  }
}
