// Settings that cannot beat the plan in hand are mostly told by their layers' splits alone.
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include <math.h>

// Bounds this much above the cutoff are not improved.
#define BEYOND 1.02
// Prices are looked for until a choice lies no further than this below the line to it.
#define NEAR 1e-6
enum { PRICE_ROUNDS = 20 };

// Layers of the run and of those like it.
static int calls_like(const bd_scene *scene, int run) {
  int calls = 0;
  for (int r = 0; r < scene->runs->count; r++)
    if (scene->runs->runs[r].like == run) calls += scene->runs->runs[r].calls;
  return calls;
}

// Raises what the layers of runs like `run` take, and `*total`, the sum over all layers.
static void raise_points(const bd_scene *scene, int run, double seconds, double *points,
                         double *total) {
  if (seconds <= points[run]) return;
  *total += calls_like(scene, run) * (seconds - points[run]);
  for (int r = 0; r < scene->runs->count; r++)
    if (scene->runs->runs[r].like == run) points[r] = seconds;
}

static bd_layer_sum sum_sketches(const bd_scene *scene, const bd_setting_layers *layers,
                                 double seconds_weight, double bytes_weight) {
  bd_layer_sum sum = {0, 0};
  for (int r = 0; r < scene->runs->count; r++) {
    bd_layer_sum of = bd_layer_sketch_sum(layers->sketches[r], seconds_weight, bytes_weight);
    sum.seconds += scene->runs->runs[r].calls * of.seconds;
    sum.bytes += scene->runs->runs[r].calls * of.bytes;
  }
  return sum;
}

// The price of a byte at which clusters, each for itself, come to the room (Lagrange): that of the
// whole layers is near it. 0: they have room at no price; they may not have it at any.
static double find_price(const bd_scene *scene, const bd_setting_layers *layers, double room) {
  bd_layer_sum over = sum_sketches(scene, layers, 1, 0), within = over;
  double price = 0, best = over.seconds;
  if (over.bytes > room) within = sum_sketches(scene, layers, 0, 1);
  for (int round = 0; round < PRICE_ROUNDS && within.bytes < over.bytes; round++) {
    double between = (within.seconds - over.seconds) / (over.bytes - within.bytes);
    bd_layer_sum at = sum_sketches(scene, layers, 1, between);
    double least = at.seconds + between * at.bytes, line = over.seconds + between * over.bytes;
    if (least - between * room > best) price = between;
    best = fmax(best, least - between * room);
    if (least >= line * (1 - NEAR)) break;
    *(at.bytes <= room ? &within : &over) = at;
  }
  return price;
}

// Per run, seconds + price * bytes of a layer. One kind of layer after another is priced as far as
// it may matter: all come to `enough` once one of them has what the others leave.
static void price_sketches(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                           double price, double enough, double *points) {
  double total = 0;
  for (int r = 0; r < scene->runs->count; r++) {
    bd_layer_sum sum = bd_layer_sketch_sum(layers->sketches[r], 1, price);
    points[r] = sum.seconds + price * sum.bytes;
    total += scene->runs->runs[r].calls * points[r];
  }
  for (int r = 0; r < scene->runs->count && total < enough; r++) {
    if (scene->runs->runs[r].like < r) continue;
    double most = points[r] + (enough - total) / calls_like(scene, r);
    double found = bd_layer_sketch_price(ctx, layers->sketches[r], price, most);
    raise_points(scene, r, found, points, &total);
  }
}

// The layers' sums and messages, at the price that was found first.
static void bound_sketched(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                           double cutoff, double *price, double *points, bd_bounded *out) {
  const bd_setting *setting = &out->setting;
  double moved = bd_bound_transfer(scene, setting, layers);
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  double sent = 2 * (setting->stages - 1) * moved;
  double room = bd_room_for_layers(ctx, scene, setting, layers);
  double free = sum_sketches(scene, layers, 1, 0).seconds + sent;
  if (*price < 0) *price = find_price(scene, layers, room);
  double enough = cutoff * BEYOND / stretch - sent + *price * room, total = 0;
  price_sketches(ctx, scene, layers, *price, enough, points);
  for (int r = 0; r < scene->runs->count; r++)
    total += scene->runs->runs[r].calls * points[r];
  out->free_seconds = *price > 0 ? free : total + sent;
  out->seconds = (total - *price * room + sent) * stretch;
  if (*price == 0) out->seconds = bd_bound_chain(scene, setting, points, moved).seconds;
}

bd_status bd_bound_sketch(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          double cutoff, bd_bounded *out) {
  bd_sharding *tied;
  int count = bd_space_tied_forms(ctx, &setting->mesh, scene->runs->any_tied, &tied);
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  bd_setting_layers first, layers;
  double price = -1; // not known yet
  bool sketched = false;
  *out = (bd_bounded){.setting = *setting, .seconds = INFINITY, .free_seconds = INFINITY};
  for (int t = 0; t < count; t++) {
    bd_bounded of = {.setting = *setting};
    of.setting.tied_form = tied[t];
    if (!bd_constraints_allow_tied(scene->request->constraints, &setting->mesh, &tied[t])) continue;
    BD_TRY(bd_setting_sketch(ctx, scene, &of.setting, sketched ? &first : NULL, &layers));
    if (!sketched) first = layers;
    sketched = true;
    bound_sketched(ctx, scene, &layers, cutoff, &price, points, &of);
    out->seconds = fmin(out->seconds, of.seconds);
    out->free_seconds = fmin(out->free_seconds, of.free_seconds);
  }
  // What cannot be at all is found out where the layers are open.
  if (isinf(out->seconds)) out->seconds = 0;
  return BD_OK;
}
