#include "codegen/recomputed.h"
#include "ir/passes/signature.h"
#include <string.h>

typedef struct search {
  const bd_function *forward, *backward;
  bd_id *same; // per value of backward: the forward value that it equals, or BD_NO_ID
} search;

// Places in the workspace differ.
static bool counts(const bd_attr *attr) {
  return strcmp(attr->name, "scratch") != 0;
}

static bool has_attrs_of(const bd_op *a, const bd_op *b) {
  for (int i = 0; i < a->attr_count; ++i) {
    if (!counts(&a->attrs[i])) continue;
    const bd_attr *other = bd_op_find_attr(b, a->attrs[i].name);
    if (!other || !bd_attr_equal(&a->attrs[i], other)) return false;
  }
  return true;
}

static bool computes(const search *s, const bd_op *a, const bd_op *b) {
  if (a->kind != b->kind || a->in_count != b->in_count || a->out_count != b->out_count)
    return false;
  for (int i = 0; i < a->in_count; ++i)
    if (s->same[b->in[i]] != a->in[i]) return false;
  for (int i = 0; i < a->out_count; ++i) {
    const bd_value *x = &s->forward->values[a->out[i]], *y = &s->backward->values[b->out[i]];
    if (!bd_type_equal(&x->type, &y->type) || !bd_sharding_equal(&x->sharding, &y->sharding))
      return false;
  }
  return has_attrs_of(a, b) && has_attrs_of(b, a);
}

// Copies mostly come in the order of forward: from `from` on, then before it.
static int find(const search *s, const bd_op *op, int from) {
  int count = s->forward->op_count;
  for (int k = 0; k < op->in_count; ++k)
    if (s->same[op->in[k]] == BD_NO_ID) return -1;
  for (int i = 0; i < count; ++i)
    if (computes(s, &s->forward->ops[(from + i) % count], op)) return (from + i) % count;
  return -1;
}

const int *bd_recomputed_find(bd_ctx *ctx, const bd_function *forward,
                              const bd_function *backward) {
  search s = {forward, backward, BD_NEW_ARRAY(ctx->arena, bd_id, backward->value_count)};
  int *found = BD_NEW_ARRAY(ctx->arena, int, backward->op_count), last = -1;
  for (bd_id v = 0; v < backward->value_count; ++v)
    s.same[v] = BD_NO_ID;
  for (int i = 0; i < backward->restore_count; ++i)
    s.same[backward->params[i]] = forward->saves[i];
  for (int i = 0; i < backward->op_count; ++i) {
    const bd_op *op = &backward->ops[i];
    found[i] = find(&s, op, last + 1);
    if (found[i] < 0) continue;
    last = found[i];
    for (int k = 0; k < op->out_count; ++k)
      s.same[op->out[k]] = forward->ops[last].out[k];
  }
  return found;
}
