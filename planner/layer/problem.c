#include "planner/layer/problem.h"
#include "ir/memory.h"
#include "planner/layer/aside.h"
#include "planner/layer/edge.h"
#include "planner/layer/forms.h"
#include "planner/layer/gradient.h"
#include "planner/layer/hidden.h"
#include "planner/layer/op.h"
#include "planner/layer/reshard.h"
#include "planner/layer/weight.h"
#include "planner/layer/work.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { RELAXED_VISITS = 1 << 18 };

// What an option of a node costs and holds.
typedef struct option_cost {
  double seconds, state_bytes, tape_bytes;
} option_cost;

static double local_bytes(const bd_layer_space *space, bd_id value, const bd_sharding *sharding) {
  return bd_cost_local_bytes(&space->request->cost, &space->forward->values[value].type, sharding);
}

// Backward ops of the cluster's own groups bring a value of it to what they read; what several
// readers want is shared among them.
static double again_seconds(bd_layer_space *space, const bd_cluster_ops *c,
                            const bd_layer_option *option, bd_id v, const bd_sharding *form) {
  bd_sharding wanted[BD_MAX_OPERANDS];
  double seconds = 0;
  for (int i = 0; i < c->op_count && space->needed[v]; i++) {
    int8_t split[BD_MAX_AXES];
    if (!bd_layer_split(space, c, option, c->ops[i], split)) continue;
    int count = bd_layer_backward_needs(space, c->ops[i], split, v, BD_MAX_OPERANDS, wanted);
    for (int k = 0; k < count; k++)
      seconds += bd_layer_reshard_seconds(space, v, form, &wanted[k]) / space->backward_reads[v];
  }
  return seconds;
}

// Results that stay inside the function settle here; those that leave it are the boundary's.
// Gradients come back over edges. Those of results that no other cluster reads come back here, but
// where additions hand on to them the gradient of a value that others read.
static void add_values(bd_layer_space *space, const bd_cluster_ops *c,
                       const bd_layer_option *option, const bd_op *op, option_cost *out) {
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    if (space->is_result[v]) continue;
    bd_sharding produced = bd_layer_produced(space, c, option, v);
    bd_sharding form = bd_layer_form(space, c, option, v);
    bd_sharding home = bd_layer_gradient_home(space, c, option, v);
    out->seconds += bd_layer_settle_seconds(space, v, false, &produced, &form);
    if (space->flows[v] && !space->consumers[v] && !space->is_passed[v])
      out->seconds += bd_layer_reshard_seconds(space, v, &form, &home);
    out->seconds += again_seconds(space, c, option, v, &form);
  }
}

// An op of a cluster under a split, whatever is kept; but for what it gathers again, however
// weights are spread.
typedef struct placed_op {
  int8_t split[BD_MAX_AXES];
  double rerun_seconds;  // of running it again
  double gather_seconds; // ... and bringing weights to it
  double kept_seconds; // of keeping its results on the tape, by stores that it needs for that alone
  double aside_seconds[BD_KEPT_COUNT]; // of keeping them elsewhere
  double tape_bytes;
} placed_op;

// Results that backward reads and the function does not hand on are kept or made again.
static void place_results(const bd_layer_space *space, const bd_cluster_ops *c,
                          const bd_layer_option *option, const bd_op *op, placed_op *out) {
  const bd_cost_model *cost = &space->request->cost;
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    if (!space->needed[v] || space->is_result[v]) continue;
    bd_sharding form = bd_layer_form(space, c, option, v);
    bd_type local =
        bd_local_type(&cost->mesh, &form, &space->forward->values[v].type, cost->micro_batch);
    out->tape_bytes += (double)bd_align(bd_type_elements(&local, 1) * bd_dtype_bytes(local.dtype));
    out->kept_seconds += bd_layer_kept_seconds(cost, space->forward, space->backward, v, &form);
    for (int how = 1; how < BD_KEPT_COUNT && space->request->aside; how++) {
      bd_aside aside = bd_aside_value(cost, &local, (bd_kept)how);
      out->aside_seconds[how] += aside.forward_seconds + aside.backward_seconds;
    }
  }
}

