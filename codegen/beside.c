#include "codegen/beside.h"
#include "codegen/contract.h"
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
  work *work;   // per step
  int *product; // per step: the product in the parts of which the collective begins, or -1
  int slots;    // that collectives by themselves may have
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
    writes += s->out->summed_by[step] >= 0;
    w->reads = BD_NEW_ARRAY(s->ctx->arena, touched, reads);
    w->writes = BD_NEW_ARRAY(s->ctx->arena, touched, writes);
    for (int n = 0; n < 2 && with[n] >= 0; ++n)
      add_ops(s, w, with[n]);
    if (s->out->summed_by[step] >= 0)
      w->writes[w->write_count++] = value_touched(s, op_of(s, s->out->summed_by[step])->out[0]);
  }
}

static int step_of(const search *s, int op) {
  int step = 0;
  while (s->fusion->first_op[step] + s->fusion->step_ops[step] <= op)
    ++step;
  return step;
}

// Whether all of a product's rows are those of one call of the library, which adds to what lies
// where the result goes if another step's sum is done with it.
static bool may_be_cut(const search *s, int step, const bd_parts *parts) {
  const bd_epilogue *e = &s->epilogues->of[step];
  if (!bd_contract_has_rows(s->module, s->function, op_of(s, step), parts->prefix)) return false;
  if (parts->sum < 0) return e->kind == BD_RT_EPILOGUE_NONE;
  if (e->kind != BD_RT_EPILOGUE_ADD || e->step != step_of(s, parts->sum) ||
      s->fusion->step_ops[e->step] != 1)
    return false;
  bd_stretch other = bd_stretch_of(s->module, s->function, e->other),
             result = bd_stretch_of(s->module, s->function, e->out);
  return bd_stretch_meet(other, result) && other.start == result.start;
}

static void find_parts(search *s) {
  bd_beside *out = s->out;
  for (int step = 0; step < s->fusion->step_count; ++step) {
    const bd_op *op = op_of(s, step);
    if (s->epilogues->taken[step] || !bd_op_find_attr(op, BD_PARTS_ATTR)) continue;
    bd_parts parts = bd_parts_asked(s->module, s->function, s->fusion->first_op[step]);
    if (parts.count == 1 || s->slots == 0 || !may_be_cut(s, step, &parts)) continue;
    int collective = step_of(s, parts.collective);
    out->parts[step] = parts;
    out->summed_by[step] = collective;
    s->product[collective] = step;
    s->slots--;
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
         (s->product[step] >= 0 || bd_memory_runs_beside(s->module, s->function, op_of(s, step)));
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

static void take_slot(bd_beside *out, int step, int begin, int end) {
  out->begin[step] = begin;
  out->end[step] = end;
  out->step[out->slot_count++] = step;
}

// The first position from `from` on of a step that a collective must be done for.
static int end_of(const search *s, int step, int from) {
  const bd_beside *out = s->out;
  while (from < s->fusion->step_count &&
         (out->order[from] == step || !clash(s, out->order[from], step)))
    from++;
  return from;
}

// A collective that begins in the parts of a product.
static void place_parts(const search *s, int step) {
  bd_beside *out = s->out;
  int at = 0;
  while (out->order[at] != s->product[step])
    at++;
  int end = end_of(s, step, at + 1);
  take_slot(out, step, out->order[at],
            end < s->fusion->step_count ? out->order[end] : s->fusion->step_count);
}

static void place(search *s, int position) {
  bd_beside *out = s->out;
  const int step = out->order[position], count = s->fusion->step_count;
  if (s->product[step] >= 0) {
    place_parts(s, step);
    return;
  }
  int begin = begin_of(s, position), end = end_of(s, step, position + 1);
  bool useful = false;
  for (int at = begin; at < end; ++at)
    useful |= is_product(s, out->order[at]);
  if (!useful || s->slots == 0) return;
  s->slots--;
  take_slot(out, step, out->order[begin], end < count ? out->order[end] : count);
}

void bd_beside_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                    const bd_fusion *fusion, const bd_epilogues *epilogues, int most_slots,
                    bd_beside *out_beside) {
  int after = 0, count = fusion->step_count;
  search s = {.ctx = ctx,
              .module = module,
              .function = function,
              .fusion = fusion,
              .epilogues = epilogues,
              .product = BD_NEW_ARRAY(ctx->arena, int, count),
              .slots = most_slots,
              .out = out_beside};
  *out_beside = (bd_beside){.order = BD_NEW_ARRAY(ctx->arena, int, count),
                            .begin = BD_NEW_ARRAY(ctx->arena, int, count),
                            .end = BD_NEW_ARRAY(ctx->arena, int, count),
                            .summed_by = BD_NEW_ARRAY(ctx->arena, int, count),
                            .parts = BD_NEW_ARRAY(ctx->arena, bd_parts, count),
                            .step = BD_NEW_ARRAY(ctx->arena, int, most_slots)};
  for (int step = 0; step < count; ++step) {
    out_beside->order[step] = step;
    out_beside->begin[step] = out_beside->end[step] = -1;
    out_beside->summed_by[step] = s.product[step] = -1;
  }
  if (!module->cuda) return;
  find_parts(&s);
  find_work(&s);
  for (int position = 0; position < count; ++position) {
    if (!may_run_beside(&s, out_beside->order[position])) continue;
    defer_products(&s, after, position);
    after = position + 1;
  }
  for (int position = 0; position < count; ++position)
    if (may_run_beside(&s, out_beside->order[position])) place(&s, position);
}

bool bd_beside_ends(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                    const bd_beside *beside, int step, bd_stretch bytes) {
  for (int slot = 0; slot < beside->slot_count; ++slot)
    if (beside->end[beside->step[slot]] == step &&
        bd_step_touches(module, function, fusion, beside->step[slot], bytes))
      return true;
  return false;
}
