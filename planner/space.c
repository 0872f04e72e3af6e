#include "planner/space.h"
#include "planner/layer/key.h"
#include "planner/shared_weights.h"
#include <string.h>

enum { FEW_LAYERS = 16 };

// Per parameter of a function, how the weights that calls fill it with are used, which are all of
// one type.
static const bd_weight_use *weight_uses(bd_ctx *ctx, const bd_module *train,
                                        const bd_function *function, const bd_weight_use *uses) {
  bd_weight_use *most = BD_NEW_ARRAY(ctx->arena, bd_weight_use, function->param_count);
  const bd_function *main = train->main;
  for (int i = 0; i < main->op_count; i++) {
    if (!bd_module_calls_forward(train, &main->ops[i]) ||
        strcmp(main->ops[i].callee, function->name))
      continue;
    for (int p = 0; p < function->param_count; p++) {
      bd_weight_use here = uses[main->ops[i].in[p]];
      if (!function->is_weight[p]) continue;
      most[p].whole = here.whole;
      if (here.calls > most[p].calls) most[p].calls = here.calls;
    }
  }
  return most;
}

// Runs of one function, or of functions that differ in names only, share their layers' problems.
static void find_like(bd_ctx *ctx, const bd_module *train, bd_model_runs *runs) {
  const char **key = BD_NEW_ARRAY(ctx->arena, const char *, runs->count);
  for (int r = 0; r < runs->count; r++) {
    const bd_run *run = &runs->runs[r];
    bd_layer_request request = {.train = train,
                                .function = run->function,
                                .weight_uses = run->weight_uses,
                                .pin = run->pin,
                                .optimizer = ""};
    key[r] = bd_layer_key(ctx, &request);
    runs->runs[r].like = 0;
    while (key[runs->runs[r].like] != key[r])
      runs->runs[r].like++;
  }
}

// Whether a gradient of what the call makes is wanted: it has weights that learn, or reads what a
// call makes of which one is wanted. `maker`: per value, that call's number, from 1 on; 0: none.
static bool wants_gradient(const bd_module *train, const bd_op *call, const bd_function *callee,
                           const int *maker, const bool *wanted) {
  const bd_function *backward = bd_layer_backward(train, callee);
  for (int p = 0; p < callee->param_count; p++)
    if (callee->is_weight[p] ? bd_layer_learns(backward, p) : wanted[maker[call->in[p]]])
      return true;
  return false;
}

static void find_handing(bd_ctx *ctx, const bd_module *train, bd_model_runs *out) {
  const bd_function *main = train->main;
  int *maker = BD_NEW_ARRAY(ctx->arena, int, main->value_count), number = 0;
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, main->op_count + 1);
  out->hands_on = out->hands_back = true;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *call = &main->ops[i];
    if (!bd_module_calls_forward(train, call)) continue;
    const bd_function *callee = bd_module_find(train, call->callee);
    const bd_function *backward = bd_layer_backward(train, callee);
    bool reads = number == 0, returns = number == 0;
    for (int p = 0; p < callee->param_count && number; p++) {
      if (callee->is_weight[p] || maker[call->in[p]] != number) continue;
      reads = true;
      returns |= wanted[number] && bd_layer_learns(backward, p);
    }
    out->hands_on &= reads;
    out->hands_back &= returns;
    wanted[++number] = wants_gradient(train, call, callee, maker, wanted);
    for (int r = 0; r < call->out_count; r++)
      maker[call->out[r]] = number;
  }
}

static bd_model_runs find_runs(bd_ctx *ctx, const bd_module *train,
                               const bd_constraints *constraints, bd_whole_weights whole) {
  const bd_function *main = train->main;
  bd_model_runs out = {.runs = BD_NEW_ARRAY(ctx->arena, bd_run, main->op_count)};
  const bd_weight_use *uses = bd_model_weight_uses(ctx, train, whole);
  int layer = 0;
  for (int i = 0; i < main->op_count; i++) {
    if (!bd_module_calls_forward(train, &main->ops[i])) continue;
    const bd_function *callee = bd_module_find(train, main->ops[i].callee);
    const bd_strategy_pin *pin = bd_constraints_pin_of(constraints, callee->name, layer++);
    out.calls++;
    bd_run *last = out.count ? &out.runs[out.count - 1] : NULL;
    if (last && last->function == callee && last->pin == pin) {
      last->calls++;
    } else {
      const bd_weight_use *most = weight_uses(ctx, train, callee, uses);
      out.runs[out.count++] = (bd_run){callee, 1, most, pin, 0};
    }
  }
  bd_model_find_shared(ctx, train, uses, &out);
  find_like(ctx, train, &out);
  find_handing(ctx, train, &out);
  return out;
}

