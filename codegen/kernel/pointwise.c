// A fused run of pointwise ops: values stay in registers, rounded to their dtype.
#include "codegen/kernel/gen.h"
#include <math.h>

#define GELU_ROOT 0.79788456080286536 // sqrt(2 / pi)
#define GELU_CUBE 0.044715

static LLVMValueRef mul(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(g->b, a, b, "");
}

static LLVMValueRef scaled(bd_gen *g, LLVMValueRef a, double factor) {
  return mul(g, a, bd_gen_real(g, factor));
}

static LLVMValueRef plus(bd_gen *g, LLVMValueRef a, double addend) {
  return LLVMBuildFAdd(g->b, a, bd_gen_real(g, addend), "");
}

static LLVMValueRef one_minus(bd_gen *g, LLVMValueRef a) {
  return LLVMBuildFSub(g->b, bd_gen_real(g, 1.0), a, "");
}

static LLVMValueRef positive(bd_gen *g, LLVMValueRef x, LLVMValueRef value) {
  LLVMValueRef zero = bd_gen_real(g, 0.0);
  LLVMValueRef not_positive = LLVMBuildFCmp(g->b, LLVMRealOLE, x, zero, "");
  return LLVMBuildSelect(g->b, not_positive, zero, value, "");
}

// (1 + tanh(u)) / 2 = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
static LLVMValueRef gelu_gate(bd_gen *g, LLVMValueRef x, LLVMValueRef square) {
  LLVMValueRef inner = bd_gen_fma(g, square, bd_gen_real(g, GELU_CUBE), bd_gen_real(g, 1.0));
  return bd_gen_sigmoid(g, mul(g, scaled(g, x, 2.0 * GELU_ROOT), inner));
}

static LLVMValueRef gelu(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef square = mul(g, x, x), gate = gelu_gate(g, x, square);
  if (!dy) return mul(g, x, gate);
  LLVMValueRef slope = bd_gen_fma(g, square, bd_gen_real(g, 6.0 * GELU_ROOT * GELU_CUBE),
                                  bd_gen_real(g, 2.0 * GELU_ROOT));
  LLVMValueRef bell = mul(g, mul(g, gate, one_minus(g, gate)), x);
  return mul(g, dy, bd_gen_fma(g, bell, slope, gate));
}

static LLVMValueRef gelu_erf(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef normal = scaled(g, plus(g, bd_gen_erf(g, scaled(g, x, M_SQRT1_2)), 1.0), 0.5);
  if (!dy) return mul(g, x, normal);
  LLVMValueRef density = bd_gen_exp(g, mul(g, x, scaled(g, x, -0.5)));
  density = scaled(g, density, 0.39894228040143268); // 1 / sqrt(2 pi)
  return mul(g, dy, bd_gen_fma(g, x, density, normal));
}

static LLVMValueRef silu(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef s = bd_gen_sigmoid(g, x);
  if (!dy) return mul(g, x, s);
  LLVMValueRef slope = bd_gen_fma(g, x, one_minus(g, s), bd_gen_real(g, 1.0));
  return mul(g, dy, mul(g, s, slope));
}

LLVMValueRef bd_gen_arithmetic(bd_gen *g, const bd_op *op, const LLVMValueRef *in) {
  LLVMValueRef x = in[0];
  switch (op->kind) {
  case BD_OP_ADD:
    return LLVMBuildFAdd(g->b, x, in[1], "");
  case BD_OP_SUB:
    return LLVMBuildFSub(g->b, x, in[1], "");
  case BD_OP_MUL:
    return mul(g, x, in[1]);
  case BD_OP_DIV:
    return LLVMBuildFDiv(g->b, x, in[1], "");
  case BD_OP_NEG:
    return LLVMBuildFNeg(g->b, x, "");
  case BD_OP_SCALE:
    return scaled(g, x, bd_op_real(op, "value", 1.0));
  case BD_OP_OFFSET:
    return plus(g, x, bd_op_real(op, "value", 0.0));
  case BD_OP_EXP:
    return bd_gen_exp(g, x);
  case BD_OP_LOG:
    return bd_gen_log(g, x);
  case BD_OP_SQRT:
    return bd_gen_sqrt(g, x);
  case BD_OP_TANH:
    return bd_gen_tanh(g, x);
  case BD_OP_SIGMOID:
    return bd_gen_sigmoid(g, x);
  case BD_OP_RELU:
    return positive(g, x, x);
  case BD_OP_RELU_GRAD:
    return positive(g, x, in[1]);
  case BD_OP_GELU:
    return gelu(g, x, NULL);
  case BD_OP_GELU_GRAD:
    return gelu(g, x, in[1]);
  case BD_OP_GELU_ERF:
    return gelu_erf(g, x, NULL);
  case BD_OP_GELU_ERF_GRAD:
    return gelu_erf(g, x, in[1]);
  case BD_OP_SILU:
    return silu(g, x, NULL);
  case BD_OP_SILU_GRAD:
    return silu(g, x, in[1]);
  default:
    return NULL;
  }
}

typedef struct run {
  bd_access *access; // per value of the function; those in memory are set
  LLVMValueRef *value;
  bd_access number; // strides of an element's logical number within its sample
  int rank;
  bool failed;
} run;

static bool real_dtype(bd_dtype dtype) {
  return bd_dtype_is_float(dtype) && dtype != BD_F64;
}

