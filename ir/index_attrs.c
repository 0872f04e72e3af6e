// The attributes of ops: which they need, and what these may hold.
#include "ir/float8.h"
#include "ir/index_rule.h"
#include "ir/parts.h"
#include "ir/pool.h"
#include "ir/rope.h"
#include <math.h>

typedef struct attr_rule {
  const char *name;
  bd_attr_kind kind; // a real may be written as an integer
  bool required;
  double min, max; // of integers and reals
} attr_rule;

#define HUGE_REAL 1e300
#define MAX_SITE 4294967295.0
// The greatest dropout probability: below one, or nothing would be left.
#define MAX_DROP 0.9999

#define WINDOW_ATTRS                                                                               \
  {"strides", BD_ATTR_INTS, false, 0, 0}, {"dilations", BD_ATTR_INTS, false, 0, 0}, {              \
    "pads", BD_ATTR_INTS, false, 0, 0                                                              \
  }
#define KERNEL_ATTR                                                                                \
  { "kernel", BD_ATTR_INTS, true, 0, 0 }
#define LAST_ATTR                                                                                  \
  { "channels_last", BD_ATTR_INT, false, 0, 1 }
#define CONV_ATTRS                                                                                 \
  {"groups", BD_ATTR_INT, false, 1, 65536}, {"dtype", BD_ATTR_STRING, false, 0, 0}, LAST_ATTR
#define GROUPED_ATTRS                                                                              \
  {"filled", BD_ATTR_INT, false, 1, (double)BD_MAX_ELEMENTS},                                      \
      {"grain", BD_ATTR_INT, false, 1, (double)BD_MAX_ELEMENTS},                                   \
      {"dtype", BD_ATTR_STRING, false, 0, 0}, {                                                    \
    "fp8", BD_ATTR_STRING, false, 0, 0                                                             \
  }
