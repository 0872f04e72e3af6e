// Loops over the ops of a stage: which stretch of them is one body repeated.
#include "codegen/emit_pass.h"
#include <string.h>

#define LONGEST_PERIOD 16

static bool same_value(const bd_emit_pass *pass, bd_id a, bd_id b) {
  const bd_value *x = &pass->main->values[a], *y = &pass->main->values[b];
  return bd_type_equal(&x->type, &y->type) && bd_sharding_equal(&x->sharding, &y->sharding);
}

static bool same_awaited(const bd_emit_pass *pass, const bd_op *a, const bd_op *b) {
  for (int i = 0; i < a->in_count; ++i)
    if (bd_emit_awaits(pass, a, i) != bd_emit_awaits(pass, b, i)) return false;
  return true;
}

// Whether two ops of main differ in addresses, tags and call numbers only.
static bool same_op(const bd_emit_pass *pass, const bd_op *a, const bd_op *b) {
  static const char *const numbers[] = {"axis", "to", "from", NULL};
  if (a->kind != b->kind || a->in_count != b->in_count || a->out_count != b->out_count)
    return false;
  if (a->kind == BD_OP_CALL)
    return strcmp(a->callee, b->callee) == 0 &&
           bd_emit_ahead_of(pass, a) == bd_emit_ahead_of(pass, b) && same_awaited(pass, a, b);
  for (int i = 0; numbers[i]; ++i)
    if (bd_op_int(a, numbers[i], -1) != bd_op_int(b, numbers[i], -1)) return false;
  for (int i = 0; i < a->in_count; ++i)
    if (!same_value(pass, a->in[i], b->in[i])) return false;
  for (int i = 0; i < a->out_count; ++i)
    if (!same_value(pass, a->out[i], b->out[i])) return false;
  return true;
}

static int count_iterations(const bd_emit_pass *pass, const int *ops, int count, int period) {
  const bd_op *all = pass->main->ops;
  int iterations = 1;
  for (; (iterations + 1) * period <= count; ++iterations)
    for (int i = 0; i < period; ++i)
      if (!same_op(pass, &all[ops[i]], &all[ops[iterations * period + i]])) return iterations;
  return iterations;
}

static bool steps_evenly(bd_place a, bd_place b, bd_place c) {
  return b.offset_bytes - a.offset_bytes == c.offset_bytes - b.offset_bytes &&
         a.slot_bytes == b.slot_bytes && b.slot_bytes == c.slot_bytes;
}

// Whether every address of an op advances from `b` to `c` as it did from `a` to `b`.
static bool op_steps_evenly(const bd_emit_pass *pass, int a, int b, int c) {
  for (int i = 0; i < bd_emit_given_count(pass, a); ++i)
    if (!steps_evenly(bd_emit_given_place(pass, a, i), bd_emit_given_place(pass, b, i),
                      bd_emit_given_place(pass, c, i)))
      return false;
  for (int i = 0; i < pass->main->ops[a].out_count; ++i)
    if (!steps_evenly(bd_emit_result_place(pass, a, i), bd_emit_result_place(pass, b, i),
                      bd_emit_result_place(pass, c, i)))
      return false;
  return true;
}

// Iterations from the first on whose addresses advance evenly.
static int even_iterations(const bd_emit_pass *pass, const bd_emit_repeat *r) {
  for (int n = 2; n < r->count; ++n)
    for (int i = 0; i < r->period; ++i) {
      const int *at = r->ops + n * r->period + i;
      if (!op_steps_evenly(pass, at[-2 * r->period], at[-r->period], at[0])) return n;
    }
  return r->count;
}

bd_emit_repeat bd_emit_find_repeat(const bd_emit_pass *pass, const int *ops, int count) {
  bd_emit_repeat best = {ops, 1, 1};
  for (int period = 1; period <= LONGEST_PERIOD && 2 * period <= count; ++period) {
    int iterations = count_iterations(pass, ops, count, period);
    if (iterations > 1 && iterations * period > best.count * best.period)
      best = (bd_emit_repeat){ops, period, iterations};
  }
  int even = even_iterations(pass, &best);
  if (2 * even > best.count) best.count = even;
  return best;
}

bd_emit_looped bd_emit_loop_op(const bd_emit_pass *pass, const bd_emit_repeat *repeat,
                               int position) {
  int *ops = BD_NEW_ARRAY(pass->emitter->ctx->arena, int, repeat->count);
  for (int i = 0; i < repeat->count; ++i)
    ops[i] = repeat->ops[i * repeat->period + position];
  return (bd_emit_looped){ops, repeat->count};
}
