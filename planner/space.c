#include "planner/space.h"
#include <string.h>

static bool is_forward(const bd_module *train, const bd_op *op) {
  if (op->kind != BD_OP_CALL) return false;
  const bd_function *callee = bd_module_find(train, op->callee);
  return callee && callee->role == BD_ROLE_FORWARD;
}

// Marks, for every function, the parameters that some call fills with a weight used twice.
static const bool *tied_parameters(bd_ctx *ctx, const bd_module *train, const bd_function *function,
                                   const int *uses, bool *any) {
  bool *tied = BD_NEW_ARRAY(ctx->arena, bool, function->param_count);
  const bd_function *main = train->main;
  for (int i = 0; i < main->op_count; i++) {
    if (!is_forward(train, &main->ops[i]) || strcmp(main->ops[i].callee, function->name)) continue;
    for (int p = 0; p < function->param_count; p++)
      if (function->is_weight[p] && uses[main->ops[i].in[p]] > 1) *any = tied[p] = true;
  }
  return tied;
}

bd_model_runs bd_model_runs_find(bd_ctx *ctx, const bd_module *train) {
  const bd_function *main = train->main;
  bd_model_runs out = {.runs = BD_NEW_ARRAY(ctx->arena, bd_run, main->op_count)};
  int *uses = BD_NEW_ARRAY(ctx->arena, int, main->value_count), layer = 0;
  for (int i = 0; i < main->op_count; i++)
    for (int o = 0; is_forward(train, &main->ops[i]) && o < main->ops[i].in_count; o++)
      uses[main->ops[i].in[o]]++;
  for (int i = 0; i < main->op_count; i++) {
    if (!is_forward(train, &main->ops[i])) continue;
    const bd_function *callee = bd_module_find(train, main->ops[i].callee);
    if (out.count && out.runs[out.count - 1].function == callee) {
      out.runs[out.count - 1].calls++;
    } else {
      const bool *tied = tied_parameters(ctx, train, callee, uses, &out.any_tied);
      out.runs[out.count++] = (bd_run){callee, layer, 1, tied};
    }
    layer++;
  }
  return out;
}

int bd_space_meshes(bd_ctx *ctx, int devices, bd_mesh **out_meshes) {
  int count = 0;
  bd_mesh *meshes = BD_NEW_ARRAY(ctx->arena, bd_mesh, devices + 1);
  meshes[count++] = (bd_mesh){1, {devices}};
  for (int a = 2; a <= devices / 2; a++)
    if (devices % a == 0) meshes[count++] = (bd_mesh){2, {a, devices / a}};
  *out_meshes = meshes;
  return count;
}

typedef struct boundary_list {
  bd_ctx *ctx;
  const bd_mesh *mesh;
  int64_t micro_batch, sequence;
  bool tied;
  int count, capacity;
  bd_boundary *items;
} boundary_list;

static void add_tied(boundary_list *list, const bd_sharding *activation) {
  for (unsigned mask = 0; mask < 1u << list->mesh->axes; mask++) {
    bd_sharding tied = bd_sharding_replicated();
    bool good = mask == 0 || list->tied;
    for (int axis = 0; axis < list->mesh->axes; axis++) {
      if (!(mask >> axis & 1u)) continue;
      good = good && activation->at[axis] != 0 && list->mesh->size[axis] > 1;
      tied.at[axis] = 0;
    }
    if (!good) continue;
    if (list->count == list->capacity) {
      int wanted = list->capacity ? 2 * list->capacity : 16;
      list->items = bd_arena_grow(list->ctx->arena, list->items, (size_t)list->count,
                                  (size_t)wanted, sizeof *list->items);
      list->capacity = wanted;
    }
    list->items[list->count++] = (bd_boundary){*activation, tied};
  }
}

static void add_axis(boundary_list *list, int axis, bd_sharding activation, int64_t batch_parts,
                     int64_t sequence_parts) {
  if (axis == list->mesh->axes) {
    add_tied(list, &activation);
    return;
  }
  int size = list->mesh->size[axis];
  if (size > 1 && list->micro_batch % (batch_parts * size) == 0) {
    activation.at[axis] = 0;
    add_axis(list, axis + 1, activation, batch_parts * size, sequence_parts);
  }
  activation.at[axis] = BD_REPLICATED;
  add_axis(list, axis + 1, activation, batch_parts, sequence_parts);
  if (size > 1 && list->sequence && list->sequence % (sequence_parts * size) == 0) {
    activation.at[axis] = 1;
    add_axis(list, axis + 1, activation, batch_parts, sequence_parts * size);
  }
}

int bd_space_boundaries(bd_ctx *ctx, const bd_mesh *mesh, int64_t micro_batch, int64_t sequence,
                        bool tied, bd_boundary **out_boundaries) {
  boundary_list list = {ctx, mesh, micro_batch, sequence, tied, 0, 0, NULL};
  add_axis(&list, 0, bd_sharding_replicated(), 1, 1);
  *out_boundaries = list.items;
  return list.count;
}
