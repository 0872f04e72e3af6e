#include "codegen/fused_loss.h"
#include "ir/pitch.h"
#include <string.h>

typedef struct side {
  const bd_function *function;
  const bd_fusion *fusion;
} side;

typedef struct search {
  const bd_module *module;
  const bd_prefetch *prefetch; // of all functions
  side forward, backward;
} search;

// Steps of a loss, in forward, and of its gradient.
typedef struct loss {
  int lse, xent, gradient;
} loss;

// The step that an op is alone, or -1.
static int step_of(const side *s, int op) {
  for (int step = 0; step < s->fusion->step_count; ++step)
    if (s->fusion->first_op[step] == op) return s->fusion->step_ops[step] == 1 ? step : -1;
  return -1;
}

static bool op_reads(const bd_op *op, bd_id id) {
  return bd_ids_find(op->in, op->in_count, id) >= 0;
}

// Whether of the function's ops only the two read a value, which is none of its results.
static bool only_read_by(const bd_function *f, bd_id id, int op, int other) {
  for (int i = 0; i < f->op_count; ++i)
    if (i != op && i != other && op_reads(&f->ops[i], id)) return false;
  return bd_ids_find(f->results, f->result_count, id) < 0;
}

// The value of the backward function that is what forward saved, or BD_NO_ID.
static bd_id restored(const search *s, bd_id saved) {
  const bd_function *f = s->forward.function, *b = s->backward.function;
  int index = bd_ids_find(f->saves, f->save_count, saved);
  return index >= 0 && index < b->restore_count ? b->params[index] : BD_NO_ID;
}

// Whether every call of the backward function passes main's gradient of the loss for its parameter.
static bool is_loss_gradient(const search *s, bd_id id) {
  const bd_function *b = s->backward.function, *main = s->module->main;
  int param = bd_ids_find(b->params, b->param_count, id) - b->restore_count;
  if (param < 0) return false;
  for (int i = 0; i < main->op_count; ++i) {
    const bd_op *op = &main->ops[i];
    if (op->kind == BD_OP_CALL && bd_module_find(s->module, op->callee) == b &&
        op->in[param] != bd_module_loss_gradient(s->module))
      return false;
  }
  return true;
}

// Whether two values of the backward function are the same elements in the same place on the tape.
static bool share_place(const search *s, bd_id a, bd_id b) {
  const bd_function *f = s->backward.function;
  const bd_value *x = &f->values[a], *y = &f->values[b];
  int64_t strides[2][BD_MAX_RANK];
  bd_value_strides(s->module, f, a, strides[0]);
  bd_value_strides(s->module, f, b, strides[1]);
  return x->segment == BD_SEGMENT_TAPE && y->segment == BD_SEGMENT_TAPE &&
         x->offset_bytes == y->offset_bytes && bd_type_equal(&x->type, &y->type) &&
         bd_sharding_equal(&x->sharding, &y->sharding) &&
         memcmp(strides[0], strides[1], (size_t)x->type.rank * sizeof strides[0][0]) == 0;
}

static bool is_gradient_of(const search *s, const bd_op *op, const bd_op *xent) {
  if (op->kind != BD_OP_XENT_GRAD) return false;
  for (int i = 0; i < 3; ++i)
    if (op->in[i] != restored(s, xent->in[i])) return false;
  return true;
}

// The steps of the loss that op `xent` of the forward function is. Of a vocabulary in parts there
// is a collective between the two.
static bool find_loss(const search *s, int xent, loss *out_loss) {
  const bd_function *f = s->forward.function, *b = s->backward.function;
  const bd_op *op = &f->ops[xent];
  if (op->kind != BD_OP_XENT) return false;
  int lse = f->values[op->in[2]].producer;
  if (lse < 0 || f->ops[lse].kind != BD_OP_LSE || f->ops[lse].in[0] != op->in[0] ||
      !only_read_by(f, op->in[0], lse, xent) || !only_read_by(f, op->in[2], xent, xent))
    return false;
  int gradient = 0;
  while (gradient < b->op_count && !is_gradient_of(s, &b->ops[gradient], op))
    ++gradient;
  if (gradient == b->op_count) return false;
  const bd_op *g = &b->ops[gradient];
  *out_loss = (loss){step_of(&s->forward, lse), step_of(&s->forward, xent),
                     step_of(&s->backward, gradient)};
  return out_loss->lse >= 0 && out_loss->xent >= 0 && out_loss->gradient >= 0 &&
         only_read_by(b, g->in[0], gradient, gradient) &&
         only_read_by(b, g->in[2], gradient, gradient) && share_place(s, g->in[0], g->out[0]) &&
         is_loss_gradient(s, g->in[3]);
}

static side side_of(const search *s, const bd_function *function) {
  return (side){function, &s->prefetch[bd_module_number(s->module, function)].fusion};
}

void bd_fused_loss_find(bd_ctx *ctx, const bd_module *module, int function,
                        const bd_prefetch *prefetch, bd_fused_losses *out_losses) {
  const bd_function *f = module->functions[function];
  const int steps = prefetch[function].fusion.step_count;
  bd_fused_losses all = {.lse = BD_NEW_ARRAY(ctx->arena, int, steps),
                         .taken = BD_NEW_ARRAY(ctx->arena, bool, steps)};
  for (int step = 0; step < steps; ++step)
    all.lse[step] = -1;
  *out_losses = all;
  if (!module->cuda || !f->peer) return;
  bool backward = f->role == BD_ROLE_BACKWARD;
  const bd_function *peer = bd_module_find(module, f->peer);
  search s = {.module = module, .prefetch = prefetch};
  s.forward = side_of(&s, backward ? peer : f);
  s.backward = side_of(&s, backward ? f : peer);
  for (int op = 0; op < s.forward.function->op_count; ++op) {
    loss found;
    if (!find_loss(&s, op, &found)) continue;
    all.taken[backward ? found.gradient : found.lse] = true;
    if (backward) continue;
    all.lse[found.xent] = found.lse;
    all.any = true;
  }
  *out_losses = all;
}
