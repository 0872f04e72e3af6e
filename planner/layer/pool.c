#include "planner/layer/pool.h"
#include "ir/pool.h"
#include <math.h>
#include <string.h>

enum { SWEEPS = 3 }; // over the clusters, the first of which looks past what is not allowed

bool bd_layer_keeps_pool(const bd_layer_space *space, bd_id value, const bd_sharding *from,
                         const bd_sharding *to) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  const bd_type *type = &space->forward->values[value].type;
  return !space->pooled[value] ||
         bd_sample_axes(mesh, type, from) == bd_sample_axes(mesh, type, to);
}

typedef struct mending {
  const bd_layer *layer;
  double seconds_weight, bytes_weight;
  int *option;
} mending;

static unsigned axes_of(const bd_layer_space *space, int cluster, int option) {
  const bd_cluster_ops *c = &space->clusters[cluster];
  return bd_split_sample_axes(&space->map[c->ops[0]], &space->request->cost.mesh,
                              c->options[option].split);
}

// Of the ops of a cluster the anchor alone may count over samples or read what does from elsewhere.
static bool is_pooled(const bd_layer_space *space, int cluster) {
  const bd_op *op = &space->forward->ops[space->clusters[cluster].ops[0]];
  for (int k = 0; k < op->in_count; k++)
    if (space->pooled[op->in[k]]) return true;
  return bd_op_pools(op);
}

bool bd_layer_pools_agree(const bd_layer_space *space, const int *option) {
  for (int c = 0; c < space->cluster_count; c++) {
    const bd_op *op = &space->forward->ops[space->clusters[c].ops[0]];
    for (int k = 0; k < op->in_count; k++) {
      if (!space->pooled[op->in[k]]) continue;
      int maker = space->cluster_of_op[space->forward->values[op->in[k]].producer];
      if (axes_of(space, maker, option[maker]) != axes_of(space, c, option[c])) return false;
    }
  }
  return true;
}

static double value_of(const mending *m, const int *option) {
  double seconds, bytes;
  if (!bd_layer_pools_agree(&m->layer->space, option)) return INFINITY;
  bd_choice_evaluate(&m->layer->problem, option, &seconds, &bytes);
  return isinf(seconds) ? INFINITY : m->seconds_weight * seconds + m->bytes_weight * bytes;
}

// What an option of a node adds beside its neighbours; `blind`: but for what is not allowed.
static double added(const mending *m, int node, int option, bool blind) {
  const bd_choice_problem *problem = &m->layer->problem;
  const bd_choice_node *n = &problem->node[node];
  if (isinf(n->cost[option])) return INFINITY;
  double sum = m->seconds_weight * n->cost[option] + m->bytes_weight * n->usage[option];
  for (int e = 0; e < problem->edges; e++) {
    const bd_choice_edge *edge = &problem->edge[e];
    if (edge->a != node && edge->b != node) continue;
    double cost = edge->a == node ? bd_choice_edge_cost(edge, option, m->option[edge->b])
                                  : bd_choice_edge_cost(edge, m->option[edge->a], option);
    if (!isinf(cost))
      sum += m->seconds_weight * cost;
    else if (!blind)
      return INFINITY;
  }
  return sum;
}

// Gives all clusters of pools options that cut the batch along `axes`.
static void cut_alike(const mending *m, unsigned axes) {
  const bd_layer_space *space = &m->layer->space;
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    for (int c = 0; c < space->cluster_count; c++) {
      double least = INFINITY;
      if (!is_pooled(space, c)) continue;
      for (int o = 0; o < space->clusters[c].option_count; o++) {
        if (axes_of(space, c, o) != axes) continue;
        double sum = added(m, c, o, sweep == 0);
        if (sum >= least) continue;
        least = sum;
        m->option[c] = o;
      }
    }
}

bool bd_layer_mend_pools(bd_ctx *ctx, const bd_layer *layer, double seconds_weight,
                         double bytes_weight, int *option) {
  const bd_layer_space *space = &layer->space;
  int nodes = layer->problem.nodes;
  size_t bytes = sizeof *option * (size_t)nodes;
  mending m = {layer, seconds_weight, bytes_weight, BD_NEW_ARRAY(ctx->arena, int, nodes)};
  if (!isinf(value_of(&m, option))) return true;
  int *best = BD_NEW_ARRAY(ctx->arena, int, nodes);
  double least = INFINITY;
  for (unsigned axes = 0; axes < 1u << space->request->cost.mesh.axes; axes++) {
    memcpy(m.option, option, bytes);
    cut_alike(&m, axes);
    double value = value_of(&m, m.option);
    if (value >= least) continue;
    least = value;
    memcpy(best, m.option, bytes);
  }
  if (isinf(least)) return false;
  memcpy(option, best, bytes);
  return true;
}
