#include "planner/layer_problem.h"
#include "planner/layer_op.h"
#include <math.h>
#include <string.h>

typedef struct builder {
  bd_ctx *ctx;
  bd_layer_space *space;
  const bd_cost_model *cost;
} builder;

static double local_bytes(const builder *b, bd_id value, const bd_sharding *sharding) {
  const bd_type *type = &b->space->forward->values[value].type;
  bd_type local = bd_local_type(&b->cost->mesh, sharding, type, b->cost->micro_batch);
  return (double)bd_type_elements(&local, 1) * (double)bd_dtype_bytes(type->dtype);
}

// Backward ops of the group, split at the same letters where they can be.
static double backward_seconds(const builder *b, int group,
                               const int8_t forward_split[BD_MAX_AXES]) {
  const bd_function *f = b->space->backward;
  double seconds = 0;
  for (int i = 0; i < f->op_count; i++) {
    if (f->ops[i].group != group) continue;
    const bd_index_map *map = &b->space->backward_map[i];
    int8_t split[BD_MAX_AXES];
    for (int axis = 0; axis < BD_MAX_AXES; axis++) {
      int loop = forward_split[axis];
      split[axis] = -1;
      if (loop < 0) continue;
      int own = bd_index_find(map, b->space->map[group].loop[loop].letter);
      if (own >= 0 && bd_split_allowed(map, &b->cost->mesh, b->cost->micro_batch, axis, own))
        split[axis] = (int8_t)own;
    }
    seconds += bd_layer_op_seconds(b->cost, f, i, map, split);
  }
  return seconds;
}

// Gradients of a weight that the split leaves partial, reduced once a step, and the update; and
// where the weight's state lies. INFINITY when a tied weight would be stored in another form.
static void add_weights(const builder *b, const bd_op *op, const bd_index_map *map,
                        const int8_t split[BD_MAX_AXES], double *seconds, double *usage) {
  const bd_layer_request *request = b->space->request;
  const bd_function *f = b->space->forward;
  for (int i = 0; i < op->in_count; i++) {
    bd_id w = op->in[i];
    if (!bd_layer_is_weight(b->space, w)) continue;
    bd_sharding form = bd_split_operand(map, &b->cost->mesh, split, i);
    int param = 0;
    while (f->params[param] != w)
      param++;
    bool shared = request->tied[param] || b->space->weight_uses[w] > 1;
    if (shared && !bd_sharding_equal(&form, &request->boundary.tied)) *seconds = INFINITY;
    bd_dtype dtype = f->values[w].type.dtype, wide = bd_dtype_wide(dtype);
    double bytes = local_bytes(b, w, &form), elements = bytes / (double)bd_dtype_bytes(dtype);
    double gradient_bytes = elements * (double)bd_dtype_bytes(wide), sync = 0;
    for (int axis = 0; axis < b->cost->mesh.axes; axis++)
      if (split[axis] >= 0 && form.at[axis] == BD_REPLICATED)
        sync += bd_cost_all_reduce(bd_cost_link(b->cost, axis), b->cost->mesh.size[axis],
                                   gradient_bytes);
    sync += elements * (double)bd_memory_update_bytes(request->optimizer, dtype) /
            b->cost->cluster->memory_bytes_per_second;
    *seconds += sync / request->micro_batches / b->space->weight_uses[w];
    *usage += bytes;
    if (!request->tied[param])
      *usage +=
          gradient_bytes + elements * (double)bd_optimizer_state_bytes(request->optimizer, dtype);
  }
}

// Which values of a cluster the tape keeps under an option.
static bool keeps(const builder *b, const bd_cluster_ops *c, bd_keep keep, bd_id value) {
  if (!b->space->needed[value] || keep == BD_KEEP_NONE) return false;
  return keep == BD_KEEP_ALL || b->space->forward->values[value].producer == c->ops[0];
}

static bool cluster_needed(const bd_layer_space *space, const bd_cluster_ops *c) {
  for (int i = 0; i < c->op_count; i++) {
    const bd_op *op = &space->forward->ops[c->ops[i]];
    for (int r = 0; r < op->out_count; r++)
      if (space->needed[op->out[r]]) return true;
  }
  return false;
}

