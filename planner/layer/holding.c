#include "planner/layer/holding.h"
#include "ir/memory.h"
#include "planner/layer/op.h"
#include "planner/layer/workspace.h"

// What the tape holds of an op's results; those that are handed on lie between the calls.
static double kept_bytes(const bd_layer_space *space, int op) {
  const bd_op *of = &space->forward->ops[op];
  double bytes = 0;
  for (int r = 0; r < of->out_count; r++)
    if (space->needed[of->out[r]] && !space->is_result[of->out[r]])
      bytes += bd_layer_even_bytes(&space->request->cost, &space->forward->values[of->out[r]].type);
  return bytes;
}

// With what is left on the tape when the cluster keeps the results of its first ops alone.
static bd_layer_saving save_to(const bd_layer_space *space, const bd_cluster_ops *c, int kept) {
  bd_layer_option option = {.kept = (int8_t)kept};
  bd_layer_saving out = {0, 0};
  for (int i = 0; i < c->op_count; i++) {
    if (!bd_layer_keeps(space, &option, c->ops[i])) out.bytes += kept_bytes(space, c->ops[i]);
    if (bd_layer_runs_again(space, &option, c->ops[i]))
      out.seconds +=
          bd_layer_even_clone_seconds(&space->request->cost, space->forward, space->backward,
                                      c->ops[i], &space->map[c->ops[i]]);
  }
  return out;
}

static bool is_cheaper(const bd_layer_saving *a, const bd_layer_saving *b) {
  return a->seconds * b->bytes < b->seconds * a->bytes;
}

// Savings of a cluster one after another, each with more seconds a byte than the one before: the
// lower hull of its choices.
static void add_savings(const bd_layer_space *space, const bd_cluster_ops *c,
                        bd_layer_holding *out) {
  bd_layer_saving before = {0, 0};
  for (int kept = c->needed_count, next = 0; kept > 0; kept = next) {
    bd_layer_saving best = {0, 0};
    for (int to = kept - 1; to >= 0; to--) {
      bd_layer_saving all = save_to(space, c, to);
      bd_layer_saving more = {all.bytes - before.bytes, all.seconds - before.seconds};
      if (more.bytes <= 0 || (best.bytes > 0 && !is_cheaper(&more, &best))) continue;
      best = more;
      next = to;
    }
    if (best.bytes <= 0) return;
    out->bytes += best.bytes;
    out->savings[out->saving_count++] = best;
    before = (bd_layer_saving){before.bytes + best.bytes, before.seconds + best.seconds};
  }
}

// Whether something else than the tape may hold what backward reads.
static bool may_lie_aside(const bd_layer_request *request) {
  return request->aside && request->cost.cluster->node.host_bytes_per_second > 0;
}

static double between_bytes(const bd_layer_space *space) {
  const bd_function *f = space->forward, *backward = space->backward;
  double bytes = 0;
  for (int i = 0; i < f->result_count; i++)
    bytes += bd_layer_even_bytes(&space->request->cost, &f->values[f->results[i]].type);
  for (int i = 0; i < backward->result_count; i++)
    if (!f->is_weight[backward->gradient_of[i]])
      bytes += bd_layer_even_bytes(&space->request->cost,
                                   &f->values[f->params[backward->gradient_of[i]]].type);
  return bytes;
}

static double weight_bytes(const bd_layer_space *space) {
  const bd_layer_request *request = space->request;
  const bd_function *f = space->forward;
  double bytes = 0;
  for (int p = 0; p < f->param_count; p++) {
    const bd_layer_weight *of = &space->weight[f->params[p]];
    if (!f->is_weight[p] || of->calls != 1) continue;
    const bd_type *type = &f->values[f->params[p]].type;
    double own = bd_layer_even_bytes(&space->request->cost, type),
           one = (double)bd_dtype_bytes(type->dtype);
    bytes += own;
    if (!of->learns) continue;
    bytes += own / one *
             (double)(bd_dtype_bytes(bd_gradient_dtype(request->gradients, type->dtype)) +
                      bd_optimizer_state_bytes(request->optimizer, request->masters, type->dtype));
  }
  return bytes;
}

bd_layer_holding bd_layer_holding_of(bd_ctx *ctx, const bd_layer_space *space) {
  bd_layer_holding out = {.bytes = between_bytes(space) + weight_bytes(space)};
  out.workspace_bytes = bd_layer_workspace_most_fixed(bd_layer_workspace_create(space));
  out.savings = BD_NEW_ARRAY(ctx->arena, bd_layer_saving, space->forward->op_count);
  for (int c = 0; c < space->cluster_count && !may_lie_aside(space->request); c++)
    add_savings(space, &space->clusters[c], &out);
  return out;
}

bd_layer_saving bd_layer_holding_at(const bd_layer_holding *holding, double price, int in_flight) {
  bd_layer_saving out = {holding->bytes, 0};
  for (int i = 0; i < holding->saving_count; i++) {
    const bd_layer_saving *saving = &holding->savings[i];
    out.bytes += (in_flight - 1) * saving->bytes;
    if (saving->seconds >= price * in_flight * saving->bytes) continue;
    out.bytes -= in_flight * saving->bytes;
    out.seconds += saving->seconds;
  }
  return out;
}
