// The attributes of ops: which they need, and what these may hold.
#include "ir/float8.h"
#include "ir/index_rule.h"
#include <math.h>

typedef struct attr_rule {
  bd_op_kind op;
  const char *name;
  bd_attr_kind kind; // a real may be written as an integer
  bool required;
  double min, max; // of integers and reals
} attr_rule;

#define HUGE_REAL 1e300
#define MAX_SITE 4294967295.0
// The greatest dropout probability: below one, or nothing would be left.
#define MAX_DROP 0.9999

#define WINDOW_ATTRS(op)                                                                           \
  {op, "strides", BD_ATTR_INTS, false, 0, 0}, {op, "dilations", BD_ATTR_INTS, false, 0, 0}, {      \
    op, "pads", BD_ATTR_INTS, false, 0, 0                                                          \
  }
#define KERNEL_ATTR(op)                                                                            \
  { op, "kernel", BD_ATTR_INTS, true, 0, 0 }
#define LAST_ATTR(op)                                                                              \
  { op, "channels_last", BD_ATTR_INT, false, 0, 1 }
#define CONV_ATTRS(op)                                                                             \
  {op, "groups", BD_ATTR_INT, false, 1, 65536}, {op, "dtype", BD_ATTR_STRING, false, 0, 0},        \
      LAST_ATTR(op)
#define INDEXED_ATTRS(op)                                                                          \
  {op, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1}, {                                            \
    op, "batch", BD_ATTR_INT, false, 0, BD_MAX_RANK - 1                                            \
  }
#define ATTENTION_ATTRS(op)                                                                        \
  {op, "scale", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL},                                        \
      {op, "causal", BD_ATTR_INT, false, 0, 1}, {op, "dropout", BD_ATTR_REAL, false, 0, MAX_DROP}, \
  {                                                                                                \
    op, "site", BD_ATTR_INT, false, 0, MAX_SITE                                                    \
  }

