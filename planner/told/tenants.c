#include "planner/told/tenants.h"
#include "ir/layout.h"
#include <stdlib.h>
#include <string.h>

typedef struct listing {
  bd_ctx *ctx;
  const bd_module *train, *spmd;
  const bd_plan *plan;
  bd_layout layout;
  int slots; // tapes and boundary values held of each call
  bd_tenants *out;
  const char *back; // the largest value that comes back from where it was put aside
  int64_t back_bytes;
} listing;

static void add(listing *l, const char *key, const char *name, bd_segment segment, int64_t bytes,
                int count) {
  bd_tenants *out = l->out;
  if (!count) return;
  for (int i = 0; i < out->count; i++)
    if (out->keys[i] == key && out->items[i].segment == segment) {
      out->items[i].bytes += bytes;
      out->items[i].count += count;
      return;
    }
  if (out->count == out->capacity) {
    int wanted = out->capacity ? 2 * out->capacity : 64;
    size_t kept = (size_t)out->count, room = (size_t)wanted;
    out->items = bd_arena_grow(l->ctx->arena, out->items, kept, room, sizeof *out->items);
    out->keys = bd_arena_grow(l->ctx->arena, out->keys, kept, room, sizeof *out->keys);
    out->capacity = wanted;
  }
  out->keys[out->count] = key;
  out->items[out->count++] = (bd_tenant){name, segment, bytes, count};
}

static const bd_function *callee_here(const listing *l, const bd_op *op) {
  if (op->kind != BD_OP_CALL || op->stage != l->layout.stage) return NULL;
  return bd_module_find(l->spmd, op->callee);
}

static int64_t local_elements(const listing *l, const bd_value *value) {
  return bd_local_elements(&l->spmd->mesh, &value->sharding, &value->type, l->spmd->micro_batch);
}

// Bytes of the accumulators of a weight's gradient on a rank: one per function that uses it.
static int64_t gradient_bytes(const listing *l, int weight) {
  const bd_function *main = l->spmd->main;
  int64_t bytes = 0;
  for (int r = 1; r < main->result_count; r++)
    if (l->spmd->gradient_weight[r - 1] == weight &&
        l->layout.values[main->results[r]].segment == BD_SEGMENT_GRADIENTS)
      bytes += bd_memory_value_bytes(l->spmd, &main->values[main->results[r]]);
  return bytes;
}

// A weight once, with its gradient's accumulator and the optimizer's state.
static void add_weight(listing *l, const bd_function *callee, int param, bd_id id, bool *seen) {
  if (seen[id]) return;
  seen[id] = true;
  const bd_value *value = &l->spmd->main->values[id];
  int number = 0;
  while (number < l->layout.weight_count &&
         l->spmd->main->params[l->spmd->input_count + l->layout.weights[number]] != id)
    number++;
  if (number == l->layout.weight_count) return;
  const bd_weight *weight = &l->spmd->weights[l->layout.weights[number]];
  int64_t bytes = bd_memory_value_bytes(l->spmd, value) +
                  gradient_bytes(l, l->layout.weights[number]) +
                  l->layout.state_bytes[l->layout.weights[number]];
  const char *key = bd_intern_f(l->ctx, "%s %d", callee->name, param);
  const bd_storage *storage = &weight->storage;
  const char *name = storage->name && *storage->name ? storage->name : weight->name;
  if (storage->stack > 0) name = bd_intern_f(l->ctx, "%s*%s", name, storage->stack_rest);
  if (storage->slice_dim >= 0) name = bd_intern_f(l->ctx, "%s (%s)", name, weight->name);
  add(l, key, name, BD_SEGMENT_WEIGHTS, bytes, 1);
}

// How a strategy keeps one of its function's values.
static bd_kept kept_as(const listing *l, const bd_function *callee, const char *name) {
  for (int i = 0; i < l->plan->strategy_count; i++) {
    const bd_strategy *strategy = &l->plan->strategies[i];
    if (!strategy->kept || strcmp(strategy->name, callee->name)) continue;
    const bd_function *f = bd_module_find(l->train, strategy->function);
    for (int v = 0; v < f->value_count; v++)
      if (strcmp(f->values[v].name, name) == 0) return (bd_kept)strategy->kept[v];
  }
  return BD_KEPT_WHOLE;
}

// A value on the tapes in flight.
static void add_saved(listing *l, const bd_function *callee, bd_id id) {
  const bd_value *value = &callee->values[id];
  bd_kept kept = kept_as(l, callee, value->name);
  int64_t bytes = bd_memory_inner_bytes(l->spmd, callee, id);
  const char *name = bd_intern_f(l->ctx, "%s: %s", callee->name, value->name);
  if (kept != BD_KEPT_WHOLE && bytes > l->back_bytes) {
    l->back_bytes = bytes;
    l->back = bd_intern_f(l->ctx, "%s, brought back", name);
  }
  if (kept == BD_KEPT_COMPRESSED) bytes = bd_align(local_elements(l, value));
  if (kept != BD_KEPT_OFFLOADED) add(l, name, name, BD_SEGMENT_TAPE, bytes * l->slots, l->slots);
}

static void add_forward(listing *l, const bd_op *call, const bd_function *callee, bool *seen) {
  for (int p = 0; p < callee->param_count; p++)
    if (callee->is_weight[p]) add_weight(l, callee, p, call->in[p], seen);
  for (int i = 0; i < callee->save_count; i++) {
    bd_id id = callee->saves[i];
    if (callee->values[id].segment == BD_SEGMENT_TAPE) add_saved(l, callee, id);
  }
  for (int i = 0; i < call->out_count; i++) {
    const bd_place *place = &l->layout.values[call->out[i]];
    if (place->segment != BD_SEGMENT_BOUNDARY) continue;
    const char *name =
        bd_intern_f(l->ctx, "%s: %s", callee->name, callee->values[callee->results[i]].name);
    int slots = place->slot_bytes ? l->slots : 1;
    add(l, name, name, BD_SEGMENT_BOUNDARY,
        bd_memory_value_bytes(l->spmd, &l->spmd->main->values[call->out[i]]) * slots, slots);
  }
}

