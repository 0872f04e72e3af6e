#include "planner/layer/sketch.h"
#include "planner/layer/problem.h"
#include "planner/layer/workspace.h"
#include <math.h>

struct bd_layer_sketch {
  bd_layer_space space;
  bd_choice_problem problem;
  bd_layer_workspace *workspace;
  bool priced;
  double found; // when it is
};

bd_status bd_layer_sketch_open(bd_ctx *ctx, const bd_layer_request *request,
                               bd_layer_sketch **out_sketch) {
  bd_layer_sketch *sketch = BD_NEW(ctx->arena, bd_layer_sketch);
  double **tape;
  BD_TRY(bd_layer_space_read(ctx, request, &sketch->space));
  sketch->space.tables = ctx->arena;
  bd_layer_space_enumerate(ctx, &sketch->space);
  bd_layer_add_nodes(ctx, &sketch->space, &sketch->problem, &tape);
  for (int i = 0; i < sketch->problem.nodes; i++)
    for (int o = 0; o < sketch->problem.node[i].options; o++)
      sketch->problem.node[i].usage[o] += tape[i][o];
  sketch->workspace = bd_layer_workspace_create(&sketch->space);
  *out_sketch = sketch;
  return BD_OK;
}

double bd_layer_sketch_fixed_workspace(const bd_layer_sketch *sketch) {
  return bd_layer_workspace_most_fixed(sketch->workspace);
}

static int best_option(const bd_choice_node *node, double seconds_weight, double bytes_weight,
                       double *out_least) {
  int best = 0;
  *out_least = INFINITY;
  for (int o = 0; o < node->options; o++) {
    double value = seconds_weight * node->cost[o] + bytes_weight * node->usage[o];
    if (isinf(node->cost[o]) || value >= *out_least) continue;
    *out_least = value;
    best = o;
  }
  return best;
}

bd_layer_sum bd_layer_sketch_sum(const bd_layer_sketch *sketch, double seconds_weight,
                                 double bytes_weight) {
  bd_layer_sum sum = {0, 0};
  for (int i = 0; i < sketch->problem.nodes; i++) {
    const bd_choice_node *node = &sketch->problem.node[i];
    double least;
    int best = best_option(node, seconds_weight, bytes_weight, &least);
    sum.seconds += isinf(least) ? INFINITY : node->cost[best];
    sum.bytes += node->usage[best];
  }
  return sum;
}

// Drops options of a cluster that alone bring the layer to `enough`, whatever is chosen besides,
// but not its best; `rest`: what is left for the cluster when the others take the least they can.
static void drop_options(bd_layer_sketch *sketch, int cluster, double price, double least,
                         double rest) {
  bd_choice_node *node = &sketch->problem.node[cluster];
  bd_cluster_ops *c = &sketch->space.clusters[cluster];
  int kept = 0;
  for (int o = 0; o < node->options; o++) {
    double value = node->cost[o] + price * node->usage[o];
    if (value >= rest && value > least) continue;
    c->options[kept] = c->options[o];
    node->usage[kept] = node->usage[o];
    node->cost[kept++] = node->cost[o];
  }
  node->options = c->option_count = kept;
}

double bd_layer_sketch_price(bd_ctx *ctx, bd_layer_sketch *sketch, double price, double enough) {
  const bd_choice_problem *problem = &sketch->problem;
  if (sketch->priced) return sketch->found;
  double *least = BD_NEW_ARRAY(ctx->arena, double, problem->nodes), sum = 0;
  for (int i = 0; i < problem->nodes; i++) {
    best_option(&problem->node[i], 1, price, &least[i]);
    sum += least[i];
  }
  if (sum >= enough) return sum;
  for (int c = 0; c < sketch->space.cluster_count; c++)
    drop_options(sketch, c, price, least[c], enough - (sum - least[c]));
  bd_layer_add_edges(ctx, &sketch->space, &sketch->problem);
  bd_elimination *elimination = bd_layer_elimination(ctx, problem);
  int *option = BD_NEW_ARRAY(ctx->arena, int, problem->nodes);
  bool any = bd_elimination_run(elimination, 1, price, option);
  sketch->priced = true;
  sketch->found = any ? fmin(bd_elimination_bound(elimination), enough) : enough;
  return sketch->found;
}
