#include "planner/bound/cut_prices.h"
#include <math.h>

// Of seconds and priced bytes that count as equal.
#define NEAR 1e-9

// What the layers of a stage take and hold together at a price.
typedef struct priced {
  double seconds, bytes;
} priced;

static bool price_stage(bd_ctx *ctx, const bd_setting_layers *layers, const bd_cut_stage *stage,
                        double seconds_weight, double bytes_weight, priced *out) {
  *out = (priced){0, 0};
  bd_layer_point point;
  for (int l = stage->first; l < stage->first + stage->layers; l++) {
    bool first = l == stage->first || stage->run_of[l] != stage->run_of[l - 1];
    if (first && !bd_layer_price(ctx, layers->layers[stage->run_of[l]], seconds_weight,
                                 bytes_weight, stage->in_flight, &point))
      return false;
    out->seconds += point.seconds;
    out->bytes += point.bytes;
  }
  return true;
}

int bd_cut_prices_of(bd_ctx *ctx, const bd_setting_layers *layers, const bd_cut_stage *stage,
                     double *out_prices) {
  priced over, within;
  int count = 0;
  if (!price_stage(ctx, layers, stage, 1, 0, &over) || over.bytes <= stage->room ||
      !price_stage(ctx, layers, stage, 0, 1, &within) || within.bytes > stage->room)
    return 0;
  while (count < BD_CUT_ROUNDS) {
    priced next;
    double price = (within.seconds - over.seconds) / (over.bytes - within.bytes);
    if (!(price > 0) || !price_stage(ctx, layers, stage, 1, price, &next)) break;
    out_prices[count++] = price;
    // Nothing lies below the line between both.
    if (next.seconds + price * next.bytes >= (over.seconds + price * over.bytes) * (1 - NEAR))
      break;
    *(next.bytes <= stage->room ? &within : &over) = next;
  }
  return count;
}
