#include "planner/layer/space.h"
#include "ir/pool.h"
#include "planner/constraints/constraints.h"
#include "planner/layer/gradient.h"
#include "planner/layer/share.h"
#include "planner/layer/weight.h"
#include "planner/layer/work.h"
#include <string.h>

bd_sharding bd_layer_boundary(const bd_layer_space *space, int form, bd_id value) {
  return bd_sharding_for_type(&space->request->forms[form], &space->request->cost.mesh,
                              &space->forward->values[value].type);
}

// The operand whose form a pointwise op can follow, or -1 when it must decide for itself.
static int followed_operand(const bd_layer_space *space, const bd_op *op) {
  if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE)) return -1;
  int found = -1;
  for (int i = 0; i < op->in_count; i++) {
    if (space->is_weight[op->in[i]]) continue;
    if (found >= 0) return -1;
    found = i;
  }
  if (found < 0 || space->forward->values[op->in[found]].producer < 0) return -1;
  int rank = space->forward->values[op->in[found]].type.rank;
  return rank == space->forward->values[op->out[0]].type.rank ? found : -1;
}

static void build_clusters(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->clusters = BD_NEW_ARRAY(ctx->arena, bd_cluster_ops, f->op_count);
  space->cluster_of_op = BD_NEW_ARRAY(ctx->arena, int, f->op_count);
  for (int i = 0; i < f->op_count; i++) {
    int followed = followed_operand(space, &f->ops[i]);
    const bd_value *operand = followed < 0 ? NULL : &f->values[f->ops[i].in[followed]];
    bool follows = operand && operand->result == 0;
    int cluster = follows ? space->cluster_of_op[operand->producer] : space->cluster_count++;
    bd_cluster_ops *c = &space->clusters[cluster];
    if (!c->ops) c->ops = BD_NEW_ARRAY(ctx->arena, int, f->op_count);
    c->ops[c->op_count++] = i;
    space->cluster_of_op[i] = cluster;
  }
}

static bd_status infer_all(bd_ctx *ctx, const bd_function *function, bd_index_map **out_maps) {
  bd_type types[BD_MAX_RESULTS];
  *out_maps = BD_NEW_ARRAY(ctx->arena, bd_index_map, function->op_count);
  for (int i = 0; i < function->op_count; i++)
    BD_TRY(bd_op_infer(ctx, function, &function->ops[i], &(*out_maps)[i], types));
  return BD_OK;
}

// Queries whose halves are to be swapped are split, and so are positions where that suits them.
static bool is_pinned(const bd_layer_request *request, int op, char letter) {
  const bd_constraints *c = request->constraints;
  if (c && c->degree[BD_CUT_TOKENS] > 1) return true;
  if (!request->pin) return false;
  return memchr(request->pin->split[op], letter, BD_MAX_AXES) ||
         memchr(request->pin->balanced, 1, (size_t)request->function->op_count);
}

// Leaves whole what the request does not want split of attention and of positions.
static void hold_queries(bd_layer_space *space) {
  static const char letter = 't';
  for (int i = 0; space->request->whole_queries && i < space->forward->op_count; i++) {
    bd_op_kind kind = space->forward->ops[i].kind;
    if ((!bd_op_attends(kind) && kind != BD_OP_ROPE) || is_pinned(space->request, i, letter))
      continue;
    space->map[i].loop[bd_index_find(&space->map[i], letter)].kind = BD_LOOP_WHOLE;
  }
}

static int first_of_type(const bd_function *f, bd_id value) {
  for (bd_id v = 0; v < value; v++)
    if (bd_type_equal(&f->values[v].type, &f->values[value].type)) return v;
  return value;
}

static bool is_of_weights(const bd_layer_space *space, const bd_op *op) {
  for (int i = 0; i < op->in_count; i++)
    if (!space->of_weights[op->in[i]]) return false;
  return true;
}

static void find_roles(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->of_weights = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->is_weight = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->type_of = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (int p = 0; p < f->param_count; p++)
    space->is_weight[f->params[p]] = space->of_weights[f->params[p]] = f->is_weight[p];
  for (int i = 0; i < f->op_count; i++)
    for (int k = 0; k < f->ops[i].out_count; k++)
      space->of_weights[f->ops[i].out[k]] = is_of_weights(space, &f->ops[i]);
  for (bd_id v = 0; v < f->value_count; v++)
    space->type_of[v] = first_of_type(f, v);
}

