// One node on its way through inference, and the rules that take it: a table of ops and versions, a
// file per family. A rule's signature checks operands and gives the results their types; its
// function gives them their shapes, and their elements where the operands' are known.
#ifndef BD_FRONTEND_ONNX_INFER_STEP_H
#define BD_FRONTEND_ONNX_INFER_STEP_H
#include "frontend/onnx/infer.h"

// Rules look at so many operands of a step without asking how many there are.
enum { BD_ONNX_LEAST_OPERANDS = 8 };

typedef struct bd_onnx_step bd_onnx_step;

// One element of a pointwise op from its operands' elements. False: not known.
typedef bool (*bd_onnx_scalar)(const bd_onnx_step *step, const bd_onnx_number *in,
                               bd_onnx_number *out);

typedef struct bd_onnx_rule {
  const char *op;
  int since; // of ai.onnx; the rule with the greatest `since` up to the node's version holds
  // A letter per operand, '=', a letter per result. Equal letters: equal types. `?`: may be left
  // out; `*`: any number from one on, last. t u v: any; n m: numbers; f g h: floating-point; b:
  // bool; l: int64; i j: int32 or int64; q: sequence, which no other is; x: a result whose type the
  // function sets.
  const char *signature;
  // `name:kind` separated by blanks: i f s t integers, reals, strings, tensors; I F S lists of
  // them. The words that a string may be follow in braces, separated by commas.
  const char *attributes;
  unsigned
      known; // operands (bits) whose elements must be known beforehand: shapes, axes and the like
  bd_status (*infer)(bd_onnx_step *step);
  bd_onnx_scalar scalar; // pointwise ops whose elements are folded; else NULL
} bd_onnx_rule;

typedef struct bd_onnx_rules {
  int count;
  const bd_onnx_rule *rules; // of one op together, by `since`
} bd_onnx_rules;
extern const bd_onnx_rules bd_onnx_pointwise_rules, bd_onnx_arithmetic_rules, bd_onnx_shape_rules,
    bd_onnx_move_rules, bd_onnx_select_rules, bd_onnx_create_rules, bd_onnx_reduce_rules,
    bd_onnx_window_rules, bd_onnx_matrix_rules, bd_onnx_normal_rules, bd_onnx_image_rules,
    bd_onnx_sequence_rules;

// Members of sequences in the part of the model that the walk has passed.
typedef struct bd_onnx_members {
  int made, joined;
} bd_onnx_members;

struct bd_onnx_step {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  const bd_onnx_node *node;
  const bd_onnx_rule *rule;
  int in_count, out_count;
  bd_onnx_fact **in;        // NULL where one is left out; at least 8
  bd_onnx_fact *out;        // types as the signature gives them
  bd_onnx_members *members; // of inference; NULL when a step is lowered
};

// The rule for a node. Errors: BD_UNSUPPORTED for an op or version that none knows.
BD_NODISCARD bd_status bd_onnx_find_rule(bd_ctx *ctx, const bd_onnx_model *model,
                                         const bd_onnx_node *node, const bd_onnx_rule **out_rule);
// The same; NULL where there is none.
const bd_onnx_rule *bd_onnx_rule_of(const bd_onnx_node *node);
// Holds operands, results and attributes against the rule, and sets the results' types.
BD_NODISCARD bd_status bd_onnx_check_signature(bd_onnx_step *step);

// Whether the node keeps rows apart of which there are as many as a mask selects places. Errors:
// BD_UNSUPPORTED where it does not.
BD_NODISCARD bd_status bd_onnx_check_selected(const bd_onnx_step *step);

// Types and extents of the model's inputs, into `facts`.
BD_NODISCARD bd_status bd_onnx_bind_inputs(bd_ctx *ctx, const bd_onnx_model *model,
                                           const bd_onnx_options *options, bd_onnx_fact *facts);

