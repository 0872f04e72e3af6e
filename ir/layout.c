#include "ir/layout.h"

#include <assert.h>

typedef struct laying {
  bd_ctx *ctx;
  const bd_module *module;
  const bd_function *main;
  const char *optimizer;
  unsigned zero_axes;
  bd_layout *layout;
  bool *restored;   // per main value: a backward call of the stage reads it from a slot
  int *weight_of;   // per main value; -1: it is none
  int *backward_of; // per op of main: the backward call of a forward one, or -1
  const bd_sharding **gradient_form; // per weight: of the gradient of a use, as all uses lie alike;
                                     // NULL: it has none
  int64_t *tape_bytes, *workspace_bytes; // per function; -1 until placed
} laying;

static bool here(const laying *l, const bd_op *op) {
  return op->stage == l->layout->stage;
}

static const bd_function *callee_of(const laying *l, const bd_op *op) {
  return op->kind == BD_OP_CALL ? bd_module_find(l->module, op->callee) : NULL;
}

static bool is_forward_call(const laying *l, const bd_op *op) {
  const bd_function *callee = callee_of(l, op);
  return callee && callee->role == BD_ROLE_FORWARD;
}

static bool is_backward_call(const laying *l, const bd_op *op) {
  const bd_function *callee = callee_of(l, op);
  return callee && callee->role == BD_ROLE_BACKWARD;
}

bd_id bd_layout_restored(const bd_module *spmd, int call, int index) {
  const bd_op *op = &spmd->main->ops[call];
  const bd_op *of = &spmd->main->ops[bd_op_int(op, "of", -1)];
  const bd_function *forward = bd_module_find(spmd, of->callee);
  bd_id saved = forward->saves[index];
  int param = bd_ids_find(forward->params, forward->param_count, saved);
  if (param >= 0) return of->in[param];
  int result = bd_ids_find(forward->results, forward->result_count, saved);
  return result >= 0 ? of->out[result] : BD_NO_ID;
}

static int64_t take(laying *l, bd_segment segment, int64_t bytes) {
  int64_t offset = l->layout->memory.bytes[segment];
  l->layout->memory.bytes[segment] += bytes;
  return offset;
}

static bd_status place_function(laying *l, const bd_function *called) {
  int index = bd_module_number(l->module, called);
  if (l->workspace_bytes[index] >= 0) return BD_OK;
  bd_function *function = l->module->functions[index];
  l->tape_bytes[index] = 0;
  if (function->role == BD_ROLE_FORWARD)
    BD_TRY(bd_memory_place_tape(l->ctx, l->module, function, &l->tape_bytes[index]));
  return bd_memory_place_workspace(l->ctx, l->module, function, &l->workspace_bytes[index]);
}

// Whether a function has collectives that may begin before other steps, given room.
static bool has_early(const laying *l) {
  for (int i = 0; i < l->module->function_count; ++i) {
    const bd_function *f = l->module->functions[i];
    for (int k = 0; k < f->op_count; ++k)
      if (bd_memory_gathers_weight(l->module, f, &f->ops[k]) ||
          bd_memory_runs_beside(l->module, f, &f->ops[k]))
        return true;
  }
  return false;
}

// The highest call of each stage, of the functions that have been placed.
static int64_t *workspaces(const laying *l) {
  int64_t *bytes = BD_NEW_ARRAY(l->ctx->arena, int64_t, l->module->stages);
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_function *callee = callee_of(l, &l->main->ops[i]);
    if (!callee) continue;
    int64_t height = l->workspace_bytes[bd_module_number(l->module, callee)];
    int64_t *most = &bytes[l->main->ops[i].stage];
    if (height > *most) *most = height;
  }
  return bytes;
}

