// What a plan must satisfy, whoever wrote it.
#include "ir/balance.h"
#include "ir/partition.h"
#include "ir/plan_check_pool.h"
#include <string.h>

static bd_status refuse(bd_ctx *ctx, const bd_plan *plan, const char *message) {
  return bd_fail(ctx, BD_INVALID, plan->loc, "plan for '%s': %s", plan->model, message);
}

// Where a strategy says what it does with an op, or a value.
static bd_loc place_of_op(const bd_strategy *strategy, int op) {
  return strategy->op_loc ? strategy->op_loc[op] : strategy->loc;
}

static bd_loc place_of_value(const bd_strategy *strategy, bd_id value) {
  return strategy->value_loc ? strategy->value_loc[value] : strategy->loc;
}

static bd_status check_form(bd_ctx *ctx, const bd_plan *plan, const bd_mesh *mesh,
                            const bd_strategy *strategy, const bd_function *function, bd_id index) {
  const bd_value *value = &function->values[index];
  const bd_sharding *form = &strategy->form[index];
  for (int dim = 0; dim < value->type.rank; dim++) {
    int axes = 0;
    for (int axis = 0; axis < mesh->axes; axis++)
      axes += form->at[axis] == dim;
    int parts = bd_sharding_parts(mesh, form, dim);
    int64_t extent = bd_extent(value->type.dims[dim], plan->micro_batch);
    bool exact = axes > 1 || value->type.dims[dim] == BD_DIM_BATCH;
    if (exact && extent % parts)
      return bd_fail(ctx, BD_INVALID, place_of_value(strategy, index),
                     "strategy '%s': value '%s' has %lld along dimension %d, which %d parts do not "
                     "divide",
                     strategy->name, value->name, (long long)extent, dim, parts);
    if (!bd_parts_are_filled(extent, parts))
      return bd_fail(
          ctx, BD_INVALID, place_of_value(strategy, index),
          "strategy '%s': value '%s' has %lld along dimension %d, which leaves some of %d "
          "parts empty",
          strategy->name, value->name, (long long)extent, dim, parts);
  }
  if (bd_sharding_has_partial(form))
    return bd_fail(ctx, BD_INVALID, place_of_value(strategy, index),
                   "strategy '%s': value '%s' settles partial", strategy->name, value->name);
  return BD_OK;
}

// Accumulators are cut further than their weight evenly and along one axis, over which it is whole.
static bd_status check_gradient(bd_ctx *ctx, const bd_mesh *mesh, const bd_strategy *strategy,
                                const bd_function *function, bd_id index) {
  const bd_value *value = &function->values[index];
  const bd_sharding *form = &strategy->form[index], *gradient = &strategy->gradient[index];
  int cuts = 0;
  bool good = bd_function_is_weight(function, index);
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    int dim = gradient->at[axis];
    if (dim == form->at[axis]) continue;
    cuts++;
    good = good && form->at[axis] == BD_REPLICATED && dim >= 0 && dim < value->type.rank &&
           bd_sharding_parts(mesh, form, dim) == 1 && value->type.dims[dim] % mesh->size[axis] == 0;
  }
  if (cuts > 0 && (!good || cuts > 1))
    return bd_fail(ctx, BD_INVALID, place_of_value(strategy, index),
                   "strategy '%s': the gradient of '%s' cannot lie so: it lies as the weight does, "
                   "or is cut evenly along one more mesh axis and a dimension that no other cuts",
                   strategy->name, value->name);
  return BD_OK;
}

// Whether the ranks of a mesh axis hold summands of what an op makes, forward, or backward:
// summands of the gradient of a factor that is no weight.
static bool leaves_sums(const bd_mesh *mesh, const bd_strategy *strategy,
                        const bd_function *function, int op, const bd_index_map *map, int pass) {
  for (int axis = 0; axis < mesh->axes; axis++) {
    int loop = bd_index_find(map, strategy->split[op][axis]);
    if (loop < 0 || mesh->size[axis] == 1) continue;
    if (pass == BD_PARTS_FORWARD && map->loop[loop].kind == BD_LOOP_SUM) return true;
    for (int k = 0; pass == BD_PARTS_BACKWARD && k < 2; k++) {
      bool reads = bd_function_is_weight(function, function->ops[op].in[k]);
      for (int d = 0; d < BD_MAX_RANK; d++)
        reads |= map->in[k][d] == loop;
      if (!reads) return true;
    }
  }
  return false;
}