static const attr_rule attr_rules[] = {
    {BD_OP_SCALE, "value", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL},
    {BD_OP_OFFSET, "value", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL},
    {BD_OP_DROPOUT, "p", BD_ATTR_REAL, true, 0, MAX_DROP},
    {BD_OP_DROPOUT, "site", BD_ATTR_INT, true, 0, MAX_SITE},
    {BD_OP_CAST, "dtype", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_MOD, "fmod", BD_ATTR_INT, false, 0, 1},
    {BD_OP_CONSTANT, "dtype", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_CONSTANT, "dims", BD_ATTR_INTS, true, 0, 0},
    {BD_OP_IOTA, "dtype", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_IOTA, "dims", BD_ATTR_INTS, true, 0, 0},
    {BD_OP_IOTA, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
    {BD_OP_REDUCE_SUM, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_REDUCE_SUM, "dtype", BD_ATTR_STRING, false, 0, 0},
    {BD_OP_REDUCE_MAX, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_REDUCE_MIN, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_REDUCE_PROD, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_CUMSUM, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
    {BD_OP_CUMSUM, "exclusive", BD_ATTR_INT, false, 0, 1},
    {BD_OP_CUMSUM, "reverse", BD_ATTR_INT, false, 0, 1},
    {BD_OP_BROADCAST, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_BROADCAST, "dims", BD_ATTR_INTS, true, 0, 0},
    {BD_OP_PERMUTE, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_RESHAPE, "dims", BD_ATTR_INTS, true, 0, 0},
    {BD_OP_SLICE, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
    {BD_OP_SLICE, "start", BD_ATTR_INT, true, 0, (double)BD_MAX_ELEMENTS},
    {BD_OP_SLICE, "size", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
    {BD_OP_SLICE, "step", BD_ATTR_INT, false, -(double)BD_MAX_ELEMENTS, (double)BD_MAX_ELEMENTS},
    {BD_OP_PAD, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
    {BD_OP_PAD, "start", BD_ATTR_INT, true, 0, (double)BD_MAX_ELEMENTS},
    {BD_OP_PAD, "size", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
    {BD_OP_PAD, "step", BD_ATTR_INT, false, -(double)BD_MAX_ELEMENTS, (double)BD_MAX_ELEMENTS},
    {BD_OP_PAD, "value", BD_ATTR_REAL, false, -INFINITY, INFINITY},
    {BD_OP_CONCAT, "dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
    KERNEL_ATTR(BD_OP_UNFOLD),
    WINDOW_ATTRS(BD_OP_UNFOLD),
    {BD_OP_UNFOLD, "value", BD_ATTR_REAL, false, -INFINITY, INFINITY},
    KERNEL_ATTR(BD_OP_FOLD),
    WINDOW_ATTRS(BD_OP_FOLD),
    {BD_OP_FOLD, "dims", BD_ATTR_INTS, true, 0, 0},
    INDEXED_ATTRS(BD_OP_GATHER),
    INDEXED_ATTRS(BD_OP_GATHER_DX),
    {BD_OP_GATHER_DX, "rows", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
    INDEXED_ATTRS(BD_OP_SCATTER),
    {BD_OP_SCATTER, "reduction", BD_ATTR_STRING, false, 0, 0},
    {BD_OP_TOPK, "k", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
    {BD_OP_TOPK, "largest", BD_ATTR_INT, false, 0, 1},
    {BD_OP_CONTRACT, "rule", BD_ATTR_STRING, true, 0, 0},
    {BD_OP_CONTRACT, "dtype", BD_ATTR_STRING, false, 0, 0},
    {BD_OP_CONTRACT, "fp8", BD_ATTR_STRING, false, 0, 0},
    {BD_OP_LAYERNORM, "eps", BD_ATTR_REAL, true, 0, 1},
    {BD_OP_RMSNORM, "eps", BD_ATTR_REAL, true, 0, 1},
    {BD_OP_EMBED_DW, "rows", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
    {BD_OP_ROPE, "theta", BD_ATTR_REAL, true, 1e-30, HUGE_REAL},
    {BD_OP_ROPE, "inverse", BD_ATTR_INT, false, 0, 1},
    {BD_OP_ROPE, "factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
    {BD_OP_ROPE, "low_freq_factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
    {BD_OP_ROPE, "high_freq_factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
    {BD_OP_ROPE, "original_positions", BD_ATTR_REAL, false, 1, HUGE_REAL},
    ATTENTION_ATTRS(BD_OP_ATTENTION),
    ATTENTION_ATTRS(BD_OP_ATTENTION_GRAD),
    WINDOW_ATTRS(BD_OP_CONV),
    CONV_ATTRS(BD_OP_CONV),
    WINDOW_ATTRS(BD_OP_CONV_DX),
    CONV_ATTRS(BD_OP_CONV_DX),
    {BD_OP_CONV_DX, "dims", BD_ATTR_INTS, true, 0, 0},
    KERNEL_ATTR(BD_OP_CONV_DW),
    WINDOW_ATTRS(BD_OP_CONV_DW),
    CONV_ATTRS(BD_OP_CONV_DW),
    KERNEL_ATTR(BD_OP_MAXPOOL),
    WINDOW_ATTRS(BD_OP_MAXPOOL),
    LAST_ATTR(BD_OP_MAXPOOL),
    KERNEL_ATTR(BD_OP_MAXPOOL_GRAD),
    WINDOW_ATTRS(BD_OP_MAXPOOL_GRAD),
    LAST_ATTR(BD_OP_MAXPOOL_GRAD),
};

static bd_status check_attr(const bd_inference *inference, const attr_rule *rule) {
  static const char *const kinds[] = {[BD_ATTR_INT] = "an integer",
                                      [BD_ATTR_REAL] = "a number",
                                      [BD_ATTR_STRING] = "a string",
                                      [BD_ATTR_INTS] = "a list of integers"};
  const bd_attr *attr = bd_op_find_attr(inference->op, rule->name);
  if (!attr) {
    if (!rule->required) return BD_OK;
    return bd_inference_fail(inference, "needs the attribute %s, %s", rule->name,
                             kinds[rule->kind]);
  }
  if (attr->kind != rule->kind && !(rule->kind == BD_ATTR_REAL && attr->kind == BD_ATTR_INT))
    return bd_inference_fail(inference, "attribute %s must be %s", rule->name, kinds[rule->kind]);
  if (rule->kind == BD_ATTR_STRING || rule->kind == BD_ATTR_INTS) return BD_OK;
  double value = attr->kind == BD_ATTR_INT ? (double)attr->integer : attr->real;
  if (!(value >= rule->min && value <= rule->max))
    return bd_inference_fail(inference, "attribute %s is %g, not in %g to %g", rule->name, value,
                             rule->min, rule->max);
  return BD_OK;
}

bd_status bd_inference_check_attrs(const bd_inference *inference) {
  const bd_op *op = inference->op;
  for (size_t i = 0; i < sizeof attr_rules / sizeof attr_rules[0]; ++i)
    if (attr_rules[i].op == op->kind) BD_TRY(check_attr(inference, &attr_rules[i]));
  const char *name = bd_op_string(op, "dtype");
  bool reads = bd_op_dtypes(op->kind)->names || bd_op_dtypes(op->kind)->widens;
  bd_dtype dtype;
  if (reads && name && !bd_dtype_parse(name, &dtype))
    return bd_inference_fail(inference,
                             "dtype \"%s\" is unknown: use f32, bf16, f16, f64, i8, i16, i32, i64, "
                             "u8, u16, u32, u64 or bool",
                             name);
  const char *formats = op->kind == BD_OP_CONTRACT ? bd_op_string(op, "fp8") : NULL;
  bd_float8 format[2];
  if (formats && (inference->in[0]->dtype != BD_BF16 || !bd_float8_parse(formats, format)))
    return bd_inference_fail(inference,
                             "fp8=\"%s\" on %s: products of bf16 take \"e4m3,e4m3\", "
                             "\"e4m3,e5m2\" or \"e5m2,e4m3\"",
                             formats, bd_dtype_name(inference->in[0]->dtype));
  if (op->kind == BD_OP_ROPE && inference->in[0]->rank == 4 && inference->in[0]->dims[3] % 2 != 0)
    return bd_inference_fail(inference, "the last dimension must be even, not %s",
                             bd_type_describe(inference->ctx, inference->in[0]));
  return BD_OK;
}
