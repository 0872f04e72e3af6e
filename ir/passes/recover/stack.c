#include "ir/passes/recover/stack.h"
#include "ir/passes/recover/edit.h"
#include "ir/passes/rewrite.h"
#include <stdlib.h>
#include <string.h>

// Weights that are joined along a first dimension of 1, and the weight that they become.
typedef struct stack {
  int root; // the op that joins them, or joins what is joined of them
  int count;
  int *params; // of the function, in order
  bd_weight weight;
} stack;

typedef struct stacker {
  bd_ctx *ctx;
  bd_module *module;
  const bd_function *function, *main;
  const bd_op *call; // main's one call of the function
  bd_readers readers;
  int *param_weight; // per parameter: the weight, where nothing else reads it, or -1
  int *value_param;  // per value of the function: the parameter, or -1
  int count;
  stack *stacks;
} stacker;

static const bd_weight *weight_of(const stacker *s, int param) {
  return &s->module->weights[s->param_weight[param]];
}

static const bd_op *find_call(const bd_function *main, const char *name) {
  const bd_op *call = NULL;
  for (int i = 0; i < main->op_count; ++i) {
    const bd_op *op = &main->ops[i];
    if (!op->callee || strcmp(op->callee, name) != 0) continue;
    if (call) return NULL;
    call = op;
  }
  return call;
}

static void find_weights(stacker *s) {
  const bd_function *f = s->function, *main = s->main;
  int *reads = BD_NEW_ARRAY(s->ctx->arena, int, main->value_count);
  int *weight = BD_NEW_ARRAY(s->ctx->arena, int, main->value_count);
  for (int i = 0; i < main->op_count; ++i)
    for (int k = 0; k < main->ops[i].in_count; ++k)
      ++reads[main->ops[i].in[k]];
  for (int w = 0; w < s->module->weight_count; ++w)
    weight[main->params[s->module->input_count + w]] = w + 1;
  s->param_weight = BD_NEW_ARRAY(s->ctx->arena, int, f->param_count);
  s->value_param = BD_NEW_ARRAY(s->ctx->arena, int, f->value_count);
  for (int v = 0; v < f->value_count; ++v)
    s->value_param[v] = -1;
  for (int i = 0; i < f->param_count; ++i) {
    s->param_weight[i] = reads[s->call->in[i]] == 1 ? weight[s->call->in[i]] - 1 : -1;
    s->value_param[f->params[i]] = i;
  }
}

static bool is_read_once(const stacker *s, bd_id id) {
  return s->readers.first[id + 1] - s->readers.first[id] == 1 && !s->readers.is_result[id];
}

static bool is_join(const bd_op *op) {
  return op->kind == BD_OP_CONCAT && bd_op_int(op, "dim", 0) == 0;
}