// Whether backward surely runs an op of the cluster again: to have a value that is not kept, or to
// run another one that it runs again.
static bool runs_again(const builder *b, const bd_cluster_ops *c, bd_keep keep, int position) {
  const bd_function *f = b->space->forward;
  const bd_op *op = &f->ops[c->ops[position]];
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    if (keeps(b, c, keep, v)) continue;
    if (b->space->needed[v]) return true;
    for (int i = position + 1; i < c->op_count; i++)
      for (int k = 0; k < f->ops[c->ops[i]].in_count; k++)
        if (f->ops[c->ops[i]].in[k] == v && runs_again(b, c, keep, i)) return true;
  }
  return false;
}

static bd_status add_values(const builder *b, const bd_cluster_ops *c,
                            const bd_layer_option *option, const bd_op *op, double *seconds,
                            double *usage) {
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    bd_sharding produced = bd_layer_produced(b->space, c, option, v);
    bd_sharding form = bd_layer_form(b->space, c, option, v), gradient = produced;
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      if (gradient.at[axis] < BD_REPLICATED) gradient.at[axis] = BD_REPLICATED;
    double there, back = 0;
    BD_TRY(bd_layer_reshard_seconds(b->ctx, b->space, v, &produced, &form, &there));
    if (r == 0) BD_TRY(bd_layer_reshard_seconds(b->ctx, b->space, v, &form, &gradient, &back));
    *seconds += there + back;
    if (keeps(b, c, option->keep, v))
      *usage += local_bytes(b, v, &form) * b->space->request->in_flight;
  }
  return BD_OK;
}

static bd_status add_option(const builder *b, const bd_cluster_ops *c,
                            const bd_layer_option *option, double *out_seconds, double *out_usage) {
  double seconds = 0, usage = 0;
  for (int i = 0; i < c->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    int index = c->ops[i];
    const bd_op *op = &b->space->forward->ops[index];
    if (!bd_layer_split(b->space, c, option, index, split)) {
      *out_seconds = INFINITY;
      return BD_OK;
    }
    const bd_index_map *map = &b->space->map[index];
    seconds += bd_layer_op_seconds(b->cost, b->space->forward, index, map, split);
    if (runs_again(b, c, option->keep, i))
      seconds += bd_layer_clone_seconds(b->cost, b->space->forward, index, map, split);
    seconds += backward_seconds(b, index, split);
    add_weights(b, op, &b->space->map[index], split, &seconds, &usage);
    BD_TRY(add_values(b, c, option, op, &seconds, &usage));
  }
  *out_seconds = seconds;
  *out_usage = usage;
  return BD_OK;
}

// What an operand's gradient looks like: partial over axes whose loop the operand lacks.
static bd_sharding operand_gradient(const builder *b, const bd_index_map *map,
                                    const int8_t split[BD_MAX_AXES], int operand) {
  bd_sharding form = bd_split_operand(map, &b->cost->mesh, split, operand);
  for (int axis = 0; axis < b->cost->mesh.axes; axis++)
    if (split[axis] >= 0 && form.at[axis] == BD_REPLICATED) form.at[axis] = BD_PARTIAL_SUM;
  return form;
}

// Partition lets partial sums of gradients pass ops that only move or scale elements, on their way
// to a weight whose sum waits for the step's end.
static bool may_stay_partial(const builder *b, bd_id v) {
  int maker = b->space->forward->values[v].producer;
  for (int i = 0; maker >= 0 && i < b->space->backward->op_count; i++) {
    const bd_op *op = &b->space->backward->ops[i];
    if (op->group != maker) continue;
    if (op->kind == BD_OP_SLICE || op->kind == BD_OP_PAD || op->kind == BD_OP_RESHAPE ||
        op->kind == BD_OP_PERMUTE || op->kind == BD_OP_REDUCE_SUM || op->kind == BD_OP_SCALE ||
        op->kind == BD_OP_NEG)
      return true;
  }
  return false;
}