// Whether backward reads a result of the op.
static bool is_needed(const bd_layer_space *space, int op) {
  const bd_op *at = &space->forward->ops[op];
  for (int r = 0; r < at->out_count; r++)
    if (space->needed[at->out[r]]) return true;
  return false;
}

bool bd_layer_keeps(const bd_layer_space *space, const bd_layer_option *option, int op) {
  return option->kept > space->kept_above[op];
}

bool bd_layer_runs_again(const bd_layer_space *space, const bd_layer_option *option, int op) {
  return option->kept <= space->again_to[op];
}

// The readers of an op's results within its cluster that are run again take the op along, unless
// what they read is kept; of results that backward does not read, nothing is kept.
static void take_along(bd_layer_space *space, int reader, int op) {
  const bd_function *f = space->forward;
  int8_t most = space->again_to[reader];
  for (int k = 0; k < f->ops[reader].in_count; k++) {
    bd_id v = f->ops[reader].in[k];
    if (f->values[v].producer != op) continue;
    int8_t own = space->needed[v] && space->kept_above[op] < most ? space->kept_above[op] : most;
    if (own > space->again_to[op]) space->again_to[op] = own;
  }
}

static void find_keeps(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->kept_above = BD_NEW_ARRAY(ctx->arena, int8_t, f->op_count);
  space->again_to = BD_NEW_ARRAY(ctx->arena, int8_t, f->op_count);
  for (int i = 0; i < f->op_count; i++) {
    bd_cluster_ops *c = &space->clusters[space->cluster_of_op[i]];
    space->kept_above[i] = c->needed_count;
    space->again_to[i] = is_needed(space, i) ? c->needed_count : -1;
    c->needed_count = (int8_t)(c->needed_count + is_needed(space, i));
  }
  for (int i = f->op_count - 1; i >= 0; i--)
    for (int reader = i + 1; reader < f->op_count; reader++)
      if (space->cluster_of_op[reader] == space->cluster_of_op[i]) take_along(space, reader, i);
}

static void count_uses(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->needed = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->is_result = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->consumers = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  space->weight_uses = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (int i = 0; i < f->save_count; i++)
    space->needed[f->saves[i]] = f->values[f->saves[i]].producer >= 0;
  for (int i = 0; i < f->result_count; i++)
    space->is_result[f->results[i]] = true;
  for (int i = 0; i < f->op_count; i++)
    for (int o = 0; o < f->ops[i].in_count; o++) {
      bd_id v = f->ops[i].in[o];
      int producer = f->values[v].producer;
      if (producer < 0 || space->cluster_of_op[producer] != space->cluster_of_op[i])
        space->consumers[v]++;
      space->weight_uses[v]++;
    }
  find_keeps(ctx, space);
}

static void count_backward_reads(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward, *b = space->backward;
  space->restores = BD_NEW_ARRAY(ctx->arena, bd_id, b->value_count);
  space->backward_reads = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (bd_id v = 0; v < b->value_count; v++)
    space->restores[v] = BD_NO_ID;
  for (int i = 0; i < b->restore_count; i++)
    space->restores[b->params[i]] = f->saves[i];
  for (int i = 0; i < b->op_count; i++)
    for (int k = 0; k < b->ops[i].in_count; k++) {
      bd_id v = space->restores[b->ops[i].in[k]];
      if (v != BD_NO_ID) space->backward_reads[v]++;
    }
}

bd_status bd_layer_space_read(bd_ctx *ctx, const bd_layer_request *request, bd_layer_space *out) {
  const bd_function *backward = bd_layer_backward(request->train, request->function);
  *out = (bd_layer_space){
      .ctx = ctx, .request = request, .forward = request->function, .backward = backward};
  BD_TRY(infer_all(ctx, out->forward, &out->map));
  hold_queries(out);
  BD_TRY(infer_all(ctx, backward, &out->backward_map));
  find_roles(ctx, out);
  out->pooled = bd_pooled_values(ctx, out->forward, NULL);
  build_clusters(ctx, out);
  count_uses(ctx, out);
  count_backward_reads(ctx, out);
  bd_layer_find_gradients(ctx, out);
  bd_layer_find_passes(ctx, out);
  bd_layer_find_shares(ctx, out);
  bd_layer_find_weights(ctx, out);
  out->work = BD_NEW_ARRAY(ctx->arena, bd_op_work *, out->forward->op_count);
  for (int i = 0; i < out->forward->op_count; i++)
    out->work[i] = BD_NEW_ARRAY(ctx->arena, bd_op_work, bd_layer_split_count(out, i));
  return BD_OK;
}