// What depends on the splits alone.
static option_cost shared_cost(bd_layer_space *space, const bd_cluster_ops *c,
                               const bd_layer_option *option, placed_op *placed) {
  option_cost out = {0, 0, 0};
  if (c->impossible) out.seconds = INFINITY;
  for (int i = 0; i < c->op_count; i++) {
    int index = c->ops[i];
    placed[i] = (placed_op){.tape_bytes = 0};
    if (!bd_layer_split(space, c, option, index, placed[i].split)) {
      out.seconds = INFINITY;
      return out;
    }
    const bd_op_work *work = bd_layer_work(space, index, placed[i].split);
    placed[i].rerun_seconds = bd_layer_rerun_seconds(space, index, placed[i].split);
    out.seconds += work->forward + work->backward;
    add_values(space, c, option, &space->forward->ops[index], &out);
    place_results(space, c, option, &space->forward->ops[index], &placed[i]);
  }
  return out;
}

// Weights as they are stored.
static void add_weights(bd_layer_space *space, const bd_cluster_ops *c,
                        const bd_layer_option *option, placed_op *placed, option_cost *out) {
  for (int i = 0; i < c->op_count && isfinite(out->seconds); i++) {
    bd_weight_cost weights = bd_layer_weight_cost(space, c->ops[i], placed[i].split, option);
    out->seconds += weights.seconds;
    out->state_bytes += weights.state_bytes;
    placed[i].gather_seconds = weights.rerun_seconds;
  }
}

// What running ops again costs, and what the tape holds.
static void add_keep(const bd_layer_space *space, const bd_cluster_ops *c,
                     const bd_layer_option *option, const placed_op *placed, option_cost *out) {
  for (int i = 0; i < c->op_count && isfinite(out->seconds); i++) {
    if (bd_layer_runs_again(space, option, c->ops[i]))
      out->seconds += placed[i].rerun_seconds + placed[i].gather_seconds;
    if (!bd_layer_keeps(space, option, c->ops[i])) continue;
    out->seconds += placed[i].aside_seconds[option->how] + placed[i].kept_seconds;
    out->tape_bytes += option->how ? 0 : placed[i].tape_bytes;
  }
}

static bool same_splits(const bd_layer_option *a, const bd_layer_option *b) {
  return memcmp(a->split, b->split, sizeof a->split) == 0 &&
         memcmp(a->scatter, b->scatter, sizeof a->scatter) == 0;
}

static bool same_spread(const bd_layer_option *a, const bd_layer_option *b) {
  return a->spread == b->spread && a->spread_axes == b->spread_axes;
}

static void set_option(bd_choice_node *node, double *tape, int option, const option_cost *cost) {
  node->cost[option] = cost->seconds;
  node->usage[option] = cost->state_bytes;
  tape[option] = cost->tape_bytes;
}

// Whether an option before it with the same splits and the same on the tape, which neighbours
// cannot tell from it, takes and holds no more.
static bool is_dominated(const bd_cluster_ops *c, const bd_choice_node *node, const double *tape,
                         int first, int count, const bd_layer_option *option,
                         const option_cost *cost) {
  for (int o = first; o < count; o++)
    if (c->options[o].kept == option->kept && node->cost[o] <= cost->seconds &&
        node->usage[o] <= cost->state_bytes && tape[o] <= cost->tape_bytes)
      return true;
  return false;
}

