#include "planner/full/bound.h"
#include "planner/full/floor.h"
#include "planner/layer/op.h"
#include <math.h>
#include <string.h>

enum { MOST_PRICED = 512, ALONE_ROUNDS = 6 };

// One size of micro-batch.
typedef struct batch {
  int64_t micro_batch;
  double *seconds;        // [run][size]: see bd_floor
  double *forward, *both; // [run][size]: of the work, forward alone and with backward
  double *transfer;       // per size: the least to send and receive a message
  bool *priced;           // per size; else the seconds are those of its work alone
  bool *used;             // per size
  double bound;
} batch;

typedef struct bounding {
  bd_ctx *ctx;
  const bd_full_space *space;
  double enough;
  bd_deadline deadline;
  int size_count, batch_count, priced;
  bd_floor_size *sizes;
  int *calls, *group_devices;
  batch *batches;
} bounding;

static int list_sizes(bounding *b) {
  const bd_full_space *space = b->space;
  int count = 0, most = 0;
  for (int g = 0; g < space->group_count; g++)
    most += space->groups[g].count;
  b->sizes = BD_NEW_ARRAY(b->ctx->arena, bd_floor_size, most);
  for (int g = 0; g < space->group_count; g++)
    for (int devices = 1; devices <= space->groups[g].count; devices++)
      if (bd_full_has_size(space, g, devices)) b->sizes[count++] = (bd_floor_size){g, devices};
  return count;
}

static bd_status add_even(const bounding *b, int size, int64_t micro_batch, const bd_function *f,
                          const bd_function *forward, double *seconds) {
  const bd_full_group *group = &b->space->groups[b->sizes[size].group];
  bd_cost_model cost = {&group->cluster, {1, {b->sizes[size].devices}}, micro_batch};
  for (int i = 0; i < f->op_count; i++) {
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(b->ctx, f, &f->ops[i], &map, types));
    *seconds += bd_layer_even_seconds(&cost, f, forward, i, &map);
  }
  return BD_OK;
}

// The work of every layer, evenly divided over the devices of each size.
static bd_status add_work(const bounding *b, batch *at) {
  const bd_full_space *space = b->space;
  for (int r = 0; r < space->runs.count; r++)
    for (int i = 0; i < b->size_count; i++) {
      const bd_function *f = space->runs.runs[r].function;
      double forward = 0, both = 0;
      BD_TRY(add_even(b, i, at->micro_batch, f, NULL, &forward));
      both = forward;
      BD_TRY(add_even(b, i, at->micro_batch, bd_layer_backward(space->train, f), f, &both));
      at->seconds[r * b->size_count + i] = both;
      at->forward[r * b->size_count + i] = forward;
      at->both[r * b->size_count + i] = both;
    }
  return BD_OK;
}

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

// Lowers what is known of layers on stages of a size to the least of one more mesh.
static bd_status price_mesh(bounding *b, const batch *at, int size, const bd_mesh *mesh,
                            double *least, double *transfer) {
  const bd_full_space *space = b->space;
  int group = b->sizes[size].group;
  bd_scene scene = bd_full_scene(space, group);
  bd_setting setting = {1, *mesh, at->micro_batch, bd_sharding_replicated()};
  bd_setting_layers layers;
  bd_owned held;
  bd_arena *kept = b->ctx->arena, *arena = bd_ctx_open_arena(b->ctx, &held);
  b->ctx->arena = arena;
  bd_status status = bd_setting_open(b->ctx, &scene, &setting, NULL, &layers);
  double *seconds = BD_NEW_ARRAY(arena, double, space->runs.count);
  for (int r = 0; r < space->runs.count && status == BD_OK; r++) {
    int like = space->runs.runs[r].like;
    seconds[r] = like < r ? seconds[like]
                          : least_alone(b->ctx, layers.layers[r], (double)scene.layers_cap_bytes);
    least[r] = fmin(least[r], seconds[r]);
  }
  // Groups may have faster links between them than inside.
  setting.stages = 2;
  bool apart = space->group_count == 1 && 2 * b->sizes[size].devices <= space->groups[group].count;
  double one = status == BD_OK && apart ? bd_bound_moves(&scene, &setting, &layers).sum / 2 : 0;
  *transfer = fmin(*transfer, one);
  b->ctx->arena = kept;
  bd_ctx_close_arena(b->ctx, &held);
  b->priced++;
  return status;
}

// Replaces the seconds of a size's work by the least over its meshes.
static bd_status price_size(bounding *b, batch *at, int size) {
  const bd_full_space *space = b->space;
  int runs = space->runs.count, count;
  bd_mesh *meshes;
  double *least = BD_NEW_ARRAY(b->ctx->arena, double, runs), transfer = INFINITY;
  for (int r = 0; r < runs; r++)
    least[r] = INFINITY;
  count = bd_full_meshes(b->ctx, space, b->sizes[size].group, b->sizes[size].devices, &meshes);
  for (int m = 0; m < count; m++)
    BD_TRY(price_mesh(b, at, size, &meshes[m], least, &transfer));
  for (int r = 0; r < runs; r++) {
    double *seconds = &at->seconds[r * b->size_count + size];
    *seconds = fmax(*seconds, least[r]);
  }
  at->transfer[size] = count ? transfer : 0;
  at->priced[size] = true;
  return BD_OK;
}

