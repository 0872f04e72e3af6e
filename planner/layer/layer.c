#include "planner/layer/layer.h"
#include "planner/layer/gradient.h"
#include "planner/layer/options.h"
#include "planner/layer/pool.h"
#include "planner/layer/state.h"
#include <math.h>
#include <string.h>

void bd_layer_set_up(bd_ctx *ctx, bd_layer *layer) {
  const bd_choice_problem *problem = &layer->problem;
  layer->elimination = bd_layer_elimination(ctx, problem);
  layer->state = BD_NEW_ARRAY(ctx->arena, double *, problem->nodes);
  for (int i = 0; i < problem->nodes; i++) {
    layer->state[i] = BD_NEW_ARRAY(ctx->arena, double, problem->node[i].options);
    memcpy(layer->state[i], problem->node[i].usage,
           sizeof(double) * (size_t)problem->node[i].options);
  }
  layer->workspace = bd_layer_workspace_create(&layer->space);
  layer->backward_seconds = bd_layer_least_backward_seconds(&layer->space);
  layer->left_out = INFINITY;
}

bd_status bd_layer_open(bd_ctx *ctx, const bd_layer_request *request, const bd_layer *like,
                        bd_layer **out_layer) {
  bd_layer *layer = BD_NEW(ctx->arena, bd_layer);
  layer->request = request;
  BD_TRY(bd_layer_space_read(ctx, request, &layer->space));
  if (like) layer->space.work = like->space.work;
  bd_layer_space_enumerate(ctx, &layer->space, NULL);
  bd_layer_problem(ctx, &layer->space, &layer->problem, &layer->tape);
  bd_layer_set_up(ctx, layer);
  *out_layer = layer;
  return BD_OK;
}

// What the boundary, the last node, hands on is held once where no other layer of the stage reads
// it in backward.
static void hold_tapes(bd_layer *layer, int in_flight) {
  for (int i = 0; i < layer->problem.nodes; i++)
    for (int o = 0; o < layer->problem.node[i].options; o++)
      layer->problem.node[i].usage[o] =
          layer->state[i][o] + (i + 1 < layer->problem.nodes ? in_flight : 1) * layer->tape[i][o] +
          (layer->held ? layer->held[i][o] : 0);
}

bool bd_layer_eliminate(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                        int in_flight, bd_layer_point *out) {
  hold_tapes(layer, in_flight);
  out->option = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
  if (!bd_elimination_run(layer->elimination, seconds_weight, bytes_weight, out->option))
    return false;
  if (!bd_layer_mend_pools(ctx, layer, seconds_weight, bytes_weight, out->option)) return false;
  bd_choice_evaluate(&layer->problem, out->option, &out->seconds, &out->bytes);
  out->least = bd_elimination_bound(layer->elimination);
  if (bytes_weight == 0) out->seconds = out->least / seconds_weight;
  if (seconds_weight == 0) out->bytes = out->least / bytes_weight;
  return true;
}

// The point of a price that was asked for before; NULL: none is remembered.
static const bd_layer_point *recall(const bd_layer *layer, const bd_priced_point *asked) {
  int count = layer->recent_count < BD_LAYER_RECENT ? layer->recent_count : BD_LAYER_RECENT;
  for (int i = 0; i < count; i++) {
    const bd_priced_point *p = &layer->recent[i];
    if (p->seconds_weight == asked->seconds_weight && p->bytes_weight == asked->bytes_weight &&
        p->in_flight == asked->in_flight && p->holds.moment == asked->holds.moment &&
        p->holds.share == asked->holds.share)
      return &p->point;
  }
  return NULL;
}

// Of every form in which activations enter and leave, with listed options or, where those take
// `left_out`, with others.
static const double *least_of_forms(bd_ctx *ctx, const bd_layer *layer, bool any, double left_out) {
  int forms = layer->request->form_count;
  double *least = BD_NEW_ARRAY(ctx->arena, double, forms);
  for (int form = 0; form < forms; form++)
    least[form] = any ? fmin(bd_elimination_least(layer->elimination, form), left_out) : left_out;
  return least;
}