static bd_status check_parts(bd_ctx *ctx, const bd_mesh *mesh, const bd_strategy *strategy,
                             const bd_function *function, int op, const bd_index_map *map) {
  for (int pass = 0; strategy->parts && pass < BD_PARTS_PASSES; pass++)
    if (strategy->parts[op][pass] > 1 && (function->ops[op].kind != BD_OP_CONTRACT ||
                                          !leaves_sums(mesh, strategy, function, op, map, pass)))
      return bd_fail(ctx, BD_INVALID, place_of_op(strategy, op),
                     "strategy '%s': '%s' of op %d (%s): it is for matrix products whose results "
                     "are summed over the ranks of a mesh axis",
                     strategy->name, bd_parts_key(pass), op,
                     bd_op_get_info(function->ops[op].kind)->name);
  return BD_OK;
}

// Those of the products of an op that are marked for 8 bits, a set of 1 << a bd_product_of.
static int marked_products(const bd_module *train, const bd_function *function, int op) {
  const bd_function *backward = function->peer ? bd_module_find(train, function->peer) : NULL;
  int set = bd_op_find_attr(&function->ops[op], "fp8") ? 1 << BD_PRODUCT_FORWARD : 0;
  for (int i = 0; backward && i < backward->op_count; i++) {
    const bd_op *of = &backward->ops[i];
    if (of->group != op || !bd_op_find_attr(of, "fp8")) continue;
    bool weight = bd_is_weight_gradient(function, backward, of->out[0]);
    set |= 1 << (weight ? BD_PRODUCT_WEIGHT : BD_PRODUCT_INPUT);
  }
  return set;
}

static bd_status check_bf16(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                            const bd_strategy *strategy, const bd_function *function, int index) {
  const bd_op *op = &function->ops[index];
  const char *kind = bd_op_get_info(op->kind)->name;
  if (!strategy->bf16 || !strategy->bf16[index]) return BD_OK;
  if (plan->precision != BD_F8 || !bd_op_is_product(op->kind))
    return bd_fail(ctx, BD_INVALID, place_of_op(strategy, index),
                   "strategy '%s': 'bf16' of op %d (%s): it is for contractions, in plans of the "
                   "precision f8",
                   strategy->name, index, kind);
  int others = strategy->bf16[index] & ~marked_products(train, function, index);
  for (int i = 0; i < BD_PRODUCT_COUNT; i++)
    if (others >> i & 1)
      return bd_fail(ctx, BD_INVALID, place_of_op(strategy, index),
                     "strategy '%s': 'bf16' of op %d (%s): it has no product \"%s\" that could be "
                     "in 8 bits",
                     strategy->name, index, kind, bd_product_name((bd_product_of)i));
  return BD_OK;
}

static bd_status check_balanced(bd_ctx *ctx, const bd_mesh *mesh, const bd_strategy *strategy,
                                const bd_function *function, int index, const bd_index_map *map,
                                const int8_t split[BD_MAX_AXES]) {
  const bd_op *op = &function->ops[index];
  if (!strategy->balanced || !strategy->balanced[index] ||
      bd_balance_chunk(op, map, mesh, split) > 0)
    return BD_OK;
  return bd_fail(ctx, BD_INVALID, place_of_op(strategy, index),
                 "strategy '%s': '%s' of op %d (%s): it is for attention under a causal mask "
                 "without a window whose queries are cut in n parts and are 2n equal chunks, with "
                 "dropout of a multiple of 16",
                 strategy->name, BD_BALANCED_ATTR, index, bd_op_get_info(op->kind)->name);
}

