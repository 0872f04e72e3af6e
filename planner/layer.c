#include "planner/layer.h"
#include "planner/layer_problem.h"
#include <math.h>
#include <string.h>

// Budgets tried below what the fastest strategy uses, as shares of the way down to the leanest.
static const double budget_shares[] = {0.75, 0.5, 0.25, 0.0};
enum { BUDGETS = sizeof budget_shares / sizeof *budget_shares };

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
  module->function_count = module->function_capacity = 2;
  module->functions = BD_NEW_ARRAY(ctx->arena, bd_function *, 2);
  module->functions[0] = forward;
  module->functions[1] = backward;
  BD_TRY(bd_partition_function(ctx, module, forward, out_forward));
  BD_TRY(bd_partition_function(ctx, module, backward, out_backward));
  module->stage = BD_STAGE_SPMD;
  module->functions[0] = *out_forward;
  module->functions[1] = *out_backward;
  return BD_OK;
}

static int64_t raw_bytes(const bd_layer_request *request, const bd_value *value) {
  bd_type local =
      bd_local_type(&request->cost.mesh, &value->sharding, &value->type, request->cost.micro_batch);
  return bd_type_elements(&local, 1) * bd_dtype_bytes(local.dtype);
}

// Weights, gradients, optimizer state and the step's synchronization.
static void add_weight_bytes(const bd_layer_request *request, const bd_function *backward,
                             const bd_function *f, bd_layer_candidate *out) {
  const bd_mesh *mesh = &request->cost.mesh;
  for (int p = 0; p < f->param_count; p++) {
    if (!f->is_weight[p]) continue;
    const bd_value *weight = &f->values[f->params[p]];
    bd_dtype dtype = weight->type.dtype;
    int64_t bytes = raw_bytes(request, weight), elements = bytes / bd_dtype_bytes(dtype);
    int64_t gradient_bytes = elements * bd_dtype_bytes(bd_dtype_wide(dtype));
    int replicas = 1;
    for (int axis = 0; axis < mesh->axes; axis++)
      if (weight->sharding.at[axis] == BD_REPLICATED) replicas *= mesh->size[axis];
    out->weight_bytes += bd_align(bytes);
    out->gradient_bytes += bd_align(gradient_bytes);
    for (int zero = 0; zero < 2; zero++)
      out->optimizer_bytes[zero] +=
          bd_memory_optimizer_bytes(request->optimizer, dtype, elements, zero ? replicas : 1);
    for (int r = 0; r < backward->result_count; r++) {
      if (backward->gradient_of[r] != p) continue;
      const bd_sharding *partial = &backward->values[backward->results[r]].sharding;
      for (int axis = 0; axis < mesh->axes; axis++)
        if (partial->at[axis] == BD_PARTIAL_SUM)
          out->sync_seconds += bd_cost_all_reduce(bd_cost_link(&request->cost, axis),
                                                  mesh->size[axis], (double)gradient_bytes);
    }
    double touched = (double)elements * (double)bd_memory_update_bytes(request->optimizer, dtype);
    out->sync_seconds += touched / request->cost.cluster->memory_bytes_per_second;
  }
}

static bd_status evaluate(bd_ctx *ctx, const bd_layer_request *request, bd_layer_candidate *out) {
  bd_module module;
  bd_function *forward, *backward;
  int64_t forward_bytes, backward_bytes;
  BD_TRY(lower(ctx, request, &out->strategy, &module, &forward, &backward));
  BD_TRY(bd_cost_function(ctx, &request->cost, &module, forward, &out->forward_seconds));
  BD_TRY(bd_cost_function(ctx, &request->cost, &module, backward, &out->backward_seconds));
  BD_TRY(bd_memory_place_tape(ctx, &module, forward, &out->tape_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &module, forward, &forward_bytes));
  BD_TRY(bd_memory_place_workspace(ctx, &module, backward, &backward_bytes));
  out->workspace_bytes = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
  for (int r = 0; r < forward->result_count; r++)
    out->boundary_bytes += bd_memory_value_bytes(&module, &forward->values[forward->results[r]]);
  add_weight_bytes(request, backward, forward, out);
  return BD_OK;
}

static int64_t persistent(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[0];
}

static double seconds(const bd_layer_request *request, const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds + c->sync_seconds / request->micro_batches;
}

static bool dominates(const bd_layer_request *request, const bd_layer_candidate *a,
                      const bd_layer_candidate *b) {
  return seconds(request, a) <= seconds(request, b) && persistent(a) <= persistent(b) &&
         a->optimizer_bytes[1] <= b->optimizer_bytes[1] && a->tape_bytes <= b->tape_bytes &&
         a->workspace_bytes <= b->workspace_bytes;
}