// A function lies alike on all stages that call it, within the workspace of each.
static void place_early(laying *l, const int64_t *stage_bytes) {
  int64_t *room = BD_NEW_ARRAY(l->ctx->arena, int64_t, l->module->function_count);
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_function *callee = callee_of(l, &l->main->ops[i]);
    if (!callee) continue;
    int index = bd_module_number(l->module, callee);
    int64_t bytes = stage_bytes[l->main->ops[i].stage];
    if (room[index] == 0 || bytes < room[index]) room[index] = bytes;
  }
  for (int i = 0; i < l->module->function_count; ++i)
    if (l->workspace_bytes[i] >= 0)
      bd_memory_place_early(l->ctx, l->module, l->module->functions[i], room[i]);
}

static bd_status place_functions(laying *l) {
  bool early = has_early(l);
  for (int i = 0; i < l->module->function_count; ++i)
    l->tape_bytes[i] = l->workspace_bytes[i] = -1;
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_function *callee = callee_of(l, &l->main->ops[i]);
    if (callee && (early || here(l, &l->main->ops[i]))) BD_TRY(place_function(l, callee));
  }
  const int64_t *bytes = workspaces(l);
  take(l, BD_SEGMENT_WORKSPACE, bytes[l->layout->stage]);
  if (early) place_early(l, bytes);
  return BD_OK;
}

// What is looked up for every call and weight.
static void index_main(laying *l) {
  const bd_function *main = l->main;
  l->weight_of = BD_NEW_ARRAY(l->ctx->arena, int, main->value_count);
  l->backward_of = BD_NEW_ARRAY(l->ctx->arena, int, main->op_count);
  l->gradient_form = BD_NEW_ARRAY(l->ctx->arena, const bd_sharding *, l->module->weight_count);
  for (bd_id v = 0; v < main->value_count; ++v)
    l->weight_of[v] = -1;
  for (int i = 0; i < l->module->weight_count; ++i)
    l->weight_of[main->params[l->module->input_count + i]] = i;
  for (int i = main->result_count - 1; i > 0; --i)
    l->gradient_form[l->module->gradient_weight[i - 1]] = &main->values[main->results[i]].sharding;
  for (int i = 0; i < main->op_count; ++i)
    l->backward_of[i] = -1;
  for (int i = main->op_count - 1; i >= 0; --i) {
    int64_t of = is_backward_call(l, &main->ops[i]) ? bd_op_int(&main->ops[i], "of", -1) : -1;
    if (of >= 0 && of < i) l->backward_of[of] = i;
  }
}

static void place_weight(laying *l, bd_id id) {
  bd_layout *layout = l->layout;
  if (layout->values[id].segment != BD_SEGMENT_NONE) return;
  const bd_value *value = &l->main->values[id];
  int64_t bytes = bd_memory_value_bytes(l->module, value);
  layout->values[id] = (bd_place){BD_SEGMENT_WEIGHTS, take(l, BD_SEGMENT_WEIGHTS, bytes), 0};
  int weight = l->weight_of[id];
  assert(weight >= 0);
  layout->weights[layout->weight_count++] = weight;
  bd_state_form states = bd_memory_state_form(&l->module->mesh, &value->sharding,
                                              l->gradient_form[weight], l->zero_axes);
  const bd_mesh *mesh = &l->module->mesh;
  int64_t state = bd_memory_optimizer_bytes(l->optimizer, l->module->weights[weight].masters, mesh,
                                            &value->type, &states);
  layout->state_elements[weight] = bd_memory_state_elements(mesh, &value->type, &states);
  layout->state_bytes[weight] = state;
  layout->states[weight] =
      (bd_place){BD_SEGMENT_OPTIMIZER, take(l, BD_SEGMENT_OPTIMIZER, state), 0};
}

static void place_gradient(laying *l, bd_id id) {
  int64_t bytes = bd_memory_value_bytes(l->module, &l->main->values[id]);
  l->layout->values[id] = (bd_place){BD_SEGMENT_GRADIENTS, take(l, BD_SEGMENT_GRADIENTS, bytes), 0};
}

