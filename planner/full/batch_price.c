#include "planner/full/batch.h"
#include "planner/full/price.h"
#include <math.h>

enum { ALONE_ROUNDS = 6 }; // of prices for a layer that is alone on its stage

// The least seconds of a layer that is alone on its stage, by a price of a byte (Lagrange).
static double least_alone(bd_ctx *ctx, bd_layer *layer, double room) {
  bd_layer_point fastest, leanest, next;
  if (!bd_layer_price(ctx, layer, 1, 0, 1, &fastest)) return INFINITY;
  double best = fastest.least;
  if (fastest.bytes <= room) return best;
  if (!bd_layer_price(ctx, layer, 0, 1, 1, &leanest) || leanest.least > room) return INFINITY;
  for (int round = 0; round < ALONE_ROUNDS && leanest.bytes < fastest.bytes; round++) {
    double price = (leanest.seconds - fastest.seconds) / (fastest.bytes - leanest.bytes);
    if (!(price > 0) || !bd_layer_price(ctx, layer, 1, price, 1, &next)) break;
    best = fmax(best, next.least - price * room);
    if (next.least >= (fastest.seconds + price * fastest.bytes) * (1 - 1e-6)) break;
    *(next.bytes <= room ? &leanest : &fastest) = next;
  }
  return best;
}

// What one mesh of a size makes of the layers.
typedef struct mesh_prices {
  bd_mesh mesh;
  double *least, *both; // per run
  double transfer, changing;
  bd_share_prices *shares; // NULL: shares are not told apart
} mesh_prices;

typedef struct pricing {
  const bd_full_sizes *sizes;
  const bd_full_batch *batch;
  const bd_floor_size *size;
  bd_price_aims aims;
  mesh_prices *meshes;
} pricing;

// So many stages that what is done once a step counts for nothing in a micro-batch.
enum { ENDLESS = 1 << 24 };

static bd_status price_passes(bd_ctx *ctx, const pricing *p, const bd_scene *scene,
                              mesh_prices *out) {
  bd_setting setting = {ENDLESS, out->mesh, p->batch->micro_batch, bd_sharding_replicated()};
  bd_setting_layers layers;
  BD_TRY(bd_setting_open(ctx, scene, &setting, NULL, &layers));
  for (int r = 0; r < scene->runs->count; r++) {
    bd_layer_point point;
    int like = scene->runs->runs[r].like;
    bool any = bd_layer_price(ctx, layers.layers[like], 1, 0, 1, &point);
    out->both[r] = any ? point.least : INFINITY;
  }
  return BD_OK;
}

static bd_status price_open(bd_ctx *ctx, const pricing *p, mesh_prices *out) {
  const bd_full_space *space = p->sizes->space;
  bd_scene scene = bd_full_scene(space, p->size->group);
  bd_setting setting = {1, out->mesh, p->batch->micro_batch, bd_sharding_replicated()};
  bd_setting_layers layers;
  BD_TRY(bd_setting_open(ctx, &scene, &setting, NULL, &layers));
  for (int r = 0; r < space->runs.count; r++) {
    int like = space->runs.runs[r].like;
    out->least[r] = like < r ? out->least[like]
                             : least_alone(ctx, layers.layers[r], (double)scene.layers_cap_bytes);
  }
  if (out->shares) bd_price_shares(ctx, &scene, &setting, &layers, &p->aims, out->shares);
  BD_TRY(price_passes(ctx, p, &scene, out));
  // Groups may have faster links between them than inside.
  if (space->group_count > 1 || 2 * p->size->devices > space->groups[p->size->group].count)
    return BD_OK;
  setting.stages = 2;
  bd_moves moves = bd_bound_moves(&scene, &setting, &layers);
  out->transfer = fmin(moves.of_stage[0], moves.of_stage[1]); // whichever side of a boundary
  out->changing = fmax(0, moves.whole - out->transfer);
  return BD_OK;
}

static bd_status price_mesh(bd_ctx *ctx, void *arg, int index) {
  pricing *p = arg;
  bd_owned held;
  bd_arena *outer = ctx->arena;
  ctx->arena = bd_ctx_open_arena(ctx, &held);
  bd_status status = price_open(ctx, p, &p->meshes[index]);
  ctx->arena = outer;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

// Tasks write to what lives in ctx->arena and allocate nothing there.
static mesh_prices *prepare(bd_ctx *ctx, const pricing *p, bd_full_batch *batch, int size,
                            int count, const bd_mesh *meshes) {
  const bd_model_runs *runs = &p->sizes->space->runs;
  mesh_prices *out = BD_NEW_ARRAY(ctx->arena, mesh_prices, count);
  batch->meshes[size] = BD_NEW_ARRAY(ctx->arena, bd_share_prices, count);
  batch->mesh_count[size] = p->sizes->told ? count : 0;
  for (int m = 0; m < count; m++) {
    out[m] = (mesh_prices){.mesh = meshes[m],
                           .least = BD_NEW_ARRAY(ctx->arena, double, runs->count),
                           .both = BD_NEW_ARRAY(ctx->arena, double, runs->count)};
    if (!p->sizes->told) continue;
    out[m].shares = &batch->meshes[size][m];
    *out[m].shares = bd_price_open(ctx, &p->aims, runs->shared_count);
  }
  return out;
}

bd_status bd_full_batch_price(bd_ctx *ctx, bd_workers *workers, const bd_full_sizes *sizes,
                              bd_full_batch *batch, int size, double limit) {
  const bd_full_space *space = sizes->space;
  const bd_floor_size *of = &sizes->sizes[size];
  int most = batch->micro_batches < BD_FULL_MAX_STAGES ? batch->micro_batches : BD_FULL_MAX_STAGES;
  bd_price_aims aims = {&sizes->kinds, sizes->run_of_kind, 2 * most, limit / batch->micro_batches};
  pricing p = {sizes, batch, of, aims, NULL};
  bd_mesh *meshes;
  int count = bd_full_meshes(ctx, space, of->group, of->devices, &meshes);
  p.meshes = prepare(ctx, &p, batch, size, count, meshes);
  bd_work work = {count, price_mesh, NULL, &p};
  BD_TRY(bd_workers_run(ctx, workers, &work));
  for (int r = 0; r < space->runs.count; r++) {
    double least = INFINITY, passes = INFINITY;
    for (int m = 0; m < count; m++) {
      least = fmin(least, p.meshes[m].least[r]);
      passes = fmin(passes, p.meshes[m].both[r]);
    }
    double *seconds = &batch->seconds[r * sizes->count + size];
    double *both = &batch->both[r * sizes->count + size];
    *seconds = fmax(*seconds, least);
    if (isfinite(passes)) *both = fmax(*both, passes);
  }
  for (int m = 0; m < count; m++) {
    const mesh_prices *own = &p.meshes[m];
    batch->transfer[size] = m ? fmin(batch->transfer[size], own->transfer) : own->transfer;
    batch->changing[size] = m ? fmin(batch->changing[size], own->changing) : own->changing;
  }
  batch->priced[size] = true;
  return BD_OK;
}
