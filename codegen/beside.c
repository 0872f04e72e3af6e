#include "codegen/beside.h"
#include "ir/memory.h"
#include "runtime/braid_rt_abi.h"
#include <string.h>

// Bytes that a step touches, and the value that they are: values outside of a call's memory are
// told apart by their numbers.
typedef struct touched {
  bd_id value; // BD_NO_ID: scratch
  bd_stretch bytes;
} touched;

// What runs when a step's turn comes: with a product also the step that it does, which then does
// nothing in its own place.
typedef struct work {
  int read_count, write_count;
  touched *reads, *writes;
} work;

typedef struct search {
  bd_ctx *ctx;
  const bd_module *module;
  const bd_function *function;
  const bd_fusion *fusion;
  const bd_epilogues *epilogues;
  work *work; // per step
  bd_beside *out;
} search;

static const bd_op *op_of(const search *s, int step) {
  return &s->function->ops[s->fusion->first_op[step]];
}

static touched value_touched(const search *s, bd_id id) {
  return (touched){id, bd_stretch_of(s->module, s->function, id)};
}

static void add_ops(const search *s, work *w, int step) {
  for (int i = 0; i < s->fusion->step_ops[step]; ++i) {
    const bd_op *op = op_of(s, step) + i;
    int64_t scratch = bd_op_int(op, "scratch", -1);
    for (int k = 0; k < op->in_count; ++k)
      w->reads[w->read_count++] = value_touched(s, op->in[k]);
    for (int k = 0; k < op->out_count; ++k)
      w->writes[w->write_count++] = value_touched(s, op->out[k]);
    if (scratch < 0) continue;
    int64_t end = scratch + bd_memory_scratch_bytes(s->module, s->function, op);
    w->writes[w->write_count++] =
        (touched){BD_NO_ID, {.segment = BD_SEGMENT_WORKSPACE, .start = scratch, .end = end}};
  }
}

static void find_work(search *s) {
  s->work = BD_NEW_ARRAY(s->ctx->arena, work, s->fusion->step_count);
  for (int step = 0; step < s->fusion->step_count; ++step) {
    const bd_epilogue *epilogue = &s->epilogues->of[step];
    const int with[2] = {step, epilogue->kind == BD_RT_EPILOGUE_NONE ? -1 : epilogue->step};
    work *w = &s->work[step];
    int reads = 0, writes = 0;
    if (s->epilogues->taken[step]) continue;
    for (int n = 0; n < 2 && with[n] >= 0; ++n)
      for (int i = 0; i < s->fusion->step_ops[with[n]]; ++i) {
        reads += op_of(s, with[n])[i].in_count;
        writes += op_of(s, with[n])[i].out_count + 1;
      }
    w->reads = BD_NEW_ARRAY(s->ctx->arena, touched, reads);
    w->writes = BD_NEW_ARRAY(s->ctx->arena, touched, writes);
    for (int n = 0; n < 2 && with[n] >= 0; ++n)
      add_ops(s, w, with[n]);
  }
}

static bool meet(const touched *a, int a_count, const touched *b, int b_count) {
  for (int i = 0; i < a_count; ++i)
    for (int k = 0; k < b_count; ++k)
      if ((a[i].value != BD_NO_ID && a[i].value == b[k].value) ||
          bd_stretch_meet(a[i].bytes, b[k].bytes))
        return true;
  return false;
}

// Whether two steps must stay in their order: one writes what the other touches.
static bool clash(const search *s, int a, int b) {
  const work *x = &s->work[a], *y = &s->work[b];
  return meet(x->writes, x->write_count, y->writes, y->write_count) ||
         meet(x->writes, x->write_count, y->reads, y->read_count) ||
         meet(x->reads, x->read_count, y->writes, y->write_count);
}

static bool may_run_beside(const search *s, int step) {
  return !s->epilogues->taken[step] &&
         bd_memory_runs_beside(s->module, s->function, op_of(s, step));
}

