// A layer's strategy, read off the functions that it is lowered to.
#include "ir/balance.h"
#include "planner/layer/aside.h"
#include "planner/layer/layer.h"
#include "planner/layer/narrow.h"
#include "planner/step/behind.h"
#include "planner/step/end.h"
#include <assert.h>
#include <string.h>

const bd_function *bd_layer_backward(const bd_module *train, const bd_function *forward) {
  static const bd_function none = {.name = "", .role = BD_ROLE_BACKWARD};
  return forward->peer ? bd_module_find(train, forward->peer) : &none;
}

bool bd_layer_learns(const bd_function *backward, int param) {
  for (int r = 0; r < backward->result_count; r++)
    if (backward->gradient_of[r] == param) return true;
  return false;
}

static bd_status lower(bd_ctx *ctx, const bd_layer_request *request, const bd_strategy *strategy,
                       bd_module *module, bd_function **out_forward, bd_function **out_backward) {
  const bd_mesh *mesh = &request->cost.mesh;
  bd_function *forward, *backward;
  BD_TRY(bd_apply_strategy(ctx, request->train, mesh, request->cost.micro_batch, strategy, &forward,
                           &backward));
  *module = *request->train;
  module->stage = BD_STAGE_SHARDED;
  module->mesh = *mesh;
  module->stages = 1;
  module->micro_batch = request->cost.micro_batch;
  module->function_count = module->function_capacity = backward ? 2 : 1;
  module->functions = BD_NEW_ARRAY(ctx->arena, bd_function *, 2);
  module->functions[0] = forward;
  module->functions[1] = backward;
  BD_TRY(bd_partition_function(ctx, module, forward, out_forward));
  if (backward)
    BD_TRY(bd_partition_function(ctx, module, backward, out_backward));
  else
    *out_backward = BD_NEW(ctx->arena, bd_function);
  module->stage = BD_STAGE_SPMD;
  module->functions[0] = *out_forward;
  module->functions[1] = *out_backward;
  return BD_OK;
}

static int64_t local_elements(const bd_layer_request *request, const bd_type *type,
                              const bd_sharding *sharding) {
  return bd_local_elements(&request->cost.mesh, sharding, type, request->cost.micro_batch);
}

// The gradient of a parameter, or BD_NO_ID.
static bd_id gradient_of(const bd_function *backward, int param) {
  for (int r = 0; r < backward->result_count; r++)
    if (backward->gradient_of[r] == param) return backward->results[r];
  return BD_NO_ID;
}

static bd_status add_step_end(bd_ctx *ctx, const bd_layer_request *request,
                              const bd_function *backward, bd_id gradient, const bd_function *f,
                              int param, bd_layer_candidate *out) {
  const bd_value *weight = &f->values[f->params[param]];
  bool read_once =
      request->weight_uses[param].calls == 1 && !bd_function_moves(f, f->params[param]);
  double product;
  BD_TRY(bd_step_product_of(ctx, &request->cost, backward, gradient, &product));
  for (int zero = 0; zero < 2; zero++) {
    bd_weight_end end =
        bd_step_end_of_weight(&request->cost, request->optimizer, request->masters, weight,
                              &backward->values[gradient], zero ? ~0u : 0, product, read_once);
    out->sync_seconds[zero] += end.each + end.once;
    out->apply_seconds[zero] += end.apply;
  }
  return BD_OK;
}

// Weights, gradients, optimizer state and the step's synchronization.
static bd_status add_weights(bd_ctx *ctx, const bd_layer_request *request,
                             const bd_function *backward, const bd_function *f,
                             bd_layer_candidate *out) {
  const bd_mesh *mesh = &request->cost.mesh;
  for (int p = 0; p < f->param_count; p++) {
    if (!f->is_weight[p]) continue;
    const bd_value *weight = &f->values[f->params[p]];
    bd_id id = gradient_of(backward, p);
    const bd_value *gradient = id == BD_NO_ID ? NULL : &backward->values[id];
    const bd_type *type = &weight->type;
    int64_t elements = local_elements(request, type, &weight->sharding);
    out->weight_bytes += bd_align(elements * bd_dtype_bytes(type->dtype));
    bd_state_form states = {weight->sharding, 1};
    for (int zero = 0; zero < 2; zero++) {
      states = bd_memory_state_form(mesh, &weight->sharding, gradient ? &gradient->sharding : NULL,
                                    zero ? ~0u : 0);
      out->optimizer_bytes[zero] +=
          bd_memory_optimizer_bytes(request->optimizer, request->masters, mesh, type, &states);
    }
    out->gradient_bytes +=
        bd_align(local_elements(request, type, &states.form) *
                 bd_dtype_bytes(bd_gradient_dtype(request->gradients, type->dtype)));
    if (gradient) BD_TRY(add_step_end(ctx, request, backward, id, f, p, out));
  }
  return BD_OK;
}

