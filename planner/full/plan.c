#include "planner/full/space.h"
#include <string.h>

static bd_sharding *shift(bd_ctx *ctx, const bd_sharding *from, int count, int first_axis) {
  bd_sharding *out = BD_NEW_ARRAY(ctx->arena, bd_sharding, count);
  for (int v = 0; v < count; v++) {
    out[v] = bd_sharding_replicated();
    for (int axis = first_axis; axis < BD_MAX_AXES; axis++)
      out[v].at[axis] = from[v].at[axis - first_axis];
  }
  return out;
}

// A candidate's strategy with the axes of the plan's meshes.
static bd_strategy widen(bd_ctx *ctx, const bd_strategy *from, int first_axis) {
  bd_strategy out = *from;
  if (!first_axis) return out;
  out.split = bd_arena_array(ctx->arena, (size_t)from->op_count, sizeof *out.split);
  out.form = shift(ctx, from->form, from->value_count, first_axis);
  if (from->gradient) out.gradient = shift(ctx, from->gradient, from->value_count, first_axis);
  for (int i = 0; i < from->op_count; i++) {
    memset(out.split[i], '-', sizeof out.split[i]);
    memcpy(&out.split[i][first_axis], from->split[i], sizeof out.split[i] - (size_t)first_axis);
  }
  return out;
}

static int use_strategy(bd_ctx *ctx, const bd_full_space *space, const bd_full_problem *problem,
                        int candidate, int *slot, bd_plan *plan) {
  if (slot[candidate] >= 0) return slot[candidate];
  int mode = problem->candidate_mode[candidate], same = 0;
  const bd_strategy *from = &problem->candidate[candidate]->strategy;
  for (int i = 0; i < plan->strategy_count; i++)
    same += strcmp(plan->strategies[i].function, from->function) == 0;
  bd_strategy *out = &plan->strategies[plan->strategy_count];
  *out = widen(ctx, from, space->modes[mode].first_axis);
  out->name = bd_intern_f(ctx, "%s.%d", from->function, same);
  return slot[candidate] = plan->strategy_count++;
}

static void add_ranges(bd_ctx *ctx, const bd_full_space *space, const bd_full_problem *problem,
                       const bd_layers_plan *solution, bd_plan *out) {
  int layers = space->layer_count, total = 0;
  for (int l = 0; l < layers; l++)
    for (int k = 0; k < problem->layers.layers[l].option_count; k++)
      if (problem->layers.layers[l].options[k].index >= total)
        total = problem->layers.layers[l].options[k].index + 1;
  int *slot = BD_NEW_ARRAY(ctx->arena, int, total);
  memset(slot, -1, sizeof *slot * (size_t)total);
  out->strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, layers);
  out->ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, layers);
  for (int l = 0; l < layers; l++) {
    int candidate = problem->layers.layers[l].options[solution->option[l]].index;
    bd_layer_range next = {l,
                           1,
                           use_strategy(ctx, space, problem, candidate, slot, out),
                           solution->part[l] % solution->stages,
                           solution->part[l] / solution->stages,
                           BD_NOWHERE};
    bd_layer_range *last = out->range_count ? &out->ranges[out->range_count - 1] : NULL;
    if (last && last->strategy == next.strategy && last->stage == next.stage &&
        last->chunk == next.chunk)
      last->count++;
    else
      out->ranges[out->range_count++] = next;
  }
}

// The largest stages of a group come first, so that none straddles a node.
static int *place_stages(bd_ctx *ctx, const bd_full_space *space, const bd_layers_plan *solution) {
  int *first = BD_NEW_ARRAY(ctx->arena, int, solution->stages);
  for (int s = 0; s < solution->stages; s++) {
    const bd_full_mode *own = &space->modes[solution->mode[s]];
    int devices = bd_mesh_devices(&own->mesh), before = 0;
    for (int t = 0; t < solution->stages; t++) {
      const bd_full_mode *other = &space->modes[solution->mode[t]];
      int size = bd_mesh_devices(&other->mesh);
      if (other->group == own->group && (size > devices || (size == devices && t < s)))
        before += size;
    }
    first[s] = space->groups[own->group].first + before;
  }
  return first;
}

// Says no more of stages than is needed: equal meshes and stages in order go without.
static void add_stages(bd_ctx *ctx, const bd_full_space *space, const bd_layers_plan *solution,
                       bd_plan *out) {
  bd_mesh *meshes = BD_NEW_ARRAY(ctx->arena, bd_mesh, solution->stages);
  int *first = place_stages(ctx, space, solution), next = 0;
  bool equal = true, ordered = true;
  for (int s = 0; s < solution->stages; s++) {
    meshes[s] = space->modes[solution->mode[s]].mesh;
    equal =
        equal && meshes[s].size[0] == meshes[0].size[0] && meshes[s].size[1] == meshes[0].size[1];
    ordered = ordered && first[s] == next;
    next += bd_mesh_devices(&meshes[s]);
  }
  out->mesh = meshes[0];
  out->stage_mesh = equal ? NULL : meshes;
  out->stage_device = ordered ? NULL : first;
}

void bd_full_assemble(bd_ctx *ctx, const bd_full_space *space, const bd_full_problem *problem,
                      const bd_layers_plan *solution, bd_plan *out) {
  const bd_plan_request *request = space->request;
  *out = (bd_plan){.model = request->model,
                   .target = request->target,
                   .optimizer = request->optimizer,
                   .precision = request->precision,
                   .masters = request->masters,
                   .gradients = request->gradients,
                   .global_batch = request->global_batch,
                   .micro_batch = problem->micro_batch,
                   .sequence = request->sequence,
                   .schedule = solution->schedule,
                   .stages = solution->stages,
                   .chunks = solution->chunks,
                   .threads_per_rank = space->cluster->threads_per_device,
                   .one_head = space->train->one_head,
                   .zero_axes =
                       bd_constraints_split_states(request->constraints, request->zero) ? 3 : 0};
  add_stages(ctx, space, solution, out);
  add_ranges(ctx, space, problem, solution, out);
}