// Seconds to carry value `v` from its form to an op of another cluster and its gradient back.
static bd_status carry(const builder *b, const bd_cluster_ops *to, const bd_layer_option *option,
                       int op_index, int operand, const bd_sharding *form, double *seconds) {
  const bd_op *op = &b->space->forward->ops[op_index];
  bd_id v = op->in[operand];
  const bd_index_map *map = &b->space->map[op_index];
  int8_t split[BD_MAX_AXES];
  double there, back = 0;
  if (!bd_layer_split(b->space, to, option, op_index, split)) return BD_OK;
  bd_sharding wanted = bd_split_operand(map, &b->cost->mesh, split, operand);
  BD_TRY(bd_layer_reshard_seconds(b->ctx, b->space, v, form, &wanted, &there));
  bool differentiable = bd_dtype_is_float(b->space->forward->values[v].type.dtype) &&
                        !(bd_op_get_info(op->kind)->traits & BD_NO_GRADIENT);
  if (differentiable) {
    bd_sharding gradient = operand_gradient(b, map, split, operand);
    if (!bd_sharding_has_partial(&gradient) || !may_stay_partial(b, v))
      BD_TRY(bd_layer_reshard_seconds(b->ctx, b->space, v, &gradient, form, &back));
  }
  *seconds += (there + back) / b->space->consumers[v];
  return BD_OK;
}

// Activations that enter the function come in the boundary's form.
static bd_status add_inputs(const builder *b, const bd_cluster_ops *c,
                            const bd_layer_option *option, double *seconds) {
  const bd_function *f = b->space->forward;
  for (int i = 0; i < c->op_count; i++)
    for (int o = 0; o < f->ops[c->ops[i]].in_count; o++) {
      bd_id v = f->ops[c->ops[i]].in[o];
      if (f->values[v].producer >= 0 || bd_layer_is_weight(b->space, v)) continue;
      bd_sharding form = bd_layer_boundary(b->space, v);
      BD_TRY(carry(b, c, option, c->ops[i], o, &form, seconds));
    }
  return BD_OK;
}

static bd_status add_node(const builder *b, const bd_cluster_ops *c, bd_choice_node *node) {
  node->options = c->option_count;
  node->cost = BD_NEW_ARRAY(b->ctx->arena, double, node->options);
  node->usage = BD_NEW_ARRAY(b->ctx->arena, double, node->options);
  for (int o = 0; o < node->options; o++) {
    BD_TRY(add_option(b, c, &c->options[o], &node->cost[o], &node->usage[o]));
    if (isfinite(node->cost[o])) BD_TRY(add_inputs(b, c, &c->options[o], &node->cost[o]));
  }
  return BD_OK;
}

// Running a reader again reruns the anchor of a producer whose values nobody keeps because backward
// does not need them; all readers share that.
static double rerun_seconds(const builder *b, const bd_cluster_ops *from,
                            const bd_layer_option *own) {
  if (cluster_needed(b->space, from)) return 0;
  int anchor = from->ops[0], readers = 0;
  for (int i = 0; i < from->op_count; i++) {
    const bd_op *op = &b->space->forward->ops[from->ops[i]];
    for (int r = 0; r < op->out_count; r++)
      readers += b->space->consumers[op->out[r]];
  }
  return bd_layer_clone_seconds(b->cost, b->space->forward, anchor, &b->space->map[anchor],
                                own->split) /
         readers;
}

// Options that differ only in what they keep stand next to each other.
static bool same_forms(const bd_layer_option *a, const bd_layer_option *b) {
  return memcmp(a->split, b->split, sizeof a->split) == 0 &&
         memcmp(a->scatter, b->scatter, sizeof a->scatter) == 0;
}

// What the producer's option `x` costs with every option of the reader, for one operand of one op.
static bd_status add_edge_row(const builder *b, bd_choice_edge *edge, int x, int op, int operand,
                              bd_id v) {
  const bd_cluster_ops *producer = &b->space->clusters[edge->a];
  const bd_cluster_ops *reader = &b->space->clusters[edge->b];
  const bd_layer_option *own = &producer->options[x];
  double *row = &edge->cost[(size_t)x * (size_t)reader->option_count], seconds = 0;
  bd_sharding form = bd_layer_form(b->space, producer, own, v);
  double again = runs_again(b, reader, BD_KEEP_NONE, op) ? rerun_seconds(b, producer, own) : 0;
  for (int y = 0; y < reader->option_count; y++) {
    const bd_layer_option *option = &reader->options[y];
    if (y == 0 || !same_forms(option, option - 1)) {
      seconds = 0;
      BD_TRY(carry(b, reader, option, reader->ops[op], operand, &form, &seconds));
    }
    row[y] += seconds + (option->keep == BD_KEEP_NONE ? again : 0);
  }
  return BD_OK;
}

