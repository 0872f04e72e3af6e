// Kernels of one point per lane that walks along dimensions: reductions by other than sums of f32,
// products of f64 and integers, cumsum, topk.
#include "codegen/kernel/gen.h"

typedef struct walk {
  bd_access in, out, index; // index: topk's second result
  bd_access factor;         // contract: the other operand
  int count, loops[BD_MAX_LOOPS];
  bd_dtype held;      // the type that is summed or multiplied in
  bd_op join;         // how, of two values
  LLVMValueRef state; // what has been joined so far
} walk;

static LLVMTypeRef held_type(bd_gen *g, const walk *w) {
  return bd_gen_type(g, bd_gen_register(g, w->held));
}

// The least or greatest of a type, where nothing has been seen.
static LLVMValueRef extreme_of(bd_gen *g, const walk *w, bool most) {
  LLVMTypeRef type = bd_gen_register(g, w->held);
  if (bd_dtype_is_float(w->held)) return LLVMConstReal(type, most ? 1.0 / 0.0 : -1.0 / 0.0);
  bool has_sign = bd_dtype_class_of(w->held) == BD_INTEGERS && !bd_dtype_is_unsigned(w->held);
  unsigned long long sign = 1ull << (LLVMGetIntTypeWidth(type) - 1);
  if (!has_sign) return most ? LLVMConstAllOnes(type) : LLVMConstNull(type);
  return LLVMConstInt(type, most ? sign - 1 : sign, false);
}

static LLVMValueRef start_of(bd_gen *g, const walk *w) {
  LLVMTypeRef type = bd_gen_register(g, w->held);
  switch (w->join.kind) {
  case BD_OP_MAX:
    return extreme_of(g, w, false);
  case BD_OP_MIN:
    return extreme_of(g, w, true);
  case BD_OP_MUL:
    return bd_dtype_is_float(w->held) ? LLVMConstReal(type, 1.0) : LLVMConstInt(type, 1, false);
  default:
    return LLVMConstNull(type);
  }
}

static void begin(bd_gen *g, walk *w) {
  w->state = bd_gen_variable(g, held_type(g, w));
  LLVMBuildStore(g->b, bd_gen_splat(g, start_of(g, w)), w->state);
}

static LLVMValueRef state_of(bd_gen *g, const walk *w) {
  return LLVMBuildLoad2(g->b, held_type(g, w), w->state, "");
}

static void take(bd_gen *g, void *user) {
  walk *w = user;
  static const bd_op times = {.kind = BD_OP_MUL};
  LLVMValueRef x = bd_gen_cast(g, w->in.dtype, w->held, bd_gen_load(g, &w->in));
  if (w->factor.base) {
    const LLVMValueRef factors[2] = {x, bd_gen_load(g, &w->factor)};
    x = bd_gen_arithmetic(g, &times, w->held, factors);
  }
  const LLVMValueRef both[2] = {x, state_of(g, w)};
  LLVMBuildStore(g->b, bd_gen_arithmetic(g, &w->join, w->held, both), w->state);
}

static void put(bd_gen *g, const walk *w) {
  bd_gen_store(g, &w->out, bd_gen_cast(g, w->held, w->out.dtype, state_of(g, w)));
}

static void reduce_point(bd_gen *g, void *user) {
  walk *w = user;
  begin(g, w);
  g->rolled = g->cuda; // short loops in full take a GPU's registers
  bd_gen_serial(g, w->count, w->loops, take, w);
  g->rolled = false;
  put(g, w);
}

// Sums and products of floats are formed in f64.
static bd_dtype held_in(const bd_gen *g, bd_op_kind join) {
  bd_dtype dtype = g->kernel->function->values[g->op->in[0]].type.dtype;
  bool exact = join == BD_OP_MAX || join == BD_OP_MIN || !bd_dtype_is_float(dtype);
  return exact ? dtype : BD_F64;
}

static bool contains(const int8_t *list, int count, int8_t item) {
  for (int i = 0; i < count; i++)
    if (list[i] == item) return true;
  return false;
}

static bd_op_kind join_of(bd_op_kind kind) {
  return kind == BD_OP_REDUCE_MAX    ? BD_OP_MAX
         : kind == BD_OP_REDUCE_MIN  ? BD_OP_MIN
         : kind == BD_OP_REDUCE_PROD ? BD_OP_MUL
                                     : BD_OP_ADD;
}

