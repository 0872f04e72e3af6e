// Which element types ops take and make.
#include "ir/index_rule.h"

enum { NUMBERS = BD_FLOATS | BD_INTEGERS, ANY = BD_FLOATS | BD_INTEGERS | BD_BOOLS };

static const bd_dtype_rule dtype_rules[BD_OP_KIND_COUNT] = {
    [BD_OP_ADD] = {.elements = NUMBERS},
    [BD_OP_SUB] = {.elements = NUMBERS},
    [BD_OP_MUL] = {.elements = NUMBERS},
    [BD_OP_DIV] = {.elements = NUMBERS},
    [BD_OP_MOD] = {.elements = NUMBERS},
    [BD_OP_POW] = {.elements = NUMBERS},
    [BD_OP_MIN] = {.elements = NUMBERS},
    [BD_OP_MAX] = {.elements = NUMBERS},
    [BD_OP_NEG] = {.elements = NUMBERS},
    [BD_OP_ABS] = {.elements = NUMBERS},
    [BD_OP_SIGN] = {.elements = NUMBERS},
    [BD_OP_LT] = {.elements = NUMBERS, .bool_out = 1 << 0},
    [BD_OP_LE] = {.elements = NUMBERS, .bool_out = 1 << 0},
    [BD_OP_EQ] = {.elements = ANY, .bool_out = 1 << 0},
    [BD_OP_AND] = {.elements = BD_BOOLS},
    [BD_OP_OR] = {.elements = BD_BOOLS},
    [BD_OP_XOR] = {.elements = BD_BOOLS},
    [BD_OP_NOT] = {.elements = BD_BOOLS},
    [BD_OP_SELECT] = {.elements = ANY, .bool_in = 1 << 0},
    [BD_OP_CAST] = {.elements = ANY, .names = true},
    [BD_OP_CONSTANT] = {.elements = ANY, .names = true},
    [BD_OP_IOTA] = {.elements = NUMBERS, .names = true},
    [BD_OP_BROADCAST] = {.elements = ANY},
    [BD_OP_PERMUTE] = {.elements = ANY},
    [BD_OP_RESHAPE] = {.elements = ANY},
    [BD_OP_REDUCE_SUM] = {.elements = NUMBERS, .widens = true},
    [BD_OP_REDUCE_MAX] = {.elements = ANY},
    [BD_OP_REDUCE_MIN] = {.elements = ANY},
    [BD_OP_REDUCE_PROD] = {.elements = NUMBERS},
    [BD_OP_CUMSUM] = {.elements = NUMBERS},
    [BD_OP_CONTRACT] = {.elements = NUMBERS, .widens = true},
    [BD_OP_GROUPED_CONTRACT] = {.no_f64 = true, .widens = true, .index_in = 1 << 2},
    [BD_OP_GROUPED_CONTRACT_DW] = {.no_f64 = true, .widens = true, .index_in = 1 << 2},
    [BD_OP_SLICE] = {.elements = ANY},
    [BD_OP_PAD] = {.elements = ANY},
    [BD_OP_CONCAT] = {.elements = ANY},
    [BD_OP_ALTERNATE] = {.elements = ANY},
    [BD_OP_INTERLEAVE] = {.elements = ANY},
    [BD_OP_UNFOLD] = {.elements = ANY},
    [BD_OP_GATHER] = {.elements = ANY, .index_in = 1 << 1},
    [BD_OP_GATHER_DX] = {.index_in = 1 << 1, .statistic_out = 1 << 0},
    [BD_OP_SCATTER] = {.elements = ANY, .index_in = 1 << 1},
    [BD_OP_ROUTE] = {.no_f64 = true, .index_in = 1 << 1 | 1 << 2},
    [BD_OP_SEARCH] = {.elements = BD_INTEGERS},
    [BD_OP_ROW_ITEMS] = {.elements = BD_INTEGERS},
    [BD_OP_TOPK] = {.elements = NUMBERS, .index_out = 1 << 1},
    [BD_OP_LAYERNORM] = {.no_f64 = true, .statistic_out = 1 << 1 | 1 << 2},
    [BD_OP_LAYERNORM_DX] = {.no_f64 = true, .statistic_in = 1 << 3 | 1 << 4},
    [BD_OP_LAYERNORM_DW] = {.no_f64 = true,
                            .narrows = true,
                            .statistic_in = 1 << 2 | 1 << 3,
                            .statistic_out = 1 << 0 | 1 << 1},
    [BD_OP_RMSNORM] = {.no_f64 = true, .statistic_out = 1 << 1},
    [BD_OP_RMSNORM_DX] = {.no_f64 = true, .statistic_in = 1 << 3},
    [BD_OP_RMSNORM_DW] = {.no_f64 = true,
                          .narrows = true,
                          .statistic_in = 1 << 2,
                          .statistic_out = 1 << 0},
    [BD_OP_ROPE] = {.no_f64 = true},
    [BD_OP_DROPOUT] = {.no_f64 = true},
    [BD_OP_CONV] = {.no_f64 = true, .widens = true},
    [BD_OP_CONV_DX] = {.no_f64 = true, .widens = true},
    [BD_OP_CONV_DW] = {.no_f64 = true, .widens = true},
    [BD_OP_MAXPOOL] = {.no_f64 = true},
    [BD_OP_MAXPOOL_GRAD] = {.no_f64 = true},
    [BD_OP_EMBED] = {.no_f64 = true, .index_in = 1 << 1},
    [BD_OP_EMBED_DW] = {.no_f64 = true,
                        .narrows = true,
                        .index_in = 1 << 1,
                        .statistic_out = 1 << 0},
    [BD_OP_ATTENTION] = {.no_f64 = true, .statistic_out = 1 << 1},
    [BD_OP_ATTENTION_GRAD] = {.no_f64 = true, .statistic_in = 1 << 5},
    [BD_OP_SINK_ATTENTION] = {.no_f64 = true, .statistic_out = 1 << 1},
    [BD_OP_ROW_PRODUCTS] = {.no_f64 = true, .statistic_out = 1 << 0},
    [BD_OP_SINKS_GRAD] = {.no_f64 = true},
    [BD_OP_RELATIVE_ATTENTION] = {.no_f64 = true, .statistic_out = 1 << 1},
    [BD_OP_RELATIVE_ATTENTION_GRAD] = {.no_f64 = true,
                                       .statistic_in = 1 << 5,
                                       .statistic_out = 1 << 3},
    [BD_OP_LSE] = {.no_f64 = true, .statistic_out = 1 << 0},
    [BD_OP_XENT] = {.no_f64 = true,
                    .index_in = 1 << 1,
                    .statistic_in = 1 << 2,
                    .statistic_out = 1 << 0},
    [BD_OP_XENT_GRAD] = {.no_f64 = true, .index_in = 1 << 1, .statistic_in = 1 << 2 | 1 << 3},
};