static bd_status add_edge(const builder *b, int from, int to, bd_choice_edge *edge) {
  const bd_function *f = b->space->forward;
  const bd_cluster_ops *producer = &b->space->clusters[from], *reader = &b->space->clusters[to];
  *edge = (bd_choice_edge){.a = from, .b = to};
  edge->cost = bd_arena_array(
      b->ctx->arena, (size_t)producer->option_count * (size_t)reader->option_count, sizeof(double));
  for (int i = 0; i < reader->op_count; i++)
    for (int o = 0; o < f->ops[reader->ops[i]].in_count; o++) {
      bd_id v = f->ops[reader->ops[i]].in[o];
      int maker = f->values[v].producer;
      if (maker < 0 || b->space->cluster_of_op[maker] != from) continue;
      for (int x = 0; x < producer->option_count; x++)
        BD_TRY(add_edge_row(b, edge, x, i, o, v));
    }
  return BD_OK;
}

static bool reads(const bd_layer_space *space, int to, int from) {
  const bd_cluster_ops *reader = &space->clusters[to];
  for (int i = 0; i < reader->op_count; i++) {
    const bd_op *op = &space->forward->ops[reader->ops[i]];
    for (int o = 0; o < op->in_count; o++) {
      int maker = space->forward->values[op->in[o]].producer;
      if (maker >= 0 && space->cluster_of_op[maker] == from) return true;
    }
  }
  return false;
}

bd_status bd_layer_problem(bd_ctx *ctx, bd_layer_space *space, bd_choice_problem *out) {
  builder b = {ctx, space, &space->request->cost};
  int count = space->cluster_count;
  *out = (bd_choice_problem){.nodes = count, .budget = INFINITY};
  out->node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, count);
  out->edge = BD_NEW_ARRAY(ctx->arena, bd_choice_edge, (int64_t)count * count);
  for (int c = 0; c < count; c++)
    BD_TRY(add_node(&b, &space->clusters[c], &out->node[c]));
  for (int to = 0; to < count; to++)
    for (int from = 0; from < to; from++)
      if (reads(space, to, from)) BD_TRY(add_edge(&b, from, to, &out->edge[out->edges++]));
  return BD_OK;
}

static void fill_op(const bd_layer_space *space, const bd_cluster_ops *c,
                    const bd_layer_option *option, int index, bd_strategy *out) {
  const bd_op *op = &space->forward->ops[index];
  const bd_index_map *map = &space->map[index];
  int8_t split[BD_MAX_AXES];
  if (!bd_layer_split(space, c, option, index, split)) memset(split, -1, sizeof split);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    out->split[index][axis] = split[axis] < 0 ? '-' : map->loop[split[axis]].letter;
  for (int i = 0; i < op->in_count; i++)
    if (bd_layer_is_weight(space, op->in[i]))
      out->form[op->in[i]] = bd_split_operand(map, &space->request->cost.mesh, split, i);
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    out->form[v] = bd_layer_form(space, c, option, v);
    bool kept =
        option->keep == BD_KEEP_ALL || (option->keep == BD_KEEP_ANCHOR && index == c->ops[0]);
    out->saved[v] = kept && space->needed[v];
  }
}

bd_strategy bd_layer_strategy(bd_ctx *ctx, const bd_layer_space *space, const int *option) {
  const bd_function *f = space->forward;
  bd_strategy out = {
      .name = f->name, .function = f->name, .op_count = f->op_count, .value_count = f->value_count};
  out.split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *out.split);
  out.form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  out.saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (int p = 0; p < f->param_count; p++)
    out.form[f->params[p]] =
        f->is_weight[p] ? bd_sharding_replicated() : bd_layer_boundary(space, f->params[p]);
  for (int c = 0; c < space->cluster_count; c++)
    for (int i = 0; i < space->clusters[c].op_count; i++)
      fill_op(space, &space->clusters[c], &space->clusters[c].options[option[c]],
              space->clusters[c].ops[i], &out);
  return out;
}
