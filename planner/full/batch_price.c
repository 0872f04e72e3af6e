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
  bool done;
  double *least, *both; // per run
  double transfer, changing;
  bd_share_prices *shares; // NULL: shares are not told apart
} mesh_prices;

struct bd_size_prices {
  const bd_full_batch *batch;
  const bd_floor_size *size;
  bd_price_aims aims;
  int mesh_count;
  mesh_prices *meshes;
  bd_share_prices *shares; // per mesh
};

typedef struct pricing {
  const bd_full_sizes *sizes;
  bd_deadline deadline;
  bd_size_prices **of; // per task
  int *mesh;
} pricing;

// So many stages that what is done once a step counts for nothing in a micro-batch.
enum { ENDLESS = 1 << 24 };

static bd_status price_passes(bd_ctx *ctx, int64_t micro_batch, const bd_scene *scene,
                              mesh_prices *out) {
  bd_setting setting = {ENDLESS, out->mesh, micro_batch, bd_sharding_replicated()};
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

static bd_status price_open(bd_ctx *ctx, const bd_full_space *space, const bd_size_prices *of,
                            mesh_prices *out) {
  bd_scene scene = bd_full_scene(space, of->size->group);
  bd_setting setting = {1, out->mesh, of->batch->micro_batch, bd_sharding_replicated()};
  bd_setting_layers layers;
  BD_TRY(bd_setting_open(ctx, &scene, &setting, NULL, &layers));
  for (int r = 0; r < space->runs.count; r++) {
    int like = space->runs.runs[r].like;
    out->least[r] = like < r ? out->least[like]
                             : least_alone(ctx, layers.layers[r], (double)scene.layers_cap_bytes);
  }
  if (out->shares) bd_price_shares(ctx, &scene, &setting, &layers, &of->aims, out->shares);
  BD_TRY(price_passes(ctx, of->batch->micro_batch, &scene, out));
  out->done = true;
  // Groups may have faster links between them than inside.
  if (space->group_count > 1 || 2 * of->size->devices > space->groups[of->size->group].count)
    return BD_OK;
  setting.stages = 2;
  bd_moves moves = bd_bound_moves(&scene, &setting, &layers);
  out->transfer = fmin(moves.of_stage[0], moves.of_stage[1]); // whichever side of a boundary
  out->changing = fmax(0, moves.whole - out->transfer);
  return BD_OK;
}

static bd_status price_mesh(bd_ctx *ctx, void *arg, int index) {
  const pricing *p = arg;
  bd_owned held;
  bd_arena *outer = ctx->arena;
  if (bd_deadline_passed(p->deadline)) return BD_OK;
  ctx->arena = bd_ctx_open_arena(ctx, &held);
  bd_status status =
      price_open(ctx, p->sizes->space, p->of[index], &p->of[index]->meshes[p->mesh[index]]);
  ctx->arena = outer;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

// Tasks write to what lives in ctx->arena and allocate nothing there.
static bd_size_prices *prepare(bd_ctx *ctx, const bd_full_sizes *sizes, const bd_full_aim *aim,
                               double limit) {
  const bd_full_batch *batch = aim->batch;
  const bd_floor_size *of = &sizes->sizes[aim->size];
  const bd_model_runs *runs = &sizes->space->runs;
  int most = batch->micro_batches < BD_FULL_MAX_STAGES ? batch->micro_batches : BD_FULL_MAX_STAGES;
  bd_price_aims aims = {&sizes->kinds, sizes->run_of_kind, 2 * most, limit / batch->micro_batches};
  bd_mesh *meshes;
  bd_size_prices *out = BD_NEW(ctx->arena, bd_size_prices);
  int count = bd_full_meshes(ctx, sizes->space, of->group, of->devices, &meshes);
  *out = (bd_size_prices){.batch = batch,
                          .size = of,
                          .aims = aims,
                          .mesh_count = count,
                          .meshes = BD_NEW_ARRAY(ctx->arena, mesh_prices, count),
                          .shares = BD_NEW_ARRAY(ctx->arena, bd_share_prices, count)};
  for (int m = 0; m < count; m++) {
    out->meshes[m] = (mesh_prices){.mesh = meshes[m],
                                   .least = BD_NEW_ARRAY(ctx->arena, double, runs->count),
                                   .both = BD_NEW_ARRAY(ctx->arena, double, runs->count)};
    if (!sizes->told) continue;
    out->meshes[m].shares = &out->shares[m];
    out->shares[m] = bd_price_open(ctx, &out->aims, runs->shared_count);
  }
  return out;
}

static bool is_done(const bd_size_prices *of) {
  for (int m = 0; m < of->mesh_count; m++)
    if (!of->meshes[m].done) return false;
  return true;
}

bd_status bd_full_batch_price(bd_ctx *ctx, bd_workers *workers, const bd_full_sizes *sizes,
                              int count, const bd_full_aim *aims, double limit,
                              bd_deadline deadline) {
  int tasks = 0;
  bd_size_prices **all = BD_NEW_ARRAY(ctx->arena, bd_size_prices *, count);
  for (int i = 0; i < count; i++) {
    all[i] = prepare(ctx, sizes, &aims[i], limit);
    tasks += all[i]->mesh_count;
  }
  pricing p = {sizes, deadline, BD_NEW_ARRAY(ctx->arena, bd_size_prices *, tasks),
               BD_NEW_ARRAY(ctx->arena, int, tasks)};
  bd_work work = {0, price_mesh, NULL, &p};
  for (int i = 0; i < count; i++)
    for (int m = 0; m < all[i]->mesh_count; m++, work.count++) {
      p.of[work.count] = all[i];
      p.mesh[work.count] = m;
    }
  BD_TRY(bd_workers_run(ctx, workers, &work));
  for (int i = 0; i < count; i++)
    if (is_done(all[i])) aims[i].batch->found[aims[i].size] = all[i];
  return BD_OK;
}

void bd_full_batch_take(const bd_full_sizes *sizes, bd_full_batch *batch, int size) {
  const bd_size_prices *of = batch->found[size];
  for (int r = 0; r < sizes->space->runs.count; r++) {
    double least = INFINITY, passes = INFINITY;
    for (int m = 0; m < of->mesh_count; m++) {
      least = fmin(least, of->meshes[m].least[r]);
      passes = fmin(passes, of->meshes[m].both[r]);
    }
    double *seconds = &batch->seconds[r * sizes->count + size];
    double *both = &batch->both[r * sizes->count + size];
    *seconds = fmax(*seconds, least);
    if (isfinite(passes)) *both = fmax(*both, passes);
  }
  for (int m = 0; m < of->mesh_count; m++) {
    const mesh_prices *own = &of->meshes[m];
    batch->transfer[size] = m ? fmin(batch->transfer[size], own->transfer) : own->transfer;
    batch->changing[size] = m ? fmin(batch->changing[size], own->changing) : own->changing;
  }
  batch->meshes[size] = of->shares;
  batch->mesh_count[size] = sizes->told ? of->mesh_count : 0;
  batch->priced[size] = true;
}
