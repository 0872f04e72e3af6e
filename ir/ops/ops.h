// What the files of this folder share: the functions the tables expect, and small helpers for
// evaluating tensors and building gradients.
#ifndef BD_IR_OPS_OPS_H
#define BD_IR_OPS_OPS_H
#include "ir/interpret.h"
#include "ir/op_semantics.h"

// Every logical op has an evaluation, and every one without BD_NO_GRADIENT a gradient; a missing
// one is a link error.
#define BD_OP(NAME, spelling, in, out, level, rule, traits)                                        \
  void bd_eval_##spelling(const bd_op *op, const bd_tensor *operand, bd_tensor *result,            \
                          const bd_random_key *key, bd_arena *scratch);                            \
  bd_status bd_gradient_##spelling(bd_ctx *ctx, bd_gradient *gradient);
#include "ir/ops.def"
#undef BD_OP

#define BD_EVAL(spelling)                                                                          \
  void bd_eval_##spelling(const bd_op *op, const bd_tensor *in, bd_tensor *out,                    \
                          const bd_random_key *key, bd_arena *scratch)
#define BD_GRADIENT(spelling) bd_status bd_gradient_##spelling(bd_ctx *ctx, bd_gradient *g)

// Evaluations that need no attributes, key or scratch say so with this.
#define BD_IGNORE(op, key, scratch) ((void)(op), (void)(key), (void)(scratch))

static inline int64_t bd_tensor_elements(const bd_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 0; d < tensor->type.rank; d++)
    elements *= tensor->type.dims[d];
  return elements;
}
// The extent of the last dimension, which normalizations and losses run over.
static inline int64_t bd_tensor_last(const bd_tensor *tensor) {
  return tensor->type.dims[tensor->type.rank - 1];
}

// Whether the element is dropped: the mask of `dropout` and of `attention`.
bool bd_dropped(const bd_op *op, const bd_random_key *key, double p, int64_t sample,
                int64_t element);

// Sums of products over an index rule of plain letters, "ab,bc->ac": result[0] += product of the
// operands at every loop point.
void bd_eval_rule(const char *rule, int operands, const bd_tensor *in, bd_tensor *out);

// The backward value that holds operand or result i of the op whose gradient is built.
static inline bd_id bd_gradient_operand(const bd_gradient *g, int i) {
  return g->value[g->op->in[i]];
}
static inline bd_id bd_gradient_result(const bd_gradient *g, int i) {
  return g->value[g->op->out[i]];
}
static inline const bd_type *bd_gradient_operand_type(const bd_gradient *g, int i) {
  return &g->forward->values[g->op->in[i]].type;
}
// Appends ops of one or two operands to the backward function.
BD_NODISCARD bd_status bd_gradient_unary(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id a,
                                         bd_id *out);
BD_NODISCARD bd_status bd_gradient_binary(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id a,
                                          bd_id b, bd_id *out);
// `a` in the element type of operand `i`: itself, or a cast of it.
BD_NODISCARD bd_status bd_gradient_as_operand(bd_ctx *ctx, bd_gradient *g, int i, bd_id a,
                                              bd_id *out);
// `value`, of the result's shape, summed over the leading dimensions that operand i of a pointwise
// op lacks. The rule's letters are those of the forward op's loops.
BD_NODISCARD bd_status bd_gradient_sum_to_operand(bd_ctx *ctx, bd_gradient *g, int i, bd_id value,
                                                  bd_id *out);
// A float of the type, `value` everywhere.
BD_NODISCARD bd_status bd_gradient_fill(bd_ctx *ctx, bd_gradient *g, const bd_type *type,
                                        double value, bd_id *out);
// `value` where the bools of `where` are true (`otherwise`: false), 0 elsewhere.
BD_NODISCARD bd_status bd_gradient_where(bd_ctx *ctx, bd_gradient *g, bd_id where, bd_id value,
                                         bool otherwise, bd_id *out);
// The gradients of queries, keys and values of attention, of whichever kind, by `kind`, which makes
// `din`; those that are needed are g->din[0] to [2].
BD_NODISCARD bd_status bd_attention_gradient(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind,
                                             bd_id din[4]);
// Appends an op that carries the forward op's attributes and, unless NULL, one or two more.
BD_NODISCARD bd_status bd_gradient_like(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, int in_count,
                                        const bd_id *in, int more, const bd_attr *attrs,
                                        bd_id *out);
#endif