static bd_status check_splits(bd_ctx *ctx, const bd_plan *plan, const bd_mesh *mesh,
                              const bd_strategy *strategy, const bd_function *function,
                              int op_index) {
  const bd_op *op = &function->ops[op_index];
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, function, op, &map, types));
  int64_t parts[BD_MAX_LOOPS];
  int axes[BD_MAX_LOOPS] = {0};
  int8_t split[BD_MAX_AXES];
  memset(split, -1, sizeof split);
  for (int i = 0; i < map.loops; i++)
    parts[i] = 1;
  for (int axis = 0; axis < mesh->axes; axis++) {
    char letter = strategy->split[op_index][axis];
    if (letter == '-') continue;
    int loop = bd_index_find(&map, letter);
    if (loop < 0 || !bd_split_allowed(&map, mesh, plan->micro_batch, axis, loop))
      return bd_fail(ctx, BD_INVALID, place_of_op(strategy, op_index),
                     "strategy '%s': op %d (%s) cannot be split over '%c' by mesh axis %d",
                     strategy->name, op_index, bd_op_get_info(op->kind)->name, letter, axis);
    split[axis] = (int8_t)loop;
    if (!bd_split_nested(&map, mesh, plan->micro_batch, split, axis))
      return bd_fail(ctx, BD_INVALID, place_of_op(strategy, op_index),
                     "strategy '%s': op %d (%s): mesh axis %d splits '%c', which runs within each "
                     "of '%c': earlier axes must leave every rank one of these",
                     strategy->name, op_index, bd_op_get_info(op->kind)->name, axis, letter,
                     map.loop[map.loop[loop].within].letter);
    parts[loop] *= mesh->size[axis];
    axes[loop]++;
    int64_t extent = bd_extent(map.loop[loop].extent, plan->micro_batch);
    if ((axes[loop] > 1 || map.loop[loop].extent == BD_DIM_BATCH) && extent % parts[loop])
      return bd_fail(ctx, BD_INVALID, place_of_op(strategy, op_index),
                     "strategy '%s': op %d (%s): %lld along '%c' is not divided by %lld parts",
                     strategy->name, op_index, bd_op_get_info(op->kind)->name, (long long)extent,
                     letter, (long long)parts[loop]);
  }
  BD_TRY(check_balanced(ctx, mesh, strategy, function, op_index, &map, split));
  return check_parts(ctx, mesh, strategy, function, op_index, &map);
}

// Only what backward reads, or runs again something to have, can be kept for it; parameters need
// not be.
static bd_status check_saved(bd_ctx *ctx, const bd_module *train, const bd_strategy *strategy,
                             const bd_function *function) {
  const bool *kept = bd_strategy_kept(ctx, train, strategy);
  for (bd_id v = 0; v < function->value_count; v++)
    if (strategy->saved[v] && !kept[v])
      return bd_fail(ctx, BD_INVALID, place_of_value(strategy, v),
                     "strategy '%s': value '%s' is saved, but backward has no use for it",
                     strategy->name, function->values[v].name);
  return BD_OK;
}

static bd_status check_strategy(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                                const bd_mesh *mesh, const bd_strategy *strategy) {
  const bd_function *function = bd_module_find(train, strategy->function);
  if (!function || strategy->op_count != function->op_count ||
      strategy->value_count != function->value_count)
    return bd_fail(ctx, BD_INVALID, strategy->loc, "strategy '%s' does not fit function '%s'",
                   strategy->name, strategy->function);
  for (int i = 0; i < function->value_count; i++)
    BD_TRY(check_form(ctx, plan, mesh, strategy, function, i));
  for (int i = 0; strategy->gradient && i < function->value_count; i++)
    BD_TRY(check_gradient(ctx, mesh, strategy, function, i));
  for (int i = 0; i < function->op_count; i++) {
    BD_TRY(check_splits(ctx, plan, mesh, strategy, function, i));
    BD_TRY(check_bf16(ctx, train, plan, strategy, function, i));
  }
  BD_TRY(bd_plan_check_pool(ctx, plan, mesh, strategy, function));
  return check_saved(ctx, train, strategy, function);
}

// Uses of one weight agree on how it is stored.
static bd_status check_weights(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                               const int *strategy_of_call) {
  const bd_function *main = train->main;
  bd_sharding *form = BD_NEW_ARRAY(ctx->arena, bd_sharding, main->value_count);
  bd_sharding *gradient = BD_NEW_ARRAY(ctx->arena, bd_sharding, main->value_count);
  bool *seen = BD_NEW_ARRAY(ctx->arena, bool, main->value_count);
  for (int i = 0; i < main->op_count; i++) {
    if (strategy_of_call[i] < 0) continue;
    const bd_op *call = &main->ops[i];
    const bd_strategy *strategy = &plan->strategies[strategy_of_call[i]];
    const bd_function *function = bd_module_find(train, strategy->function);
    for (int p = 0; p < function->param_count; p++) {
      if (!function->is_weight[p]) continue;
      bd_id weight = call->in[p];
      const bd_sharding *wanted = &strategy->form[function->params[p]];
      const bd_sharding *cut =
          strategy->gradient ? &strategy->gradient[function->params[p]] : wanted;
      if (seen[weight] &&
          (!bd_sharding_equal(&form[weight], wanted) || !bd_sharding_equal(&gradient[weight], cut)))
        return bd_fail(ctx, BD_INVALID, place_of_value(strategy, function->params[p]),
                       "strategy '%s': weight '%s' is stored in another form by an earlier layer",
                       strategy->name, main->values[weight].name);
      form[weight] = *wanted;
      gradient[weight] = *cut;
      seen[weight] = true;
    }
  }
  return BD_OK;
}

