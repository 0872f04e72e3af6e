#include "planner/bound/room.h"
#include "planner/bound/cuts.h"
#include "planner/pipeline/shared.h"
#include <math.h>

enum {
  SUM_ROUNDS = 2, // prices of sums, which are tightened where that matters
  STAGE_ROUNDS = 12,
  MOMENT_ROUNDS = 3, // moments of workspaces that are charged, one after another
};
#define CROWDED 1.5
// Beside a price that is nearly right another one lies further by this factor, ...
#define STEP 1.02
// ... and prices no further apart than this tell that they are.
#define CLOSE 1.1
// A bound that no price raises by more than this part is near enough.
#define NEAR 1e-6

bool bd_price_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                     double seconds_weight, double bytes_weight, bd_priced *out) {
  *out = (bd_priced){.points = BD_NEW_ARRAY(ctx->arena, bd_layer_point, scene->runs->count),
                     .of_form = BD_NEW_ARRAY(ctx->arena, const double *, scene->runs->count)};
  for (int r = 0; r < scene->runs->count; r++) {
    int calls = scene->runs->runs[r].calls, like = scene->runs->runs[r].like;
    bd_layer_point *point = &out->points[r];
    if (like < r)
      *point = out->points[like];
    else if (!bd_layer_price(ctx, layers->layers[r], seconds_weight, bytes_weight, 1, point))
      return false;
    out->seconds += calls * point->seconds;
    out->bytes += calls * point->bytes;
    out->of_form[r] = point->of_form;
  }
  out->value = bd_links_sum(ctx, layers->links, scene->runs, out->of_form, seconds_weight);
  return isfinite(out->value);
}

// What the layers hold at least, whatever goes together.
static double least_bytes(const bd_scene *scene, const bd_setting_layers *layers) {
  double bytes = 0;
  for (int r = 0; r < scene->runs->count; r++)
    bytes += scene->runs->runs[r].calls * bd_layer_least_bytes(layers->layers[r]);
  return bytes;
}

static bd_room_moment fullest_moment(const bd_scene *scene, const bd_setting_layers *layers,
                                     const bd_priced *chosen) {
  bd_room_moment out = {.bytes = -1};
  for (int r = 0; r < scene->runs->count; r++) {
    bd_room_moment of = {.run = r};
    if (scene->runs->runs[r].like < r) continue;
    of.bytes = bd_layer_workspace_of(layers->layers[r], chosen->points[r].option, &of.at);
    if (of.bytes > out.bytes) out = of;
  }
  return out;
}

// Charges the moment to the layers, an equal share to each: a stage holds what the mean of some of
// its layers does, or more.
static void charge(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                   const bd_room_moment *held) {
  bd_layer_hold_workspace(ctx, layers->layers[held->run], held->at,
                          1.0 / bd_scene_calls_like(scene, held->run));
}

static double fixed_workspace(const bd_setting_layers *layers, int run) {
  return layers->layers ? bd_layer_fixed_workspace(layers->layers[run])
                        : bd_layer_sketch_holding(layers->sketches[run])->workspace_bytes;
}

// Of the workspaces of all stages, what some stage has beside that of every other.
static double other_workspaces(const bd_scene *scene, const bd_setting_layers *layers, int stages) {
  double least = INFINITY;
  for (int r = 0; r < scene->runs->count && stages > 1; r++)
    least = fmin(least, fixed_workspace(layers, r));
  return stages > 1 ? (stages - 1) * least : 0;
}

static double largest_workspace(const bd_scene *scene, const bd_setting_layers *layers) {
  double most = 0;
  for (int r = 0; r < scene->runs->count; r++)
    most = fmax(most, fixed_workspace(layers, r));
  return most;
}

// What priced bytes have to come to, in so many rounds. Bounds of `enough` are not improved.
typedef struct target {
  double room, enough;
  int rounds;
} target;

// Prices that are too low, and high enough; 0 and INFINITY: none that was tried.
typedef struct bracket {
  double low, high;
} bracket;

