// Inference of one op: what the rule reader, the named rules and the checks share.
#ifndef BD_IR_INDEX_RULE_H
#define BD_IR_INDEX_RULE_H
#include "ir/index.h"
#include "ir/windows.h"

typedef struct bd_inference {
  bd_ctx *ctx;
  const bd_op *op;
  const bd_op_info *info;
  const bd_type *in[BD_MAX_OPERANDS];
  bd_index_map *map;
  bd_type *out;
} bd_inference;

// Adds a loop and returns its number. There is room: rules and named rules use at most
// BD_MAX_LOOPS.
int bd_inference_add_loop(bd_inference *inference, char letter, bd_loop_kind kind, int64_t extent);

// Matches the operand types against a rule of ir/ops.def's notation and fills map and result
// shapes. Letters that only results carry take their extents from `result_dims`, the extents of
// result 0 (of `result_rank`), or are an error when it is NULL.
BD_NODISCARD bd_status bd_inference_apply(bd_inference *inference, const char *rule,
                                          int result_rank, const int64_t *result_dims);

// The rule of the op's `rule` attribute, which comes from text and is read strictly.
BD_NODISCARD bd_status bd_inference_apply_attribute(bd_inference *inference);

typedef bd_status (*bd_named_rule)(bd_inference *inference);
// The function behind "#name"; never NULL for a rule of ir/ops.def.
bd_named_rule bd_named_rule_find(const char *name);

// Every dimension of an operand, which has `rank`, but the first `free` must be a number.
BD_NODISCARD bd_status bd_inference_check_static(const bd_inference *inference, int operand,
                                                 int rank, int free);
BD_NODISCARD bd_status bd_inference_check_extent(const bd_inference *inference, int operand,
                                                 int dim, int64_t wanted);
BD_NODISCARD bd_status bd_inference_check_shape(const bd_inference *inference, int operand,
                                                int rank, const int64_t *dims);

// Whether the attribute `value`, if there is one, is a number that operand 0's type has.
BD_NODISCARD bd_status bd_inference_check_fill(const bd_inference *inference);

// Rules of ir/index_data.c.
bd_status bd_infer_constant(bd_inference *inference);
bd_status bd_infer_iota(bd_inference *inference);
// Rules of ir/index_move.c.
bd_status bd_infer_slice(bd_inference *inference);
bd_status bd_infer_concat(bd_inference *inference);
bd_status bd_infer_alternate(bd_inference *inference);
bd_status bd_infer_interleave(bd_inference *inference);
bd_status bd_infer_cumsum(bd_inference *inference);
bd_status bd_infer_gather(bd_inference *inference);
bd_status bd_infer_gather_dx(bd_inference *inference);
bd_status bd_infer_scatter(bd_inference *inference);
bd_status bd_infer_topk(bd_inference *inference);
// Rules of ir/index_route.c.
bd_status bd_infer_route(bd_inference *inference);
bd_status bd_infer_search(bd_inference *inference);
bd_status bd_infer_row_items(bd_inference *inference);

// Rules of ir/index_sinks.c. `bd_infer_sinks` maps the sinks of attention, operand `sinks`, whose
// queries are operand `query` and mapped already.
bd_status bd_infer_sinks(bd_inference *inference, int query, int sinks);
bd_status bd_infer_row_products(bd_inference *inference);
bd_status bd_infer_sinks_grad(bd_inference *inference);

// Rules of ir/index_windows.c.
bd_status bd_infer_unfold(bd_inference *inference);
bd_status bd_infer_fold(bd_inference *inference);
// The windows of `count` dimensions that the attributes say; `kernel` as in bd_windows_of. Errors:
// lists of another length, numbers out of range.
BD_NODISCARD bd_status bd_inference_read_windows(const bd_inference *inference, int count,
                                                 const int64_t *kernel, bd_windows *out_windows);
// The windows along dimension `d` of `extent` elements, at least one.
BD_NODISCARD bd_status bd_inference_count_windows(const bd_inference *inference,
                                                  const bd_windows *windows, int d, int64_t extent,
                                                  int64_t *out_count);
// Whether the attribute, if there is one, is a list of `count` extents, strides, ... from `least`.
BD_NODISCARD bd_status bd_inference_check_list(const bd_inference *inference, const char *name,
                                               int count, int64_t least);
// Rules of ir/index_conv.c.
bd_status bd_infer_conv(bd_inference *inference);
bd_status bd_infer_conv_dx(bd_inference *inference);
bd_status bd_infer_conv_dw(bd_inference *inference);
bd_status bd_infer_maxpool(bd_inference *inference);
bd_status bd_infer_maxpool_grad(bd_inference *inference);

// Whether partial sums and maxima of the type can be combined between ranks.
bool bd_dtype_combines(bd_dtype dtype);

// Attributes that ops need or bound, and operand dtypes; before shapes are matched.
BD_NODISCARD bd_status bd_inference_check_attrs(const bd_inference *inference);
BD_NODISCARD bd_status bd_inference_check_dtypes(const bd_inference *inference);
// Sets the results' dtypes.
void bd_inference_set_dtypes(bd_inference *inference);

// An extent for a message: a number or B.
typedef struct bd_extent_text {
  char text[24];
} bd_extent_text;
bd_extent_text bd_extent_print(int64_t extent);

// "f32[B,64]", in ctx->arena.
const char *bd_type_describe(bd_ctx *ctx, const bd_type *type);

// Records an error at the op; the message starts with the op's name. Returns BD_INVALID.
bd_status bd_inference_fail(const bd_inference *inference, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif
