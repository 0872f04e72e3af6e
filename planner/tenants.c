#include "planner/tenants.h"
#include "ir/layout.h"
#include <stdlib.h>
#include <string.h>

typedef struct listing {
  bd_ctx *ctx;
  const bd_module *train, *spmd;
  const bd_plan *plan;
  bd_layout layout;
  int count, capacity;
  bd_tenant *items;
  const char **keys; // per item: what its tensors have in common
  const char *back;  // the largest value that comes back from where it was put aside
  int64_t back_bytes;
} listing;

static void add(listing *l, const char *key, const char *name, bd_segment segment, int64_t bytes,
                int count) {
  for (int i = 0; i < l->count; i++)
    if (l->keys[i] == key && l->items[i].segment == segment) {
      l->items[i].bytes += bytes;
      l->items[i].count += count;
      return;
    }
  if (l->count == l->capacity) {
    int wanted = l->capacity ? 2 * l->capacity : 64;
    bd_arena *arena = l->ctx->arena;
    l->items = bd_arena_grow(arena, l->items, (size_t)l->count, (size_t)wanted, sizeof *l->items);
    l->keys = bd_arena_grow(arena, l->keys, (size_t)l->count, (size_t)wanted, sizeof *l->keys);
    l->capacity = wanted;
  }
  l->keys[l->count] = key;
  l->items[l->count++] = (bd_tenant){name, segment, bytes, count};
}

static const bd_function *callee_here(const listing *l, const bd_op *op) {
  if (op->kind != BD_OP_CALL || op->stage != l->layout.stage) return NULL;
  return bd_module_find(l->spmd, op->callee);
}

static int64_t local_elements(const listing *l, const bd_value *value) {
  bd_type local =
      bd_local_type(&l->spmd->mesh, &value->sharding, &value->type, l->spmd->micro_batch);
  return bd_type_elements(&local, l->spmd->micro_batch);
}