// Lowers a point to the choice that stands for options that are not listed; `any`: there is a
// point. Where that is lower, its options tell workspaces alone, for which any will do.
static bool regard_left_out(bd_ctx *ctx, const bd_layer *layer, const bd_priced_point *asked,
                            bool any, bd_layer_point *out) {
  if (isinf(layer->left_out)) {
    out->of_form = least_of_forms(ctx, layer, any, INFINITY);
    return any;
  }
  double price = asked->seconds_weight > 0 ? asked->bytes_weight / asked->seconds_weight : INFINITY;
  bd_layer_saving held = bd_layer_holding_at(layer->holding, price, asked->in_flight);
  double seconds = layer->left_out + held.seconds;
  double least = asked->seconds_weight * seconds + asked->bytes_weight * held.bytes;
  out->of_form = least_of_forms(ctx, layer, any, least);
  if (any && out->least <= least) return true;
  out->seconds = seconds;
  out->bytes = held.bytes;
  out->least = least;
  return true;
}

bool bd_layer_price(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                    int in_flight, bd_layer_point *out) {
  bd_priced_point asked = {seconds_weight, bytes_weight, in_flight, layer->holds, layer->free};
  const bd_layer_point *known = recall(layer, &asked);
  bool unpriced = seconds_weight == 1 && bytes_weight == 0;
  if (known) {
    *out = *known;
    return true;
  }
  if (unpriced && layer->free.option) {
    double seconds;
    *out = layer->free;
    hold_tapes(layer, in_flight);
    bd_choice_evaluate(&layer->problem, out->option, &seconds, &out->bytes);
    return true;
  }
  bool any = bd_layer_eliminate(ctx, layer, seconds_weight, bytes_weight, in_flight, out);
  if (!regard_left_out(ctx, layer, &asked, any, out)) return false;
  // Of a choice that stands for others the options say nothing of its bytes under other tapes.
  if (unpriced && isinf(layer->left_out)) layer->free = *out;
  asked.point = *out;
  layer->recent[layer->recent_count++ % BD_LAYER_RECENT] = asked;
  return true;
}

// What a choice adds to the workspace at a moment, the last node, the boundary, standing for what
// is there in any case.
static double workspace_at(const bd_layer *layer, int moment, int node, int option) {
  return node == layer->space.cluster_count
             ? bd_layer_workspace_fixed(layer->workspace, moment)
             : bd_layer_workspace_added(layer->workspace, moment, node,
                                        &layer->space.clusters[node].options[option]);
}

double bd_layer_workspace_of(const bd_layer *layer, const int *option, int *out_moment) {
  double most = -1;
  for (int m = 0; m < bd_layer_workspace_moments(layer->workspace); m++) {
    double bytes = 0;
    for (int i = 0; i < layer->problem.nodes; i++)
      bytes += workspace_at(layer, m, i, option[i]);
    if (bytes > most) *out_moment = m;
    most = fmax(most, bytes);
  }
  return most;
}

double bd_layer_fixed_workspace(const bd_layer *layer) {
  return bd_layer_workspace_most_fixed(layer->workspace);
}

void bd_layer_hold_workspace(bd_ctx *ctx, bd_layer *layer, int moment, double share) {
  layer->held = NULL;
  layer->holds = (bd_held_workspace){0, 0};
  if (share <= 0) return;
  layer->holds = (bd_held_workspace){moment, share};
  layer->held = BD_NEW_ARRAY(ctx->arena, double *, layer->problem.nodes);
  for (int i = 0; i < layer->problem.nodes; i++) {
    layer->held[i] = BD_NEW_ARRAY(ctx->arena, double, layer->problem.node[i].options);
    for (int o = 0; o < layer->problem.node[i].options; o++)
      layer->held[i][o] = share * workspace_at(layer, moment, i, o);
  }
}

double bd_layer_backward_seconds(const bd_layer *layer) {
  return layer->backward_seconds;
}

double bd_layer_least_bytes(const bd_layer *layer) {
  double total = 0;
  for (int i = 0; i < layer->problem.nodes; i++) {
    double least = INFINITY;
    for (int o = 0; o < layer->problem.node[i].options; o++)
      if (isfinite(layer->problem.node[i].cost[o]))
        least = fmin(least, layer->state[i][o] + layer->tape[i][o]);
    total += least;
  }
  if (isinf(layer->left_out)) return total;
  return fmin(total, bd_layer_holding_at(layer->holding, INFINITY, 1).bytes);
}