// Options that are not possible, or that another one beats whatever the neighbours do, are dropped.
static void add_node(bd_ctx *ctx, bd_layer_space *space, bd_cluster_ops *c, bd_choice_node *node,
                     double **out_tape) {
  node->cost = BD_NEW_ARRAY(ctx->arena, double, c->option_count);
  node->usage = BD_NEW_ARRAY(ctx->arena, double, c->option_count);
  placed_op *placed = BD_NEW_ARRAY(ctx->arena, placed_op, c->op_count);
  *out_tape = BD_NEW_ARRAY(ctx->arena, double, c->option_count);
  option_cost shared = {0, 0, 0}, stored = {0, 0, 0};
  bd_layer_option before = {0};
  int kept = 0, first = 0;
  for (int o = 0; o < c->option_count; o++) {
    const bd_layer_option option = c->options[o];
    bool fresh = o == 0 || !same_splits(&option, &before);
    if (fresh) shared = shared_cost(space, c, &option, placed);
    if (fresh) first = kept;
    if (fresh || !same_spread(&option, &before)) {
      stored = shared;
      add_weights(space, c, &option, placed, &stored);
    }
    before = option;
    option_cost cost = stored;
    add_keep(space, c, &option, placed, &cost);
    bool last = o + 1 == c->option_count && !kept; // stands for none
    if (!last &&
        (isinf(cost.seconds) || is_dominated(c, node, *out_tape, first, kept, &option, &cost)))
      continue;
    c->options[kept] = option;
    set_option(node, *out_tape, kept++, &cost);
  }
  node->options = c->option_count = kept;
}

// What the layer hands on lies between the calls.
static double handed_bytes(const bd_layer_space *space, int form) {
  const bd_function *f = space->forward;
  double bytes = 0;
  for (int i = 0; i < f->result_count; i++) {
    bd_sharding at = bd_layer_boundary(space, form, f->results[i]);
    bytes += (double)bd_align((int64_t)local_bytes(space, f->results[i], &at));
  }
  return bytes;
}

// Gradients of activations, which backward hands back between the calls.
static double passed_bytes(const bd_layer_space *space, int form) {
  const bd_function *f = space->forward, *backward = space->backward;
  double bytes = 0;
  for (int i = 0; i < backward->result_count; i++) {
    int param = backward->gradient_of[i];
    if (f->is_weight[param]) continue;
    bd_sharding at = bd_layer_boundary(space, form, f->params[param]);
    bytes += (double)bd_align((int64_t)local_bytes(space, f->params[param], &at));
  }
  return bytes;
}

// Edges between clusters, and to the boundary.
void bd_layer_add_edges(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out) {
  int count = space->cluster_count;
  bd_owned held;
  bd_arena *scratch = bd_ctx_open_arena(ctx, &held);
  out->edges = 0;
  out->edge = BD_NEW_ARRAY(ctx->arena, bd_choice_edge, (int64_t)(count + 1) * count);
  for (int to = 0; to < count; to++) {
    for (int from = 0; from < to; from++) {
      if (!bd_layer_reads(space, from, to)) continue;
      bd_layer_add_edge(ctx, scratch, space, from, to, &out->edge[out->edges++]);
      bd_arena_reset(scratch);
    }
    if (!bd_layer_meets_boundary(space, to)) continue;
    bd_layer_add_boundary_edge(ctx, scratch, space, to, &out->edge[out->edges++]);
    bd_arena_reset(scratch);
  }
  bd_ctx_close_arena(ctx, &held);
}

static void add_boundary_node(bd_ctx *ctx, const bd_layer_space *space, bd_choice_node *node,
                              double **out_tape) {
  int forms = space->request->form_count;
  double seconds = bd_layer_even_backward_seconds(space, -1);
  *node = (bd_choice_node){forms, BD_NEW_ARRAY(ctx->arena, double, forms),
                           BD_NEW_ARRAY(ctx->arena, double, forms)};
  *out_tape = BD_NEW_ARRAY(ctx->arena, double, forms);
  for (int form = 0; form < forms; form++) {
    (*out_tape)[form] = handed_bytes(space, form);
    node->usage[form] = passed_bytes(space, form);
    node->cost[form] = seconds;
  }
}

