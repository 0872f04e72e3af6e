#include "planner/layer/sketch.h"
#include "planner/layer/apart.h"
#include "planner/layer/gradient.h"
#include "planner/layer/options.h"
#include "planner/layer/problem.h"
#include "planner/layer/reshard.h"
#include "planner/layer/state.h"
#include <math.h>

struct bd_layer_sketch {
  bd_layer_space space;
  bd_layer_apart apart;
  bd_layer_holding holding;
  double backward_seconds;
  bd_choice_problem problem; // until there are edges, nodes cost `outer` as well
  double **outer;            // per cluster and option: bd_layer_apart_outer_sums
  bool weighed, listed;
  double left_out; // seconds of a layer with options that are not listed, at least
  bool priced;
  double found; // when it is
};

bd_status bd_layer_sketch_open(bd_ctx *ctx, const bd_layer_request *request,
                               bd_layer_sketch **out_sketch) {
  bd_layer_sketch *sketch = BD_NEW(ctx->arena, bd_layer_sketch);
  BD_TRY(bd_layer_space_read(ctx, request, &sketch->space));
  sketch->space.tables = ctx->arena;
  sketch->space.reshards = bd_reshards_create(ctx->arena, sketch->space.forward);
  sketch->holding = bd_layer_holding_of(ctx, &sketch->space);
  bd_layer_take_apart(&sketch->space, &sketch->apart);
  sketch->backward_seconds = bd_layer_least_backward_seconds(&sketch->space);
  *out_sketch = sketch;
  return BD_OK;
}

// The same space with no options.
static bd_layer_space unlisted(bd_ctx *ctx, const bd_layer_space *space) {
  bd_layer_space out = *space;
  out.clusters =
      bd_arena_copy(ctx->arena, space->clusters, space->cluster_count, sizeof *space->clusters);
  for (int c = 0; c < space->cluster_count; c++) {
    out.clusters[c].options = NULL;
    out.clusters[c].option_count = 0;
    out.clusters[c].impossible = false;
  }
  return out;
}

// What depends on the tied form is what weights take, and the options that go with it.
void bd_layer_sketch_open_as(bd_ctx *ctx, const bd_layer_request *request,
                             const bd_layer_sketch *like, bd_layer_sketch **out_sketch) {
  bd_layer_sketch *sketch = BD_NEW(ctx->arena, bd_layer_sketch);
  sketch->space = unlisted(ctx, &like->space);
  sketch->space.request = request;
  sketch->space.weights = NULL;
  bd_layer_take_apart_as(&sketch->space, &like->apart, &sketch->apart);
  sketch->holding = like->holding;
  sketch->backward_seconds = like->backward_seconds;
  *out_sketch = sketch;
}

bd_layer *bd_layer_open_below(bd_ctx *ctx, const bd_layer_sketch *sketch, double enough) {
  bd_layer *layer = BD_NEW(ctx->arena, bd_layer);
  bd_layer_limit limit = {&sketch->apart, enough, INFINITY};
  layer->request = sketch->space.request;
  layer->space = unlisted(ctx, &sketch->space);
  bd_layer_space_enumerate(ctx, &layer->space, &limit);
  bd_layer_add_nodes(ctx, &layer->space, &layer->problem, &layer->tape);
  bd_layer_add_edges(ctx, &layer->space, &layer->problem);
  bd_layer_set_up(ctx, layer);
  layer->left_out = limit.left_out;
  layer->holding = &sketch->holding;
  return layer;
}

double bd_layer_sketch_apart(const bd_layer_sketch *sketch) {
  return sketch->apart.seconds;
}

double bd_layer_sketch_backward(const bd_layer_sketch *sketch) {
  return sketch->backward_seconds;
}

void bd_layer_sketch_weigh(bd_layer_sketch *sketch) {
  if (!sketch->weighed) bd_layer_weigh_apart(&sketch->space, &sketch->apart);
  sketch->weighed = true;
}