static void place_gradients(laying *l, const bd_op *call) {
  const bd_function *backward = callee_of(l, call);
  for (int i = 0; i < call->out_count; ++i)
    if (backward->values[backward->results[i]].segment == BD_SEGMENT_GRADIENTS)
      place_gradient(l, call->out[i]);
}

// A weight that gets no gradient on this stage and one on another has an accumulator here as well:
// it takes the sum over the stages, by which both update the weight.
static void place_absent_gradients(laying *l) {
  const bd_function *main = l->main;
  bool *wanted = BD_NEW_ARRAY(l->ctx->arena, bool, l->module->weight_count);
  for (int i = 0; i < l->layout->weight_count; ++i)
    wanted[l->layout->weights[i]] = true;
  for (int i = 1; i < main->result_count; ++i)
    if (l->layout->values[main->results[i]].segment == BD_SEGMENT_GRADIENTS)
      wanted[l->module->gradient_weight[i - 1]] = false;
  for (int i = 1; i < main->result_count; ++i) {
    bool *absent = &wanted[l->module->gradient_weight[i - 1]];
    if (*absent) place_gradient(l, main->results[i]);
    *absent = false;
  }
}

// Weights, states, gradients and tapes, call by call.
static void place_calls(laying *l) {
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_op *op = &l->main->ops[i];
    if (!here(l, op) || !is_forward_call(l, op)) continue;
    const bd_function *callee = callee_of(l, op);
    for (int k = 0; k < op->in_count; ++k)
      if (callee->is_weight[k]) place_weight(l, op->in[k]);
    int64_t tape = l->tape_bytes[bd_module_number(l->module, callee)];
    l->layout->tapes[i] = (bd_place){BD_SEGMENT_TAPE, take(l, BD_SEGMENT_TAPE, tape), 0};
    if (l->backward_of[i] < 0) continue;
    l->layout->tapes[l->backward_of[i]] = l->layout->tapes[i];
    place_gradients(l, &l->main->ops[l->backward_of[i]]);
  }
  place_absent_gradients(l);
  // The slots of the tape follow each other.
  l->layout->memory.slots = l->layout->in_flight;
  int64_t slot_bytes = l->layout->memory.bytes[BD_SEGMENT_TAPE];
  for (int i = 0; i < l->main->op_count; ++i)
    if (l->layout->tapes[i].segment == BD_SEGMENT_TAPE) l->layout->tapes[i].slot_bytes = slot_bytes;
  l->layout->memory.slot_bytes[BD_SEGMENT_TAPE] = slot_bytes;
  l->layout->memory.bytes[BD_SEGMENT_TAPE] = slot_bytes * l->layout->in_flight;
}

static void find_restored(laying *l) {
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_op *op = &l->main->ops[i];
    if (!here(l, op) || !is_backward_call(l, op)) continue;
    const bd_function *callee = callee_of(l, op);
    for (int k = 0; k < callee->restore_count; ++k) {
      bd_id id = bd_layout_restored(l->module, i, k);
      if (id != BD_NO_ID) l->restored[id] = true;
    }
  }
}

static void place_boundary_value(laying *l, bd_id id, bool slots) {
  bd_place *place = &l->layout->values[id];
  if (place->segment != BD_SEGMENT_NONE || l->restored[id] != slots) return;
  int64_t bytes = bd_memory_value_bytes(l->module, &l->main->values[id]);
  *place = (bd_place){BD_SEGMENT_BOUNDARY, take(l, BD_SEGMENT_BOUNDARY, bytes), 0};
}

static void place_boundary_of_kind(laying *l, bool slots) {
  for (int pass = 0; pass < 2; ++pass) // parameters of main first
    for (int i = 0; i < l->main->op_count; ++i) {
      const bd_op *op = &l->main->ops[i];
      if (!here(l, op)) continue;
      for (int k = 0; pass == 0 && k < op->in_count; ++k)
        if (l->main->values[op->in[k]].producer < 0) place_boundary_value(l, op->in[k], slots);
      for (int k = 0; pass == 1 && k < op->out_count; ++k)
        place_boundary_value(l, op->out[k], slots);
    }
}