static void keep(const bd_layer_request *request, bd_layer_candidate *list, int *count,
                 const bd_layer_candidate *candidate) {
  for (int i = 0; i < *count; i++)
    if (dominates(request, &list[i], candidate)) return;
  int kept = 0;
  for (int i = 0; i < *count; i++)
    if (!dominates(request, candidate, &list[i])) list[kept++] = list[i];
  list[kept++] = *candidate;
  *count = kept;
}

// The least usage that any choice can have, pairs aside.
static double least_usage(const bd_choice_problem *problem) {
  double total = 0;
  for (int i = 0; i < problem->nodes; i++) {
    double least = INFINITY;
    for (int o = 0; o < problem->node[i].options; o++)
      if (isfinite(problem->node[i].cost[o]) && problem->node[i].usage[o] < least)
        least = problem->node[i].usage[o];
    total += least;
  }
  return total;
}

static bd_status find_bound(bd_ctx *ctx, const bd_layer_request *request, double *out_seconds) {
  bd_layer_space space;
  bd_choice_problem problem;
  bd_choice choice;
  BD_TRY(bd_layer_space_build(ctx, request, &space));
  BD_TRY(bd_layer_problem(ctx, &space, &problem));
  BD_TRY(bd_choice_solve(ctx, &problem, request->limit_seconds, &choice));
  *out_seconds = choice.bound;
  return BD_OK;
}

static bd_status find_candidates(bd_ctx *ctx, const bd_layer_request *request,
                                 bd_layer_candidate *out, int *out_count) {
  bd_layer_space space;
  bd_choice_problem problem;
  bd_choice choice;
  BD_TRY(bd_layer_space_build(ctx, request, &space));
  BD_TRY(bd_layer_problem(ctx, &space, &problem));
  double least = least_usage(&problem), most = 0, bound = 0;
  for (int b = 0; b <= BUDGETS; b++) {
    if (b > 0) problem.budget = least + (most - least) * budget_shares[b - 1];
    BD_TRY(bd_choice_solve(ctx, &problem, request->limit_seconds, &choice));
    if (b == 0) bound = choice.bound;
    if (!choice.feasible) break;
    if (b == 0) most = choice.usage;
    bd_layer_candidate candidate = {.strategy = bd_layer_strategy(ctx, &space, choice.option),
                                    .proven_seconds = bound};
    BD_TRY(evaluate(ctx, request, &candidate));
    keep(request, out, out_count, &candidate);
    if (most <= least) break;
  }
  return BD_OK;
}

// A copy in ctx->arena.
static void copy_strategy(bd_ctx *ctx, bd_strategy *strategy) {
  bd_strategy copy = *strategy;
  copy.split = bd_arena_array(ctx->arena, (size_t)copy.op_count, sizeof *copy.split);
  copy.form = BD_NEW_ARRAY(ctx->arena, bd_sharding, copy.value_count);
  copy.saved = BD_NEW_ARRAY(ctx->arena, bool, copy.value_count);
  memcpy(copy.split, strategy->split, (size_t)copy.op_count * sizeof *copy.split);
  memcpy(copy.form, strategy->form, (size_t)copy.value_count * sizeof *copy.form);
  memcpy(copy.saved, strategy->saved, (size_t)copy.value_count * sizeof *copy.saved);
  *strategy = copy;
}

// What a layer problem takes to build is large and not needed after it: it lives in an arena of its
// own.
typedef struct scratch {
  bd_arena *session, *arena; // the caller's, and the one beside it
  bd_owned held;
} scratch;

static void destroy_arena(void *arena) {
  bd_arena_destroy(arena);
}

static void enter_scratch(bd_ctx *ctx, scratch *s) {
  s->session = ctx->arena;
  s->arena = bd_ctx_create_arena(ctx);
  bd_own(ctx, &s->held, destroy_arena, s->arena);
  ctx->arena = s->arena;
}

static void leave_scratch(bd_ctx *ctx, scratch *s) {
  bd_disown(ctx, &s->held);
  bd_arena_destroy(s->arena);
  ctx->arena = s->session;
}

bd_status bd_layer_bound(bd_ctx *ctx, const bd_layer_request *request, double *out_seconds) {
  scratch s;
  enter_scratch(ctx, &s);
  bd_status status = find_bound(ctx, request, out_seconds);
  leave_scratch(ctx, &s);
  return status;
}

bd_status bd_layer_candidates(bd_ctx *ctx, const bd_layer_request *request,
                              bd_layer_candidate **out_candidates, int *out_count) {
  *out_count = 0;
  *out_candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, BUDGETS + 1);
  scratch s;
  enter_scratch(ctx, &s);
  bd_status status = find_candidates(ctx, request, *out_candidates, out_count);
  ctx->arena = s.session;
  for (int i = 0; i < *out_count; i++)
    copy_strategy(ctx, &(*out_candidates)[i].strategy);
  leave_scratch(ctx, &s);
  return status;
}
