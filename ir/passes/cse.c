#include "ir/pass.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/signature.h"
#include <string.h>

// Ops seen so far, by signature and operands: open addressing, op number + 1, 0 is free.
typedef struct seen_ops {
  int *slots;
  size_t capacity; // a power of two above twice the number of ops
} seen_ops;

static seen_ops make_seen(bd_ctx *ctx, int op_count) {
  seen_ops seen = {.capacity = 16};
  while (seen.capacity < 2 * (size_t)op_count)
    seen.capacity *= 2;
  seen.slots = BD_NEW_ARRAY(ctx->arena, int, seen.capacity);
  return seen;
}

static bool same(const bd_function *function, const bd_op *a, const bd_op *b) {
  if (!bd_op_alike(function, a, b, true)) return false;
  return a->in_count == 0 || memcmp(a->in, b->in, (size_t)a->in_count * sizeof *a->in) == 0;
}

// The earlier op that computes what op `index` does, or -1 after noting this one.
static int find_or_add(seen_ops *seen, const bd_function *function, int index) {
  const bd_op *op = &function->ops[index];
  uint64_t hash = bd_op_signature(function, op, true);
  hash = bd_hash_bytes(hash, op->in, (size_t)op->in_count * sizeof *op->in);
  size_t slot = (size_t)hash & (seen->capacity - 1);
  for (; seen->slots[slot]; slot = (slot + 1) & (seen->capacity - 1))
    if (same(function, &function->ops[seen->slots[slot] - 1], op)) return seen->slots[slot] - 1;
  seen->slots[slot] = index + 1;
  return -1;
}

static void merge(bd_rewrite *rewrite, int index, int earlier) {
  const bd_op *op = &rewrite->function->ops[index], *kept = &rewrite->function->ops[earlier];
  if (!bd_rewrite_replace(rewrite, index, kept->out[0])) return;
  for (int i = 1; i < op->out_count; ++i)
    rewrite->stands[op->out[i]] = kept->out[i];
}

static bd_function *merge_equal(bd_ctx *ctx, const bd_function *function) {
  bd_rewrite rewrite = bd_rewrite_begin(ctx, function);
  seen_ops seen = make_seen(ctx, function->op_count);
  for (int i = 0; i < rewrite.function->op_count; ++i) {
    bd_op *op = &rewrite.function->ops[i];
    for (int k = 0; k < op->in_count; ++k)
      op->in[k] = rewrite.stands[op->in[k]];
    unsigned traits = bd_op_get_info(op->kind)->traits;
    if (!(traits & BD_PURE) || (traits & BD_RANDOM)) continue;
    int earlier = find_or_add(&seen, rewrite.function, i);
    if (earlier >= 0) merge(&rewrite, i, earlier);
  }
  return bd_rewrite_end(ctx, &rewrite);
}

bd_status bd_pass_cse(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *module = bd_module_clone(ctx, in);
  for (int i = 0; i < module->function_count; ++i)
    module->functions[i] = merge_equal(ctx, in->functions[i]);
  *out_module = module;
  return BD_OK;
}