// A call of a library: enough work for a collective to run beside it.
static bool is_product(const search *s, int step) {
  const bd_op_info *info = bd_op_get_info(op_of(s, step)->kind);
  return !s->epilogues->taken[step] && info->level == BD_LOGICAL && info->traits & BD_LIBRARY;
}

// A product for which nothing in the function waits.
static bool may_wait(const search *s, int step) {
  const work *w = &s->work[step];
  if (!is_product(s, step)) return false;
  for (int i = 0; i < w->write_count; ++i)
    if (w->writes[i].value != BD_NO_ID && !bd_accumulates(s->function, w->writes[i].value))
      return false;
  return true;
}

// Where the step at a position of the order can begin at the earliest.
static int earliest(const search *s, int position) {
  const int *order = s->out->order;
  int begin = position;
  while (begin > 0 && !clash(s, order[begin - 1], order[position]))
    begin--;
  return begin;
}

static void move(int *order, int from, int to) {
  const int step = order[from];
  memmove(&order[from], &order[from + 1], (size_t)(to - from) * sizeof *order);
  order[to] = step;
}

// Products between the collective before and the begin of this one come behind that begin.
static void defer_products(const search *s, int after, int position) {
  int *order = s->out->order, begin = earliest(s, position);
  for (int at = begin - 1; at >= after; --at) {
    bool may = may_wait(s, order[at]) && !clash(s, order[at], order[position]);
    for (int k = at + 1; may && k < begin; ++k)
      may = !clash(s, order[at], order[k]);
    if (may) move(order, at, --begin);
  }
}

// No collective begins before those that stand before it, nor while one that it clashes with is
// under way.
static int begin_of(const search *s, int position) {
  const bd_beside *out = s->out;
  const int step = out->order[position];
  int begin = earliest(s, position);
  for (int at = position; at > begin; --at)
    for (int slot = 0; slot < out->slot_count; ++slot) {
      int other = out->step[slot];
      if (out->begin[other] == out->order[at] ||
          (out->end[other] == out->order[at] && clash(s, other, step)))
        return at;
    }
  return begin;
}

static void place(const search *s, int position, int most_slots) {
  bd_beside *out = s->out;
  const int step = out->order[position], count = s->fusion->step_count;
  int begin = begin_of(s, position), end = position + 1;
  while (end < count && !clash(s, out->order[end], step))
    end++;
  bool useful = false;
  for (int at = begin; at < end; ++at)
    useful |= is_product(s, out->order[at]);
  if (!useful || out->slot_count == most_slots) return;
  out->begin[step] = out->order[begin];
  out->end[step] = end < count ? out->order[end] : count;
  out->step[out->slot_count++] = step;
}

void bd_beside_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                    const bd_fusion *fusion, const bd_epilogues *epilogues, int most_slots,
                    bd_beside *out_beside) {
  search s = {ctx, module, function, fusion, epilogues, NULL, out_beside};
  int after = 0, count = fusion->step_count;
  *out_beside = (bd_beside){.order = BD_NEW_ARRAY(ctx->arena, int, count),
                            .begin = BD_NEW_ARRAY(ctx->arena, int, count),
                            .end = BD_NEW_ARRAY(ctx->arena, int, count),
                            .step = BD_NEW_ARRAY(ctx->arena, int, most_slots)};
  for (int step = 0; step < count; ++step) {
    out_beside->order[step] = step;
    out_beside->begin[step] = out_beside->end[step] = -1;
  }
  if (!module->cuda) return;
  find_work(&s);
  for (int position = 0; position < count; ++position) {
    if (!may_run_beside(&s, out_beside->order[position])) continue;
    defer_products(&s, after, position);
    after = position + 1;
  }
  for (int position = 0; position < count; ++position)
    if (may_run_beside(&s, out_beside->order[position])) place(&s, position, most_slots);
}

bool bd_beside_ends(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                    const bd_beside *beside, int step, bd_stretch bytes) {
  for (int slot = 0; slot < beside->slot_count; ++slot)
    if (beside->end[beside->step[slot]] == step &&
        bd_step_touches(module, function, fusion, beside->step[slot], bytes))
      return true;
  return false;
}