void bd_layer_add_nodes(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out,
                        double ***out_tape) {
  int count = space->cluster_count;
  *out =
      (bd_choice_problem){.solver = space->request->solver, .nodes = count + 1, .budget = INFINITY};
  out->node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, count + 1);
  *out_tape = BD_NEW_ARRAY(ctx->arena, double *, count + 1);
  for (int c = 0; c < count; c++)
    add_node(ctx, space, &space->clusters[c], &out->node[c], &(*out_tape)[c]);
  add_boundary_node(ctx, space, &out->node[count], &(*out_tape)[count]);
}

void bd_layer_problem(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out,
                      double ***out_tape) {
  bd_owned held;
  space->tables = bd_ctx_open_arena(ctx, &held);
  space->reshards = bd_reshards_create(space->tables, space->forward);
  bd_layer_add_nodes(ctx, space, out, out_tape);
  bd_layer_add_edges(ctx, space, out);
  bd_ctx_close_arena(ctx, &held);
  space->tables = NULL;
  space->reshards = NULL;
  space->weights = NULL;
  space->stored = NULL;
  space->longest = NULL;
}

bd_elimination *bd_layer_elimination(bd_ctx *ctx, const bd_choice_problem *problem) {
  int boundary = problem->nodes - 1;
  bd_elimination *exact = bd_elimination_create(ctx, problem, NULL, boundary);
  bd_elimination *out =
      exact ? exact : bd_elimination_relax(ctx, problem, boundary, RELAXED_VISITS);
  assert(out); // no edge of a layer is too wide for that
  return out;
}

static void fill_op(bd_ctx *ctx, const bd_layer_space *space, const bd_cluster_ops *c,
                    const bd_layer_option *option, int form, int index, bd_strategy *out) {
  const bd_op *op = &space->forward->ops[index];
  const bd_index_map *map = &space->map[index];
  int8_t split[BD_MAX_AXES];
  if (!bd_layer_split(space, c, option, index, split)) memset(split, -1, sizeof split);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    out->split[index][axis] = split[axis] < 0 ? '-' : map->loop[split[axis]].letter;
  for (int i = 0; i < op->in_count; i++)
    if (space->is_weight[op->in[i]]) {
      bd_weight_form form = bd_layer_weight_form(space, index, i, split, option);
      out->form[op->in[i]] = form.stored;
      out->gradient[op->in[i]] = form.gradient;
    }
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    out->form[v] = space->is_result[v] ? bd_layer_boundary(space, form, v)
                                       : bd_layer_form(space, c, option, v);
    out->gradient[v] = out->form[v];
    bool kept = bd_layer_keeps(space, option, index);
    out->saved[v] = kept && space->needed[v];
    if (out->saved[v] && !space->is_result[v] && option->how) {
      if (!out->kept) out->kept = BD_NEW_ARRAY(ctx->arena, unsigned char, out->value_count);
      out->kept[v] = (unsigned char)option->how;
    }
  }
}

bd_strategy bd_layer_strategy(bd_ctx *ctx, const bd_layer_space *space, const int *option) {
  const bd_function *f = space->forward;
  int form = option[space->cluster_count];
  bd_strategy out = {
      .name = f->name, .function = f->name, .op_count = f->op_count, .value_count = f->value_count};
  out.split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *out.split);
  out.form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  out.gradient = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  out.saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (int p = 0; p < f->param_count; p++)
    out.form[f->params[p]] =
        f->is_weight[p] ? bd_sharding_replicated() : bd_layer_boundary(space, form, f->params[p]);
  for (int p = 0; p < f->param_count; p++)
    out.gradient[f->params[p]] = out.form[f->params[p]];
  for (int c = 0; c < space->cluster_count; c++)
    for (int i = 0; i < space->clusters[c].op_count; i++)
      fill_op(ctx, space, &space->clusters[c], &space->clusters[c].options[option[c]], form,
              space->clusters[c].ops[i], &out);
  return out;
}
