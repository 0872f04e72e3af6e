#include "codegen/epilogue.h"
#include "codegen/contract.h"
#include "codegen/recomputed.h"
#include "codegen/touch.h"
#include "runtime/braid_rt_abi.h"
#include <string.h>

typedef struct search {
  const bd_module *module;
  const bd_function *function;
  const bd_fusion *fusion;
  int *step_of; // per op
  int *readers; // per value: operands that it is, and one more for what outlives the call
  int *reader;  // per value: the last op that reads it
  bd_epilogue *of;
  int *kind; // per step: of the product that it is, or that does its work
} search;

static const bd_epilogue none = {BD_RT_EPILOGUE_NONE, -1, BD_NO_ID, BD_NO_ID, BD_NO_ID, BD_NO_ID};

static const bd_value *value_of(const search *s, bd_id id) {
  return &s->function->values[id];
}

static bd_type local_type(const search *s, bd_id id) {
  return bd_value_local_type(s->module, value_of(s, id));
}

static bool is_half(const search *s, bd_id id) {
  bd_dtype dtype = value_of(s, id)->type.dtype;
  return dtype != bd_dtype_wide(dtype);
}

static bool alike(const search *s, bd_id a, bd_id b) {
  const bd_value *x = value_of(s, a), *y = value_of(s, b);
  return bd_type_equal(&x->type, &y->type) && bd_sharding_equal(&x->sharding, &y->sharding);
}

// One product of matrices that the runtime computes; `out_product` is how.
static bool is_one_product(const search *s, const bd_op *op, bd_contract *out_product) {
  if (op->kind != BD_OP_CONTRACT || bd_dtype_wide(value_of(s, op->in[0])->type.dtype) != BD_F32)
    return false;
  bd_contract_read(s->module, s->function, op, out_product);
  return out_product->outer_count == 0 && out_product->group[BD_CONTRACT_BATCH].count == 0;
}

static int find_letter(const bd_contract *c, char letter) {
  int i = 0;
  while (c->letter[i].letter != letter)
    ++i;
  return i;
}

// Whether the letters, but for trivial ones, are those of a group in its order.
static bool is_group(const bd_contract *c, bd_contract_group_kind kind, const char *letters,
                     int count) {
  const bd_contract_group *group = &c->group[kind];
  int found = 0;
  for (int i = 0; i < count; ++i) {
    int letter = find_letter(c, letters[i]);
    if (bd_contract_is_trivial(&c->letter[letter])) continue;
    if (found == group->count || group->letter[found] != letter) return false;
    ++found;
  }
  return found > 0 && found == group->count;
}

// A vector along the product's n, the last dimensions of its result.
static bool is_bias(const search *s, const bd_op *op, const bd_contract *c, bd_id bias) {
  bd_type vector = local_type(s, bias), whole = local_type(s, op->out[0]);
  int first = whole.rank - vector.rank;
  if (vector.dtype != whole.dtype || vector.rank == 0 || first <= 0) return false;
  for (int d = 0; d < vector.rank; ++d)
    if (vector.dims[d] != whole.dims[first + d]) return false;
  const char *letters = strchr(bd_op_string(op, "rule"), '>') + 1;
  return is_group(c, BD_CONTRACT_N, letters + first, vector.rank);
}

// What gelu is taken of must lie in rows that the library can write.
static bool may_have_gelu(const search *s, const bd_op *op, const bd_contract *c) {
  return is_half(s, op->out[0]) && is_half(s, op->in[0]) && !bd_op_find_attr(op, "fp8") &&
         bd_contract_get_strides(c).out_m % BD_RT_EPILOGUE_GRAIN == 0;
}

// The epilogue that `count` fused ops are, the first of which reads the product.
static bool match(const search *s, const bd_op *product, const bd_contract *c, const bd_op *ops,
                  int count, bd_epilogue *e) {
  bd_id x = product->out[0];
  bool gelu = may_have_gelu(s, product, c);
  e->out = ops[count - 1].out[0];
  if (count > 2 || !alike(s, e->out, x) || bd_accumulates(s->function, e->out)) return false;
  if (ops[0].kind == BD_OP_ADD) {
    bd_id term = ops[0].in[ops[0].in[0] == x];
    if (count == 1 && alike(s, term, x)) {
      e->kind = BD_RT_EPILOGUE_ADD;
      e->other = term;
      return true;
    }
    e->kind = count == 1 ? BD_RT_EPILOGUE_BIAS : BD_RT_EPILOGUE_GELU;
    e->bias = term;
    if (count == 2) e->other = s->fusion->inner[ops[0].out[0]] ? x : ops[0].out[0];
    return is_bias(s, product, c, term) &&
           (count == 1 || (gelu && ops[1].kind == BD_OP_GELU && ops[1].in[0] == ops[0].out[0]));
  }
  if (count > 1 || !gelu) return false;
  e->kind = ops[0].kind == BD_OP_GELU ? BD_RT_EPILOGUE_GELU : BD_RT_EPILOGUE_GELU_GRAD;
  e->other = ops[0].kind == BD_OP_GELU ? x : ops[0].in[0];
  return ops[0].kind == BD_OP_GELU ||
         (ops[0].kind == BD_OP_GELU_GRAD && ops[0].in[1] == x && ops[0].in[0] != x);
}

