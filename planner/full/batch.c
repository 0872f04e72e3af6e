#include "planner/full/batch.h"
#include "planner/full/whole.h"
#include "planner/layer/op.h"
#include <math.h>

static void list_sizes(bd_ctx *ctx, bd_full_sizes *out) {
  const bd_full_space *space = out->space;
  int most = 0;
  for (int g = 0; g < space->group_count; g++)
    most += space->groups[g].count;
  out->sizes = BD_NEW_ARRAY(ctx->arena, bd_floor_size, most);
  for (int g = 0; g < space->group_count; g++)
    for (int devices = 1; devices <= space->groups[g].count; devices++)
      if (bd_full_has_size(space, g, devices))
        out->sizes[out->count++] = (bd_floor_size){g, devices};
}

static void list_kinds(bd_ctx *ctx, bd_full_sizes *out) {
  const bd_model_runs *runs = &out->space->runs;
  int *kind = BD_NEW_ARRAY(ctx->arena, int, runs->count);
  int *calls = BD_NEW_ARRAY(ctx->arena, int, runs->count);
  out->run_of_kind = BD_NEW_ARRAY(ctx->arena, int, runs->count);
  for (int r = 0; r < runs->count; r++) {
    int like = runs->runs[r].like;
    kind[r] = like < r ? kind[like] : out->kinds.count++;
    out->run_of_kind[kind[r]] = like;
    calls[kind[r]] += runs->runs[r].calls;
  }
  out->kinds.calls = calls;
  out->kind_of_layer = BD_NEW_ARRAY(ctx->arena, int, out->space->layer_count);
  for (int l = 0; l < out->space->layer_count; l++)
    out->kind_of_layer[l] = kind[out->space->run_of_layer[l]];
}

static bool can_tell(const bd_full_sizes *s) {
  int64_t shares = bd_share_count(&s->kinds), width = s->group_devices[0] + 1;
  int64_t most = shares <= BD_WHOLE_FEW_SHARES ? BD_WHOLE_FEW_CELLS : BD_WHOLE_MAX_CELLS;
  return s->count <= BD_WHOLE_MAX_SIZES && shares <= most / width;
}

bd_full_sizes bd_full_sizes_open(bd_ctx *ctx, const bd_full_space *space) {
  bd_full_sizes out = {.space = space};
  list_sizes(ctx, &out);
  list_kinds(ctx, &out);
  out.calls = BD_NEW_ARRAY(ctx->arena, int, space->runs.count);
  out.group_devices = BD_NEW_ARRAY(ctx->arena, int, space->group_count);
  for (int r = 0; r < space->runs.count; r++)
    out.calls[r] = space->runs.runs[r].calls;
  for (int g = 0; g < space->group_count; g++)
    out.group_devices[g] = space->groups[g].count;
  out.told = space->group_count == 1 && can_tell(&out);
  out.ties = bd_full_ties_open(ctx, space, out.count, out.sizes);
  return out;
}

static bd_status add_even(bd_ctx *ctx, const bd_full_sizes *s, int size, int64_t micro_batch,
                          const bd_function *f, const bd_function *forward, double *seconds) {
  const bd_full_group *group = &s->space->groups[s->sizes[size].group];
  bd_cost_model cost = {&group->cluster, {1, {s->sizes[size].devices}}, micro_batch};
  for (int i = 0; i < f->op_count; i++) {
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(ctx, f, &f->ops[i], &map, types));
    *seconds += bd_layer_even_seconds(&cost, f, forward, i, &map);
  }
  return BD_OK;
}

bd_status bd_full_batch_open(bd_ctx *ctx, const bd_full_sizes *s, int64_t micro_batch,
                             bd_full_batch *out) {
  const bd_full_space *space = s->space;
  int cells = space->runs.count * s->count;
  *out = (bd_full_batch){.micro_batch = micro_batch,
                         .micro_batches = (int)(space->request->global_batch / micro_batch),
                         .seconds = BD_NEW_ARRAY(ctx->arena, double, cells),
                         .forward = BD_NEW_ARRAY(ctx->arena, double, cells),
                         .both = BD_NEW_ARRAY(ctx->arena, double, cells),
                         .transfer = BD_NEW_ARRAY(ctx->arena, double, s->count),
                         .changing = BD_NEW_ARRAY(ctx->arena, double, s->count),
                         .priced = BD_NEW_ARRAY(ctx->arena, bool, s->count),
                         .mesh_count = BD_NEW_ARRAY(ctx->arena, int, s->count),
                         .meshes = BD_NEW_ARRAY(ctx->arena, bd_share_prices *, s->count),
                         .found = BD_NEW_ARRAY(ctx->arena, const bd_size_prices *, s->count)};
  out->flops = BD_NEW_ARRAY(ctx->arena, bd_pass_flops, s->kinds.count);
  for (int k = 0; k < s->kinds.count; k++)
    BD_TRY(bd_add_pass_flops(ctx, space->train, space->runs.runs[s->run_of_kind[k]].function,
                             micro_batch, &out->flops[k]));
  for (int r = 0; r < space->runs.count; r++)
    for (int i = 0; i < s->count; i++) {
      const bd_function *f = space->runs.runs[r].function;
      double forward = 0, both = 0;
      BD_TRY(add_even(ctx, s, i, micro_batch, f, NULL, &forward));
      both = forward;
      BD_TRY(add_even(ctx, s, i, micro_batch, bd_layer_backward(space->train, f), f, &both));
      out->seconds[r * s->count + i] = both;
      out->forward[r * s->count + i] = forward;
      out->both[r * s->count + i] = both;
    }
  return BD_OK;
}

