#include "ir/name_map.h"
#include "ir/passes/recover/push.h"
#include "ir/passes/rewrite.h"
#include <assert.h>
#include <string.h>

enum { MAX_PARTS = 64 };

// What becomes of one weight: itself in another shape, or its slices.
typedef struct change {
  int count;        // of the weights that it becomes; 0: it stays
  int reads;        // of it by the function, all of which are views
  const int *views; // the ops that they are; slices by where they start
  bd_id *made;      // the new main's values for the weights
} change;

typedef struct settler {
  bd_ctx *ctx;
  bd_module *module;       // whose functions, weights and main are replaced
  const bd_function *main; // as it was
  int weight_count;
  const bd_weight *weights; // as they were
  const bd_op *call;        // main's one call of the function whose weights change
  change *changes;          // per weight
  int *param_weight;        // per parameter of the function: the weight, or -1
  int changed;              // how many weights change
  bd_name_map names;        // of main's values and of weights
} settler;

static bool is_called_once(settler *s, const char *name) {
  s->call = NULL;
  for (int i = 0; i < s->main->op_count; ++i) {
    const bd_op *op = &s->main->ops[i];
    if (!op->callee || strcmp(op->callee, name) != 0) continue;
    if (s->call) return false;
    s->call = op;
  }
  return s->call != NULL;
}

// The weight that each parameter is, where nothing else reads it.
static void find_weights(settler *s, const bd_function *function) {
  int *reads = BD_NEW_ARRAY(s->ctx->arena, int, s->main->value_count);
  int *weight = BD_NEW_ARRAY(s->ctx->arena, int, s->main->value_count);
  for (int i = 0; i < s->main->op_count; ++i)
    for (int k = 0; k < s->main->ops[i].in_count; ++k)
      ++reads[s->main->ops[i].in[k]];
  for (int i = 0; i < s->weight_count; ++i) // what is stored as several tensors stays
    if (s->weights[i].storage.stack == 0)
      weight[s->main->params[s->module->input_count + i]] = i + 1;
  s->param_weight = BD_NEW_ARRAY(s->ctx->arena, int, function->param_count);
  for (int i = 0; i < function->param_count; ++i)
    s->param_weight[i] = reads[s->call->in[i]] == 1 ? weight[s->call->in[i]] - 1 : -1;
}

// The dimension of the stored tensor that holds dimension `dim` of the weight as its slowest part,
// and how many of its elements one of `dim` has. False: there is none.
static bool find_stored_dim(const bd_weight *weight, int64_t dim, int *out_dim, int64_t *out_each) {
  const bd_storage *storage = &weight->storage;
  int d = 0;
  if (storage->slice_dim >= 0 || storage->transpose) return false;
  for (int s = 0; s < storage->rank; ++s) {
    int64_t product = 1, each = 1;
    int first = d;
    while (product < storage->dims[s] && d < weight->type.rank) {
      product *= weight->type.dims[d];
      if (d > first) each *= weight->type.dims[d];
      ++d;
    }
    if (product != storage->dims[s]) return false;
    *out_dim = s;
    *out_each = each;
    if (first == dim && d > first) return true;
  }
  return false;
}

static bool is_one_reshape(const bd_function *function, const bd_op *op, const bd_op *first) {
  return op->kind == BD_OP_RESHAPE &&
         bd_type_equal(&function->values[op->out[0]].type, &function->values[first->out[0]].type);
}

// Whether the ops `views`, all that read the weight, are its slices, in order and from end to end.
static bool is_sliced_whole(const bd_function *function, const bd_weight *weight, int count,
                            const int *views) {
  int64_t at = 0, each, dim = bd_op_int(&function->ops[views[0]], "dim", 0);
  int stored;
  for (int i = 0; i < count; ++i) {
    const bd_op *op = &function->ops[views[i]];
    if (op->kind != BD_OP_SLICE || bd_op_int(op, "dim", 0) != dim ||
        bd_op_int(op, "step", 1) != 1 || bd_op_int(op, "start", 0) != at)
      return false;
    at += bd_op_int(op, "size", 0);
  }
  return at == weight->type.dims[dim] && find_stored_dim(weight, dim, &stored, &each);
}