// Reports an error of the step's node.
bd_status bd_onnx_step_fail(const bd_onnx_step *step, bd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Attributes, which the rule's list has checked.
const bd_onnx_attribute *bd_onnx_find(const bd_onnx_step *step, const char *name); // or NULL
int64_t bd_onnx_int(const bd_onnx_step *step, const char *name, int64_t absent);
double bd_onnx_real(const bd_onnx_step *step, const char *name, double absent);
const char *bd_onnx_text(const bd_onnx_step *step, const char *name, const char *absent);
// A list of integers, which must have `count` members; NULL when it is absent.
BD_NODISCARD bd_status bd_onnx_ints(const bd_onnx_step *step, const char *name, int count,
                                    const int64_t **out);

// Whether the elements of an operand can be known; bd_onnx_load reads them then.
bool bd_onnx_is_known(const bd_onnx_fact *fact);
BD_NODISCARD bd_status bd_onnx_load(const bd_onnx_step *step, bd_onnx_fact *fact);
// The elements of operand `i`, which the shape depends on. Errors: BD_UNSUPPORTED when they depend
// on the model's inputs; BD_INVALID when the operand has more than one dimension.
BD_NODISCARD bd_status bd_onnx_elements(const bd_onnx_step *step, int i, int *out_count);
// One integer, of operand `i`.
BD_NODISCARD bd_status bd_onnx_one(const bd_onnx_step *step, int i, bd_onnx_number *out);

// Integers of attribute `name` or of operand `i`, whichever there is. *out NULL: neither.
BD_NODISCARD bd_status bd_onnx_numbers(const bd_onnx_step *step, const char *name, int i,
                                       int *out_count, const bd_onnx_number **out);
// The same as dimensions of `rank`: a bit each. `count` 0: none are given.
BD_NODISCARD bd_status bd_onnx_axes(const bd_onnx_step *step, int i, int rank, int *out_count,
                                    unsigned *out_axes);
// Dimension `axis`, counted from the end where it is negative.
BD_NODISCARD bd_status bd_onnx_axis(const bd_onnx_step *step, int64_t axis, int rank, int *out);

// Extents of result `i`, copied. Errors: BD_INVALID when one is negative or their product more than
// 2^46; BD_UNSUPPORTED past 8 dimensions, or where B occurs in two.
BD_NODISCARD bd_status bd_onnx_shape(bd_onnx_step *step, int i, int rank,
                                     const bd_onnx_number *dims);
// Result `i` has the shape of operand `from`.
BD_NODISCARD bd_status bd_onnx_shape_of(bd_onnx_step *step, int i, int from);

// The shape that operands `first` .. `first + count` broadcast to, by numpy's rule.
BD_NODISCARD bd_status bd_onnx_broadcast(const bd_onnx_step *step, int first, int count,
                                         int *out_rank, bd_onnx_number out_dims[BD_MAX_RANK]);

// Whether results are to be folded: operands `in` .. known, none of them a weight, and result 0
// small. Loads them. *out false: leave the result unknown.
BD_NODISCARD bd_status bd_onnx_can_fold(const bd_onnx_step *step, int operands, bool *out);
// Elements for result `i`, to be filled (all of them).
bd_onnx_number *bd_onnx_fold(bd_onnx_step *step, int i);
// Result `i` has operand 0's elements in their order: another shape of the same.
BD_NODISCARD bd_status bd_onnx_fold_same(bd_onnx_step *step, int i);

// An element of pointwise result 0 from its operands' elements. False: not known.
bool bd_onnx_fold_element(const bd_onnx_step *step, const bd_onnx_number *in, bd_onnx_number *out);
// The number of the operand's element that the result's element at `at` is made of.
int64_t bd_onnx_source(const bd_onnx_fact *in, const bd_onnx_fact *out, const int64_t *at);
// Folds a pointwise result along its diagonals, where each of them is made of equal elements.
BD_NODISCARD bd_status bd_onnx_fold_diagonals(bd_onnx_step *step);
// Result `i` has operand 0's elements where it is the same matrix of diagonals.
void bd_onnx_keep_diagonals(bd_onnx_step *step, int i);

// What rules of several families share.
BD_NODISCARD bd_status bd_onnx_infer_pointwise(bd_onnx_step *step); // broadcasts; folds by `scalar`
BD_NODISCARD bd_status bd_onnx_infer_same(bd_onnx_step *step);      // operand 0's shape

// Extents as plain numbers: of operand `i`, which B may not be among.
static inline bool bd_onnx_plain(const bd_onnx_fact *fact) {
  for (int d = 0; d < fact->rank; d++)
    if (fact->dims[d].batch) return false;
  return true;
}
// Elements of a plain shape.
static inline int64_t bd_onnx_count(const bd_onnx_fact *fact) {
  int64_t count = 1;
  for (int d = 0; d < fact->rank; d++)
    count *= fact->dims[d].integer;
  return count;
}
#endif