bd_full_batch bd_full_batch_copy(bd_ctx *ctx, const bd_full_sizes *s, const bd_full_batch *from) {
  int cells = s->space->runs.count * s->count;
  bd_full_batch out = *from;
  out.seconds = bd_arena_copy(ctx->arena, from->seconds, cells, sizeof *out.seconds);
  out.both = bd_arena_copy(ctx->arena, from->both, cells, sizeof *out.both);
  out.transfer = bd_arena_copy(ctx->arena, from->transfer, s->count, sizeof *out.transfer);
  out.changing = bd_arena_copy(ctx->arena, from->changing, s->count, sizeof *out.changing);
  out.priced = bd_arena_copy(ctx->arena, from->priced, s->count, sizeof *out.priced);
  out.mesh_count = bd_arena_copy(ctx->arena, from->mesh_count, s->count, sizeof *out.mesh_count);
  out.meshes = bd_arena_copy(ctx->arena, from->meshes, s->count, sizeof *out.meshes);
  return out;
}

bool bd_full_batch_is_tight(const bd_full_sizes *sizes, const bd_full_batch *batch) {
  for (int i = 0; i < sizes->count; i++)
    for (int m = 0; m < batch->mesh_count[i]; m++)
      if (batch->meshes[i][m].tight) return true;
  return false;
}

// What the layers of every share take without regard to what others hold.
static double *free_seconds(bd_ctx *ctx, const bd_full_sizes *s, const bd_full_batch *batch,
                            int size) {
  int64_t shares = bd_share_count(&s->kinds);
  double *out = BD_NEW_ARRAY(ctx->arena, double, shares);
  int *share = BD_NEW_ARRAY(ctx->arena, int, s->kinds.count);
  for (int64_t x = 0; x < shares; x++, bd_share_next(&s->kinds, share))
    for (int k = 0; k < s->kinds.count; k++)
      if (share[k]) out[x] += share[k] * batch->seconds[s->run_of_kind[k] * s->count + size];
  return out;
}

void bd_full_batch_shares(bd_ctx *ctx, const bd_full_sizes *s, const bd_full_batch *batch, int size,
                          double tapes, double limit, double *out) {
  int64_t shares = bd_share_count(&s->kinds);
  double cap = (double)bd_full_scene(s->space, s->sizes[size].group).layers_cap_bytes;
  const double *least = free_seconds(ctx, s, batch, size);
  for (int64_t x = 0; x < shares; x++)
    out[x] = batch->priced[size] ? INFINITY : 0;
  for (int m = 0; m < batch->mesh_count[size]; m++)
    bd_share_floor(ctx, &s->kinds, &batch->meshes[size][m], tapes, cap, least, limit, out);
  for (int64_t x = 0; x < shares; x++)
    out[x] = least[x] < limit ? fmax(out[x], least[x]) : INFINITY;
}

double *bd_full_batch_weights(bd_ctx *ctx, const bd_full_sizes *s, const bd_full_batch *batch) {
  int64_t shares = bd_share_count(&s->kinds);
  double *out = BD_NEW_ARRAY(ctx->arena, double, shares);
  int *share = BD_NEW_ARRAY(ctx->arena, int, s->kinds.count);
  for (int64_t x = 0; x < shares; x++, bd_share_next(&s->kinds, share)) {
    bd_pass_flops sum = {0};
    for (int k = 0; k < s->kinds.count; k++) {
      sum.forward += share[k] * batch->flops[k].forward;
      sum.backward += share[k] * batch->flops[k].backward;
      sum.weight += share[k] * batch->flops[k].weight;
    }
    out[x] = bd_weight_pass_share(&sum);
  }
  return out;
}