bd_model_runs bd_model_runs_find(bd_ctx *ctx, const bd_module *train,
                                 const bd_constraints *constraints) {
  bool fixed = constraints && constraints->layer_count > 0;
  return find_runs(ctx, train, constraints, fixed ? BD_WHOLE_NONE : BD_WHOLE_SMALL);
}

bd_model_runs bd_model_runs_find_whole(bd_ctx *ctx, const bd_module *train,
                                       const bd_constraints *constraints) {
  return find_runs(ctx, train, constraints, BD_WHOLE_ALL);
}

bool bd_model_has_few_layers(const bd_model_runs *runs) {
  return runs->calls <= FEW_LAYERS;
}

int bd_space_meshes(bd_ctx *ctx, int devices, int node, bd_mesh **out_meshes) {
  int count = 0;
  bd_mesh *meshes = BD_NEW_ARRAY(ctx->arena, bd_mesh, devices + devices * node + 1);
  meshes[count++] = (bd_mesh){1, {devices}};
  for (int a = 2; a <= devices / 2; a++)
    if (devices % a == 0) meshes[count++] = (bd_mesh){2, {a, devices / a}};
  int pairs = count;
  for (int i = 1; i < pairs; i++) {
    int far = meshes[i].size[0], near = meshes[i].size[1];
    for (int b = 2; near <= node && b <= near / 2; b++)
      if (near % b == 0) meshes[count++] = (bd_mesh){3, {far, b, near / b}};
  }
  *out_meshes = meshes;
  return count;
}

typedef struct form_list {
  const bd_mesh *mesh;
  int64_t micro_batch, sequence;
  int count;
  bd_sharding *items;
} form_list;

static void add_forms(form_list *list, int axis, bd_sharding form, int64_t batch_parts,
                      int64_t sequence_parts) {
  if (axis == list->mesh->axes) {
    list->items[list->count++] = form;
    return;
  }
  int size = list->mesh->size[axis];
  if (size > 1 && list->micro_batch % (batch_parts * size) == 0) {
    form.at[axis] = 0;
    add_forms(list, axis + 1, form, batch_parts * size, sequence_parts);
  }
  form.at[axis] = BD_REPLICATED;
  add_forms(list, axis + 1, form, batch_parts, sequence_parts);
  if (size > 1 && list->sequence && list->sequence % (sequence_parts * size) == 0) {
    form.at[axis] = 1;
    add_forms(list, axis + 1, form, batch_parts, sequence_parts * size);
  }
}

enum { LONG_SEQUENCE = 32768 };

bool bd_space_cuts_queries(const bd_mesh *mesh, int64_t global_batch, int64_t sequence) {
  return global_batch < bd_mesh_devices(mesh) || sequence >= LONG_SEQUENCE;
}

int bd_space_forms(bd_ctx *ctx, const bd_mesh *mesh, int64_t micro_batch, int64_t sequence,
                   bd_sharding **out_forms) {
  int most = 1;
  for (int axis = 0; axis < mesh->axes; axis++)
    most *= 3;
  form_list list = {.mesh = mesh, .micro_batch = micro_batch, .sequence = sequence};
  list.items = BD_NEW_ARRAY(ctx->arena, bd_sharding, most);
  add_forms(&list, 0, bd_sharding_replicated(), 1, 1);
  *out_forms = list.items;
  return list.count;
}

int bd_space_tied_forms(bd_ctx *ctx, const bd_mesh *mesh, bool any_tied, bd_sharding **out_forms) {
  int count = 0;
  *out_forms = BD_NEW_ARRAY(ctx->arena, bd_sharding, 1 << mesh->axes);
  for (unsigned mask = 0; mask < (any_tied ? 1u << mesh->axes : 1u); mask++) {
    bd_sharding form = bd_sharding_replicated();
    bool good = true;
    for (int axis = 0; axis < mesh->axes; axis++) {
      if (!(mask >> axis & 1u)) continue;
      good = good && mesh->size[axis] > 1;
      form.at[axis] = 0;
    }
    if (good) (*out_forms)[count++] = form;
  }
  return count;
}