// Sorts a few views by where they start.
static void sort_views(const bd_function *function, int count, int *views) {
  for (int i = 1; i < count; ++i)
    for (int k = i; k > 0; --k) {
      int64_t x = bd_op_int(&function->ops[views[k - 1]], "start", 0);
      int64_t y = bd_op_int(&function->ops[views[k]], "start", 0);
      if (x <= y) break;
      int swapped = views[k];
      views[k] = views[k - 1];
      views[k - 1] = swapped;
    }
}

static void decide(settler *s, const bd_function *function, const bd_readers *readers, int param) {
  bd_id id = function->params[param];
  int count = readers->first[id + 1] - readers->first[id];
  if (count == 0 || count > MAX_PARTS || readers->is_result[id]) return;
  int *views = bd_arena_copy(s->ctx->arena, readers->ops + readers->first[id], count, sizeof(int));
  sort_views(function, count, views);
  bool same = true;
  for (int i = 0; i < count; ++i)
    if (readers->is_result[function->ops[views[i]].out[0]]) return;
  for (int i = 0; i < count; ++i)
    same = same && is_one_reshape(function, &function->ops[views[i]], &function->ops[views[0]]);
  int weight = s->param_weight[param];
  if (!same && !is_sliced_whole(function, &s->weights[weight], count, views)) return;
  s->changes[weight] = (change){.count = same ? 1 : count, .views = views, .reads = count};
  ++s->changed;
}

// The weight that part `i` of a change is.
static bd_weight changed_weight(settler *s, const bd_function *function, int weight, int i) {
  const change *change = &s->changes[weight];
  const bd_op *view = &function->ops[change->views[i]];
  bd_weight made = s->weights[weight];
  if (view->kind == BD_OP_SLICE) {
    int64_t each = 1;
    bool found = find_stored_dim(&made, bd_op_int(view, "dim", 0), &made.storage.slice_dim, &each);
    assert(found);
    (void)found;
    made.storage.slice_start = bd_op_int(view, "start", 0) * each;
    made.storage.slice_size = bd_op_int(view, "size", 0) * each;
    for (int number = i;; ++number) {
      made.name = bd_intern_f(s->ctx, "%s.%d", s->weights[weight].name, number);
      if (bd_name_map_add(&s->names, made.name, 0)) break;
    }
  }
  made.type = function->values[view->out[0]].type;
  return made;
}

static void add_param(bd_function *function, int at, bd_id id, bool weight) {
  function->params[at] = id;
  function->is_weight[at] = weight;
  function->values[id].producer = -1;
}

// The function with the views of its weights as parameters.
static bd_function *change_function(settler *s, const bd_function *from) {
  bd_rewrite rewrite = bd_rewrite_begin(s->ctx, from);
  bd_function *to = rewrite.function;
  int room = from->param_count;
  for (int i = 0; i < from->param_count; ++i)
    if (s->param_weight[i] >= 0) room += s->changes[s->param_weight[i]].count;
  to->params = BD_NEW_ARRAY(s->ctx->arena, bd_id, room);
  to->is_weight = BD_NEW_ARRAY(s->ctx->arena, bool, room);
  to->param_count = 0;
  for (int i = 0; i < from->param_count; ++i) {
    const change *change = s->param_weight[i] < 0 ? NULL : &s->changes[s->param_weight[i]];
    if (!change || change->count == 0) {
      add_param(to, to->param_count++, from->params[i], from->is_weight[i]);
      continue;
    }
    bd_id first = from->ops[change->views[0]].out[0];
    if (change->count == 1) to->values[first].name = from->values[from->params[i]].name;
    for (int k = 0; k < change->reads; ++k) {
      bd_id made = from->ops[change->views[k]].out[0];
      rewrite.drop[change->views[k]] = true;
      if (k < change->count)
        add_param(to, to->param_count++, made, true);
      else
        rewrite.stands[made] = first;
    }
  }
  return bd_rewrite_end(s->ctx, &rewrite);
}