static bool is_there(const search *s, bd_id id, int step) {
  if (id == BD_NO_ID) return true;
  int producer = value_of(s, id)->producer;
  return producer < 0 || s->step_of[producer] < step;
}

// Whether nothing else touches the bytes of a value from the product on until its own step, which
// writes it; the product itself may make what lies there, in a program that does the step's work
// apart.
static bool may_be_written(const search *s, int step, const bd_epilogue *e, bd_id id) {
  bd_stretch bytes = bd_stretch_of(s->module, s->function, id);
  if (bd_op_reads(s->module, s->function, &s->function->ops[s->fusion->first_op[step]], bytes))
    return false;
  for (int k = step + 1; k < e->step; ++k)
    if (bd_step_touches(s->module, s->function, s->fusion, k, bytes)) return false;
  return e->bias == BD_NO_ID ||
         !bd_stretch_meet(bytes, bd_stretch_of(s->module, s->function, e->bias));
}

// Whether the other step may be done where the product is.
static bool may_move(const search *s, int step, const bd_epilogue *e) {
  bool writes_other = e->kind == BD_RT_EPILOGUE_GELU;
  if (!is_there(s, e->bias, step) || (!writes_other && !is_there(s, e->other, step))) return false;
  if (!may_be_written(s, step, e, e->out)) return false;
  if (e->other == BD_NO_ID) return true;
  if (writes_other && !may_be_written(s, step, e, e->other)) return false;
  bd_stretch out = bd_stretch_of(s->module, s->function, e->out),
             other = bd_stretch_of(s->module, s->function, e->other);
  return !bd_stretch_meet(out, other) ||
         (e->kind == BD_RT_EPILOGUE_ADD && out.start == other.start);
}

static void take(search *s, int step, const bd_epilogue *e) {
  s->of[step] = *e;
  s->kind[step] = s->kind[e->step] = e->kind;
}

// A pointwise step that alone reads the product.
static void find_pointwise(search *s, int step) {
  const bd_op *op = &s->function->ops[s->fusion->first_op[step]];
  bd_contract product;
  if (!is_one_product(s, op, &product)) return;
  bd_id x = op->out[0];
  if (s->readers[x] != 1 || s->reader[x] < 0) return;
  bd_epilogue e = none;
  e.step = s->step_of[s->reader[x]];
  if (s->reader[x] == s->fusion->first_op[e.step] && s->kind[e.step] == BD_RT_EPILOGUE_NONE &&
      match(s, op, &product, &s->function->ops[s->reader[x]], s->fusion->step_ops[e.step], &e) &&
      may_move(s, step, &e))
    take(s, step, &e);
}

// Whether `sum` adds up operand `operand` of the product over k, to an accumulator.
static bool is_sum_over_k(const search *s, const bd_op *op, const bd_contract *c, int operand,
                          const bd_op *sum) {
  const char *rule = bd_op_string(sum, "rule"), *letters = bd_op_string(op, "rule");
  char kept[BD_MAX_RANK];
  int count = 0, rank = value_of(s, op->in[operand])->type.rank;
  if (operand == 1) letters = strchr(letters, ',') + 1;
  for (const char *at = strchr(rule, '>') + 1; *at; ++at)
    kept[count++] = letters[strchr(rule, *at) - rule];
  bool first = (operand == 0) != c->swapped;
  for (int d = 0; d < rank; ++d) {
    const bd_contract_letter *letter = &c->letter[find_letter(c, letters[d])];
    if (!memchr(kept, letters[d], (size_t)count) && letter->in[2] &&
        !bd_contract_is_trivial(letter))
      return false;
  }
  return is_group(c, first ? BD_CONTRACT_M : BD_CONTRACT_N, kept, count);
}

// The gradient of a bias: a sum of what the product for the gradient of the weight reads.
static void find_sum(search *s, int step) {
  const bd_op *op = &s->function->ops[s->fusion->first_op[step]];
  bd_contract product;
  if (s->kind[step] != BD_RT_EPILOGUE_NONE || !is_one_product(s, op, &product)) return;
  if (value_of(s, op->out[0])->type.dtype != BD_F32 || bd_op_find_attr(op, "fp8")) return;
  for (int other = 0; other < s->fusion->step_count; ++other) {
    const bd_op *sum = &s->function->ops[s->fusion->first_op[other]];
    // Scratch is a step's in its own place only.
    if (sum->kind != BD_OP_REDUCE_SUM || s->kind[other] != BD_RT_EPILOGUE_NONE ||
        bd_op_find_attr(sum, "scratch") || (sum->in[0] != op->in[0]) == (sum->in[0] != op->in[1]))
      continue;
    int operand = sum->in[0] == op->in[1];
    if (value_of(s, sum->out[0])->type.dtype != BD_F32 || s->readers[sum->out[0]] != 1 ||
        !bd_accumulates(s->function, sum->out[0]) || !is_sum_over_k(s, op, &product, operand, sum))
      continue;
    bd_epilogue e = none;
    e.kind = (operand == 0) != product.swapped ? BD_RT_EPILOGUE_SUM_A : BD_RT_EPILOGUE_SUM_B;
    e.step = other;
    e.out = op->out[0];
    e.sums = sum->out[0];
    take(s, step, &e);
    return;
  }
}