// The parameters that are joined, through joins of joins.
static bool list_params(const stacker *s, const bd_op *op, stack *out) {
  for (int k = 0; k < op->in_count; ++k) {
    bd_id id = op->in[k];
    int param = s->value_param[id], producer = s->function->values[id].producer;
    if (!is_read_once(s, id)) return false;
    if (param >= 0) {
      const bd_type *type = &s->function->values[id].type;
      if (s->param_weight[param] < 0 || type->rank < 2 || type->dims[0] != 1) return false;
      out->params[out->count++] = param;
    } else if (producer < 0 || !is_join(&s->function->ops[producer]) ||
               !list_params(s, &s->function->ops[producer], out)) {
      return false;
    }
  }
  return true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Whether names count: equal but for a number that grows by equal steps. Sets the storage's name.
static bool find_count(const stacker *s, const stack *k, bd_storage *storage) {
  const char *a = weight_of(s, k->params[0])->storage.name;
  const char *b = weight_of(s, k->params[1])->storage.name;
  size_t head = 0;
  while (a[head] && a[head] == b[head])
    ++head;
  while (head > 0 && is_digit(a[head - 1]))
    --head;
  char *rest, *other;
  if (!is_digit(a[head]) || !is_digit(b[head])) return false;
  long long first = strtoll(a + head, &rest, 10), second = strtoll(b + head, &other, 10);
  if (first > BD_MAX_ELEMENTS || second <= first || second > BD_MAX_ELEMENTS) return false;
  storage->name = bd_intern(s->ctx, a, head);
  storage->stack = k->count;
  storage->stack_first = first;
  storage->stack_gap = second - first - 1;
  storage->stack_rest = bd_intern_z(s->ctx, rest);
  for (int i = 0; i < k->count; ++i)
    if (strcmp(bd_storage_name(s->ctx, storage, i), weight_of(s, k->params[i])->storage.name) != 0)
      return false;
  return true;
}

static bool is_alike(const bd_weight *a, const bd_weight *b) {
  const bd_storage *x = &a->storage, *y = &b->storage;
  return bd_type_equal(&a->type, &b->type) && a->wide == b->wide && a->masters == b->masters &&
         a->gradients == b->gradients && a->init == b->init && a->decay == b->decay &&
         a->average == b->average && x->stack == 0 && y->stack == 0 && x->rank == y->rank &&
         memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0 &&
         x->slice_dim == y->slice_dim && x->slice_start == y->slice_start &&
         x->slice_size == y->slice_size && x->slice_every == y->slice_every &&
         x->transpose == y->transpose;
}

static bool find_stack(const stacker *s, int root, stack *out) {
  const bd_op *op = &s->function->ops[root];
  bd_id made = op->out[0];
  *out =
      (stack){.root = root, .params = BD_NEW_ARRAY(s->ctx->arena, int, s->function->param_count)};
  if (!is_join(op) || s->readers.is_result[made]) return false;
  if (is_read_once(s, made) && is_join(&s->function->ops[s->readers.ops[s->readers.first[made]]]))
    return false;
  if (!list_params(s, op, out) || out->count < 2 || out->count > BD_MAX_STACK) return false;
  out->weight = *weight_of(s, out->params[0]);
  for (int i = 1; i < out->count; ++i)
    if (!is_alike(&out->weight, weight_of(s, out->params[i]))) return false;
  if (!find_count(s, out, &out->weight.storage)) return false;
  out->weight.type = s->function->values[made].type;
  return true;
}

// The ops that join the parameters of a stack go, and what they made is a parameter.
static void drop_joins(const bd_function *from, bd_rewrite *rewrite, int root) {
  rewrite->drop[root] = true;
  for (int k = 0; k < from->ops[root].in_count; ++k) {
    int producer = from->values[from->ops[root].in[k]].producer;
    if (producer >= 0) drop_joins(from, rewrite, producer);
  }
}

// A parameter that is in no stack, and one that is another than the first of its.
enum { ALONE = -1, FOLLOWS = -2 };

// Per parameter: the stack that it is the first of, ALONE or FOLLOWS.
static int *find_places(const stacker *s) {
  int *places = BD_NEW_ARRAY(s->ctx->arena, int, s->function->param_count);
  for (int i = 0; i < s->function->param_count; ++i)
    places[i] = ALONE;
  for (int k = 0; k < s->count; ++k)
    for (int i = 0; i < s->stacks[k].count; ++i)
      places[s->stacks[k].params[i]] = i == 0 ? k : FOLLOWS;
  return places;
}

static bd_function *change_function(const stacker *s, const int *places) {
  const bd_function *from = s->function;
  bd_rewrite rewrite = bd_rewrite_begin(s->ctx, from);
  bd_function *to = rewrite.function;
  to->params = BD_NEW_ARRAY(s->ctx->arena, bd_id, from->param_count);
  to->is_weight = BD_NEW_ARRAY(s->ctx->arena, bool, from->param_count);
  to->param_count = 0;
  for (int i = 0; i < from->param_count; ++i) {
    if (places[i] == FOLLOWS) continue;
    bd_id id = from->params[i];
    if (places[i] >= 0) {
      const stack *k = &s->stacks[places[i]];
      const char *name = from->values[id].name;
      id = from->ops[k->root].out[0];
      to->values[id].name = name;
      to->values[id].producer = -1;
      drop_joins(from, &rewrite, k->root);
    }
    to->params[to->param_count] = id;
    to->is_weight[to->param_count++] = from->is_weight[i];
  }
  return bd_rewrite_end(s->ctx, &rewrite);
}

// Main with a parameter for each stack, and the module's weights.
static void change_main(stacker *s, const int *places) {
  bd_module *module = s->module;
  const bd_function *from = s->main;
  const bd_weight *weights = module->weights;
  int weight_count = module->weight_count;
  int *of_weight = BD_NEW_ARRAY(s->ctx->arena, int, weight_count);
  bd_id *moved = BD_NEW_ARRAY(s->ctx->arena, bd_id, from->value_count);
  bd_function *to = bd_function_create(s->ctx, from->name);
  for (int w = 0; w < weight_count; ++w)
    of_weight[w] = ALONE;
  for (int i = 0; i < s->function->param_count; ++i)
    if (places[i] != ALONE) of_weight[s->param_weight[i]] = places[i];
  to->loc = from->loc;
  module->weights = NULL;
  module->weight_count = module->weight_capacity = 0;
  for (int i = 0; i < from->param_count; ++i) {
    int w = i - module->input_count, k = w < 0 ? ALONE : of_weight[w];
    const bd_value *value = &from->values[from->params[i]];
    if (k == FOLLOWS) continue;
    bd_type type = k < 0 ? value->type : s->stacks[k].weight.type;
    moved[from->params[i]] = bd_function_add_param(s->ctx, to, value->name, type);
    if (w < 0) continue;
    to->is_weight[to->param_count - 1] = true;
    bd_module_add_weight(s->ctx, module, k < 0 ? weights[w] : s->stacks[k].weight);
  }
  for (int i = 0; i < from->op_count; ++i) {
    const bd_op *op = &from->ops[i];
    bd_id *in = BD_NEW_ARRAY(s->ctx->arena, bd_id, op->in_count);
    bd_id *out = BD_NEW_ARRAY(s->ctx->arena, bd_id, op->out_count);
    int count = 0;
    for (int k = 0; k < op->in_count; ++k)
      if (op != s->call || places[k] != FOLLOWS) in[count++] = moved[op->in[k]];
    for (int r = 0; r < op->out_count; ++r) {
      const bd_value *value = &from->values[op->out[r]];
      moved[op->out[r]] = out[r] = bd_function_add_value(s->ctx, to, value->name, value->type);
    }
    bd_op *copy = bd_function_add_op(s->ctx, to, op->kind, count, in, op->out_count, out, op->loc);
    copy->callee = op->callee;
    copy->attr_count = op->attr_count;
    copy->attrs = op->attrs;
  }
  for (int i = 0; i < from->result_count; ++i)
    bd_function_add_result(s->ctx, to, moved[from->results[i]]);
  module->main = to;
}

void bd_stack_weights(bd_ctx *ctx, bd_module *module, int *changes) {
  for (int f = 0; f < module->function_count; ++f) {
    const bd_function *function = module->functions[f];
    stacker s = {.ctx = ctx,
                 .module = module,
                 .function = function,
                 .main = module->main,
                 .call = find_call(module->main, function->name),
                 .readers = bd_find_readers(ctx, function),
                 .stacks = BD_NEW_ARRAY(ctx->arena, stack, function->op_count)};
    if (!s.call) continue;
    find_weights(&s);
    for (int i = 0; i < function->op_count; ++i)
      if (is_join(&function->ops[i]) && find_stack(&s, i, &s.stacks[s.count])) ++s.count;
    if (s.count == 0) continue;
    const int *places = find_places(&s);
    module->functions[f] = change_function(&s, places);
    change_main(&s, places);
    *changes += s.count;
  }
}