// The last op that reads each value of a function, or the one that makes it.
static int *last_uses(bd_ctx *ctx, const bd_function *f) {
  int *last = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (bd_id v = 0; v < f->value_count; v++)
    last[v] = f->values[v].producer;
  for (int i = 0; i < f->op_count; i++)
    for (int k = 0; k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] >= 0) last[f->ops[i].in[k]] = i;
  return last;
}

// Values of the workspace that are alive around op `at`; those that took the place of one that died
// count once. Adds them when told to; returns their bytes.
static int64_t alive(listing *l, const bd_function *f, const int *last, int64_t *offsets, int at,
                     bool adds) {
  bd_ctx *ctx = l->ctx;
  const bd_module *spmd = l->spmd;
  int64_t total = 0;
  int count = 0;
  const bd_op *op = &f->ops[at];
  int64_t scratch = bd_memory_scratch_bytes(spmd, f, op);
  if (adds && scratch > 0) {
    const char *name =
        bd_intern_f(ctx, "%s: scratch of %s", f->name, bd_op_get_info(op->kind)->name);
    add(l, name, name, BD_SEGMENT_WORKSPACE, scratch, 1);
  }
  total += scratch;
  for (bd_id v = 0; v < f->value_count; v++) {
    const bd_value *value = &f->values[v];
    if (value->segment != BD_SEGMENT_WORKSPACE || value->producer < 0 || value->producer > at)
      continue;
    bool again = false;
    for (int i = 0; i < count; i++)
      again = again || offsets[i] == value->offset_bytes;
    if (last[v] < at || again) continue;
    offsets[count++] = value->offset_bytes;
    total += bd_memory_inner_bytes(spmd, f, v);
    if (!adds) continue;
    const char *name = bd_intern_f(ctx, "%s: %s", f->name, value->name);
    add(l, name, name, BD_SEGMENT_WORKSPACE, bd_memory_inner_bytes(spmd, f, v), 1);
  }
  return total;
}

// The function of the stage whose workspace is the highest, at the op where most of it is in use.
static void add_workspace(listing *l) {
  const bd_function *main = l->spmd->main, *highest = NULL;
  const int *highest_last = NULL;
  int64_t most = 0, *highest_offsets = NULL;
  int at = 0;
  for (int i = 0; i < l->spmd->function_count; i++) {
    const bd_function *f = l->spmd->functions[i];
    bool called = false;
    for (int c = 0; c < main->op_count && !called; c++)
      called = callee_here(l, &main->ops[c]) == f;
    if (!called) continue;
    const int *last = last_uses(l->ctx, f);
    int64_t *offsets = BD_NEW_ARRAY(l->ctx->arena, int64_t, f->value_count);
    for (int op = 0; op < f->op_count; op++) {
      int64_t bytes = alive(l, f, last, offsets, op, false);
      if (bytes <= most) continue;
      most = bytes;
      highest = f;
      highest_last = last;
      highest_offsets = offsets;
      at = op;
    }
  }
  if (highest) alive(l, highest, highest_last, highest_offsets, at, true);
}

static int by_bytes(const void *a, const void *b) {
  const bd_tenant *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->name, y->name);
}

bd_status bd_tenants_add(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                         const bd_plan *plan, int stage, int slots, bool workspace,
                         bd_tenants *list) {
  listing l = {.ctx = ctx, .train = train, .spmd = spmd, .plan = plan, .slots = slots, .out = list};
  BD_TRY(bd_layout_of_stage(ctx, spmd, stage, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &l.layout));
  bool *seen = BD_NEW_ARRAY(ctx->arena, bool, spmd->main->value_count);
  for (int i = 0; i < spmd->main->op_count; i++) {
    const bd_function *callee = callee_here(&l, &spmd->main->ops[i]);
    if (callee && callee->role == BD_ROLE_FORWARD)
      add_forward(&l, &spmd->main->ops[i], callee, seen);
  }
  if (!workspace) return BD_OK;
  add_workspace(&l);
  if (l.back) add(&l, l.back, l.back, BD_SEGMENT_WORKSPACE, l.back_bytes, 1);
  return BD_OK;
}

void bd_tenants_add_weight_inputs(bd_ctx *ctx, int64_t bytes, int count, bd_tenants *list) {
  listing l = {.ctx = ctx, .out = list};
  const char *name = bd_intern_f(ctx, "inputs of delayed weight passes");
  add(&l, name, name, BD_SEGMENT_TAPE, bytes * count, count);
}

void bd_tenants_sort(bd_tenants *list) {
  if (list->count) qsort(list->items, (size_t)list->count, sizeof *list->items, by_bytes);
}

bd_status bd_tenants_find(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                          const bd_plan *plan, int stage, bd_tenant **out_tenants, int *out_count) {
  bd_tenants list = {0};
  int slots =
      bd_schedule_in_flight(plan->schedule, stage, plan->stages, bd_plan_micro_batches(plan));
  BD_TRY(bd_tenants_add(ctx, train, spmd, plan, stage, slots, true, &list));
  bd_tenants_sort(&list);
  *out_tenants = list.items;
  *out_count = list.count;
  return BD_OK;
}