static void count_readers(search *s) {
  const bd_function *f = s->function;
  for (bd_id v = 0; v < f->value_count; ++v)
    s->reader[v] = -1;
  for (int i = 0; i < f->op_count; ++i)
    for (int k = 0; k < f->ops[i].in_count; ++k) {
      s->readers[f->ops[i].in[k]]++;
      s->reader[f->ops[i].in[k]] = i;
    }
  for (int i = 0; i < f->result_count; ++i)
    s->readers[f->results[i]]++;
  for (int i = 0; i < f->save_count; ++i)
    s->readers[f->saves[i]]++;
}

// The function by itself.
static search find_alone(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                         const bd_fusion *fusion) {
  search s = {.module = module, .function = function, .fusion = fusion};
  s.step_of = BD_NEW_ARRAY(ctx->arena, int, function->op_count);
  s.readers = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  s.reader = BD_NEW_ARRAY(ctx->arena, int, function->value_count);
  s.of = BD_NEW_ARRAY(ctx->arena, bd_epilogue, fusion->step_count);
  s.kind = BD_NEW_ARRAY(ctx->arena, int, fusion->step_count);
  for (int step = 0; step < fusion->step_count; ++step) {
    s.of[step] = none;
    for (int i = 0; i < fusion->step_ops[step]; ++i)
      s.step_of[fusion->first_op[step] + i] = step;
  }
  count_readers(&s);
  for (int step = 0; module->cuda && step < fusion->step_count; ++step)
    find_pointwise(&s, step);
  for (int step = 0; module->cuda && step < fusion->step_count; ++step)
    find_sum(&s, step);
  return s;
}

static void drop(search *s, int step) {
  s->kind[step] = s->kind[s->of[step].step] = BD_RT_EPILOGUE_NONE;
  s->of[step] = none;
}

// Whether an op of the step is done otherwise in the other function. `forward`: per op of a
// backward function the one that it computes again.
static bool clashes(const search *s, const int *forward, const bool *clash, int step) {
  for (int i = 0; i < s->fusion->step_ops[step]; ++i) {
    int op = s->fusion->first_op[step] + i;
    if (s->function->role == BD_ROLE_BACKWARD) op = forward[op];
    if (op >= 0 && clash[op]) return true;
  }
  return false;
}

// GELU alone, of what is kept, that forward has from a product: the kernel's differs from the
// library's by roundings.
static bool is_gelu_alone(const search *again, int op, int kind_there) {
  return again->function->ops[op].kind == BD_OP_GELU && kind_there == BD_RT_EPILOGUE_GELU &&
         again->kind[again->step_of[op]] == BD_RT_EPILOGUE_NONE;
}

// Drops what the pair of functions does not do alike.
static void agree(bd_ctx *ctx, search *s, const search *peer) {
  bool is_backward = s->function->role == BD_ROLE_BACKWARD;
  const search *there = is_backward ? peer : s, *again = is_backward ? s : peer;
  const int *forward = bd_recomputed_find(ctx, there->function, again->function);
  bool *clash = BD_NEW_ARRAY(ctx->arena, bool, there->function->op_count), all = false;
  for (int i = 0; i < again->function->op_count; ++i) {
    if (!again->function->ops[i].recomputed) continue;
    if (forward[i] < 0)
      all = true;
    else if (there->kind[there->step_of[forward[i]]] != again->kind[again->step_of[i]] &&
             !is_gelu_alone(again, i, there->kind[there->step_of[forward[i]]]))
      clash[forward[i]] = true;
  }
  for (int i = 0; all && i < there->function->op_count; ++i)
    clash[i] = true;
  for (int step = 0; step < s->fusion->step_count; ++step)
    if (s->of[step].kind != BD_RT_EPILOGUE_NONE &&
        (clashes(s, forward, clash, step) || clashes(s, forward, clash, s->of[step].step)))
      drop(s, step);
}

void bd_epilogue_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                      const bd_fusion *fusion, bd_epilogues *out_epilogues) {
  search s = find_alone(ctx, module, function, fusion);
  if (function->peer) {
    const bd_function *other = bd_module_find(module, function->peer);
    bd_fusion others;
    bd_fuse(ctx, module, other, &others);
    search peer = find_alone(ctx, module, other, &others);
    agree(ctx, &s, &peer);
  }
  *out_epilogues =
      (bd_epilogues){.of = s.of, .taken = BD_NEW_ARRAY(ctx->arena, bool, fusion->step_count)};
  for (int step = 0; step < fusion->step_count; ++step)
    if (s.of[step].kind != BD_RT_EPILOGUE_NONE) out_epilogues->taken[s.of[step].step] = true;
}