// The weights of the module, and main's parameters for them.
static void change_weights(settler *s, const bd_function *function, bd_function *main,
                           bd_id *moved) {
  bd_module *module = s->module;
  module->weight_count = module->weight_capacity = 0;
  module->weights = NULL;
  for (int w = 0; w < s->weight_count; ++w) {
    change *change = &s->changes[w];
    bd_id old = s->main->params[module->input_count + w];
    int count = change->count > 0 ? change->count : 1;
    change->made = BD_NEW_ARRAY(s->ctx->arena, bd_id, count);
    for (int i = 0; i < count; ++i) {
      bd_weight weight = change->count > 0 ? changed_weight(s, function, w, i) : s->weights[w];
      const char *name = change->count > 1 ? weight.name : s->main->values[old].name;
      bd_module_add_weight(s->ctx, module, weight);
      change->made[i] = bd_function_add_param(s->ctx, main, name, weight.type);
      main->is_weight[main->param_count - 1] = true;
    }
    moved[old] = change->made[0];
  }
}

static void copy_main_op(settler *s, const bd_op *op, bd_function *to, bd_id *moved) {
  int room = op->in_count + (op == s->call ? MAX_PARTS * s->changed : 0), count = 0;
  bd_id *in = BD_NEW_ARRAY(s->ctx->arena, bd_id, room);
  bd_id *out = BD_NEW_ARRAY(s->ctx->arena, bd_id, op->out_count);
  for (int i = 0; i < op->in_count; ++i) {
    int weight = op == s->call ? s->param_weight[i] : -1;
    if (weight < 0 || s->changes[weight].count == 0) in[count++] = moved[op->in[i]];
    for (int k = 0; weight >= 0 && k < s->changes[weight].count; ++k)
      in[count++] = s->changes[weight].made[k];
  }
  for (int i = 0; i < op->out_count; ++i) {
    const bd_value *value = &s->main->values[op->out[i]];
    moved[op->out[i]] = out[i] = bd_function_add_value(s->ctx, to, value->name, value->type);
  }
  bd_op *copy = bd_function_add_op(s->ctx, to, op->kind, count, in, op->out_count, out, op->loc);
  copy->callee = op->callee;
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
}

static void change_main(settler *s, const bd_function *function) {
  bd_function *to = bd_function_create(s->ctx, s->main->name);
  bd_id *moved = BD_NEW_ARRAY(s->ctx->arena, bd_id, s->main->value_count);
  to->loc = s->main->loc;
  for (int i = 0; i < s->module->input_count; ++i) {
    const bd_value *value = &s->main->values[s->main->params[i]];
    moved[s->main->params[i]] = bd_function_add_param(s->ctx, to, value->name, value->type);
  }
  change_weights(s, function, to, moved);
  for (int i = 0; i < s->main->op_count; ++i)
    copy_main_op(s, &s->main->ops[i], to, moved);
  for (int i = 0; i < s->main->result_count; ++i)
    bd_function_add_result(s->ctx, to, moved[s->main->results[i]]);
  s->module->main = to;
}

static settler begin(bd_ctx *ctx, bd_module *module) {
  settler s = {.ctx = ctx,
               .module = module,
               .main = module->main,
               .weight_count = module->weight_count,
               .weights = module->weights,
               .names = bd_name_map_init(ctx->arena)};
  s.changes = BD_NEW_ARRAY(ctx->arena, change, module->weight_count);
  for (int i = 0; i < module->weight_count; ++i)
    bd_name_map_add(&s.names, module->weights[i].name, 0);
  for (int i = 0; i < module->main->value_count; ++i)
    bd_name_map_add(&s.names, module->main->values[i].name, 0);
  return s;
}

void bd_settle_weights(bd_ctx *ctx, bd_module *module, int *changes) {
  for (int f = 0; f < module->function_count; ++f) {
    const bd_function *function = module->functions[f];
    settler s = begin(ctx, module);
    if (!is_called_once(&s, function->name)) continue;
    find_weights(&s, function);
    bd_readers readers = bd_find_readers(ctx, function);
    for (int i = 0; i < function->param_count; ++i)
      if (s.param_weight[i] >= 0) decide(&s, function, &readers, i);
    if (s.changed == 0) continue;
    module->functions[f] = change_function(&s, function);
    change_main(&s, function);
    *changes += s.changed;
  }
}