// A strategy's functions and what they take and hold.
typedef struct lowered {
  bd_module module;
  bd_function *forward, *backward;
  double forward_seconds, backward_seconds;
  int64_t tape_bytes, workspace_bytes;
} lowered;

static bd_status lower_and_place(bd_ctx *ctx, const bd_layer_request *request,
                                 const bd_strategy *strategy, lowered *out) {
  int64_t forward_bytes, backward_bytes;
  BD_TRY(lower(ctx, request, strategy, &out->module, &out->forward, &out->backward));
  BD_TRY(bd_cost_function(ctx, &request->cost, &out->module, out->forward, &out->forward_seconds));
  BD_TRY(
      bd_cost_function(ctx, &request->cost, &out->module, out->backward, &out->backward_seconds));
  BD_TRY(bd_memory_place_tape(ctx, &out->module, out->forward, &out->tape_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &out->module, out->forward, &forward_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &out->module, out->backward, &backward_bytes));
  out->workspace_bytes = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
  return BD_OK;
}

// The contraction of the source that the next one of a lowered function is, which has them in the
// same order, behind those that backward computes again.
static int next_contraction(const bd_function *source, int after) {
  int i = after + 1;
  while (source->ops[i].kind != BD_OP_CONTRACT) {
    i++;
    assert(i < source->op_count);
  }
  return i;
}

// In how many parts the products of a pass take least, per forward op; `*any`: more than one.
static bd_status choose_parts(bd_ctx *ctx, const bd_layer_request *request, const lowered *low,
                              int pass, unsigned char (*parts)[BD_PARTS_PASSES], bool *any) {
  bool backward = pass == BD_PARTS_BACKWARD;
  const bd_function *f = backward ? low->backward : low->forward;
  const bd_function *source =
      backward ? bd_layer_backward(request->train, request->function) : request->function;
  int at = -1;
  for (int i = 0; i < f->op_count; i++) {
    int count;
    if (f->ops[i].kind != BD_OP_CONTRACT || f->ops[i].recomputed) continue;
    at = next_contraction(source, at);
    int of = backward ? source->ops[at].group : at;
    if (backward && bd_is_weight_gradient(request->function, source, source->ops[at].out[0]))
      continue;
    BD_TRY(bd_cost_choose_parts(ctx, &request->cost, &low->module, f, i, &count));
    if (count == 1 || of < 0) continue;
    parts[of][pass] = (unsigned char)count;
    *any = true;
  }
  return BD_OK;
}

// Products in parts, unless the workspace is higher then or all takes no less. `kept`: where the
// strategy lives.
static bd_status cut_products(bd_ctx *ctx, bd_arena *kept, const bd_layer_request *request,
                              bd_strategy *strategy, lowered *low) {
  bool any = false;
  lowered cut;
  if (strategy->parts || !bd_cost_has_parts(&request->cost, &low->module)) return BD_OK;
  unsigned char(*parts)[BD_PARTS_PASSES] =
      bd_arena_array(kept, (size_t)strategy->op_count, sizeof *parts);
  for (int pass = 0; pass < BD_PARTS_PASSES; pass++)
    BD_TRY(choose_parts(ctx, request, low, pass, parts, &any));
  if (!any) return BD_OK;
  strategy->parts = parts;
  BD_TRY(lower_and_place(ctx, request, strategy, &cut));
  if (cut.workspace_bytes > low->workspace_bytes ||
      cut.forward_seconds + cut.backward_seconds >= low->forward_seconds + low->backward_seconds)
    strategy->parts = NULL;
  else
    *low = cut;
  return BD_OK;
}

// Per forward op, whether ranks swap halves of its queries; NULL: of none.
typedef struct swaps {
  bool *owed;     // where a person says so
  bool *possible; // and where they may, unless a person says that they do not
} swaps;

