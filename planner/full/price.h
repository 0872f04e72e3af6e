// Prices of a byte for the layers of a model on one mesh.
#ifndef BD_PLANNER_FULL_PRICE_H
#define BD_PLANNER_FULL_PRICE_H
#include "planner/bound/bound.h"
#include "planner/full/share.h"

// What prices are looked for with.
typedef struct bd_price_aims {
  const bd_kinds *kinds;
  const int *run;       // per kind: a run of such layers
  int most_tapes;       // of a stage
  double stage_seconds; // of a micro-batch: stages that take more are of no interest
} bd_price_aims;

// Room for prices, and for `weights` weights that layers share. Lives in ctx->arena.
bd_share_prices bd_price_open(bd_ctx *ctx, const bd_price_aims *aims, int weights);

// The layers of the setting are open; `prices` was opened with the same aims.
void bd_price_shares(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                     const bd_setting_layers *layers, const bd_price_aims *aims,
                     bd_share_prices *prices);
#endif