static bd_status check_layers(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                              int *strategy_of_call) {
  const bd_function *main = train->main;
  int layer = 0, range = 0;
  for (int i = 0; i < main->op_count; i++) {
    strategy_of_call[i] = -1;
    if (!bd_module_calls_forward(train, &main->ops[i])) continue;
    while (range < plan->range_count &&
           layer >= plan->ranges[range].first + plan->ranges[range].count)
      range++;
    if (range == plan->range_count)
      return bd_fail(ctx, BD_INVALID, plan->loc, "plan for '%s': no range holds layer %d",
                     plan->model, layer);
    const bd_layer_range *at = &plan->ranges[range];
    if (strcmp(plan->strategies[at->strategy].function, main->ops[i].callee))
      return bd_fail(ctx, BD_INVALID, at->loc, "layer %d calls '%s'; strategy '%s' is for '%s'",
                     layer, main->ops[i].callee, plan->strategies[at->strategy].name,
                     plan->strategies[at->strategy].function);
    strategy_of_call[i] = at->strategy;
    layer++;
  }
  const bd_layer_range *last = &plan->ranges[plan->range_count - 1];
  if (last->first + last->count == layer) return BD_OK;
  return refuse(ctx, plan, "the layers name more calls than the model makes");
}

static bool has_fp8(const bd_module *train) {
  for (int k = 0; k < train->function_count; k++)
    for (int i = 0; i < train->functions[k]->op_count; i++)
      if (bd_op_find_attr(&train->functions[k]->ops[i], "fp8")) return true;
  return false;
}

static bd_dtype precision_of(const bd_module *train) {
  if (has_fp8(train)) return BD_F8;
  for (int i = 0; i < train->weight_count; i++)
    if (train->weights[i].type.dtype != train->weights[i].wide) return train->weights[i].type.dtype;
  return BD_F32;
}

static bd_masters masters_of(const bd_module *train) {
  for (int i = 0; i < train->weight_count; i++)
    if (train->weights[i].masters != BD_MASTERS_F32) return train->weights[i].masters;
  return BD_MASTERS_F32;
}

static bd_gradients gradients_of(const bd_module *train) {
  for (int i = 0; i < train->weight_count; i++)
    if (train->weights[i].gradients != BD_GRADIENTS_F32) return train->weights[i].gradients;
  return BD_GRADIENTS_F32;
}

bd_status bd_plan_check_sequence(bd_ctx *ctx, const bd_module *train, const bd_plan *plan) {
  if (bd_module_sequence(train) == plan->sequence) return BD_OK;
  return bd_fail(ctx, BD_INVALID, plan->loc,
                 "plan for '%s': its samples have %lld tokens, the model's %lld; --seq gives the "
                 "model others",
                 plan->model, (long long)plan->sequence, (long long)bd_module_sequence(train));
}

bd_status bd_plan_check(bd_ctx *ctx, const bd_module *train, const bd_plan *plan) {
  BD_TRY(bd_plan_check_shape(ctx, plan));
  if (precision_of(train) != plan->precision)
    return refuse(ctx, plan, "the precision is not that of the training module");
  if (masters_of(train) != plan->masters)
    return refuse(ctx, plan, "the masters of weights are not those of the training module");
  if (gradients_of(train) != plan->gradients)
    return refuse(ctx, plan, "the gradients' type is not that of the training module");
  BD_TRY(bd_plan_check_sequence(ctx, train, plan));
  for (int i = 0; !plan->stage_mesh && i < plan->strategy_count; i++)
    BD_TRY(check_strategy(ctx, train, plan, &plan->mesh, &plan->strategies[i]));
  for (int i = 0; plan->stage_mesh && i < plan->range_count; i++)
    BD_TRY(check_strategy(ctx, train, plan, bd_plan_mesh(plan, plan->ranges[i].stage),
                          &plan->strategies[plan->ranges[i].strategy]));
  int *strategy_of_call = BD_NEW_ARRAY(ctx->arena, int, train->main->op_count);
  BD_TRY(check_layers(ctx, train, plan, strategy_of_call));
  return check_weights(ctx, train, plan, strategy_of_call);
}
