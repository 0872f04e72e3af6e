// The state of lowering one model, and what the rules of its ops are made of. A value of ONNX
// becomes a value of the graph together with, for each of its dimensions, the consecutive
// dimensions of the graph whose product it is. A dimension of extent 1 is the product of none, so
// the graph has no extents of 1; [B*T, C] stays [B, T, C]. Reshapes that join or part such products
// make no op.
#ifndef BD_FRONTEND_ONNX_LOWER_LOWERING_H
#define BD_FRONTEND_ONNX_LOWER_LOWERING_H
#include "frontend/graph_build.h"
#include "frontend/onnx/infer/step.h"
#include "frontend/onnx/lower.h"
#include "ir/name_map.h"

typedef struct bd_onnx_part {
  bd_id id;                      // in the graph's function; BD_NO_ID: not made yet
  int8_t first[BD_MAX_RANK + 1]; // dimension d is the product of first[d] .. first[d + 1] - 1
} bd_onnx_part;

typedef struct bd_onnx_sketch bd_onnx_sketch;

typedef struct bd_onnx_lowering {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  bd_onnx_fact *facts; // elements are read when they are wanted
  bd_graph_build graph;
  int *sources;                         // per parameter of the function, the model's value
  bd_onnx_part *parts;                  // per value of the model
  const bool *used;                     // per value of the model: a node that runs takes it
  int target;                           // the input that holds targets, or -1
  bd_name_map names;                    // of inputs and weights
  int sites;                            // of random ops
  bd_onnx_sketch *last_sketch;          // of the constant that was looked at last
  const struct bd_onnx_places **places; // per value of the model, or NULL
} bd_onnx_lowering;

typedef struct bd_onnx_lower_rule {
  const char *op;
  bd_status (*lower)(bd_onnx_lowering *l, const bd_onnx_step *step);
  bd_op_kind kind; // of rules that several ops share
} bd_onnx_lower_rule;

typedef struct bd_onnx_lower_rules {
  int count;
  const bd_onnx_lower_rule *rules;
} bd_onnx_lower_rules;
extern const bd_onnx_lower_rules bd_onnx_lower_pointwise, bd_onnx_lower_activations,
    bd_onnx_lower_shapes, bd_onnx_lower_products, bd_onnx_lower_windows, bd_onnx_lower_losses,
    bd_onnx_lower_extremes, bd_onnx_lower_masks, bd_onnx_lower_indexing, bd_onnx_lower_norms,
    bd_onnx_lower_repeats, bd_onnx_lower_resizes, bd_onnx_lower_einsums, bd_onnx_lower_sequences;

// A node with what is known of its operands and results.
bd_onnx_step bd_onnx_lower_step(const bd_onnx_lowering *l, const bd_onnx_node *node);
// Lowers the node of `step`. Errors: BD_UNSUPPORTED where there is no rule for it.
BD_NODISCARD bd_status bd_onnx_lower_node(bd_onnx_lowering *l, const bd_onnx_step *step);
// The op that the rule of the step's node names.
bd_op_kind bd_onnx_lower_kind(const bd_onnx_step *step);

// Operand `i`, made where it is a weight or known beforehand, in the type that the model gives it.
BD_NODISCARD bd_status bd_onnx_operand(bd_onnx_lowering *l, const bd_onnx_step *step, int i,
                                       bd_onnx_part *out);
// Integers as they come in, which may be of fewer bits than the model says.
BD_NODISCARD bd_status bd_onnx_indices(bd_onnx_lowering *l, const bd_onnx_step *step, int i,
                                       bd_onnx_part *out);
void bd_onnx_made(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_onnx_part part);

// A name of the graph for any name of the model: other bytes become '_', and a number tells it from
// those that are taken.
const char *bd_onnx_graph_name(bd_onnx_lowering *l, const char *name);
// The sum over positions of the loss of logits [.., classes] against targets [..].
BD_NODISCARD bd_status bd_onnx_cross_entropy(bd_onnx_lowering *l, bd_id logits, bd_id targets,
                                             bd_id *out);
// Whether a node is a loss that may train: a softmax's, by one op or by two.
bool bd_onnx_trains(const bd_onnx_lowering *l, const bd_onnx_node *node);
// Dice losses of scores [B, classes, places..] against targets [B, places..], averaged over the
// classes; the sum over samples, each as many times as it has targets.
BD_NODISCARD bd_status bd_onnx_dice(bd_onnx_lowering *l, bd_id scores, bd_id targets, bd_id *out);
// A weight of the graph for an initializer.
BD_NODISCARD bd_status bd_onnx_weight(bd_onnx_lowering *l, const bd_onnx_tensor *tensor, int value,
                                      bd_onnx_part *out);
// Ops that make what is known beforehand: `value` of the model.
BD_NODISCARD bd_status bd_onnx_constant(bd_onnx_lowering *l, const bd_onnx_step *step, int value,
                                        bd_onnx_part *out);
// One number, as a value without dimensions.
BD_NODISCARD bd_status bd_onnx_number_op(bd_onnx_lowering *l, bd_dtype dtype, double value,
                                         bd_id *out);
// Whether every element of operand `i` is the same number that is known, and which.
BD_NODISCARD bd_status bd_onnx_same_number(bd_onnx_lowering *l, const bd_onnx_step *step, int i,
                                           bool *out_same, bd_onnx_number *out);

// Equal, or both no numbers.
bool bd_onnx_equal_reals(double a, double b);

// The graph's element type. False: it has none.
bool bd_onnx_element_type(bd_onnx_dtype dtype, bd_dtype *out);

// Ops of the graph.
static inline const bd_type *bd_onnx_type(const bd_onnx_lowering *l, bd_id id) {
  return &l->graph.function->values[id].type;
}
BD_NODISCARD bd_status bd_onnx_emit(bd_onnx_lowering *l, bd_op_kind kind, int in_count,
                                    const bd_id *in, int attr_count, const bd_attr *attrs,
                                    bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit1(bd_onnx_lowering *l, bd_op_kind kind, bd_id x, bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit2(bd_onnx_lowering *l, bd_op_kind kind, bd_id x, bd_id y,
                                     bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit_real(bd_onnx_lowering *l, bd_op_kind kind, bd_id x,
                                         double value, bd_id *out); // scale, offset
BD_NODISCARD bd_status bd_onnx_emit_rule(bd_onnx_lowering *l, bd_op_kind kind, int in_count,
                                         const bd_id *in, const char *rule, bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit_reshape(bd_onnx_lowering *l, bd_id x, int rank,
                                            const int64_t *dims, bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit_cast(bd_onnx_lowering *l, bd_id x, bd_dtype dtype, bd_id *out);
BD_NODISCARD bd_status bd_onnx_emit_slice(bd_onnx_lowering *l, bd_id x, int dim, int64_t start,
                                          int64_t size, bd_id *out);
#endif
