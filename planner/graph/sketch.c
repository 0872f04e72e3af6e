#include "planner/graph/sketch.h"
#include "planner/graph/ascent.h"
#include "planner/graph/bottleneck.h"
#include "planner/graph/repair.h"
#include <math.h>

enum { ROUNDS = 60, WINDOW_ROUNDS = 30, MOVES = 30000 };

static bd_layers_prices *open_prices(bd_ctx *ctx, const bd_layers_setting *setting,
                                     const bd_layers_effort *effort) {
  bd_layers_prices *prices = BD_NEW(ctx->arena, bd_layers_prices);
  int *mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages);
  for (int s = 0; s < setting->stages; s++)
    mode[s] = -1;
  *prices = (bd_layers_prices){
      .setting = setting, .meter = effort->meter, .most_work = effort->most_work, .mode = mode};
  bd_layers_prices_open(ctx, prices);
  return prices;
}

static void visit(void *user, const bd_priced_path *path) {
  bd_layers_repair_path(user, path);
}

void bd_layers_sketch(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                      double cutoff, bd_layers_outcome *out) {
  bd_layers_prices *prices = open_prices(ctx, setting, effort);
  bd_layers_repair repair = {
      .setting = setting, .prices = prices, .effort = effort, .cutoff = INFINITY};
  bd_layers_intervals intervals = {.prices = prices, .setting = setting, .effort = effort};
  double slowest = 0;
  *out = (bd_layers_outcome){.seconds = INFINITY};
  bd_layers_repair_open(ctx, &repair);
  bd_layers_prices_climb(ctx, prices, cutoff, ROUNDS, visit, &repair);
  double least = fmin(cutoff, repair.cutoff);
  if (prices->ready && prices->bound < least && bd_layers_intervals_open(ctx, &intervals))
    bd_layers_bottleneck(ctx, &intervals, least, visit, &repair, &slowest);
  double bound = fmax(prices->bound, slowest);
  if (bound < least) bd_layers_repair_anneal(ctx, &repair, MOVES);
  out->found = repair.found && repair.cutoff < cutoff;
  out->bound = fmin(bound, fmin(cutoff, repair.cutoff));
  if (!out->found) return;
  out->plan = repair.best;
  out->seconds = repair.cutoff;
}

void bd_layers_touch_up(bd_ctx *ctx, const bd_layers_setting *setting,
                        const bd_layers_effort *effort, bd_layers_plan *plan, double *seconds) {
  int layers = setting->problem->layer_count;
  bd_layers_repair repair = {.setting = setting, .effort = effort, .cutoff = *seconds};
  bd_layers_repair_open(ctx, &repair);
  bd_layers_plan_copy(plan, layers, &repair.best);
  bd_layers_repair_polish(&repair);
  *seconds = repair.cutoff;
  bd_layers_plan_copy(&repair.best, layers, plan);
}

const bd_layers_windows *bd_layers_sketch_windows(bd_ctx *ctx, const bd_layers_setting *setting,
                                                  const bd_layers_effort *effort, double cutoff) {
  if (!isfinite(cutoff)) return NULL;
  bd_layers_prices *prices = open_prices(ctx, setting, effort);
  bd_layers_intervals *intervals = BD_NEW(ctx->arena, bd_layers_intervals);
  bd_layers_windows *windows = BD_NEW(ctx->arena, bd_layers_windows);
  bd_layers_prices_climb(ctx, prices, cutoff, WINDOW_ROUNDS, NULL, NULL);
  *intervals = (bd_layers_intervals){.prices = prices, .setting = setting, .effort = effort};
  if (!prices->ready || !bd_layers_intervals_open(ctx, intervals)) return NULL;
  return bd_layers_windows_open(ctx, intervals, cutoff, windows) ? windows : NULL;
}