const bd_dtype_rule *bd_op_dtypes(bd_op_kind kind) {
  return &dtype_rules[kind];
}

// The first operand that is neither index nor bool by the rule, whose type the others and the
// results share; -1: there is none.
static int first_element(const bd_inference *inference, const bd_dtype_rule *rule) {
  for (int i = 0; i < inference->op->in_count; ++i)
    if (!((rule->index_in | rule->bool_in) >> i & 1)) return i;
  return -1;
}

// What a value of any of these classes holds, in words.
static const char *words_of(unsigned classes) {
  if (classes == BD_BOOLS) return "bools";
  if (classes == BD_INTEGERS) return "integers";
  return classes == NUMBERS ? "numbers" : "floating-point numbers";
}

static bd_status check_special(const bd_inference *inference, int i, bool index) {
  bd_dtype dtype = inference->in[i]->dtype;
  if (!index && dtype != BD_BOOL)
    return bd_inference_fail(inference, "operand %d must hold bools, not %s", i + 1,
                             bd_dtype_name(dtype));
  if (index && bd_dtype_class_of(dtype) != BD_INTEGERS)
    return bd_inference_fail(inference, "operand %d must hold integers, not %s", i + 1,
                             bd_dtype_name(dtype));
  if (index && dtype != BD_I32 && dtype != BD_I64)
    return bd_inference_fail(inference, "operand %d must hold indices in i32 or i64, not %s", i + 1,
                             bd_dtype_name(dtype));
  bd_op_kind kind = inference->op->kind;
  if (index && dtype != BD_I32 && (kind == BD_OP_EMBED || kind == BD_OP_EMBED_DW))
    return bd_inference_fail(inference, "operand %d must hold rows in i32, not %s", i + 1,
                             bd_dtype_name(dtype));
  if (index && dtype != BD_I32 && bd_op_is_grouped(kind))
    return bd_inference_fail(inference, "operand %d must hold the ends of groups in i32, not %s",
                             i + 1, bd_dtype_name(dtype));
  return BD_OK;
}

