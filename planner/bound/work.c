// What no plan of any setting beats, from the work of its ops alone.
#include "planner/bound/chain.h"
#include "planner/layer/op.h"

struct bd_scene_work {
  const bd_scene *scene;
  bd_layer_request *requests; // per run
  bd_layer_space *spaces;     // per run; as of the first like it
};

bd_status bd_scene_read_work(bd_ctx *ctx, const bd_scene *scene, bd_scene_work **out) {
  const bd_setting any = {1, {1, {1}}, 1, bd_sharding_replicated()};
  int runs = scene->runs->count;
  bd_scene_work *work = *out = BD_NEW(ctx->arena, bd_scene_work);
  *work = (bd_scene_work){scene, BD_NEW_ARRAY(ctx->arena, bd_layer_request, runs),
                          BD_NEW_ARRAY(ctx->arena, bd_layer_space, runs)};
  for (int r = 0; r < runs; r++) {
    work->requests[r] = bd_setting_request(scene, &any, r);
    if (scene->runs->runs[r].like == r)
      BD_TRY(bd_layer_space_read(ctx, &work->requests[r], &work->spaces[r]));
  }
  return BD_OK;
}

// Of one layer, divided evenly over all ranks.
static double layer_seconds(const bd_layer_space *space) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_function *forward = space->forward, *backward = space->backward;
  double seconds = 0;
  for (int i = 0; i < forward->op_count; i++)
    seconds += bd_layer_even_seconds(cost, forward, NULL, i, &space->map[i]);
  for (int i = 0; i < backward->op_count; i++)
    seconds += bd_layer_even_seconds(cost, backward, forward, i, &space->backward_map[i]);
  return seconds;
}

static double reckon(bd_ctx *ctx, const bd_scene_work *work, int stages, int64_t micro_batch) {
  const bd_scene *scene = work->scene;
  int runs = scene->runs->count;
  const bd_layer_holding **layers = BD_NEW_ARRAY(ctx->arena, const bd_layer_holding *, runs);
  double *seconds = BD_NEW_ARRAY(ctx->arena, double, runs), total = 0;
  bd_mesh even = {1, {bd_cluster_devices(scene->cluster) / stages}};
  for (int r = 0; r < runs; r++) {
    int like = scene->runs->runs[r].like;
    work->requests[r].cost = (bd_cost_model){scene->cluster, even, micro_batch};
    if (like == r) {
      bd_layer_holding *own = BD_NEW(ctx->arena, bd_layer_holding);
      *own = bd_layer_holding_of(ctx, &work->spaces[r]);
      layers[r] = own;
      seconds[r] = layer_seconds(&work->spaces[r]);
    }
    layers[r] = layers[like];
    total += scene->runs->runs[r].calls * seconds[like];
  }
  total += bd_bound_shortage(ctx, scene, stages, layers);
  return bd_bound_step(scene, stages, micro_batch, total);
}

double bd_bound_work(bd_ctx *ctx, const bd_scene_work *work, int stages, int64_t micro_batch) {
  bd_owned held;
  bd_arena *kept = ctx->arena, *own = bd_ctx_open_arena(ctx, &held);
  ctx->arena = own;
  double seconds = reckon(ctx, work, stages, micro_batch);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return seconds;
}