// First what backward restores, a slot per micro-batch in flight; then what one pass uses up.
static void place_boundary(laying *l) {
  find_restored(l);
  place_boundary_of_kind(l, true);
  int64_t slot_bytes = l->layout->memory.bytes[BD_SEGMENT_BOUNDARY];
  for (bd_id v = 0; v < l->main->value_count; ++v)
    if (l->layout->values[v].segment == BD_SEGMENT_BOUNDARY)
      l->layout->values[v].slot_bytes = slot_bytes;
  l->layout->memory.slot_bytes[BD_SEGMENT_BOUNDARY] = slot_bytes;
  l->layout->memory.bytes[BD_SEGMENT_BOUNDARY] = slot_bytes * l->layout->in_flight;
  place_boundary_of_kind(l, false);
}

// What GPU programs keep beside the values: the libraries' workspace, and copies of the messages
// that are on their way to other stages.
static void place_gpu_buffers(laying *l) {
  if (!l->module->cuda) return;
  take(l, BD_SEGMENT_LIBRARY, bd_memory_library_bytes(l->module));
  for (int i = 0; i < l->main->op_count; ++i) {
    const bd_op *op = &l->main->ops[i];
    if (!here(l, op) || op->kind != BD_OP_SEND) continue;
    int copies = bd_schedule_copies(op->stage, (int)bd_op_int(op, "to", -1));
    for (int copy = 0; copy < copies; ++copy)
      take(l, BD_SEGMENT_SENDS, bd_memory_value_bytes(l->module, &l->main->values[op->in[0]]));
  }
}

static void add_up(bd_layout *layout) {
  int64_t total = 0;
  for (int segment = 0; segment < BD_SEGMENT_COUNT; ++segment) {
    layout->segment_start[segment] = total;
    total += layout->memory.bytes[segment];
  }
  layout->memory.total_bytes = total;
}

bd_status bd_layout_of_stage(bd_ctx *ctx, const bd_module *spmd, int stage, bd_schedule schedule,
                             int micro_batches, const char *optimizer, unsigned zero_axes,
                             bd_layout *out_layout) {
  const bd_function *main = spmd->main;
  laying l = {.ctx = ctx, .module = spmd, .main = main, .optimizer = optimizer};
  l.zero_axes = zero_axes;
  l.layout = out_layout;
  l.restored = BD_NEW_ARRAY(ctx->arena, bool, main->value_count);
  l.tape_bytes = BD_NEW_ARRAY(ctx->arena, int64_t, spmd->function_count);
  l.workspace_bytes = BD_NEW_ARRAY(ctx->arena, int64_t, spmd->function_count);
  *out_layout = (bd_layout){
      .stage = stage,
      .in_flight = bd_schedule_in_flight(schedule, stage, spmd->stages, micro_batches),
      .values = BD_NEW_ARRAY(ctx->arena, bd_place, main->value_count),
      .tapes = BD_NEW_ARRAY(ctx->arena, bd_place, main->op_count),
      .states = BD_NEW_ARRAY(ctx->arena, bd_place, spmd->weight_count),
      .state_elements = BD_NEW_ARRAY(ctx->arena, int64_t, spmd->weight_count),
      .state_bytes = BD_NEW_ARRAY(ctx->arena, int64_t, spmd->weight_count),
      .weights = BD_NEW_ARRAY(ctx->arena, int, spmd->weight_count),
  };
  for (int i = 0; i < main->op_count; ++i)
    if (is_forward_call(&l, &main->ops[i])) out_layout->forward_ops = i + 1;
  index_main(&l);
  BD_TRY(place_functions(&l));
  place_calls(&l);
  place_boundary(&l);
  place_gpu_buffers(&l);
  add_up(out_layout);
  return BD_OK;
}