static bool is_closed(const bracket *tried) {
  return tried->low > 0 && isfinite(tried->high);
}

// The price after the first: that of the line, `between`, or, where the first is nearly right,
// beside it, and, until choices on both sides are known, far from it.
static double next_price(const bracket *tried, double between, bool near, int round) {
  double last = tried->low > 0 ? tried->low : tried->high;
  if (!near || is_closed(tried)) return between;
  if (round > 1) return sqrt(last * between);
  return between > last ? fmin(last * STEP, between) : fmax(last / STEP, between);
}

// Prices a byte so that the layers' bytes come to the room (Lagrange); every price gives a bound,
// and none a larger one than the line between the two choices does, but for changes of form.
// `*within` becomes the last choice that has room. The first price is `*price`; 0: that of the
// line. It becomes the last one.
static double price_bytes(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                          bd_priced over, bd_priced *within, const target *to,
                          bd_byte_price *price) {
  double best = over.value, guess = price->seconds, changes = over.value - over.seconds;
  int rounds = 0;
  bracket tried = {0, INFINITY};
  for (; rounds < to->rounds && best < to->enough; rounds++) {
    bd_priced next;
    double between = (within->seconds - over.seconds) / (over.bytes - within->bytes);
    double most = over.seconds + between * (over.bytes - to->room) + changes;
    double now =
        rounds == 0 && guess > 0 ? guess : next_price(&tried, between, price->near, rounds);
    if (!(between > 0) || (rounds > 0 && most <= best * (1 + NEAR)) ||
        !bd_price_layers(ctx, scene, layers, 1, now, &next))
      break;
    best = fmax(best, next.value - now * to->room);
    price->seconds = now;
    bool fits = next.bytes <= to->room;
    *(fits ? within : &over) = next;
    *(fits ? &tried.high : &tried.low) = now;
  }
  price->near = is_closed(&tried) ? tried.high <= tried.low * CLOSE : price->near && rounds <= 2;
  return best;
}

// The bound under what is charged; false when nothing has room.
static bool price_within(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                         const target *to, bd_priced *out_within, double *out_least, bd_room *out) {
  bd_priced over;
  if (!bd_price_layers(ctx, scene, layers, 0, 1, out_within) ||
      !bd_price_layers(ctx, scene, layers, 1, 0, &over))
    return false;
  *out_least = out_within->bytes;
  if (*out_least > to->room) return false;
  if (over.bytes <= to->room) return true;
  bd_byte_price price = out->price;
  double seconds = price_bytes(ctx, scene, layers, over, out_within, to, &price);
  if (seconds <= out->seconds) return true;
  out->seconds = seconds;
  out->price = price;
  return true;
}

// Whether stages may be short of room though all of them together are not: when the fastest layers
// with the first stage's tapes would nearly fill them.
static bool is_crowded(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                       const bd_setting_layers *layers) {
  int micro_batches = bd_scene_micro_batches(scene, setting->micro_batch);
  int tapes = bd_schedule_in_flight(bd_scene_schedule(scene), 0, setting->stages, micro_batches);
  double bytes = largest_workspace(scene, layers) * setting->stages;
  for (int r = 0; r < scene->runs->count; r++) {
    bd_layer_point point;
    if (!bd_layer_price(ctx, layers->layers[r], 1, 0, tapes, &point)) return false;
    bytes += scene->runs->runs[r].calls * point.bytes;
  }
  return bytes * CROWDED > (double)scene->layers_cap_bytes * setting->stages;
}

// The same, stage by stage.
static void cut_stages(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                       const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                       bd_room_hint *hint, bd_room *out) {
  bd_priced leanest;
  double price = out->price.seconds;
  if (!is_crowded(ctx, scene, setting, layers)) return;
  if (hint->cut_price > 0) price = hint->cut_price;
  if (price <= 0) {
    if (!bd_price_layers(ctx, scene, layers, 0, 1, &leanest)) return;
    price = (leanest.seconds - fastest->seconds) / fmax(fastest->bytes - leanest.bytes, 1);
  }
  hint->cut_price = fmax(price, 0);
  bd_cuts_bound cuts = bd_bound_cuts(ctx, scene, setting, layers, hint->cut_price, enough);
  out->seconds = fmax(out->seconds, cuts.seconds);
  out->step_seconds = cuts.step_seconds;
  out->bytes = fmax(out->bytes, cuts.bytes);
}