// Of attentions whose queries ranks have parts of, in a lowered function, which has as many
// attentions as its source and in the same order.
static bd_status find_swaps(bd_ctx *ctx, bd_arena *kept, const bd_layer_request *request,
                            const bd_function *lowered, swaps *out) {
  const bd_function *source = request->function;
  bool any_owed = false, any = false, *owed = BD_NEW_ARRAY(kept, bool, source->op_count),
       *possible = BD_NEW_ARRAY(kept, bool, source->op_count);
  int at = 0;
  for (int i = 0; i < source->op_count; i++) {
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    if (!bd_op_attends(source->ops[i].kind)) continue;
    while (!bd_op_attends(lowered->ops[at].kind))
      at++;
    const bd_op *op = &lowered->ops[at++];
    BD_TRY(bd_op_infer(ctx, lowered, op, &map, types));
    int pin = request->pin ? request->pin->balanced[i] : -1;
    bool may = bd_balance_chunk(op, &map, &request->cost.mesh, op->split) > 0;
    owed[i] = may && pin > 0;
    possible[i] = may && pin != 0;
    any_owed |= owed[i];
    any |= possible[i];
  }
  *out = (swaps){any_owed ? owed : NULL, any ? possible : NULL};
  return BD_OK;
}

static bool same_swaps(const bd_function *source, const bool *a, const bool *b) {
  return !a == !b && (!a || memcmp(a, b, (size_t)source->op_count * sizeof *a) == 0);
}

// Lets ranks swap halves of their queries where a person says so, and unless `in_order`, where all
// takes less then.
static bd_status balance_queries(bd_ctx *ctx, bd_arena *kept, const bd_layer_request *request,
                                 bool in_order, bd_strategy *strategy, lowered *low) {
  lowered even;
  swaps of;
  if (strategy->balanced || (in_order && !request->pin)) return BD_OK;
  BD_TRY(find_swaps(ctx, kept, request, low->forward, &of));
  strategy->balanced = of.owed;
  if (of.owed) BD_TRY(lower_and_place(ctx, request, strategy, low));
  if (in_order || same_swaps(request->function, of.owed, of.possible)) return BD_OK;
  strategy->balanced = of.possible;
  BD_TRY(lower_and_place(ctx, request, strategy, &even));
  if (even.forward_seconds + even.backward_seconds >= low->forward_seconds + low->backward_seconds)
    strategy->balanced = of.owed;
  else
    *low = even;
  return BD_OK;
}

static bd_status measure(bd_ctx *ctx, bd_arena *kept, const bd_layer_request *request,
                         bd_layer_candidate *out) {
  lowered low;
  BD_TRY(bd_layer_choose_bf16(ctx, kept, request, &out->strategy));
  BD_TRY(lower_and_place(ctx, request, &out->strategy, &low));
  BD_TRY(balance_queries(ctx, kept, request, out->in_order, &out->strategy, &low));
  BD_TRY(cut_products(ctx, kept, request, &out->strategy, &low));
  const bd_function *forward = low.forward, *backward = low.backward;
  out->forward_seconds = low.forward_seconds;
  out->backward_seconds = low.backward_seconds;
  out->tape_bytes = low.tape_bytes;
  out->workspace_bytes = low.workspace_bytes;
  for (int r = 0; r < forward->result_count; r++)
    out->boundary_bytes +=
        bd_memory_value_bytes(&low.module, &forward->values[forward->results[r]]);
  for (int r = 0; r < backward->result_count; r++)
    if (!forward->is_weight[backward->gradient_of[r]])
      out->passing_bytes +=
          bd_memory_value_bytes(&low.module, &backward->values[backward->results[r]]);
  BD_TRY(add_weights(ctx, request, backward, forward, out));
  bd_aside aside = bd_aside_of(&request->cost, request->function, &out->strategy);
  out->forward_seconds += aside.forward_seconds;
  out->backward_seconds += aside.backward_seconds;
  out->tape_bytes -= aside.tape_bytes;
  out->workspace_bytes += aside.room_bytes;
  return BD_OK;
}

// What it is lowered to is large and read once: it lives in an arena of its own.
bd_status bd_layer_measure(bd_ctx *ctx, const bd_layer_request *request, bd_layer_candidate *out) {
  bd_owned held;
  bd_arena *kept = ctx->arena;
  ctx->arena = bd_ctx_open_arena(ctx, &held);
  bd_status status = measure(ctx, kept, request, out);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return status;
}