static LLVMValueRef cast(bd_gen *g, bd_dtype from, bd_dtype to, LLVMValueRef x) {
  bool to_real = real_dtype(to);
  LLVMTypeRef type = bd_gen_type_like(x, to_real ? bd_gen_f32(g) : bd_gen_dtype(g, to));
  if (real_dtype(from) && to_real) return x;
  if (from == BD_F64 || to == BD_F64) return NULL;
  if (to_real) return LLVMBuildSIToFP(g->b, x, type, "");
  if (real_dtype(from))
    return bd_gen_intrinsic(g, "llvm.fptosi.sat", 2, (LLVMTypeRef[]){type, LLVMTypeOf(x)}, 1, &x);
  return LLVMBuildIntCast2(g->b, x, type, true, "");
}

static LLVMValueRef dropout(bd_gen *g, const run *r, const bd_op *op, LLVMValueRef x) {
  double p = bd_op_real(op, "p", 0.0);
  LLVMValueRef element = bd_gen_splat(g, bd_gen_long(g, 0));
  for (int d = 1; d < r->rank; d++) {
    if (!r->number.stride[d]) continue;
    LLVMValueRef at = bd_gen_logical(g, d);
    at = LLVMBuildMul(g->b, at, bd_gen_int_like(at, r->number.stride[d]), "");
    element = LLVMBuildAdd(g->b, element, at, "");
  }
  LLVMValueRef sample = bd_gen_splat(g, bd_gen_first_sample(g));
  if (r->rank) sample = LLVMBuildAdd(g->b, sample, bd_gen_logical(g, 0), "");
  LLVMValueRef u = bd_gen_uniform(g, (uint32_t)bd_op_int(op, "site", 0), sample, element);
  LLVMValueRef drop = LLVMBuildFCmp(g->b, LLVMRealOLT, u, bd_gen_real(g, p), "");
  LLVMValueRef kept = scaled(g, x, 1.0 / (1.0 - p));
  return LLVMBuildSelect(g->b, drop, bd_gen_real(g, 0.0), kept, "");
}

static LLVMValueRef compute(bd_gen *g, const run *r, const bd_op *op) {
  const bd_value *values = g->kernel->function->values;
  LLVMValueRef in[BD_MAX_OPERANDS];
  bd_dtype from = values[op->in[0]].type.dtype, to = values[op->out[0]].type.dtype;
  for (int i = 0; i < op->in_count; i++) {
    in[i] = r->value[op->in[i]];
    if (op->kind != BD_OP_CAST && !real_dtype(values[op->in[i]].type.dtype)) return NULL;
  }
  LLVMValueRef y = NULL;
  if (op->kind == BD_OP_CAST)
    y = cast(g, from, to, in[0]);
  else if (op->kind == BD_OP_DROPOUT)
    y = dropout(g, r, op, in[0]);
  else
    y = bd_gen_arithmetic(g, op, in);
  return y ? bd_gen_rounded(g, to, y) : NULL;
}

static void run_body(bd_gen *g, void *user) {
  run *r = user;
  const bd_kernel *k = g->kernel;
  for (int i = 0; i < k->in_count; i++)
    r->value[k->in[i]] = bd_gen_load(g, &r->access[k->in[i]]);
  for (int i = 0; i < k->op_count; i++) {
    const bd_op *op = &k->function->ops[k->first_op + i];
    LLVMValueRef y = compute(g, r, op);
    if (!y) {
      r->failed = true;
      return;
    }
    r->value[op->out[0]] = y;
  }
  for (int i = 0; i < k->out_count; i++)
    bd_gen_store(g, &r->access[k->out[i]], r->value[k->out[i]]);
}

static bd_access access_of(bd_gen *g, bd_id id, int rank) {
  int own = g->kernel->function->values[id].type.rank;
  int8_t loops[BD_MAX_RANK];
  for (int d = 0; d < own; d++)
    loops[d] = (int8_t)(rank - own + d);
  return bd_gen_access(g, id, loops);
}

static bool has_dropout(const bd_kernel *k) {
  for (int i = 0; i < k->op_count; i++)
    if (k->function->ops[k->first_op + i].kind == BD_OP_DROPOUT) return true;
  return false;
}

static bd_access numbering(const bd_gen *g, const bd_type *type) {
  bd_access number = {0};
  int64_t stride = 1;
  for (int d = type->rank - 1; d > 0; d--) {
    number.stride[d] = stride;
    stride *= bd_extent(type->dims[d], g->kernel->module->micro_batch);
  }
  return number;
}

bd_status bd_gen_pointwise(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  const bd_type *type = &k->function->values[g->op->out[0]].type;
  int values = k->function->value_count, count = 0;
  run r = {.access = BD_NEW_ARRAY(g->ctx->arena, bd_access, values),
           .value = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, values),
           .number = numbering(g, type),
           .rank = type->rank};
  bd_access **accesses = BD_NEW_ARRAY(g->ctx->arena, bd_access *, k->in_count + k->out_count + 1);
  for (int i = 0; i < k->in_count + k->out_count; i++) {
    bd_id id = i < k->in_count ? k->in[i] : k->out[i - k->in_count];
    r.access[id] = access_of(g, id, type->rank);
    accesses[count++] = &r.access[id];
  }
  if (has_dropout(k)) accesses[count++] = &r.number;
  bd_gen_points points = {.loops = type->rank,
                          .access_count = count,
                          .accesses = accesses,
                          .body = run_body,
                          .user = &r};
  for (int d = 0; d < type->rank; d++)
    points.order[d] = d;
  bd_gen_elementwise(g, &points);
  if (r.failed)
    return bd_fail(g->ctx, BD_UNSUPPORTED, g->op->loc,
                   "no kernel for this pointwise op on values of type %s",
                   bd_dtype_name(k->function->values[g->op->in[0]].type.dtype));
  return BD_OK;
}