// Elements of the accumulator of a weight's gradient on a rank.
static int64_t gradient_elements(const listing *l, int weight, const bd_value *own) {
  const bd_function *main = l->spmd->main;
  for (int r = 1; r < main->result_count; r++)
    if (l->spmd->gradient_weight[r - 1] == weight)
      return local_elements(l, &main->values[main->results[r]]);
  return local_elements(l, own);
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
  int64_t gradient = gradient_elements(l, l->layout.weights[number], value);
  int64_t bytes = bd_memory_value_bytes(l->spmd, value) +
                  bd_align(gradient * bd_dtype_bytes(weight->master)) +
                  bd_align(l->layout.state_elements[l->layout.weights[number]] *
                           bd_optimizer_state_bytes(l->plan->optimizer, weight->type.dtype));
  const char *key = bd_intern_f(l->ctx, "%s %d", callee->name, param);
  const bd_storage *storage = &weight->storage;
  const char *name = storage->name && *storage->name ? storage->name : weight->name;
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
static void add_saved(listing *l, const bd_function *callee, const bd_value *value) {
  bd_kept kept = kept_as(l, callee, value->name);
  int64_t bytes = bd_memory_value_bytes(l->spmd, value);
  const char *name = bd_intern_f(l->ctx, "%s: %s", callee->name, value->name);
  if (kept != BD_KEPT_WHOLE && bytes > l->back_bytes) {
    l->back_bytes = bytes;
    l->back = bd_intern_f(l->ctx, "%s, brought back", name);
  }
  if (kept == BD_KEPT_COMPRESSED) bytes = bd_align(local_elements(l, value));
  if (kept != BD_KEPT_OFFLOADED)
    add(l, name, name, BD_SEGMENT_TAPE, bytes * l->layout.in_flight, l->layout.in_flight);
}

static void add_forward(listing *l, const bd_op *call, const bd_function *callee, bool *seen) {
  for (int p = 0; p < callee->param_count; p++)
    if (callee->is_weight[p]) add_weight(l, callee, p, call->in[p], seen);
  for (int i = 0; i < callee->save_count; i++) {
    const bd_value *value = &callee->values[callee->saves[i]];
    if (value->segment == BD_SEGMENT_TAPE) add_saved(l, callee, value);
  }
  for (int i = 0; i < call->out_count; i++) {
    const bd_place *place = &l->layout.values[call->out[i]];
    if (place->segment != BD_SEGMENT_BOUNDARY) continue;
    const char *name =
        bd_intern_f(l->ctx, "%s: %s", callee->name, callee->values[callee->results[i]].name);
    int slots = place->slot_bytes ? l->layout.in_flight : 1;
    add(l, name, name, BD_SEGMENT_BOUNDARY,
        bd_memory_value_bytes(l->spmd, &l->spmd->main->values[call->out[i]]) * slots, slots);
  }
}

// Values of the workspace that are alive around op `at`; those that took the place of one that died
// count once. Adds them when `l` is given; returns their bytes.
static int64_t alive(bd_ctx *ctx, const bd_module *spmd, const bd_function *f, int at, listing *l) {
  int64_t total = 0, *offsets = BD_NEW_ARRAY(ctx->arena, int64_t, f->value_count);
  int count = 0;
  const bd_op *op = &f->ops[at];
  int64_t scratch = bd_memory_scratch_bytes(spmd, f, op);
  if (l && scratch > 0) {
    const char *name =
        bd_intern_f(ctx, "%s: scratch of %s", f->name, bd_op_get_info(op->kind)->name);
    add(l, name, name, BD_SEGMENT_WORKSPACE, scratch, 1);
  }
  total += scratch;
  for (bd_id v = 0; v < f->value_count; v++) {
    const bd_value *value = &f->values[v];
    if (value->segment != BD_SEGMENT_WORKSPACE || value->producer < 0 || value->producer > at)
      continue;
    int last = value->producer;
    for (int i = last + 1; i < f->op_count; i++)
      for (int k = 0; k < f->ops[i].in_count; k++)
        if (f->ops[i].in[k] == v) last = i;
    bool again = false;
    for (int i = 0; i < count; i++)
      again = again || offsets[i] == value->offset_bytes;
    if (last < at || again) continue;
    offsets[count++] = value->offset_bytes;
    total += bd_memory_value_bytes(spmd, value);
    if (!l) continue;
    const char *name = bd_intern_f(ctx, "%s: %s", f->name, value->name);
    add(l, name, name, BD_SEGMENT_WORKSPACE, bd_memory_value_bytes(spmd, value), 1);
  }
  return total;
}

// The function of the stage whose workspace is the highest, at the op where most of it is in use.
static void add_workspace(listing *l) {
  const bd_function *main = l->spmd->main, *highest = NULL;
  int64_t most = 0;
  int at = 0;
  for (int i = 0; i < l->spmd->function_count; i++) {
    const bd_function *f = l->spmd->functions[i];
    bool called = false;
    for (int c = 0; c < main->op_count && !called; c++)
      called = callee_here(l, &main->ops[c]) == f;
    for (int op = 0; called && op < f->op_count; op++) {
      int64_t bytes = alive(l->ctx, l->spmd, f, op, NULL);
      if (bytes <= most) continue;
      most = bytes;
      highest = f;
      at = op;
    }
  }
  if (highest) alive(l->ctx, l->spmd, highest, at, l);
}

static int by_bytes(const void *a, const void *b) {
  const bd_tenant *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->name, y->name);
}

bd_status bd_tenants_find(bd_ctx *ctx, const bd_module *train, const bd_module *spmd,
                          const bd_plan *plan, int stage, bd_tenant **out_tenants, int *out_count) {
  listing l = {.ctx = ctx, .train = train, .spmd = spmd, .plan = plan};
  BD_TRY(bd_layout_of_stage(ctx, spmd, stage, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &l.layout));
  bool *seen = BD_NEW_ARRAY(ctx->arena, bool, spmd->main->value_count);
  for (int i = 0; i < spmd->main->op_count; i++) {
    const bd_function *callee = callee_here(&l, &spmd->main->ops[i]);
    if (callee && callee->role == BD_ROLE_FORWARD)
      add_forward(&l, &spmd->main->ops[i], callee, seen);
  }
  add_workspace(&l);
  if (l.back) add(&l, l.back, l.back, BD_SEGMENT_WORKSPACE, l.back_bytes, 1);
  if (l.count) qsort(l.items, (size_t)l.count, sizeof *l.items, by_bytes);
  *out_tenants = l.items;
  *out_count = l.count;
  return BD_OK;
}