bd_status bd_gen_reduce(bd_gen *g) {
  const bd_value *values = g->kernel->function->values;
  int rank = values[g->op->in[0]].type.rank, out_rank = values[g->op->out[0]].type.rank;
  walk w = {.in = bd_gen_in(g, 0), .out = bd_gen_out(g, 0), .join = {.kind = join_of(g->op->kind)}};
  w.held = held_in(g, w.join.kind);
  for (int d = 0; d < rank; d++)
    if (!contains(g->map.out[0], out_rank, g->map.in[0][d])) w.loops[w.count++] = g->map.in[0][d];
  if (g->op->in_count == 2) w.factor = bd_gen_in(g, 1);
  bd_access *accesses[] = {&w.in, &w.out, &w.factor};
  bd_gen_points points = {.loops = out_rank,
                          .access_count = 3,
                          .accesses = accesses,
                          .work = bd_gen_work(g, w.count, w.loops),
                          .body = reduce_point,
                          .user = &w};
  for (int d = 0; d < out_rank; d++)
    points.order[d] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
  return BD_OK;
}

// Begins a loop over a dimension, from its end where `reverse` says so.
static bd_gen_for along(bd_gen *g, int loop, bool reverse) {
  LLVMValueRef count = g->loop[loop].count, one = bd_gen_long(g, 1);
  bd_gen_for each = bd_gen_for_begin(g, bd_gen_long(g, 0), count, one);
  g->index[loop] = each.index;
  if (reverse)
    g->index[loop] = LLVMBuildNSWSub(g->b, LLVMBuildNSWSub(g->b, count, one, ""), each.index, "");
  return each;
}

static void sum_along(bd_gen *g, void *user) {
  walk *w = user;
  bool exclusive = bd_op_int(g->op, "exclusive", 0);
  begin(g, w);
  bd_gen_for each = along(g, w->loops[0], bd_op_int(g->op, "reverse", 0));
  if (exclusive) put(g, w);
  take(g, w);
  if (!exclusive) put(g, w);
  bd_gen_for_end(g, &each);
}

// Points are those of the result without dimension `dim`.
static void walk_points(bd_gen *g, walk *w, int dim, int64_t work, bd_gen_body body) {
  int rank = g->kernel->function->values[g->op->out[0]].type.rank;
  bd_access *accesses[] = {&w->in, &w->out, &w->index};
  bd_gen_points points = {
      .access_count = 3, .accesses = accesses, .work = work, .body = body, .user = w};
  for (int d = 0; d < rank; d++)
    if (d != dim) points.order[points.loops++] = g->map.out[0][d];
  bd_gen_elementwise(g, &points);
}

bd_status bd_gen_cumsum(bd_gen *g) {
  int dim = (int)bd_op_int(g->op, "dim", 0), loop = g->map.out[0][dim];
  walk w = {.in = bd_gen_access(g, g->op->in[0], g->map.out[0]),
            .out = bd_gen_out(g, 0),
            .count = 1,
            .loops = {loop},
            .join = {.kind = BD_OP_ADD}};
  w.held = held_in(g, BD_OP_ADD);
  walk_points(g, &w, dim, g->loop[loop].extent, sum_along);
  return BD_OK;
}

// An integer that is ordered as numbers are, NaNs above all; turned round where the least is
// wanted.
static LLVMValueRef rank_of(bd_gen *g, bd_dtype dtype, LLVMValueRef x) {
  LLVMValueRef key = x;
  if (bd_dtype_is_float(dtype)) {
    bool wide = dtype == BD_F64;
    LLVMTypeRef type = bd_gen_type_like(x, wide ? bd_gen_i64(g) : bd_gen_i32(g));
    LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, "");
    LLVMValueRef plus = LLVMBuildFAdd(g->b, x, bd_gen_real_like(x, 0.0), ""); // -0 is 0
    key = LLVMBuildBitCast(g->b, plus, type, "");
    LLVMValueRef most = bd_gen_int_like(key, wide ? INT64_MAX : INT32_MAX);
    LLVMValueRef sign = LLVMBuildAShr(g->b, key, bd_gen_int_like(key, wide ? 63 : 31), "");
    key = LLVMBuildXor(g->b, key, LLVMBuildAnd(g->b, sign, most, ""), "");
    key = LLVMBuildSelect(g->b, none, most, key, "");
  } else if (bd_dtype_is_unsigned(dtype)) {
    int bits = 8 * (int)bd_dtype_bytes(dtype);
    key = LLVMBuildXor(g->b, x, bd_gen_int_like(x, (int64_t)(1ull << (bits - 1))), "");
  }
  return bd_op_int(g->op, "largest", 1) ? key : LLVMBuildNot(g->b, key, "");
}

// The best of the elements that come after the one taken last.
typedef struct contest {
  LLVMValueRef value, key, index;    // variables: the best so far; index -1: none
  LLVMValueRef last_key, last_index; // what was taken last
  LLVMValueRef first;                // whether nothing was taken yet
} contest;

