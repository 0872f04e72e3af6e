#include "planner/layer/narrow.h"
#include "ir/partition.h"

typedef struct choosing {
  bd_ctx *ctx;
  const bd_layer_request *request;
  unsigned char *bf16;
  bool any;
} choosing;

static bool has_marks(const bd_function *f) {
  for (int i = 0; i < f->op_count; i++)
    if (bd_op_find_attr(&f->ops[i], "fp8")) return true;
  return false;
}

// Of an op of a function under the strategy, which belongs to op `of` of the layer's function.
static bd_status choose(choosing *c, const bd_function *f, const bd_op *op, int of,
                        bd_product_of product) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (of < 0 || !bd_op_find_attr(op, "fp8")) return BD_OK;
  BD_TRY(bd_op_infer(c->ctx, f, op, &map, types));
  if (!bd_cost_prefers_bf16(&c->request->cost, f, op, &map, op->split)) return BD_OK;
  c->bf16[of] |= (unsigned char)(1u << product);
  c->any = true;
  return BD_OK;
}

// The gradients stand behind what is computed again, in the order in which the source has them.
static bd_status choose_backward(choosing *c, const bd_function *backward) {
  const bd_function *forward = c->request->function;
  const bd_function *source = bd_layer_backward(c->request->train, forward);
  int at = 0;
  for (int i = 0; i < backward->op_count && at < source->op_count; i++) {
    const bd_op *op = &backward->ops[i];
    if (op->recomputed) continue;
    bool of_weight = bd_is_weight_gradient(forward, source, source->ops[at++].out[0]);
    int of = op->group < forward->op_count ? op->group : -1;
    BD_TRY(choose(c, backward, op, of, of_weight ? BD_PRODUCT_WEIGHT : BD_PRODUCT_INPUT));
  }
  return BD_OK;
}

bd_status bd_layer_choose_bf16(bd_ctx *ctx, bd_arena *kept, const bd_layer_request *request,
                               bd_strategy *strategy) {
  bd_function *forward, *backward;
  choosing c = {.ctx = ctx, .request = request};
  bool marked = has_marks(request->function) ||
                has_marks(bd_layer_backward(request->train, request->function));
  if (strategy->bf16 || !request->cost.cluster->gpu || !marked) return BD_OK;
  c.bf16 = bd_arena_array(kept, (size_t)strategy->op_count, sizeof *c.bf16);
  BD_TRY(bd_apply_strategy(ctx, request->train, &request->cost.mesh, request->cost.micro_batch,
                           strategy, &forward, &backward));
  for (int i = 0; i < forward->op_count; i++)
    BD_TRY(choose(&c, forward, &forward->ops[i], i, BD_PRODUCT_FORWARD));
  if (backward) BD_TRY(choose_backward(&c, backward));
  if (c.any) strategy->bf16 = c.bf16;
  return BD_OK;
}