// The least under schedules that pass a stage's layers in so many chunks; `both`: the last
// micro-batch comes back through every stage.
static void lower(const bounding *b, const batch *at, bool both, int chunks, double *least,
                  bool *used) {
  int runs = b->space->runs.count, cells = runs * b->size_count;
  int most = b->space->layer_count / chunks, wanted = b->space->request->stages;
  double *passing = BD_NEW_ARRAY(b->ctx->arena, double, cells);
  double *handing = BD_NEW_ARRAY(b->ctx->arena, double, b->size_count);
  bool *own = BD_NEW_ARRAY(b->ctx->arena, bool, b->size_count);
  // A stage sends and receives between any two of its chunks, forward and backward.
  for (int i = 0; i < b->size_count; i++)
    handing[i] = 2 * (chunks - 1) * at->transfer[i];
  for (int i = 0; i < cells; i++)
    passing[i] = both ? at->both[i] / chunks : at->forward[i];
  if (most > BD_FULL_MAX_STAGES) most = BD_FULL_MAX_STAGES;
  if (wanted) most = wanted;
  bd_floor numbers = {.run_count = runs,
                      .group_count = b->space->group_count,
                      .size_count = b->size_count,
                      .micro_batches = (int)(b->space->request->global_batch / at->micro_batch),
                      .most_stages = most,
                      .calls = b->calls,
                      .group_devices = b->group_devices,
                      .sizes = b->sizes,
                      .seconds = at->seconds,
                      .handing = handing,
                      .limit = b->enough,
                      .passing = passing,
                      .roughly = bd_deadline_passed(b->deadline)};
  double seconds = bd_floor_seconds(b->ctx, &numbers, own);
  if (seconds >= *least) return;
  *least = seconds;
  memcpy(used, own, sizeof *used * (size_t)b->size_count);
}

static void set_floor(const bounding *b, batch *at) {
  int wanted = b->space->request->schedule;
  double least = INFINITY;
  if (wanted < 0 || wanted == BD_SCHEDULE_ZERO_BUBBLE) lower(b, at, false, 1, &least, at->used);
  if (wanted == BD_SCHEDULE_1F1B || wanted == BD_SCHEDULE_GPIPE)
    lower(b, at, true, 1, &least, at->used);
  for (int i = 0; i < BD_FULL_CHUNKS && (wanted < 0 || wanted == BD_SCHEDULE_INTERLEAVED); i++)
    lower(b, at, true, bd_full_chunks[i], &least, at->used);
  at->bound = fmax(at->bound, least);
}

static bd_status open(bounding *b) {
  const bd_full_space *space = b->space;
  const bd_plan_request *request = space->request;
  bd_arena *arena = b->ctx->arena;
  int runs = space->runs.count, cells;
  b->size_count = list_sizes(b);
  cells = runs * b->size_count;
  b->calls = BD_NEW_ARRAY(arena, int, runs);
  b->group_devices = BD_NEW_ARRAY(arena, int, space->group_count);
  for (int r = 0; r < runs; r++)
    b->calls[r] = space->runs.runs[r].calls;
  for (int g = 0; g < space->group_count; g++)
    b->group_devices[g] = space->groups[g].count;
  int64_t *sizes;
  b->batch_count = bd_full_micro_batches(b->ctx, request, &sizes);
  b->batches = BD_NEW_ARRAY(arena, batch, b->batch_count);
  for (int i = 0; i < b->batch_count; i++) {
    batch *at = &b->batches[i];
    *at = (batch){.micro_batch = sizes[i],
                  .seconds = BD_NEW_ARRAY(arena, double, cells),
                  .forward = BD_NEW_ARRAY(arena, double, cells),
                  .both = BD_NEW_ARRAY(arena, double, cells),
                  .transfer = BD_NEW_ARRAY(arena, double, b->size_count),
                  .priced = BD_NEW_ARRAY(arena, bool, b->size_count),
                  .used = BD_NEW_ARRAY(arena, bool, b->size_count)};
    BD_TRY(add_work(b, at));
    set_floor(b, at);
  }
  return BD_OK;
}

static batch *least_batch(const bounding *b) {
  batch *least = NULL;
  for (int i = 0; i < b->batch_count; i++)
    if (!least || b->batches[i].bound < least->bound) least = &b->batches[i];
  return least;
}

bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                        bd_deadline deadline, double *out_seconds) {
  bounding b = {.ctx = ctx, .space = space, .enough = enough, .deadline = deadline};
  BD_TRY(open(&b));
  batch *least;
  for (bool more = true; more && (least = least_batch(&b));) {
    more = false;
    for (int i = 0; i < b.size_count && least->bound < enough && b.priced < MOST_PRICED; i++) {
      if (!least->used[i] || least->priced[i] || bd_deadline_passed(deadline)) continue;
      BD_TRY(price_size(&b, least, i));
      more = true;
    }
    if (more) set_floor(&b, least);
  }
  *out_seconds = least ? least->bound : INFINITY;
  return BD_OK;
}