static void compete(bd_gen *g, const walk *w, const contest *c, LLVMValueRef number) {
  LLVMValueRef x = bd_gen_load(g, &w->in), key = rank_of(g, w->in.dtype, x);
  LLVMTypeRef keys = LLVMTypeOf(key), indices = bd_gen_type(g, bd_gen_i64(g));
  LLVMValueRef i = bd_gen_splat(g, number);
  LLVMValueRef best = LLVMBuildLoad2(g->b, indices, c->index, "");
  LLVMValueRef best_key = LLVMBuildLoad2(g->b, keys, c->key, "");
  LLVMValueRef below = LLVMBuildICmp(g->b, LLVMIntSLT, key, c->last_key, "");
  LLVMValueRef equal = LLVMBuildICmp(g->b, LLVMIntEQ, key, c->last_key, "");
  LLVMValueRef later = LLVMBuildICmp(g->b, LLVMIntSGT, i, c->last_index, "");
  LLVMValueRef after = LLVMBuildOr(g->b, below, LLVMBuildAnd(g->b, equal, later, ""), "");
  after = LLVMBuildOr(g->b, after, bd_gen_splat(g, c->first), "");
  LLVMValueRef none = LLVMBuildICmp(g->b, LLVMIntSLT, best, bd_gen_int_like(best, 0), "");
  LLVMValueRef better = LLVMBuildICmp(g->b, LLVMIntSGT, key, best_key, "");
  better = LLVMBuildAnd(g->b, after, LLVMBuildOr(g->b, none, better, ""), "");
  LLVMValueRef value = LLVMBuildLoad2(g->b, LLVMTypeOf(x), c->value, "");
  LLVMBuildStore(g->b, LLVMBuildSelect(g->b, better, x, value, ""), c->value);
  LLVMBuildStore(g->b, LLVMBuildSelect(g->b, better, key, best_key, ""), c->key);
  LLVMBuildStore(g->b, LLVMBuildSelect(g->b, better, i, best, ""), c->index);
}

// Round by round, the next in order.
static void order_point(bd_gen *g, void *user) {
  walk *w = user;
  LLVMTypeRef indices = bd_gen_type(g, bd_gen_i64(g)), values = held_type(g, w), keys = values;
  if (bd_dtype_is_float(w->held))
    keys = bd_gen_type(g, w->held == BD_F64 ? bd_gen_i64(g) : bd_gen_i32(g));
  contest c = {bd_gen_variable(g, values),
               bd_gen_variable(g, keys),
               bd_gen_variable(g, indices),
               NULL,
               NULL,
               NULL};
  LLVMBuildStore(g->b, LLVMConstNull(keys), c.key);
  LLVMBuildStore(g->b, LLVMConstNull(values), c.value);
  LLVMBuildStore(g->b, LLVMConstNull(indices), c.index);
  bd_gen_for rounds = along(g, w->loops[0], false);
  c.first = LLVMBuildICmp(g->b, LLVMIntEQ, rounds.index, bd_gen_long(g, 0), "");
  c.last_key = LLVMBuildLoad2(g->b, keys, c.key, "");
  c.last_index = LLVMBuildLoad2(g->b, indices, c.index, "");
  LLVMBuildStore(g->b, LLVMConstAllOnes(indices), c.index);
  bd_gen_for each = along(g, w->loops[1], false);
  compete(g, w, &c, each.index);
  bd_gen_for_end(g, &each);
  bd_gen_store(g, &w->out, LLVMBuildLoad2(g->b, values, c.value, ""));
  bd_gen_store(g, &w->index, LLVMBuildLoad2(g->b, indices, c.index, ""));
  bd_gen_for_end(g, &rounds);
}

bd_status bd_gen_topk(bd_gen *g) {
  const bd_type *type = &g->kernel->function->values[g->op->in[0]].type;
  int last = type->rank - 1, rounds = g->map.out[0][last];
  int8_t loops[BD_MAX_RANK];
  for (int d = 0; d < last; d++)
    loops[d] = g->map.out[0][d];
  loops[last] = (int8_t)bd_gen_own_loop(g, type->dims[last]);
  walk w = {.in = bd_gen_access(g, g->op->in[0], loops),
            .out = bd_gen_out(g, 0),
            .index = bd_gen_out(g, 1),
            .count = 2,
            .loops = {rounds, loops[last]},
            .held = type->dtype};
  walk_points(g, &w, last, g->loop[rounds].extent * type->dims[last], order_point);
  return BD_OK;
}
