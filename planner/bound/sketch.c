// Settings that cannot beat the plan in hand are mostly told by sketches of their layers.
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include <math.h>

// Bounds this much above the cutoff are not improved.
#define BEYOND 1.001
// Options that take a plan this much above it are not listed: what stands for them holds so little
// that nearer ones would lower bounds where memory is short.
#define LISTED 1.02
// Prices are looked for until a choice lies no further than this below the line to it.
#define NEAR 1e-6
enum { PRICE_ROUNDS = 20 };

// A setting with a tied form, its layers sketched.
typedef struct sketched {
  bd_setting setting;
  bd_setting_layers layers;
  bd_moves moves;
  double stretch; // seconds of a step to those of its stages
  double enough;  // seconds of all layers of a micro-batch
  bd_apart_layers apart;
  double unpriced; // seconds of all layers, each op or each cluster of their ops for itself
  bool beyond;     // what is known of ops apart is enough
} sketched;

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
// whole layers is near it. 0: they have room at no price; they may not have it at any. Room.c does
// the same with open layers, where a price is dear, in few rounds; here one costs next to nothing.
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

// Raises what the layers of runs like `run` take, and `*total`, the sum over all layers.
static void raise_points(const bd_scene *scene, int run, double seconds, double *points,
                         double *total) {
  if (seconds <= points[run]) return;
  *total += bd_scene_calls_like(scene, run) * (seconds - points[run]);
  for (int r = 0; r < scene->runs->count; r++)
    if (scene->runs->runs[r].like == run) points[r] = seconds;
}

// Per run, seconds + price * bytes of a layer; returns their sum over all layers. One kind of layer
// after another is priced as far as it may matter: all come to `enough` once one of them has what
// the others leave.
static double price_sketches(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                             double price, double enough, double *points) {
  double total = 0;
  for (int r = 0; r < scene->runs->count; r++) {
    bd_layer_sum sum = bd_layer_sketch_sum(layers->sketches[r], 1, price);
    points[r] = sum.seconds + price * sum.bytes;
    total += scene->runs->runs[r].calls * points[r];
  }
  for (int r = 0; r < scene->runs->count && total < enough; r++) {
    if (scene->runs->runs[r].like < r) continue;
    double most = points[r] + (enough - total) / bd_scene_calls_like(scene, r);
    double found = bd_layer_sketch_price(ctx, layers->sketches[r], price, most);
    raise_points(scene, r, found, points, &total);
  }
  return total;
}

// At any one price. Under one above 0 the sums of all layers are bounded, without it also the
// chain.
static bd_chain_bound bound_sketched(bd_ctx *ctx, const bd_scene *scene, const sketched *of,
                                     double price) {
  double *points = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count), sent = of->moves.sum;
  if (of->beyond)
    return (bd_chain_bound){(of->unpriced + of->apart.again_seconds + sent) * of->stretch,
                            of->unpriced + sent};
  double charged = price * bd_room_for_layers(ctx, scene, &of->setting, &of->layers);
  double total = price_sketches(ctx, scene, &of->layers, price, of->enough + charged, points);
  const double **of_form = BD_NEW_ARRAY(ctx->arena, const double *, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    of_form[r] = &points[r];
  if (price == 0) return bd_bound_chain(ctx, scene, &of->setting, &of->layers, of_form, &of->moves);
  return (bd_chain_bound){(total - charged + sent) * of->stretch, of->unpriced + sent};
}

// Lists the options of layers, unless ops apart are enough.
static void list_options(bd_ctx *ctx, const bd_scene *scene, sketched *of, double cutoff) {
  const bd_setting *setting = &of->setting;
  of->moves = bd_bound_moves(scene, setting, &of->layers);
  of->stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  of->enough = cutoff * BEYOND / of->stretch - of->moves.sum;
  double listed = cutoff * LISTED / of->stretch - of->moves.sum;
  of->apart = bd_bound_apart_layers(ctx, scene, setting->stages, &of->layers, of->enough);
  of->unpriced = of->apart.seconds;
  of->beyond = of->unpriced + of->apart.again_seconds >= of->enough;
  for (int r = 0; r < scene->runs->count && !of->beyond; r++) {
    bd_layer_sketch *sketch = of->layers.sketches[r];
    if (scene->runs->runs[r].like < r) continue;
    double more = (listed - of->unpriced) / bd_scene_calls_like(scene, r);
    bd_layer_sketch_list(ctx, sketch, bd_layer_sketch_apart(sketch) + more);
  }
  if (!of->beyond)
    of->unpriced = fmax(of->unpriced, sum_sketches(scene, &of->layers, 1, 0).seconds);
}

// Sketches the setting with each tied form, those that cannot be left out, by rising seconds. How
// many there are.
static bd_status sketch_forms(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                              double cutoff, sketched **out_forms, int *out_count) {
  bd_setting *tied;
  int count = bd_setting_tied_forms(ctx, scene, setting, &tied);
  bd_setting_layers first;
  sketched *forms = *out_forms = BD_NEW_ARRAY(ctx->arena, sketched, count);
  *out_count = 0;
  for (int t = 0; t < count; t++) {
    sketched now = {.setting = tied[t]};
    BD_TRY(bd_setting_sketch(ctx, scene, &tied[t], t ? &first : NULL, &now.layers));
    if (!t) first = now.layers;
    list_options(ctx, scene, &now, cutoff);
    if (isinf(now.unpriced)) continue;
    int at = (*out_count)++;
    for (; at > 0 && forms[at - 1].unpriced > now.unpriced; at--)
      forms[at] = forms[at - 1];
    forms[at] = now;
  }
  return BD_OK;
}

static double price_form(bd_ctx *ctx, const bd_scene *scene, const sketched *of) {
  double room = bd_room_for_layers(ctx, scene, &of->setting, &of->layers);
  return find_price(scene, &of->layers, room);
}

bd_status bd_bound_sketch(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          double cutoff, bd_bounded *out) {
  sketched *forms;
  int count;
  BD_TRY(sketch_forms(ctx, scene, setting, cutoff, &forms, &count));
  *out = (bd_bounded){.setting = *setting};
  if (!count) return BD_OK;
  // Most layers are the same for all forms, and are priced once.
  int priced = 0;
  while (priced < count && forms[priced].beyond)
    priced++;
  double price = priced < count ? price_form(ctx, scene, &forms[priced]) : 0;
  out->seconds = out->free_seconds = INFINITY;
  out->price = (bd_byte_price){price, price > 0};
  for (int t = 0; t < count; t++) {
    bd_chain_bound bound = bound_sketched(ctx, scene, &forms[t], price);
    out->seconds = fmin(out->seconds, bound.seconds);
    out->free_seconds = fmin(out->free_seconds, bound.free_seconds);
  }
  return BD_OK;
}