// What all stages hold together for shared weights and the least workspaces, that of one left out.
static double fixed_bytes(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *layers) {
  return bd_shared_least_bytes(scene, setting) + other_workspaces(scene, layers, setting->stages);
}

// The same with the least of the largest workspace.
static double held_bytes(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         const bd_setting_layers *layers) {
  return fixed_bytes(ctx, scene, setting, layers) + largest_workspace(scene, layers);
}

double bd_room_for_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *layers) {
  return (double)scene->layers_cap_bytes * setting->stages -
         held_bytes(ctx, scene, setting, layers);
}

// Whether some stage may be short of room for the fastest layers.
static bool is_short(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                     const bd_setting_layers *layers, const bd_priced *fastest) {
  double room =
      (double)scene->layers_cap_bytes * setting->stages - fixed_bytes(ctx, scene, setting, layers);
  return fastest->bytes + fullest_moment(scene, layers, fastest).bytes > room ||
         (setting->stages > 1 && is_crowded(ctx, scene, setting, layers));
}

bd_room bd_room_of_sums(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                        const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                        bd_byte_price price) {
  double held = held_bytes(ctx, scene, setting, layers);
  target to = {(double)scene->layers_cap_bytes * setting->stages - held, enough, SUM_ROUNDS};
  double least = fmin(least_bytes(scene, layers), fastest->bytes);
  bd_room out = {.seconds = fastest->value, .price = price};
  bool binds = enough > 0 && fastest->bytes > to.room;
  bd_priced within;
  if (least > to.room || (binds && !price_within(ctx, scene, layers, &to, &within, &least, &out)))
    out.seconds = INFINITY;
  if (!binds) out.price = (bd_byte_price){0, false};
  out.tight = enough > 0 && !is_short(ctx, scene, setting, layers, fastest);
  out.bytes = (least + held) / setting->stages;
  return out;
}

// Charges the fullest moments, one after another.
static void charge_moments(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                           const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                           bd_room_hint *hint, bd_room *out) {
  double fixed = fixed_bytes(ctx, scene, setting, layers);
  target to = {(double)scene->layers_cap_bytes * setting->stages - fixed, enough, STAGE_ROUNDS};
  bd_room_moment held = fullest_moment(scene, layers, fastest);
  bool bytes_alone = enough == 0;
  if (fastest->bytes + held.bytes <= to.room) return;
  if (hint->charged) held = hint->moment;
  for (int round = 0; round < MOMENT_ROUNDS && (round == 0 || bytes_alone || out->seconds < enough);
       round++) {
    bd_priced within;
    double least = 0, before = out->seconds;
    charge(ctx, scene, layers, &held);
    bool fits = price_within(ctx, scene, layers, &to, &within, &least, out);
    bd_layer_hold_workspace(ctx, layers->layers[held.run], 0, 0);
    out->bytes = fmax(out->bytes, (least + fixed) / setting->stages);
    if (!fits) {
      out->seconds = INFINITY;
      break;
    }
    if (out->seconds > before) hint->moment = held;
    hint->charged |= out->seconds > before;
    bd_room_moment next = fullest_moment(scene, layers, &within);
    if (next.run == held.run && next.at == held.at) break;
    held = next;
  }
}

bd_room bd_room_of_stages(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                          bd_room_hint *hint) {
  bd_room out = {.seconds = fastest->value, .price = hint->price};
  charge_moments(ctx, scene, setting, layers, fastest, enough, hint, &out);
  hint->price = out.price;
  if (setting->stages > 1 && isfinite(out.seconds) && (enough == 0 || out.seconds < enough))
    cut_stages(ctx, scene, setting, layers, fastest, enough, hint, &out);
  return out;
}
