#include "ir/passes/outline.h"
#include "ir/passes/signature.h"

#include <stdlib.h>
#include <string.h>

const int *bd_outline_last_uses(bd_ctx *ctx, const bd_function *function) {
  int *last = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  for (bd_id id = 0; id < function->value_count; ++id)
    last[id] = -1;
  for (int i = 0; i < function->op_count; ++i)
    for (int k = 0; k < function->ops[i].in_count; ++k)
      last[function->ops[i].in[k]] = i;
  for (int i = 0; i < function->result_count; ++i)
    last[function->results[i]] = function->op_count;
  return last;
}

// A value read from outside of a run: which slot of the list it took.
typedef struct read {
  bd_id id;
  int order;
} read;

static int by_id(const void *a, const void *b) {
  const read *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static int by_order(const void *a, const void *b) {
  const read *x = a, *y = b;
  return x->order < y->order ? -1 : x->order > y->order;
}

static void find_reads(bd_ctx *ctx, const bd_function *function, int first, int count,
                       bd_border *border) {
  int operands = 0, reads = 0, distinct = 0;
  for (int i = first; i < first + count; ++i)
    operands += function->ops[i].in_count;
  read *list = BD_NEW_ARRAY(ctx->arena, read, operands);
  for (int i = first; i < first + count; ++i)
    for (int k = 0; k < function->ops[i].in_count; ++k) {
      bd_id id = function->ops[i].in[k];
      if (function->values[id].producer < first) {
        list[reads] = (read){id, reads};
        ++reads;
      }
    }
  qsort(list, (size_t)reads, sizeof *list, by_id);
  for (int i = 0; i < reads; ++i)
    if (i == 0 || list[i].id != list[i - 1].id) list[distinct++] = list[i];
  qsort(list, (size_t)distinct, sizeof *list, by_order);
  border->in_count = distinct;
  border->in = BD_NEW_ARRAY(ctx->arena, bd_id, distinct);
  for (int i = 0; i < distinct; ++i)
    border->in[i] = list[i].id;
}

bd_border bd_outline_border(bd_ctx *ctx, const bd_function *function, const int *last_use,
                            int first, int count) {
  bd_border border = {0};
  find_reads(ctx, function, first, count, &border);
  int results = 0;
  for (int i = first; i < first + count; ++i)
    results += function->ops[i].out_count;
  border.out = BD_NEW_ARRAY(ctx->arena, bd_id, results);
  for (int i = first; i < first + count; ++i)
    for (int r = 0; r < function->ops[i].out_count; ++r)
      if (last_use[function->ops[i].out[r]] >= first + count)
        border.out[border.out_count++] = function->ops[i].out[r];
  return border;
}

// Where an operand comes from, relative to its run: an op of the run, or a slot of its border.
static bool same_source(const bd_function *function, const bd_border *x, const bd_border *y,
                        bd_id p, bd_id q, int a, int b) {
  const bd_value *u = &function->values[p], *w = &function->values[q];
  if ((u->producer >= a) != (w->producer >= b)) return false;
  if (u->producer >= a) return u->producer - a == w->producer - b && u->result == w->result;
  return bd_ids_find(x->in, x->in_count, p) == bd_ids_find(y->in, y->in_count, q);
}

static bool same_borders(const bd_function *function, const bd_border *x, const bd_border *y, int a,
                         int b) {
  if (x->in_count != y->in_count || x->out_count != y->out_count) return false;
  for (int i = 0; i < x->in_count; ++i)
    if (bd_function_is_weight(function, x->in[i]) != bd_function_is_weight(function, y->in[i]))
      return false;
  for (int i = 0; i < x->out_count; ++i) {
    const bd_value *u = &function->values[x->out[i]], *w = &function->values[y->out[i]];
    if (u->producer - a != w->producer - b || u->result != w->result) return false;
  }
  return true;
}

bool bd_outline_alike(bd_ctx *ctx, const bd_function *function, const int *last_use, int a, int b,
                      int count) {
  for (int i = 0; i < count; ++i)
    if (!bd_op_alike(function, &function->ops[a + i], &function->ops[b + i], false)) return false;
  bd_border x = bd_outline_border(ctx, function, last_use, a, count);
  bd_border y = bd_outline_border(ctx, function, last_use, b, count);
  if (!same_borders(function, &x, &y, a, b)) return false;
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < function->ops[a + i].in_count; ++k)
      if (!same_source(function, &x, &y, function->ops[a + i].in[k], function->ops[b + i].in[k], a,
                       b))
        return false;
  return true;
}
