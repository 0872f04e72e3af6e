#include "planner/full/price.h"
#include "planner/pipeline/shared.h"
#include <math.h>

enum {
  MOST_LEVELS = 8,  // of tapes
  MOST_PRICES = 7,  // of a level
  SEARCH_ROUNDS = 3 // of prices for a number of layers
};
// Prices no further apart than by this factor are as good as one.
#define CLOSE 1.02
#define IMPOSSIBLE 1e300

typedef struct pricing {
  bd_ctx *ctx;
  const bd_scene *scene;
  const bd_setting_layers *layers;
  const bd_price_aims *aims;
  bd_share_prices *out;
  int main_kind; // that has the most layers
} pricing;

static bd_layer *layer_of(const pricing *p, int kind) {
  return p->layers->layers[p->aims->run[kind]];
}

static void note(pricing *p, int level, int *count, double price) {
  double *own = &p->out->price[level * MOST_PRICES];
  for (int i = 1; i < *count; i++)
    if (price < own[i] * CLOSE && own[i] < price * CLOSE) return;
  if (*count < MOST_PRICES) own[(*count)++] = price;
}

// A price under which as many layers of the main kind come to the cap (Lagrange), and those that
// were tried on the way. Returns what one of the layers takes at least; INFINITY: there is no room.
static double aim(pricing *p, int level, double number, int *count) {
  bd_layer *layer = layer_of(p, p->main_kind);
  bd_layer_point over, within, next;
  double room = (p->scene->layers_cap_bytes - p->out->workspace[p->main_kind]) / number, best;
  int tapes = 1 << level;
  if (!bd_layer_price(p->ctx, layer, 1, 0, tapes, &over)) return INFINITY;
  if (over.bytes <= room) return over.least;
  if (!bd_layer_price(p->ctx, layer, 0, 1, tapes, &within) || within.least > room) return INFINITY;
  best = over.least;
  for (int round = 0; round < SEARCH_ROUNDS && within.bytes < over.bytes; round++) {
    double price = (within.seconds - over.seconds) / (over.bytes - within.bytes);
    if (!(price > 0) || !bd_layer_price(p->ctx, layer, 1, price, tapes, &next)) break;
    note(p, level, count, price);
    best = fmax(best, next.least - price * room);
    if (next.least >= (over.seconds + price * over.bytes) * (1 - 1e-6)) break;
    *(next.bytes <= room ? &within : &over) = next;
  }
  return best;
}

// For as many layers as a stage may take, as those take when they are short of room, and so on.
static void find_prices(pricing *p, int level, int *count) {
  bd_layer *layer = layer_of(p, p->main_kind);
  bd_layer_point fastest, leanest;
  if (!bd_layer_price(p->ctx, layer, 1, 0, 1 << level, &fastest) ||
      !bd_layer_price(p->ctx, layer, 0, 1, 1 << level, &leanest))
    return;
  double seconds = fastest.least, before = INFINITY;
  double most =
      floor((p->scene->layers_cap_bytes - p->out->workspace[p->main_kind]) / leanest.least);
  for (int round = 0; round < SEARCH_ROUNDS; round++) {
    double number = floor(p->aims->stage_seconds / seconds);
    number = fmin(number, p->aims->kinds->calls[p->main_kind]);
    if (number > most) p->out->tight = true;
    number = fmin(number, most);
    if (number < 1 || number >= before) return;
    seconds = aim(p, level, number, count);
    before = number;
    if (!isfinite(seconds)) return;
  }
}

// A layer that no choice allows has more bytes than any stage.
static void price_kind(pricing *p, int level, int kind) {
  bd_share_prices *out = p->out;
  bd_layer_point point;
  bool possible = bd_layer_price(p->ctx, layer_of(p, kind), 0, 1, 1 << level, &point);
  out->bytes[level * out->kinds + kind] = possible ? point.least : IMPOSSIBLE;
  for (int i = 0; i < MOST_PRICES && possible; i++) {
    int at = level * MOST_PRICES + i;
    if (i && out->price[at] == out->price[at - 1]) {
      out->least[at * out->kinds + kind] = out->least[(at - 1) * out->kinds + kind];
      continue;
    }
    possible = bd_layer_price(p->ctx, layer_of(p, kind), 1, out->price[at], 1 << level, &point);
    if (possible) out->least[at * out->kinds + kind] = point.least;
  }
}

// Runs of a kind may use different weights.
static void find_weights(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         const bd_price_aims *aims, bd_share_prices *out) {
  bd_shared_use *shared;
  int count = bd_shared_uses(ctx, scene, setting, &shared);
  out->weights = count > 0 ? count : 0;
  for (int w = 0; w < out->weights; w++) {
    out->once[w] = shared[w].once;
    out->each[w] = shared[w].each;
    for (int k = 0; k < out->kinds; k++) {
      int *own = &out->uses[w * out->kinds + k];
      *own = shared[w].uses[aims->run[k]];
      for (int r = 0; r < scene->runs->count; r++)
        if (scene->runs->runs[r].like == aims->run[k] && shared[w].uses[r] < *own)
          *own = shared[w].uses[r];
    }
  }
}

bd_share_prices bd_price_open(bd_ctx *ctx, const bd_price_aims *aims, int weights) {
  int kinds = aims->kinds->count, levels = 1;
  while (levels < MOST_LEVELS && 1 << levels <= aims->most_tapes)
    levels++;
  return (bd_share_prices){.kinds = kinds,
                           .levels = levels,
                           .count = MOST_PRICES,
                           .price = BD_NEW_ARRAY(ctx->arena, double, levels *MOST_PRICES),
                           .least = BD_NEW_ARRAY(ctx->arena, double, levels *MOST_PRICES *kinds),
                           .bytes = BD_NEW_ARRAY(ctx->arena, double, levels *kinds),
                           .workspace = BD_NEW_ARRAY(ctx->arena, double, kinds),
                           .weights = weights,
                           .once = BD_NEW_ARRAY(ctx->arena, double, weights),
                           .each = BD_NEW_ARRAY(ctx->arena, double, weights),
                           .uses = BD_NEW_ARRAY(ctx->arena, int, weights *kinds)};
}

void bd_price_shares(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                     const bd_setting_layers *layers, const bd_price_aims *aims,
                     bd_share_prices *out) {
  pricing p = {ctx, scene, layers, aims, out, 0};
  int kinds = out->kinds;
  for (int k = 0; k < kinds; k++) {
    if (aims->kinds->calls[k] > aims->kinds->calls[p.main_kind]) p.main_kind = k;
    out->workspace[k] = bd_layer_fixed_workspace(layer_of(&p, k));
  }
  find_weights(ctx, scene, setting, aims, out);
  for (int level = 0; level < out->levels; level++) {
    int count = 1;
    find_prices(&p, level, &count);
    out->tight = out->tight || count > 1;
    for (int i = count; i < MOST_PRICES; i++)
      out->price[level * MOST_PRICES + i] = out->price[level * MOST_PRICES + count - 1];
    for (int k = 0; k < kinds; k++)
      price_kind(&p, level, k);
  }
}