bool bd_op_rounds_sums(bd_op_kind kind) {
  return bd_op_is_product(kind) || kind == BD_OP_REDUCE_SUM || dtype_rules[kind].narrows;
}

// A wider result than the operands have, f32 of halves; or of sums in f32 results as the operands.
static bd_status check_widened(const bd_inference *inference) {
  const char *name = bd_op_string(inference->op, "dtype");
  bd_dtype element = inference->in[0]->dtype, dtype = element;
  if (name) (void)bd_dtype_parse(name, &dtype);
  if (dtype == element || dtype == bd_dtype_wide(element)) return BD_OK;
  return bd_inference_fail(inference, "a result of %s cannot be %s", bd_dtype_name(element), name);
}

bd_status bd_inference_check_dtypes(const bd_inference *inference) {
  const bd_dtype_rule *rule = &dtype_rules[inference->op->kind];
  int first = first_element(inference, rule);
  bd_dtype element = first < 0 ? BD_F32 : inference->in[first]->dtype;
  unsigned classes = rule->elements ? rule->elements : BD_FLOATS;
  for (int i = 0; i < inference->op->in_count; ++i) {
    bd_dtype dtype = inference->in[i]->dtype;
    if ((rule->index_in | rule->bool_in) >> i & 1) {
      BD_TRY(check_special(inference, i, rule->index_in >> i & 1));
      continue;
    }
    if (!(bd_dtype_class_of(dtype) & classes))
      return bd_inference_fail(inference, "operand %d must hold %s, not %s", i + 1,
                               words_of(classes), bd_dtype_name(dtype));
    if (rule->no_f64 && dtype == BD_F64)
      return bd_inference_fail(inference, "operand %d must not be f64", i + 1);
    bd_dtype wanted = rule->statistic_in >> i & 1 ? bd_dtype_wide(element) : element;
    if (dtype != wanted)
      return bd_inference_fail(inference, "operand %d must be %s to go with operand %d, not %s",
                               i + 1, bd_dtype_name(wanted), first + 1, bd_dtype_name(dtype));
  }
  if (rule->widens || rule->narrows) return check_widened(inference);
  return BD_OK;
}

void bd_inference_set_dtypes(bd_inference *inference) {
  const bd_dtype_rule *rule = &dtype_rules[inference->op->kind];
  int first = first_element(inference, rule);
  bd_dtype element = first < 0 ? BD_F32 : inference->in[first]->dtype;
  const char *name = bd_op_string(inference->op, "dtype");
  bool narrows = name && rule->narrows;
  if (name && (rule->widens || rule->names || narrows)) (void)bd_dtype_parse(name, &element);
  for (int i = 0; i < inference->op->out_count; ++i)
    inference->out[i].dtype = narrows                        ? element
                              : rule->statistic_out >> i & 1 ? bd_dtype_wide(element)
                              : rule->index_out >> i & 1     ? BD_I64
                              : rule->bool_out >> i & 1      ? BD_BOOL
                                                             : element;
}