const bd_layer_holding *bd_layer_sketch_holding(const bd_layer_sketch *sketch) {
  return &sketch->holding;
}

static void add_outer_sums(bd_ctx *ctx, bd_layer_sketch *sketch) {
  bd_layer_space *space = &sketch->space;
  sketch->outer = BD_NEW_ARRAY(ctx->arena, double *, space->cluster_count);
  for (int i = 0; i < space->cluster_count; i++) {
    const bd_cluster_ops *c = &space->clusters[i];
    sketch->outer[i] = BD_NEW_ARRAY(ctx->arena, double, c->option_count);
    for (int o = 0; o < c->option_count; o++) {
      sketch->outer[i][o] = bd_layer_apart_outer_sums(space, &sketch->apart, c, &c->options[o]);
      sketch->problem.node[i].cost[o] += sketch->outer[i][o];
    }
  }
}

static void take_outer_sums(bd_layer_sketch *sketch) {
  for (int i = 0; i < sketch->space.cluster_count; i++)
    for (int o = 0; o < sketch->problem.node[i].options; o++)
      sketch->problem.node[i].cost[o] -= sketch->outer[i][o];
}

void bd_layer_sketch_list(bd_ctx *ctx, bd_layer_sketch *sketch, double enough) {
  bd_layer_limit limit = {&sketch->apart, enough, INFINITY};
  double **tape;
  if (sketch->listed) return;
  bd_layer_space_enumerate(ctx, &sketch->space, &limit);
  bd_layer_add_nodes(ctx, &sketch->space, &sketch->problem, &tape);
  for (int i = 0; i < sketch->problem.nodes; i++)
    for (int o = 0; o < sketch->problem.node[i].options; o++)
      sketch->problem.node[i].usage[o] += tape[i][o];
  add_outer_sums(ctx, sketch);
  sketch->left_out = limit.left_out;
  sketch->listed = true;
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

// What stands for options that are not listed.
static bd_layer_sum not_listed(const bd_layer_sketch *sketch, double price) {
  bd_layer_saving at = bd_layer_holding_at(&sketch->holding, price, 1);
  return (bd_layer_sum){sketch->left_out + at.seconds, at.bytes};
}

static bd_layer_sum sum_listed(const bd_layer_sketch *sketch, double seconds_weight,
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

static double value_of(const bd_layer_sum *sum, double seconds_weight, double bytes_weight) {
  return isinf(sum->seconds) ? INFINITY : seconds_weight * sum->seconds + bytes_weight * sum->bytes;
}

bd_layer_sum bd_layer_sketch_sum(const bd_layer_sketch *sketch, double seconds_weight,
                                 double bytes_weight) {
  bd_layer_sum listed = sum_listed(sketch, seconds_weight, bytes_weight);
  bd_layer_sum others =
      not_listed(sketch, seconds_weight > 0 ? bytes_weight / seconds_weight : INFINITY);
  return value_of(&others, seconds_weight, bytes_weight) <
                 value_of(&listed, seconds_weight, bytes_weight)
             ? others
             : listed;
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
    sketch->outer[cluster][kept] = sketch->outer[cluster][o];
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
  bd_layer_sum others = not_listed(sketch, price);
  double left_out = value_of(&others, 1, price);
  if (sum >= enough) return fmin(sum, left_out);
  for (int c = 0; c < sketch->space.cluster_count; c++)
    drop_options(sketch, c, price, least[c], enough - (sum - least[c]));
  take_outer_sums(sketch);
  bd_layer_add_edges(ctx, &sketch->space, &sketch->problem);
  bd_elimination *elimination = bd_layer_elimination(ctx, problem);
  int *option = BD_NEW_ARRAY(ctx->arena, int, problem->nodes);
  bool any = bd_elimination_run(elimination, 1, price, option);
  sketch->priced = true;
  sketch->found = fmin(any ? fmin(bd_elimination_bound(elimination), enough) : enough, left_out);
  return sketch->found;
}