#define INDEXED_ATTRS                                                                              \
  {"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1}, {                                                \
    "batch", BD_ATTR_INT, false, 0, BD_MAX_RANK - 1                                                \
  }
#define POOLED_ATTR                                                                                \
  { BD_POOLED_ATTR, BD_ATTR_INT, false, 0, 1 }
#define CHUNK_ATTRS                                                                                \
  {"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1}, {                                                \
    "chunk", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS                                         \
  }
// Of queries that ranks share evenly: under a plan, and of ranks' chunks of them.
#define BALANCED_ATTRS                                                                             \
  {"balanced", BD_ATTR_INT, false, 0, 1},                                                          \
      {"chunk", BD_ATTR_INT, false, 1, (double)BD_MAX_ELEMENTS}, {                                 \
    "half", BD_ATTR_INT, false, 0, 1                                                               \
  }
#define ATTENTION_ATTRS                                                                            \
  {"scale", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL}, {"causal", BD_ATTR_INT, false, 0, 1},      \
      {"dropout", BD_ATTR_REAL, false, 0, MAX_DROP}, {                                             \
    "site", BD_ATTR_INT, false, 0, MAX_SITE                                                        \
  }

// Of scores that are computed in full: which count, and what they stay below.
#define SEEN_ATTRS                                                                                 \
  {"window", BD_ATTR_INT, false, 1, (double)BD_MAX_ELEMENTS}, {                                    \
    "softcap", BD_ATTR_REAL, false, 1e-30, HUGE_REAL                                               \
  }

// Query heads of each key-value head.
#define GROUP_ATTR                                                                                 \
  { "group", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS }

enum { MOST_ATTRS = 14 };

static const attr_rule attr_rules[BD_OP_KIND_COUNT][MOST_ATTRS] = {
    [BD_OP_SCALE] = {{"value", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL}},
    [BD_OP_OFFSET] = {{"value", BD_ATTR_REAL, true, -HUGE_REAL, HUGE_REAL}},
    [BD_OP_DROPOUT] = {{"p", BD_ATTR_REAL, true, 0, MAX_DROP},
                       {"site", BD_ATTR_INT, true, 0, MAX_SITE}},
    [BD_OP_CAST] = {{"dtype", BD_ATTR_STRING, true, 0, 0}},
    [BD_OP_MOD] = {{"fmod", BD_ATTR_INT, false, 0, 1}},
    [BD_OP_CONSTANT] = {{"dtype", BD_ATTR_STRING, true, 0, 0}, {"dims", BD_ATTR_INTS, true, 0, 0}},
    [BD_OP_IOTA] = {{"dtype", BD_ATTR_STRING, true, 0, 0},
                    {"dims", BD_ATTR_INTS, true, 0, 0},
                    {"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1}},
    [BD_OP_REDUCE_SUM] = {{"rule", BD_ATTR_STRING, true, 0, 0},
                          {"dtype", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_REDUCE_MAX] = {{"rule", BD_ATTR_STRING, true, 0, 0}},
    [BD_OP_REDUCE_MIN] = {{"rule", BD_ATTR_STRING, true, 0, 0}},
    [BD_OP_REDUCE_PROD] = {{"rule", BD_ATTR_STRING, true, 0, 0}},
    [BD_OP_CUMSUM] = {{"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
                      {"exclusive", BD_ATTR_INT, false, 0, 1},
                      {"reverse", BD_ATTR_INT, false, 0, 1},
                      POOLED_ATTR},
    [BD_OP_LSE] = {{"constant", BD_ATTR_INT, false, 0, 1}},
    [BD_OP_BROADCAST] = {{"rule", BD_ATTR_STRING, true, 0, 0}, {"dims", BD_ATTR_INTS, true, 0, 0}},
    [BD_OP_PERMUTE] = {{"rule", BD_ATTR_STRING, true, 0, 0}},
    [BD_OP_RESHAPE] = {{"dims", BD_ATTR_INTS, true, 0, 0}},
    [BD_OP_SLICE] = {{"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
                     {"start", BD_ATTR_INT, true, 0, (double)BD_MAX_ELEMENTS},
                     {"size", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
                     {"step", BD_ATTR_INT, false, -(double)BD_MAX_ELEMENTS,
                      (double)BD_MAX_ELEMENTS}},
    [BD_OP_PAD] = {{"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
                   {"start", BD_ATTR_INT, true, 0, (double)BD_MAX_ELEMENTS},
                   {"size", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
                   {"step", BD_ATTR_INT, false, -(double)BD_MAX_ELEMENTS, (double)BD_MAX_ELEMENTS},
                   {"value", BD_ATTR_REAL, false, -INFINITY, INFINITY}},
    [BD_OP_CONCAT] = {{"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1}},
    [BD_OP_ALTERNATE] = {CHUNK_ATTRS, {"half", BD_ATTR_INT, false, 0, 1}},
    [BD_OP_INTERLEAVE] = {CHUNK_ATTRS},
    [BD_OP_UNFOLD] = {KERNEL_ATTR,
                      WINDOW_ATTRS,
                      {"value", BD_ATTR_REAL, false, -INFINITY, INFINITY}},
    [BD_OP_FOLD] = {KERNEL_ATTR, WINDOW_ATTRS, {"dims", BD_ATTR_INTS, true, 0, 0}},
    [BD_OP_GATHER] = {INDEXED_ATTRS},
    [BD_OP_GATHER_DX] = {INDEXED_ATTRS, {"rows", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS}},
    [BD_OP_SCATTER] = {INDEXED_ATTRS, {"reduction", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_ROUTE] = {{"rows", BD_ATTR_INT, false, 1, BD_MAX_RANK - 1},
                     {"inverse", BD_ATTR_INT, false, 0, 1},
                     POOLED_ATTR},
    [BD_OP_SEARCH] = {{"dim", BD_ATTR_INT, true, 0, BD_MAX_RANK - 1},
                      {"places", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
                      POOLED_ATTR},
    [BD_OP_ROW_ITEMS] = {{"rows", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS}},
    [BD_OP_TOPK] = {{"k", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
                    {"largest", BD_ATTR_INT, false, 0, 1}},
    [BD_OP_CONTRACT] = {{"rule", BD_ATTR_STRING, true, 0, 0},
                        {"dtype", BD_ATTR_STRING, false, 0, 0},
                        {"parts", BD_ATTR_INT, false, 1, BD_MAX_PARTS},
                        {"fp8", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_GROUPED_CONTRACT] = {{"transpose", BD_ATTR_INT, false, 0, 1}, GROUPED_ATTRS},
    [BD_OP_GROUPED_CONTRACT_DW] = {GROUPED_ATTRS},
    [BD_OP_LAYERNORM_DW] = {{"dtype", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_RMSNORM_DW] = {{"dtype", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_LAYERNORM] = {{"eps", BD_ATTR_REAL, true, 0, 1}},
    [BD_OP_RMSNORM] = {{"eps", BD_ATTR_REAL, true, 0, 1},
                       {"base", BD_ATTR_REAL, false, -HUGE_REAL, HUGE_REAL}},
    [BD_OP_RMSNORM_DX] = {{"base", BD_ATTR_REAL, false, -HUGE_REAL, HUGE_REAL}},
    [BD_OP_EMBED_DW] = {{"rows", BD_ATTR_INT, true, 1, (double)BD_MAX_ELEMENTS},
                        {"dtype", BD_ATTR_STRING, false, 0, 0}},
    [BD_OP_ROPE] = {{"theta", BD_ATTR_REAL, true, 1e-30, HUGE_REAL},
                    {"inverse", BD_ATTR_INT, false, 0, 1},
                    {"turned", BD_ATTR_INT, false, 2, (double)BD_MAX_ELEMENTS},
                    {"last", BD_ATTR_INT, false, 0, 1},
                    {"interleaved", BD_ATTR_INT, false, 0, 1},
                    {"factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
                    {"low_freq_factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
                    {"high_freq_factor", BD_ATTR_REAL, false, 1e-30, HUGE_REAL},
                    {"original_positions", BD_ATTR_REAL, false, 1, HUGE_REAL},
                    {"ramp_low", BD_ATTR_REAL, false, -HUGE_REAL, HUGE_REAL},
                    {"ramp_high", BD_ATTR_REAL, false, -HUGE_REAL, HUGE_REAL},
                    {"divisors", BD_ATTR_REALS, false, 1e-30, HUGE_REAL},
                    {"amplitude", BD_ATTR_REAL, false, 1e-30, HUGE_REAL}},
    [BD_OP_ATTENTION] = {ATTENTION_ATTRS, BALANCED_ATTRS, SEEN_ATTRS},
    [BD_OP_ATTENTION_GRAD] = {ATTENTION_ATTRS, BALANCED_ATTRS, SEEN_ATTRS},
    [BD_OP_SINK_ATTENTION] = {ATTENTION_ATTRS, BALANCED_ATTRS, SEEN_ATTRS},
    [BD_OP_ROW_PRODUCTS] = {GROUP_ATTR},
    [BD_OP_SINKS_GRAD] = {GROUP_ATTR},
    [BD_OP_RELATIVE_ATTENTION] = {ATTENTION_ATTRS, BALANCED_ATTRS},
    [BD_OP_RELATIVE_ATTENTION_GRAD] = {ATTENTION_ATTRS, BALANCED_ATTRS},
    [BD_OP_CONV] = {WINDOW_ATTRS, CONV_ATTRS},
    [BD_OP_CONV_DX] = {WINDOW_ATTRS, CONV_ATTRS, {"dims", BD_ATTR_INTS, true, 0, 0}},
    [BD_OP_CONV_DW] = {KERNEL_ATTR, WINDOW_ATTRS, CONV_ATTRS},
    [BD_OP_MAXPOOL] = {KERNEL_ATTR, WINDOW_ATTRS, LAST_ATTR},
    [BD_OP_MAXPOOL_GRAD] = {KERNEL_ATTR, WINDOW_ATTRS, LAST_ATTR},
};

static bd_status check_reals(const bd_inference *inference, const attr_rule *rule,
                             const bd_attr *attr) {
  for (int i = 0; i < attr->count; ++i)
    if (!(attr->reals[i] >= rule->min && attr->reals[i] <= rule->max))
      return bd_inference_fail(inference, "attribute %s has %g, not in %g to %g", rule->name,
                               attr->reals[i], rule->min, rule->max);
  return BD_OK;
}

static bd_status check_attr(const bd_inference *inference, const attr_rule *rule) {
  static const char *const kinds[] = {[BD_ATTR_INT] = "an integer",
                                      [BD_ATTR_REAL] = "a number",
                                      [BD_ATTR_STRING] = "a string",
                                      [BD_ATTR_INTS] = "a list of integers",
                                      [BD_ATTR_REALS] = "a list of numbers"};
  const bd_attr *attr = bd_op_find_attr(inference->op, rule->name);
  if (!attr) {
    if (!rule->required) return BD_OK;
    return bd_inference_fail(inference, "needs the attribute %s, %s", rule->name,
                             kinds[rule->kind]);
  }
  if (attr->kind != rule->kind && !(rule->kind == BD_ATTR_REAL && attr->kind == BD_ATTR_INT))
    return bd_inference_fail(inference, "attribute %s must be %s", rule->name, kinds[rule->kind]);
  if (rule->kind == BD_ATTR_STRING || rule->kind == BD_ATTR_INTS) return BD_OK;
  if (rule->kind == BD_ATTR_REALS) return check_reals(inference, rule, attr);
  double value = attr->kind == BD_ATTR_INT ? (double)attr->integer : attr->real;
  if (!(value >= rule->min && value <= rule->max))
    return bd_inference_fail(inference, "attribute %s is %g, not in %g to %g", rule->name, value,
                             rule->min, rule->max);
  return BD_OK;
}

// Numbers are turned in pairs, all of a head or some at either end.
static bd_status check_turned(const bd_inference *inference) {
  const bd_op *op = inference->op;
  const bd_type *x = inference->in[0];
  int64_t turned = x->rank == 4 ? bd_op_int(op, "turned", x->dims[3]) : 0;
  if (turned % 2 == 0 && (x->rank != 4 || turned <= x->dims[3])) return BD_OK;
  if (!bd_op_find_attr(op, "turned"))
    return bd_inference_fail(inference, "the last dimension must be even, not %s",
                             bd_type_describe(inference->ctx, x));
  return bd_inference_fail(
      inference, "attribute turned must be even and at most the last dimension of %s, not %lld",
      bd_type_describe(inference->ctx, x), (long long)turned);
}

static bd_status check_ramp(const bd_inference *inference) {
  const bd_op *op = inference->op;
  bool low = bd_op_find_attr(op, "ramp_low"), high = bd_op_find_attr(op, "ramp_high");
  if (low != high || (low && !bd_op_find_attr(op, "factor")))
    return bd_inference_fail(inference, "attributes ramp_low and ramp_high go together and with "
                                        "factor");
  if (!low || bd_op_real(op, "ramp_low", 0) < bd_op_real(op, "ramp_high", 0)) return BD_OK;
  return bd_inference_fail(inference, "attribute ramp_low must be less than ramp_high");
}

static bd_status check_divisors(const bd_inference *inference) {
  const bd_op *op = inference->op;
  const bd_type *x = inference->in[0];
  const bd_attr *divisors = bd_op_find_attr(op, "divisors");
  if (!divisors || x->rank != 4) return BD_OK;
  if (bd_op_find_attr(op, "factor"))
    return bd_inference_fail(inference, "attributes divisors and factor exclude each other");
  int64_t pairs = bd_rope_turned(op, x->dims[3]) / 2;
  if (divisors->count == pairs) return BD_OK;
  return bd_inference_fail(inference, "attribute divisors has %d numbers for %lld pairs",
                           divisors->count, (long long)pairs);
}

// A window is of what a causal mask leaves, and leaves every query a key.
static bd_status check_window(const bd_inference *inference) {
  const bd_op *op = inference->op;
  int query = bd_op_is_attention_grad(op->kind) ? 1 : 0;
  if (op->kind == BD_OP_RELATIVE_ATTENTION || op->kind == BD_OP_RELATIVE_ATTENTION_GRAD)
    return bd_inference_fail(inference, "takes no attribute window");
  if (!bd_op_int(op, "causal", 0))
    return bd_inference_fail(inference, "attribute window needs causal=1");
  const bd_type *q = inference->in[query], *k = inference->in[query + 1];
  if (q->rank != 4 || k->rank != 4 || q->dims[1] <= k->dims[1]) return BD_OK;
  return bd_inference_fail(inference,
                           "attribute window needs as many keys as queries, not %lld for %lld",
                           (long long)k->dims[1], (long long)q->dims[1]);
}

// Ranks share queries evenly where later ones see more keys, all up to their own.
static bd_status check_balanced(const bd_inference *inference) {
  const bd_op *op = inference->op;
  const char *name = bd_op_find_attr(op, "chunk") ? "chunk" : "balanced";
  if (!bd_op_find_attr(op, name)) return BD_OK;
  if (!bd_op_int(op, "causal", 0))
    return bd_inference_fail(inference, "attribute %s needs causal=1", name);
  if (bd_op_find_attr(op, "window"))
    return bd_inference_fail(inference, "attribute %s goes with no window", name);
  return BD_OK;
}

static bd_status check_attention(const bd_inference *inference) {
  const bd_op *op = inference->op;
  BD_TRY(check_balanced(inference));
  if (bd_op_find_attr(op, "softcap") && op->kind != BD_OP_ATTENTION &&
      op->kind != BD_OP_ATTENTION_GRAD)
    return bd_inference_fail(inference, "takes no attribute softcap");
  return bd_op_find_attr(op, "window") ? check_window(inference) : BD_OK;
}

bd_status bd_inference_check_attrs(const bd_inference *inference) {
  const bd_op *op = inference->op;
  for (int i = 0; i < MOST_ATTRS && attr_rules[op->kind][i].name; ++i)
    BD_TRY(check_attr(inference, &attr_rules[op->kind][i]));
  const char *name = bd_op_string(op, "dtype");
  const bd_dtype_rule *rule = bd_op_dtypes(op->kind);
  bool reads = rule->names || rule->widens || rule->narrows;
  bd_dtype dtype;
  if (reads && name && !bd_dtype_parse(name, &dtype))
    return bd_inference_fail(inference,
                             "dtype \"%s\" is unknown: use f32, bf16, f16, f64, i8, i16, i32, i64, "
                             "u8, u16, u32, u64 or bool",
                             name);
  const char *formats = bd_op_is_product(op->kind) ? bd_op_string(op, "fp8") : NULL;
  bd_float8 format[2];
  if (formats && (inference->in[0]->dtype != BD_BF16 || !bd_float8_parse(formats, format)))
    return bd_inference_fail(inference,
                             "fp8=\"%s\" on %s: products of bf16 take \"e4m3,e4m3\", "
                             "\"e4m3,e5m2\" or \"e5m2,e4m3\"",
                             formats, bd_dtype_name(inference->in[0]->dtype));
  if (bd_op_attends(op->kind)) return check_attention(inference);
  if (op->kind != BD_OP_ROPE) return BD_OK;
  BD_TRY(check_ramp(inference));
  BD_TRY(check_turned(inference));
  return check_divisors(inference);
}
